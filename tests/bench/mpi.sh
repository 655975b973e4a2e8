# mpi.sh: MPI_Init, one Allreduce, MPI_Finalize of N ranks on this host: under ddprun
# and under the launcher of the same MPI (the goals: at most 0.9 of hydra's time, at most
# 0.5 of mpirun's); and kill -9 of one of 16 ranks until all have passed MPI_Init again
# (at most 1.2 times a first start; neither hydra nor mpirun starts a rank again).
# MPI_RANKS="4 16 64".

# "floor" is the same ranks with a PMI server that costs nothing (mpi_floor.c), or, for
# Open MPI, the same number of processes that each are a world of one: what no launcher can
# save, unless it changes what ranks do. ddprun does: MPICH's ranks do not look for the
# host's devices (docs/mpi.md), "each rank looks for devices" is without that; and Open
# MPI's do not load libpsm2 and libinfinipath, which sleep for 0.2 s. OMPI_MCA_pml=ob1
# leaves them out for both. More ranks than CPUs: MPICH 4.0.2 spins in MPI_Init, without
# sched_yield, until the kernel takes the CPU away.
# Measure on an idle machine: hydra gives each rank a session, and where others want the
# CPUs, the kernel (sched_autogroup_enabled) shares them out by session.

# mpi_floor NAME N [VARIABLE=VALUE]: rows for interleave
mpi_floor() {
	if [ "$1" = mpich ]; then
		printf 'each rank looks for devices\tenv HWLOC_HIDE_ERRORS=1 %s %s %d %s\n' \
			"$O/ddprun" "--standalone --nproc-per-node" "$2" "$work/$1"
		printf 'floor\t%s %d %s\n' "$B/mpi_floor" "$2" "$work/$1"
	else
		# in folders of a common name they would remove each other's
		printf 'floor\tenv OMPI_MCA_ess_singleton_isolated=1 %s %s %s %s alone %d %s alone\n' \
			OMPI_MCA_orte_create_session_dirs=0 \
			"${3:-OMPI_MCA_mtl=^ofi,psm,psm2}" \
			HWLOC_PLUGINS_BLACKLIST=hwloc_gl.so,hwloc_opencl.so,hwloc_xml_libxml.so \
			"$B/mpi_floor" "$2" "$work/$1"
	fi
}

# mpi_cpu LABEL COMMAND...: the CPU time of one run, divided by the CPUs: less time it
# cannot take
mpi_cpu() {
	label=$1
	shift
	bash -c 'TIMEFORMAT="%U %S"; time "$@" >/dev/null 2>&1' - "$@" 2>&1 |
		awk -v label="$label" -v cpus="$(nproc)" '{
			printf "%-36s %26.2f\n", label, ($1 + $2) * 1000 / cpus }'
}

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
			mpi_floor "$1" "$n" "${4:-}"
		} | "$B/interleave" "$ROUNDS" "$2"
		mpi_cpu "CPU time / CPUs (ms), $2" env ${4:-} $3 -n "$n" "$work/$1"
		mpi_cpu "CPU time / CPUs (ms), ddprun" env ${4:-} "$O/ddprun" \
			--standalone --nproc-per-node "$n" "$work/$1"
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
