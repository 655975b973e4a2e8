# Ranks that poll in MPI while one of them does not arrive: they compute at 100 % CPU, so
# only their stacks show that they wait. hang.bats has the same for libddp.
# covers: launcher/watch launcher/inspect/mpi_calls.c launcher/agent/agent_watch.c rendezvous/stall
load ../lib
load ../mpich

setup() {
	lib_setup
	export DDP_TEST_WATCH_MS=900
}

# train FAULT [STEPS]: what the last rank does before its 20th Allreduce
make_or_skip() { # mpich|openmpi|static
	! [ "$1" = openmpi ] || ldconfig -p | grep -q 'libpmix\.so\.2 ' || skip "libpmix2 is not installed"
	cat >train.c <<-'E'
		#include <mpi.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		#include <unistd.h>

		static void fault(const char *what)
		{
			int rank, n;

			double x;

			fprintf(stderr, "fault\n");
			if (strcmp(what, "sleep") == 0)
				pause();
			else if (strcmp(what, "exit") == 0)
				_exit(0);
			else if (strcmp(what, "loop") == 0)
				for (;;)
					;
			else if (strcmp(what, "cycle") == 0) {
				MPI_Comm_rank(MPI_COMM_WORLD, &rank);
				MPI_Comm_size(MPI_COMM_WORLD, &n);
				MPI_Recv(&x, 1, MPI_DOUBLE, (rank + 1) % n, 99,
					 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			} else if (strcmp(what, "recv") == 0)
				MPI_Recv(&x, 1, MPI_DOUBLE, 0, 99, MPI_COMM_WORLD,
					 MPI_STATUS_IGNORE);
		}

		int main(int argc, char **argv)
		{
			int rank, n;
			double x = 1, y;

			MPI_Init(&argc, &argv);
			MPI_Comm_rank(MPI_COMM_WORLD, &rank);
			MPI_Comm_size(MPI_COMM_WORLD, &n);
			int steps = argc > 2 ? atoi(argv[2]) : -1;

			for (int step = 0; step != steps; step++) {
				if (step == 20 && (rank == n - 1 ||
						   strcmp(argv[1], "cycle") == 0))
					fault(argv[1]);
				MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM,
					      MPI_COMM_WORLD);
				usleep(rank == n - 1 ? 20000 : 1);
			}
			return MPI_Finalize();
		}
	E
	[ "$1" != static ] || { static_mpich_or_skip && static_mpich -g -o train train.c && return; }
	command -v "mpicc.$1" >/dev/null && "mpicc.$1" -g -o train train.c ||
		skip "$1 is not installed"
}

# Where the kernel does not count breakpoints, only a rank that sleeps is found.
breakpoints_or_skip() {
	[ "$(id -u)" = 0 ] || [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 2 ] ||
		skip "kernel.perf_event_paranoid is above 2"
}

hangs() { # FAULT LINE
	start job ddprun --nproc-per-node 2 ./train "$1"
	await job.err "^ddprun: $2" 60
	signal job TERM
	finish job 143
}

waits='[0-9.]+ s: rank 0 on [^ ]+ waits in MPI_Allreduce; rank 1 on [^ ]+, pid [0-9]+,'

@test "a rank that sleeps while the others poll in MPI is named" {
	make_or_skip mpich
	hangs sleep "no progress for $waits has not arrived: it (sleeps|waits for a signal)"
}

@test "a rank that sleeps is also named if the program contains MPICH" {
	make_or_skip static
	hangs sleep "no progress for $waits has not arrived: it (sleeps|waits for a signal)"
}

@test "a rank that has exited while the others poll in MPI is named" {
	make_or_skip mpich
	breakpoints_or_skip
	hangs exit "no progress for $waits has exited with code 0"
}

@test "a rank that computes while the others stay in one call of MPI is waited for" {
	make_or_skip mpich
	breakpoints_or_skip
	hangs loop "waiting for $waits has not arrived: it computes \([0-9]+ % CPU"
}

@test "a rank in another call of Open MPI than the others is named, with its line" {
	make_or_skip openmpi
	breakpoints_or_skip
	hangs recv "no progress for $waits is in another call: it stays in MPI_Recv at train\.c:[0-9]+ \("
}

@test "a job whose ranks are nearly always in MPI, but go on, gets no line" {
	make_or_skip mpich
	expect 0 ddprun --nproc-per-node 2 ./train none 150
	! grep -E '(no progress|waiting) for' <<<"$err"
}

@test "ranks that each wait for a message of the next are named" {
	make_or_skip mpich
	breakpoints_or_skip
	hangs cycle "no progress for [0-9.]+ s: 2 of 2 ranks wait in MPI_Recv, and no rank is missing; rank 0 on [^ ]+, pid [0-9]+, for example: it stays in MPI_Recv at train\.c:[0-9]+ "
}
