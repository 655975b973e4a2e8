/* gate.h: processes of one program that wait for each other: all arrive, and
 * when their parent has seen that, all continue at once. Nothing polls: pipes
 * show a process that is late, or dies. */
#ifndef TESTS_BENCH_GATE_H
#define TESTS_BENCH_GATE_H

#include <stdlib.h>
#include <unistd.h>

struct gate {
	int come[2], go[2];
};

static inline void gate_init(struct gate *g)
{
	if (pipe(g->come) || pipe(g->go))
		exit(1);
}

/* In a process that was forked, once, as it begins. */
static inline void gate_join(const struct gate *g)
{
	close(g->come[0]);
	close(g->go[1]);
}

/* Says that we are there, and waits until the gate is opened. */
static inline void gate_pass(const struct gate *g)
{
	char byte = 0;

	if (write(g->come[1], &byte, 1) != 1)
		exit(1);
	close(g->come[1]);
	while (read(g->go[0], &byte, 1) > 0)
		;
	close(g->go[0]);
}

/* In their parent: 0 when all n are there; -1: one has died before. */
static inline int gate_await(const struct gate *g, int n)
{
	char byte;

	close(g->come[1]);
	while (n > 0 && read(g->come[0], &byte, 1) == 1)
		n--;
	return n ? -1 : 0;
}

static inline void gate_open(const struct gate *g)
{
	close(g->go[1]);
}

#endif
