/* mpi_start.c: a rank that mpi.sh times: MPI_Init, one Allreduce and
 * MPI_Finalize. With the word `stay` it prints "pid NUMBER" after the
 * Allreduce, and waits to be killed; with `alone` its world may be of one.
 * Without -DWITH_MPI it only prints what it lacks. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef WITH_MPI

#include <mpi.h>

int main(int argc, char **argv)
{
	int one = 1, sum = 0, n;

	MPI_Init(&argc, &argv);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (sum != n || (n < 2 && (argc < 2 || strcmp(argv[1], "alone")))) {
		fprintf(stderr, "mpi_start: the sum of %d ranks is %d\n", n,
			sum);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	if (argc > 1 && strcmp(argv[1], "stay") == 0) {
		printf("pid %ld\n", (long)getpid());
		fflush(stdout);
		pause();
	}
	return MPI_Finalize();
}

#else

int main(void)
{
	fprintf(stderr, "mpi_start: built without MPI; mpi.sh builds it\n");
	return 2;
}

#endif
