# docs/when-it-fails.md shows what ddprun really prints.
# covers: docs/when-it-fails.md launcher/failure launcher/watch rendezvous/round
load ../lib

setup() {
	lib_setup
	PATH=$PATH:$O/examples
	# the half minute after which there is a line about progress
	export DDP_TEST_WATCH_MS=2000
}

# Without MPICH the examples of ./solver are left out of page.md.
make_solver() {
	cp "$BATS_TEST_DIRNAME/../../docs/when-it-fails.md" page.md
	examples=12
	command -v mpicc.mpich >/dev/null || {
		echo "# not shown: MPI, without mpicc.mpich" >&3
		sed -i 's/^\$ \(.*solver.*\)$/\1/' page.md
		examples=10
		return 0
	}
	cat >solver.c <<-'E'
		#include <mpi.h>
		#include <string.h>
		#include <unistd.h>

		int main(int argc, char **argv)
		{
			double x = 1, y;
			int rank;

			MPI_Init(&argc, &argv);
			MPI_Comm_rank(MPI_COMM_WORLD, &rank);
			for (int step = 0; step < 40; step++) {
				if (step == 20 && rank == 2) {
					if (strcmp(argv[1], "sleep") == 0)
						sleep(5);
					else
						MPI_Send(&x, 1, MPI_DOUBLE, 7, 0,
							 MPI_COMM_WORLD);
				}
				MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM,
					      MPI_COMM_WORLD);
			}
			return MPI_Finalize();
		}
	E
	mpicc.mpich -g -o solver solver.c
}

# The programs that the page names. The reader sees none of them.
make_programs() {
	cat >train.py <<-'E'
		import os
		import signal

		rank = int(os.environ["RANK"])
		labels = 3
		if rank == 1:
		    raise ValueError(f"batch 17 has {labels} labels for 4 images")
		signal.pause()
	E
	cat >mean.c <<-'E'
		#include <stdlib.h>
		#include <unistd.h>

		static double mean(const double *x, int n)
		{
			double sum = 0;
			int i;

			for (i = 0; i < n; i++)
				sum += x[i];
			return sum / n;
		}
		int main(void)
		{
			while (atoi(getenv("RANK")) != 2)
				pause();
			return mean(NULL, 4) > 0;
		}
	E
	${CC:-cc} -g -O0 -o mean mean.c
	make_solver
	cat >trainer <<-'E'
		#!/bin/sh
		[ "$1" != pause ] || exec c_pause sleep 2 5000
		exec c_fault "$1" 2
	E
	# the first attempt fails as well, and all at step 120
	printf '#!/bin/sh\necho 120 >>"$DDP_STEP_FILE"\nexit 3\n' >resumed
	printf '#!/bin/sh\n[ $RANK = 2 ] && lr=0.2 || lr=0.1\nexec "$@" --lr $lr\n' >other-rate
	chmod +x trainer resumed other-rate
	mkdir digits
	t_idx digits 2000 32
}

@test "each example of docs/when-it-fails.md prints what the page shows" {
	[ -z "${SAN:-}" ] || skip "the sanitizers' reports would be among the lines"
	make_programs
	start page python3 "$BATS_TEST_DIRNAME/../examples.py" page.md "$(w_port free)"
	finish page -
	[ "$status" = 0 ]
	has "$out" "^ok $examples "
}
