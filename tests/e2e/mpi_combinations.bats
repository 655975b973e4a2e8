# MPI programs in unusual company: other options, other launchers, scripts between.
# covers: launcher/pmi launcher/pmix launcher/plan launcher/preload
load ../lib
load ../openmpi

# mpich and openmpi: programs whose ranks print "rank R of N, sum N", then " unbound" if
# MPI_Init has changed the CPUs that they may use.
setup() {
	lib_setup
	cat >mpi.c <<-'E'
		#define _GNU_SOURCE
		#include <mpi.h>
		#include <sched.h>
		#include <stdio.h>

		int main(int argc, char **argv)
		{
			cpu_set_t before, after;
			int rank, size, sum, one = 1;

			sched_getaffinity(0, sizeof(before), &before);
			MPI_Init(&argc, &argv);
			sched_getaffinity(0, sizeof(after), &after);
			MPI_Comm_rank(MPI_COMM_WORLD, &rank);
			MPI_Comm_size(MPI_COMM_WORLD, &size);
			MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
			printf("rank %d of %d, sum %d%s\n", rank, size, sum,
			       CPU_EQUAL(&before, &after) ? "" : " unbound");
			return MPI_Finalize();
		}
	E
	ways=()
	! command -v mpicc.mpich >/dev/null || ! mpicc.mpich -o mpich mpi.c ||
		ways+=(mpich)
	! ldconfig -p | grep -q 'libpmix\.so\.2 ' ||
		! mpicc.openmpi -o openmpi mpi.c "$lib_tests/openmpi_finalize.c" ||
		ways+=(openmpi)
	[ ${#ways[@]} -gt 0 ] || skip "neither MPICH nor Open MPI is installed"
	declare -gA protocol=([mpich]=pmi [openmpi]=pmix)
}

@test "MPI's ranks meet under other options, and keep the CPUs that ddprun gave them" {
	for mpi in "${ways[@]}"; do
		for options in '--cpu-bind cores' '--virtual-local-rank' '--wrap "env A=1"'; do
			eval "expect 0 ddprun --nproc-per-node 2 $options ./$mpi"
			all_met "$out" 2
		done
	done
}

@test "MPI's ranks meet if each runs in gdb" {
	command -v gdb >/dev/null || skip "gdb is not installed"
	for mpi in "${ways[@]}"; do
		expect 0 ddprun --nproc-per-node 2 \
			--wrap 'gdb -q -nx -batch -return-child-result -ex run --args' ./$mpi
		all_met "$out" 2
	done
}

@test "scripts that start an MPI program late are served by name" {
	for mpi in "${ways[@]}"; do
		expect 0 ddprun --mpi "${protocol[$mpi]}" --nproc-per-node 2 \
			sh -c "cd . && exec ./$mpi"
		all_met "$out" 2
		expect 0 ddprun --mpi "${protocol[$mpi]}" --nproc-per-node 2 --preload os \
			python3 -c "import os; os.execv('./$mpi', ['$mpi'])"
		all_met "$out" 2
	done
}

@test "mpiexec inside a worker starts a world of its own" {
	local launcher inside
	for mpi in "${ways[@]}"; do
		launcher=mpiexec.hydra inside=
		[ $mpi = mpich ] || launcher=mpirun.openmpi \
			inside='--allow-run-as-root --oversubscribe --bind-to none'
		command -v $launcher >/dev/null || continue
		for way in none "${protocol[$mpi]}"; do
			expect 0 ddprun --mpi $way --nproc-per-node 1 \
				$launcher $inside -n 2 ./$mpi
			all_met "$out" 2
		done
	done
}

@test "a ddprun that mpiexec or mpirun starts serves MPI to its own workers" {
	if [[ " ${ways[*]} " = *" mpich "* ]] && command -v mpiexec.hydra >/dev/null; then
		for mpi in "${ways[@]}"; do
			expect 0 mpiexec.hydra -n 1 ddprun --nproc-per-node 2 ./$mpi
			all_met "$out" 2
		done
	fi
	if [[ " ${ways[*]} " = *" openmpi "* ]] && command -v mpirun.openmpi >/dev/null; then
		for mpi in "${ways[@]}"; do
			expect 0 mpirun.openmpi --allow-run-as-root -n 1 \
				ddprun --nproc-per-node 2 ./$mpi
			all_met "$out" 2
		done
	fi
}

@test "of two MPI libraries the first one is served, as the linker searches it first" {
	[ ${#ways[@]} = 2 ] || skip "MPICH and Open MPI are not both installed"
	local with='-Wl,--no-as-needed' library
	library() { ldd "./$1" | sed -n 's/.*libmpi[^ ]* => \([^ ]*\) .*/\1/p' | head -n 1; }
	# the linker gets the second one before mpicc's own
	mpicc.mpich -o second mpi.c $with "$(library openmpi)"
	expect 0 ddprun --dry-run ./second
	has "$out" 'PMIX_RANK=0'
	lacks "$out" 'PMI_SIZE'
	mpicc.openmpi -o second mpi.c $with "$(library mpich)"
	expect 0 ddprun --dry-run ./second
	has "$out" 'PMI_SIZE=1'
	lacks "$out" 'PMIX_RANK'
}

@test "a rank that ends in half a line of PMI is named" {
	cat >worker <<-'E'
		[ $RANK != 1 ] || { printf 'cmd=init pmi_ver' >&$PMI_FD; exit $1; }
		echo 'cmd=init pmi_version=1 pmi_subversion=1' >&$PMI_FD
		echo cmd=barrier_in >&$PMI_FD
		while read -r line; do :; done <&$PMI_FD
	E
	expect 3 ddprun --mpi pmi --nproc-per-node 2 bash worker 3
	has "$err" 'rank 1 .* exited with code 3'
	expect 66 ddprun --mpi pmi --nproc-per-node 2 bash worker 0
	has "$err" 'rank 1 .*MPI_Init'
}
