/* step.c: Slurm's compressed counts, and ports from a step's name. */
#include "slurm/step.h"

#include <errno.h>
#include <stdlib.h>

enum { TASKS_MAX = 1 << 24 };

/* A number at *at, which moves behind it; -1 where there is none. */
static long number(const char **at)
{
	char *end;
	long n;

	if (**at < '0' || **at > '9')
		return -1;
	errno = 0;
	n = strtol(*at, &end, 10);
	*at = end;
	return errno || n > TASKS_MAX ? -1 : n;
}

static int wrong(struct err *e, const char *name, const char *text,
		 const char *why)
{
	return err_set(e, ERR_USAGE, "%s is '%.200s': %s; it should be like "
		       "2(x3),1", name, text, why);
}

int step_count_on(const char *name, const char *text, long node, long *count,
		  struct err *e)
{
	const char *at = text;
	long first = 0, n, times;

	for (;;) {
		n = number(&at);
		times = 1;
		if (n >= 0 && at[0] == '(' && at[1] == 'x') {
			at += 2;
			times = number(&at);
			if (*at++ != ')')
				times = -1;
		}
		if (n < 0 || times < 1 || (*at && *at != ','))
			return wrong(e, name, text, "it does not parse");
		if (node < first + times)
			break;
		first += times;
		if (!*at++)
			return wrong(e, name, text,
				     "it has fewer nodes than the step");
	}
	*count = n;
	return 0;
}

int step_tasks_on(const char *text, long node, long *tasks, struct err *e)
{
	return step_count_on("SLURM_STEP_TASKS_PER_NODE", text, node, tasks, e);
}

/* splitmix64's mixer: steps that follow one another are far apart. */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint16_t step_port(uint64_t job, uint64_t step, int i)
{
	uint64_t n = STEP_PORT_END - STEP_PORT_FIRST;
	uint64_t at = mix(mix(job + 0x9e3779b97f4a7c15u) + step);

	return (uint16_t)(STEP_PORT_FIRST + (at + (uint64_t)i * 97) % n);
}
