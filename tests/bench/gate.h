/* gate.h: a start line for processes of one program. All arrive; when their
 * parent has seen that, all continue at once. Nothing polls: the parent's reads
 * of pipes end when a process arrives or dies. */
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

/* A forked process calls this once, at its beginning. */
static inline void gate_join(const struct gate *g)
{
	close(g->come[0]);
	close(g->go[1]);
}

/* Reports that we are here, and waits until the gate opens. */
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

/* For the parent: 0 when all n have arrived; -1: one has died. */
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
