# launch.sh: start N workers that return at once, and return.

bench_launch() {
	hydra=; openmpi=
	have mpiexec.hydra "hydra (mpich)" && hydra=1
	have mpirun.openmpi "mpirun (openmpi-bin)" && openmpi=1
	python=$(torch_python)
	[ -n "$python" ] || echo "not installed, left out: torchrun (python3-torch)"
	for n in 1 4 64 256; do
		say "launch and return of $n workers (ratio: to vfork, exec, wait)"
		{
			printf 'floor\t%s %d %s\n' "$B/floor" "$n" "$B/noop"
			printf 'ddprun\t%s --standalone --nproc-per-node %d %s\n' \
				"$O/ddprun" "$n" "$B/noop"
			[ -z "$hydra" ] || printf 'hydra\tmpiexec.hydra -n %d %s\n' "$n" "$B/noop"
			# mpirun sometimes hangs when many programs end at once
			[ -z "$openmpi" ] || [ "$n" -gt 4 ] ||
				printf 'mpirun (Open MPI)\tmpirun.openmpi --oversubscribe -n %d %s\n' "$n" "$B/noop"
			# polls as often as possible, so that its start is timed
			[ -z "$python" ] ||
				printf 'torchrun\t%s %s --standalone --no_python --nproc_per_node %d --monitor_interval 0.01 %s\n' \
					"$python" "$here/torchrun.py" "$n" "$B/noop"
		} | "$B/interleave" "$ROUNDS" floor
	done
}
bench_launch
