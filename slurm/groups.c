/* groups.c: reads the variables of groups. */
#include "slurm/groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void groups_name(char out[GROUPS_NAME_MAX], const char *name, uint32_t group)
{
	snprintf(out, GROUPS_NAME_MAX, "%s_HET_GROUP_%u", name, group);
}

const char *groups_value(groups_get *get, const char *name, uint32_t group)
{
	char full[GROUPS_NAME_MAX];
	const char *text;

	groups_name(full, name, group);
	text = get(full);
	return text && *text ? text : NULL;
}

static const char *groups_find(const struct hostlist *l, const char *name)
{
	for (uint32_t i = 0; i < l->count; i++) {
		if (strcmp(hostlist_name(l, i), name) == 0)
			return hostlist_name(l, i);
	}
	return NULL;
}

const char *groups_first(groups_get *get, uint32_t count,
			 const struct hostlist *step)
{
	const char *text, *first = NULL;
	struct hostlist l;
	struct err e;

	for (uint32_t i = 0; i < count && !first; i++) {
		text = groups_value(get, "SLURM_JOB_NODELIST", i);
		hostlist_init(&l);
		if (text && hostlist_parse(&l, SLICE_STR(text), &e) == 0)
			for (uint32_t n = 0; n < l.count && !first; n++)
				first = groups_find(step, hostlist_name(&l, n));
		hostlist_release(&l);
	}
	return first;
}

void groups_unset(const char *name, uint32_t group)
{
	char full[GROUPS_NAME_MAX];

	groups_name(full, name, group);
	unsetenv(full);
	snprintf(full, sizeof(full), "%s_PACK_GROUP_%u", name, group);
	unsetenv(full);
}

static int groups_number(const char *name, const char *text, uint32_t max,
			 uint32_t *out, struct err *e)
{
	char *end = NULL;
	unsigned long n = 0;

	if (text && *text >= '0' && *text <= '9')
		n = strtoul(text, &end, 10);
	if (!end || *end || n < 1 || n > max)
		return err_set(e, ERR_USAGE, "this job is heterogeneous, and %s"
			       " is '%.100s', where a number should be: was it "
			       "changed since Slurm set it?", name,
			       text ? text : "");
	*out = (uint32_t)n;
	return 0;
}

int groups_count(groups_get *get, uint32_t *count, struct err *e)
{
	const char *text = get("SLURM_HET_SIZE");
	int rc;

	*count = 0;
	if (!text || !*text || strcmp(text, "0") == 0)
		return 0;
	rc = groups_number("SLURM_HET_SIZE", text, GROUPS_MAX, count, e);
	if (*count == 1)
		*count = 0;
	return rc;
}

int groups_nodes(groups_get *get, uint32_t count, uint32_t *nodes,
		 struct err *e)
{
	static const char *const name = "SLURM_JOB_NUM_NODES";
	char full[GROUPS_NAME_MAX];
	uint32_t n = 0;
	int rc = 0;

	*nodes = 0;
	for (uint32_t i = 0; !rc && i < count; i++) {
		groups_name(full, name, i);
		rc = groups_number(full, groups_value(get, name, i), 1 << 20,
				   &n, e);
		*nodes += n;
	}
	return rc;
}

void groups_tasks(groups_get *get, uint32_t count, struct buf *out)
{
	const char *name = "SLURM_TASKS_PER_NODE", *text;

	for (uint32_t i = 0; i < count; i++) {
		if (!groups_value(get, name, i))
			return;
	}
	for (uint32_t i = 0; i < count; i++) {
		text = groups_value(get, name, i);
		buf_printf(out, "%s%s", i ? "," : "", text);
	}
}
