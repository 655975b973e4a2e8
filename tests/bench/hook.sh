# hook.sh: DDP's steps on CPUs, with gloo, with the hook of the Python module, and with
# a hook that averages nothing (the floor: no ratio can be below the last column), for
# the auto-encoder (784-128-128-128-784, 128 samples) and for single buckets.

bench_hook() {
	python=$(torch_python)
	if [ -z "$python" ]; then
		echo "not installed, left out: DDP's communication hook (PyTorch)"
		return
	fi
	for n in 2 4; do
		say "a step of DDP on $n ranks (ms)"
		printf '%-24s %9s %9s %9s %9s %9s\n' step gloo ddprun floor \
			ratio "its floor"
		PYTHON_EXEC=$python PYTHONPATH=$here/../../python \
			DDP_LIBRARY=$O/libddp.so "$O/ddprun" --standalone \
			--nproc-per-node "$n" "$here/hook_torch.py" \
			$((ROUNDS * 6)) | awk '{
				printf "%-24s %9.2f %9.2f %9.2f %9.2f %9.2f\n",
				$2, $3, $4, $5, $4 / $3, $5 / $3 }'
	done
}
bench_hook
