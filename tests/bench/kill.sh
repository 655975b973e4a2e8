# kill.sh: kills one of 4 workers with -9; until all processes have ended.

bench_kill() {
	say "kill -9 of one of 4 workers, until the launcher has ended (ms)"
	printf '%-34s %4s %9s %9s %9s\n' launcher runs min median max
	"$B/kill" "$ROUNDS" ddprun 4 "$O/ddprun" --standalone --nproc-per-node 4 "$B/sleeper"
	if have mpiexec.hydra "hydra (mpich)"; then
		"$B/kill" "$ROUNDS" hydra 4 mpiexec.hydra -n 4 "$B/sleeper"
	fi
	if have mpirun.openmpi "mpirun (openmpi-bin)"; then
		"$B/kill" "$ROUNDS" "mpirun (Open MPI)" 4 mpirun.openmpi --oversubscribe -n 4 "$B/sleeper"
	fi
}
bench_kill
