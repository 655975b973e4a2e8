# restart.sh: kills one of 4 workers with -9; until all four run again. The goal is
# 10 ms plus twice the time of starting them in the same run.

bench_restart() {
	say "kill -9 of one of 4 workers, until all 4 run again (ms)"
	printf '%-36s %4s %9s %9s %9s %9s\n' launcher runs min median max launch
	"$B/again" "$ROUNDS" ddprun 4 lines worker \
		"$O/ddprun --standalone --nproc-per-node 4 --max-restarts 3 $B/sleeper" |
		tee "$work/restart"
	awk '{ goal = 10 + 2 * $6
		printf "%-36s %26.2f  ratio to it %.2f\n",
			"goal: 10 ms + 2 x launch", goal, $4 / goal }' "$work/restart"
	python=$(torch_python)
	if [ -n "$python" ]; then
		"$B/again" "$ROUNDS" "torchrun, polls each 10 ms" 4 lines worker \
			"$python $here/torchrun.py --standalone --no_python --nproc_per_node 4 --max_restarts 3 --monitor_interval 0.01 $B/sleeper"
	else
		echo "not installed, left out: torchrun (python3-torch)"
	fi
}
bench_restart
