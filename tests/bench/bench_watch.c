/* bench_watch.c: steps of 1 ms of computing, ddp_step and an all_reduce
 * of 4 B. Rank 0 prints how long an average step takes, in us, and the CPU time
 * of its agent meanwhile, in thousandths of a core. The computing is a fixed
 * number of additions in registers, the same in each run.
 *
 *   bench_watch SECONDS TURNS
 *   bench_watch 0 0     prints the TURNS of a millisecond on this CPU */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "worker-sdk/ddp.h"

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* CPU time of the process that started this one. */
static double agent_us(void)
{
	char path[64];
	double ns = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)getppid());
	f = fopen(path, "r");
	if (!f || fscanf(f, "%lf", &ns) != 1)
		ns = 0;
	if (f)
		fclose(f);
	return ns / 1e3;
}

static void compute(long turns)
{
	double x = 1;

	for (long i = 0; i < turns; i++)
#ifdef __aarch64__
		__asm__ volatile("fadd %d0, %d0, %d0" : "+w"(x));
#else
		__asm__ volatile("addsd %0, %0" : "+x"(x));
#endif
}

static long turns_of_a_ms(void)
{
	enum { TURNS = 10000000 };
	double began;

	compute(TURNS); /* so that the CPU is awake */
	began = now_us();
	compute(TURNS);
	return (long)(TURNS * 1e3 / (now_us() - began));
}

static void must(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "%s\n", ddp_last_error());
		exit(1);
	}
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? atof(argv[1]) : 0, began, agent, took;
	long turns = argc > 2 ? atol(argv[2]) : 0, steps;
	ddp_comm *world;
	float x = 1;

	if (turns <= 0) {
		printf("%ld\n", turns_of_a_ms());
		return 0;
	}
	steps = (long)(seconds * 1e3);
	must(ddp_init(&world, NULL));
	must(ddp_barrier(world));
	agent = agent_us();
	began = now_us();
	for (long i = 0; i < steps; i++) {
		compute(turns);
		must(ddp_step(world, i));
		must(ddp_all_reduce(world, &x, &x, 1, DDP_F32, DDP_AVG));
	}
	took = now_us() - began;
	if (ddp_rank(world) == 0)
		printf("%.3f %.3f\n", took / (double)steps,
		       (agent_us() - agent) / took * 1e3);
	ddp_finalize(world);
	return 0;
}
