# pmix_hosts.bats: Open MPI's and MPICH's ranks on two hosts with separate addresses.
# covers: launcher/pmix launcher/pmi launcher/agent/agent_mpi.c
load ../lib
load netns
load ../openmpi

setup() {
	lib_setup
	hosts_up 2
	openmpi_or_skip
	job=(ddprun --nnodes 2 --rdzv-endpoint "${at[h1]}:29400")
}

@test "Open MPI's ranks meet on two hosts, with and without a fence" {
	start_on h1 on_h1 "${job[@]}" --nproc-per-node 2 ./mpi
	start_on h2 on_h2 "${job[@]}" --nproc-per-node 1 ./mpi
	finish on_h1
	local all=$out
	finish on_h2
	all_met "$all"$'\n'"$out" 3
	export OMPI_MCA_pmix_base_async_modex=1 OMPI_MCA_pmix_base_collect_data=0
	start_on h1 on_h1 "${job[@]}" ./mpi
	start_on h2 on_h2 "${job[@]}" ./mpi
	finish on_h1
	all=$out
	finish on_h2
	all_met "$all"$'\n'"$out" 2
}

@test "a killed rank on one host restarts Open MPI's world on both" {
	start_on h1 on_h1 "${job[@]}" --max-restarts 1 ./mpi kill
	start_on h2 on_h2 "${job[@]}" --max-restarts 1 ./mpi kill
	finish on_h1
	local all=$out
	has "$err" 'restarting \(1 of 1\): rank 1 .* was killed by signal 9'
	finish on_h2
	all_met "$all"$'\n'"$out" 2
}

@test "both hosts report a helper that was killed on one" {
	hosts_real
	start_on h1 on_h1 "${job[@]}" ./mpi wait
	start_on h2 on_h2 "${job[@]}" ./mpi wait
	await on_h1.out 'up$'
	await on_h2.out 'up$'
	start_on h2 killer pkill -KILL -x ddprun-pmix
	finish killer
	finish on_h1 137
	has "$err" 'on h2, .*: the process that served PMIx on this node \(pid [0-9]+\) was killed by SIGKILL'
	finish on_h2 137
	has "$err" 'the process that served PMIx on this node'
}

# elastic PROGRAM: one host starts, another one joins, dies, joins again and is cut off.
elastic() {
	local job=(ddprun --nnodes 1:2 --rdzv-endpoint "${at[h1]}:29400"
		--heartbeat-timeout 3)
	start_on h1 on_h1 "${job[@]}" "$@"
	await "$T/on_h1.out" 'world of 1 '
	start_on h2 on_h2 "${job[@]}" "$@"
	await "$T/on_h1.out" 'world of 2 '
	await "$T/on_h2.out" 'world of 2 '
	has "$(<"$T/on_h1.err")" '^ddprun: regrouping: h2 joined'
	signal on_h2 KILL
	finish on_h2 137
	await "$T/on_h1.err" '^ddprun: regrouping: node 1 \(h2\) was lost'
	await "$T/on_h1.out" 'world of 1 round 2'
	start_on h2 on_h2 "${job[@]}" "$@"
	await "$T/on_h2.out" 'world of 2 '
	cable_cut h2
	await "$T/on_h1.err" '^ddprun: regrouping: node 1 \(h2\) was lost: not heard from'
	await "$T/on_h1.out" 'world of 1 round 4'
	finish on_h2 69
	signal on_h1 TERM
	finish on_h1 143
	nothing_left
}

elastic_program() {
	cat >elastic.c <<-'C'
		#include <mpi.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <unistd.h>

		int main(int argc, char **argv)
		{
			int size, sum, one = 1;

			MPI_Init(&argc, &argv);
			MPI_Comm_size(MPI_COMM_WORLD, &size);
			MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
			printf("world of %d round %s\n", sum, getenv("DDP_ROUND"));
			fflush(stdout);
			for (;;)
				pause();
		}
	C
}

@test "Open MPI's world is a new one when a host joins, dies or is cut off" {
	hosts_real
	elastic_program
	mpicc.openmpi -o elastic elastic.c "$lib_tests/openmpi_finalize.c"
	elastic ./elastic
}

@test "MPICH's world is a new one when a host joins, dies or is cut off" {
	hosts_real
	command -v mpicc.mpich >/dev/null || skip "MPICH is not installed (libmpich-dev)"
	elastic_program
	mpicc.mpich -o elastic elastic.c
	elastic ./elastic
}
