# preload.sh: workers that import torch, with --preload and without: to the line of
# the last one; their memory; kill -9 of one of 4, until all have met again in gloo.

# preload_pss N OPTIONS...: MiB (PSS) of N idle workers, with the template process
preload_pss() {
	n=$1
	shift
	rm -f "$work/idle"
	mkfifo "$work/idle"
	PYTHON_EXEC=$python "$O/ddprun" --standalone --nproc-per-node "$n" "$@" \
		"$here/preload_worker.py" idle >"$work/idle" 2>/dev/null &
	job=$!
	exec 3<"$work/idle"
	while [ "$n" -gt 0 ] && read -r line <&3; do
		case $line in *pid\ *) n=$((n - 1)) ;; esac
	done
	for pid in $(ps -o pid= --ppid "$job"); do
		[ "$(cat "/proc/$pid/comm")" = ddp-guard ] || cat "/proc/$pid/smaps_rollup"
	done 2>/dev/null | awk '/^Pss:/ { kib += $2 } END { print kib / 1024 }'
	kill "$job"
	wait "$job" 2>/dev/null || true
	exec 3<&-
}

bench_preload() {
	python=$(torch_python)
	if [ -z "$python" ]; then
		echo "not installed, left out: --preload (PyTorch)"
		return
	fi
	export PYTHON_EXEC="$python"
	worker=$here/preload_worker.py
	for n in 4 8; do
		say "$n workers that import torch, until all have printed a line"
		{
			printf 'ddprun\t%s --standalone --nproc-per-node %d %s import\n' \
				"$O/ddprun" "$n" "$worker"
			printf 'ddprun --preload torch\t%s --standalone --nproc-per-node %d --preload torch %s import\n' \
				"$O/ddprun" "$n" "$worker"
			printf 'torchrun\t%s %s --standalone --nproc_per_node %d --monitor_interval 0.01 %s import\n' \
				"$python" "$here/torchrun.py" "$n" "$worker"
		} | "$B/interleave" "$ROUNDS" ddprun
	done

	say "memory of 8 idle workers that have imported torch (PSS, MiB)"
	plain=$(preload_pss 8)
	forked=$(preload_pss 8 --preload torch)
	printf '%-36s %9.1f\n%-36s %9.1f  ratio to it %s\n' ddprun "$plain" \
		"ddprun --preload torch" "$forked" "$(ratio "$forked" "$plain")"

	say "kill -9 of one of 4 workers, until all 4 have met again in gloo (ms)"
	printf '%-36s %4s %9s %9s %9s %9s\n' launcher runs min median max launch
	again="--nproc-per-node 4 --max-restarts 1 $worker meet"
	"$B/again" "$ROUNDS" ddprun 4 lines worker "$O/ddprun --standalone $again"
	"$B/again" "$ROUNDS" "ddprun --preload torch" 4 lines worker \
		"$O/ddprun --standalone --preload torch $again"
	# its workers do not meet again: its store keeps the addresses of the first
	# attempt, to which gloo connects; so they only import
	"$B/again" "$ROUNDS" "torchrun, which only imports" 4 lines worker \
		"$python $here/torchrun.py --standalone --nproc_per_node 4 --max_restarts 1 --monitor_interval 0.01 $worker idle"
}
bench_preload
