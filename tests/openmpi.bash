# openmpi.bash: programs of Debian's Open MPI for tests of PMIx. Load it after lib, and
# after netns in tests with hosts.
#
#   pmix_or_skip        skips the test where libpmix is not installed
#   openmpi_or_skip     makes ./mpi, or skips the test. Its ranks print "rank R of N, sum
#                       N" after an Allreduce; its argument is what rank 1 does before
#                       (abort; kill itself in the first attempt), or what all do (spawn;
#                       gate: print "up" and wait until the fifo "gate" is opened; wait:
#                       print "up" and wait for ever in the first attempt)
#   all_met TEXT N      fails unless TEXT has the line of each of N ranks, once

pmix_or_skip() {
	ldconfig -p | grep -q 'libpmix\.so\.2 ' || skip "libpmix is not installed (libpmix2)"
}

# A program that is linked with Open MPI; its argument says what rank 1 does.
openmpi_or_skip() {
	local made=$BATS_FILE_TMPDIR/mpi # by an earlier test of the file
	pmix_or_skip
	# two nodes on one host meet on loopback
	[ "${HOSTS:-loopback}" != loopback ] || export OMPI_MCA_btl_tcp_if_include=lo
	[ ! -x "$made" ] || { cp "$made" mpi && return; }
	echo '#include <mpi.h>' >mpi.c
	mpicc.openmpi -E mpi.c >/dev/null 2>&1 ||
		skip "Open MPI is not installed (libopenmpi-dev)"
	cat >mpi.c <<-'E'
		#include <fcntl.h>
		#include <mpi.h>
		#include <signal.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		#include <unistd.h>

		static int is(char **argv, const char *what)
		{
			return argv[1] && !strcmp(argv[1], what);
		}

		int main(int argc, char **argv)
		{
			int first = *getenv("TORCHELASTIC_RESTART_COUNT") == '0';
			int rank, size, sum, one = 1;
			MPI_Comm child;

			MPI_Init(&argc, &argv);
			MPI_Comm_rank(MPI_COMM_WORLD, &rank);
			MPI_Comm_size(MPI_COMM_WORLD, &size);
			if (is(argv, "abort") && rank == 1)
				MPI_Abort(MPI_COMM_WORLD, 7);
			if (is(argv, "kill") && rank == 1 && first)
				raise(SIGKILL);
			if (is(argv, "spawn"))
				MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0,
					       MPI_COMM_WORLD, &child, MPI_ERRCODES_IGNORE);
			if (is(argv, "gate")) {
				printf("up\n");
				fflush(stdout);
				close(open("gate", O_RDONLY));
			}
			while (is(argv, "wait") && first) {
				MPI_Barrier(MPI_COMM_WORLD);
				printf("up\n");
				fflush(stdout);
				pause();
			}
			MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
			printf("rank %d of %d, sum %d\n", rank, size, sum);
			return MPI_Finalize();
		}
	E
	mpicc.openmpi -o mpi mpi.c "$lib_tests/openmpi_finalize.c"
	cp mpi "$made"
}

all_met() { # TEXT N
	local r
	for ((r = 0; r < $2; r++)); do
		has "$1" "rank $r of $2, sum $2\$"
	done
	[ "$(grep -c ' sum ' <<<"$1")" = "$2" ]
}
