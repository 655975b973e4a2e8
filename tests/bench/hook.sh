# hook.sh: DDP's steps on CPUs, with gloo, with the hook of the Python module, and with
# a hook that averages nothing (the floor: no ratio can be below it), for the
# auto-encoder (784-128-128-128-784, 128 samples) and for single buckets. The last
# two columns are ratios of the ranks' CPU time, which other programs disturb less.

bench_hook() {
	python=$(torch_python)
	if [ -z "$python" ]; then
		echo "not installed, left out: DDP's communication hook (PyTorch)"
		return
	fi
	for n in 2 4; do
		say "a step of DDP on $n ranks (ms)"
		printf '%-18s %8s %8s %8s %6s %9s %9s %9s\n' step gloo ddprun \
			floor ratio "its floor" "CPU ratio" "its floor"
		PYTHON_EXEC=$python PYTHONPATH=$here/../../python \
			DDP_LIBRARY=$O/libddp.so "$O/ddprun" --standalone \
			--nproc-per-node "$n" "$here/hook_torch.py" \
			$((ROUNDS * 6)) | awk '{
				printf "%-18s %8.2f %8.2f %8.2f %6.2f %9.2f",
				$2, $3, $4, $5, $4 / $3, $5 / $3
				printf " %9.2f %9.2f\n", $7 / $6, $8 / $6 }'
	done
}
bench_hook
