# mpi.sh: MPI_Init, one Allreduce, MPI_Finalize of N ranks on this host: under ddprun
# and under the launcher of the same MPI (the goals: at most 0.9 of hydra's time, at most
# 0.5 of mpirun's); and kill -9 of one of 16 ranks until all have passed MPI_Init again
# (at most 1.2 times a first start; neither hydra nor mpirun starts a rank again).
# MPI_RANKS="4 16 64".

# Most of Open MPI's time is that of its ranks: Debian's loads libpsm2 and
# libinfinipath, which sleep for 0.2 s. OMPI_MCA_pml=ob1 leaves them out, for both.
# Measure on an idle machine: hydra gives each rank a session, and where others want the
# CPUs, the kernel (sched_autogroup_enabled) shares them out by session.

# mpi_launches NAME LAUNCHER WORDS [VARIABLE=VALUE]
mpi_launches() {
	have "${3%% *}" "$2" || return 0
	with_mpi "$1" mpi_start "$work/$1" || return 0
	for n in ${MPI_RANKS:-4 16 64}; do
		say "MPI_Init, Allreduce, MPI_Finalize of $n ranks, $1${4:+, $4}" \
			"(ratio: to $2)"
		{
			printf '%s\tenv %s %s -n %d %s\n' "$2" "${4:-}" "$3" "$n" \
				"$work/$1"
			printf 'ddprun\tenv %s %s --standalone --nproc-per-node %d %s\n' \
				"${4:-}" "$O/ddprun" "$n" "$work/$1"
		} | "$B/interleave" "$ROUNDS" "$2"
	done
}

mpi_restart() {
	[ -x "$work/$1" ] || return 0
	say "kill -9 of one of 16 ranks, $1, until all have passed MPI_Init again (ms)"
	printf '%-36s %4s %9s %9s %9s %9s\n' launcher runs min median max launch
	"$B/again" "$ROUNDS" ddprun 16 lines worker \
		"$O/ddprun --standalone --nproc-per-node 16 --max-restarts 3 $work/$1 stay" |
		tee "$work/restart"
	awk '$4 > 0 {printf "%-36s %26.2f  ratio to it %.2f\n",
		"goal: 1.2 x launch", 1.2 * $6, $4 / (1.2 * $6)}' "$work/restart"
}

bench_mpi() {
	mpi_launches mpich hydra mpiexec.hydra
	mpi_launches openmpi mpirun "mpirun.openmpi --oversubscribe"
	mpi_launches openmpi mpirun "mpirun.openmpi --oversubscribe" OMPI_MCA_pml=ob1
	mpi_restart mpich
	mpi_restart openmpi
}
bench_mpi
