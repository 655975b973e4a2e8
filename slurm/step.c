/* step.c: parses Slurm's compressed counts, and finds where a step's tasks
 * meet. */
#include "slurm/step.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/groups.h"

enum { TASKS_MAX = 1 << 24 };

/* Parses the number at *at and advances *at; -1 if there is none. */
static long step_number(const char **at)
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

static int step_refuse(struct err *e, const char *name, const char *text,
		       const char *why)
{
	return err_set(e, ERR_USAGE,
		       "%s is '%.200s': %s; it should look like 2(x3),1", name,
		       text, why);
}

int step_count_on(const char *name, const char *text, long node, long *count,
		  struct err *e)
{
	const char *at = text;
	long first = 0, n, times;

	for (;;) {
		n = step_number(&at);
		times = 1;
		if (n >= 0 && at[0] == '(' && at[1] == 'x') {
			at += 2;
			times = step_number(&at);
			if (*at++ != ')')
				times = -1;
		}
		if (n < 0 || times < 1 || (*at && *at != ','))
			return step_refuse(e, name, text, "it does not parse");
		if (node < first + times)
			break;
		first += times;
		if (!*at++)
			return step_refuse(e, name, text,
					   "it has fewer nodes than the step");
	}
	*count = n;
	return 0;
}

int step_tasks_on(const char *text, long node, long *tasks, struct err *e)
{
	return step_count_on("SLURM_STEP_TASKS_PER_NODE", text, node, tasks, e);
}

static int step_first(step_get *get, uint32_t groups, const struct hostlist *l,
		      char *out, struct err *e)
{
	const char *first = groups_first(get, groups, l);

	if (!l->count)
		return err_set(e, ERR_USAGE, "it names no host");
	snprintf(out, HOSTLIST_NAME_MAX + 1, "%s",
		 first ? first : hostlist_name(l, 0));
	return 0;
}

int step_meeting_node(step_get *get, char *out, struct err *e)
{
	const char *name = "SLURM_STEP_NODELIST", *text = get(name);
	struct hostlist l;
	struct err why = ERR_INIT;
	uint32_t groups;
	int rc = groups_count(get, &groups, e);

	if (rc)
		return rc;
	hostlist_init(&l);
	rc = hostlist_parse(&l, SLICE_STR(text ? text : ""), &why);
	if (!rc)
		rc = step_first(get, groups, &l, out, &why);
	hostlist_release(&l);
	return rc ? err_set(e, rc, "%s: %.900s", name, why.text) : 0;
}

static int step_is(step_get *get, const char *name, const char *text)
{
	const char *value = get(name);

	return value && strcmp(value, text) == 0;
}

int step_is_keeper(step_get *get, const char *meeting_node)
{
	const char *node = get("SLURMD_NODENAME");

	if (!node || !*node || step_is(get, "SLURM_STEP_NUM_NODES", "1"))
		return step_is(get, "SLURM_PROCID", "0");
	return strcmp(node, meeting_node) == 0 &&
	       step_is(get, "SLURM_LOCALID", "0");
}

/* splitmix64's mixer: spreads consecutive steps. */
static uint64_t step_mix(uint64_t x)
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
	uint64_t at = step_mix(step_mix(job + 0x9e3779b97f4a7c15u) + step);

	return (uint16_t)(STEP_PORT_FIRST + (at + (uint64_t)i * 97) % n);
}
