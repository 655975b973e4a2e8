/* allocation.c: reads Slurm's variables. */
#include "slurm/allocation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/groups.h"
#include "slurm/step.h"

/* Ids from here on are Slurm's own: the batch script, the interactive step of
 * salloc, the extern step (slurm.h). Slurm 26.05 writes them as negative
 * numbers. */
static const uint64_t own_ids = 0xfffffff0u;

struct allocation_reader {
	allocation_get *get;
	struct err *e;
};

static const char *allocation_value(allocation_get *get, const char *name)
{
	const char *text = get(name);

	return text && *text ? text : NULL;
}

/* The variable's value, or an error that names the variable. */
static int allocation_needed(const struct allocation_reader *in,
			     const char *name, const char **out)
{
	*out = allocation_value(in->get, name);
	if (*out)
		return 0;
	return err_set(
		in->e, ERR_USAGE,
		"%s is set but %s is not, so Slurm's environment is "
		"incomplete: start ddprun with srun, or give --standalone, or "
		"all of --nnodes, --node-rank and --rdzv-endpoint",
		allocation_value(in->get, "SLURM_STEP_ID") ? "SLURM_STEP_ID"
							   : "SLURM_JOB_ID",
		name);
}

static int allocation_parse(const struct allocation_reader *in,
			    const char *name, const char *text, uint64_t least,
			    uint64_t *out)
{
	char *end = NULL;
	unsigned long long n = 0;

	if (*text >= '0' && *text <= '9')
		n = strtoull(text, &end, 10);
	if (!end || *end || n < least || n > UINT32_MAX)
		return err_set(in->e, ERR_USAGE,
			       "%s is '%.100s', which is not a valid number; "
			       "was it changed since srun set it?",
			       name, text);
	*out = n;
	return 0;
}

static int allocation_number(const struct allocation_reader *in,
			     const char *name, uint64_t least, uint64_t *out)
{
	const char *text;
	int rc = allocation_needed(in, name, &text);

	return rc ? rc : allocation_parse(in, name, text, least, out);
}

/* Sets *out to 0 if the variable is not set. */
static int allocation_optional(const struct allocation_reader *in,
			       const char *name, uint32_t *out)
{
	const char *text = allocation_value(in->get, name);
	uint64_t n = 0;
	int rc = text ? allocation_parse(in, name, text, 0, &n) : 0;

	*out = (uint32_t)n;
	return rc;
}

/* In a heterogeneous job salloc sets it only for each group. */
static const char *allocation_job_id(allocation_get *get)
{
	const char *text = allocation_value(get, "SLURM_JOB_ID");

	return text ? text : groups_value(get, "SLURM_JOB_ID", 0);
}

enum allocation_place allocation_place(allocation_get *get)
{
	const char *step = allocation_value(get, "SLURM_STEP_ID");

	if (!allocation_job_id(get))
		return ALLOCATION_NONE;
	if (!step || *step == '-' || strtoull(step, NULL, 10) >= own_ids)
		return ALLOCATION_NO_STEP;
	return ALLOCATION_STEP;
}

/* Parses "1" or "h100:1". */
static int allocation_read_gpus(const struct allocation_reader *in,
				const char *name, uint32_t *out)
{
	const char *text = allocation_value(in->get, name), *colon;
	uint64_t n = 0;
	int rc = 0;

	if (text) {
		colon = strrchr(text, ':');
		rc = allocation_parse(in, name, colon ? colon + 1 : text, 0,
				      &n);
	}
	*out = (uint32_t)n;
	return rc;
}

/* Reads the end time and the restarts, which steps and batch scripts share. */
static int allocation_read_life(struct allocation *a,
				const struct allocation_reader *in)
{
	const char *end = allocation_value(in->get, "SLURM_JOB_END_TIME");
	char *rest = NULL;
	int rc = allocation_optional(in, "SLURM_RESTART_COUNT", &a->restarts);

	if (rc || !end)
		return rc;
	if (*end >= '0' && *end <= '9')
		a->end_time = strtoull(end, &rest, 10);
	if (!rest || *rest)
		return err_set(in->e, ERR_USAGE,
			       "SLURM_JOB_END_TIME is '%.100s', which is not a "
			       "time; was it changed since srun set it?",
			       end);
	return 0;
}

/* ---- a step ---- */

static int allocation_list(const struct allocation_reader *in, const char *name,
			   struct hostlist *l)
{
	struct err why = ERR_INIT;
	const char *text;
	int rc = allocation_needed(in, name, &text);

	if (rc)
		return rc;
	rc = hostlist_parse(l, SLICE_STR(text), &why);
	return rc ? err_set(in->e, rc, "%s: %.900s", name, why.text) : 0;
}

/* Slurm sorts the nodes of a step of several groups by name. If the step has
 * all groups, puts the nodes in the order of the groups, as the user wrote
 * them. */
static int allocation_order_by_groups(const struct allocation *a,
				      const struct allocation_reader *in,
				      struct hostlist *l)
{
	static const char *const base = "SLURM_JOB_NODELIST";
	char name[GROUPS_NAME_MAX];
	int rc = 0;

	if (!a->groups || a->nodes != a->job_nodes)
		return 0;
	for (uint32_t i = 0; i < a->groups; i++) {
		if (!groups_value(in->get, base, i))
			return 0; /* srun made the job: groups are unknown */
	}
	hostlist_release(l);
	hostlist_init(l);
	for (uint32_t i = 0; !rc && i < a->groups; i++) {
		groups_name(name, base, i);
		rc = allocation_list(in, name, l);
	}
	if (!rc && l->count != a->nodes)
		rc = err_set(
			in->e, ERR_USAGE,
			"%s_HET_GROUP_0 and so on name %u nodes, but the step "
			"has %u: were they changed since Slurm set them?",
			base, l->count, a->nodes);
	return rc;
}

/* The index of the node's name in the list, the same for all nodes, or -1.
 * SLURM_NODEID is another number in a step of groups. */
static long allocation_place_of(const char *node, const struct hostlist *l)
{
	for (uint32_t i = 0; node && i < l->count; i++) {
		if (strcmp(hostlist_name(l, i), node) == 0)
			return i;
	}
	return -1;
}

static int allocation_list_nodes(const struct allocation *a,
				 const struct allocation_reader *in,
				 struct hostlist *l)
{
	int rc = allocation_list(in, "SLURM_STEP_NODELIST", l);

	if (!rc && l->count != a->nodes)
		rc = err_set(in->e, ERR_USAGE,
			     "SLURM_STEP_NODELIST names %u nodes but "
			     "SLURM_STEP_NUM_NODES is %u: were they changed "
			     "since srun set them?", l->count, a->nodes);
	return rc ? rc : allocation_order_by_groups(a, in, l);
}

void allocation_name(const struct allocation *a, allocation_get *get,
		     uint32_t rank, char name[HOSTLIST_NAME_MAX + 1])
{
	struct err e;
	const struct allocation_reader in = {get, &e};
	struct hostlist l;

	name[0] = '\0';
	hostlist_init(&l);
	if (a->place == ALLOCATION_STEP && rank < a->nodes &&
	    a->ranks_as_listed && allocation_list_nodes(a, &in, &l) == 0)
		snprintf(name, HOSTLIST_NAME_MAX + 1, "%s",
			 hostlist_name(&l, rank));
	hostlist_release(&l);
}

static int allocation_read_nodes(struct allocation *a,
				 const struct allocation_reader *in)
{
	struct hostlist l;
	long place;
	int rc;

	hostlist_init(&l);
	rc = allocation_list_nodes(a, in, &l);
	place = rc ? -1
		   : allocation_place_of(
			     allocation_value(in->get, "SLURMD_NODENAME"), &l);
	if (place >= 0)
		a->node_index = (uint32_t)place;
	if (!rc)
		snprintf(a->first, sizeof(a->first), "%s",
			 hostlist_name(&l, 0));
	if (!rc && l.count > 1)
		snprintf(a->second, sizeof(a->second), "%s",
			 hostlist_name(&l, 1));
	hostlist_release(&l);
	return rc;
}

/* Checks that there is one ddprun per node. */
static int allocation_check_tasks(struct allocation *a,
				  const struct allocation_reader *in)
{
	const char *text, *task = allocation_value(in->get, "SLURM_PROCID");
	uint64_t tasks;
	long here;
	int rc = allocation_number(in, "SLURM_STEP_NUM_TASKS", 1, &tasks);

	if (rc || tasks == a->nodes)
		return rc;
	rc = allocation_needed(in, "SLURM_STEP_TASKS_PER_NODE", &text);
	if (!rc)
		rc = step_tasks_on(text, (long)a->node_index, &here, in->e);
	if (rc)
		return rc;
	a->many_tasks = task && strcmp(task, "0") != 0 ? 1 : 2;
	return err_set(
		in->e, ERR_USAGE,
		"srun starts %llu ddpruns on %u node%s (%.60s), but one per "
		"node is enough, which starts the workers: write srun "
		"--nodes=%u --ntasks=%u --ntasks-per-node=1 ddprun "
		"--nproc-per-node %ld, or srun PROGRAM without ddprun%s",
		(unsigned long long)tasks, a->nodes, a->nodes == 1 ? "" : "s",
		text, a->nodes, a->nodes, here,
		a->gpus_per_task
			? "; and --gpus-per-node instead of --gpus-per-task, "
			  "with which each task sees only its own GPUs"
			: "");
}

/* This node's index in the job's list, which includes the step's. */
static int allocation_job_index(const struct allocation_reader *in, long *index)
{
	const char *node;
	struct hostlist l;
	int rc = allocation_needed(in, "SLURMD_NODENAME", &node);

	hostlist_init(&l);
	if (!rc)
		rc = allocation_list(in, "SLURM_JOB_NODELIST", &l);
	*index = rc ? -1 : allocation_place_of(node, &l);
	hostlist_release(&l);
	if (!rc && *index < 0)
		rc = err_set(in->e, ERR_USAGE,
			     "SLURM_JOB_NODELIST does not name this node, "
			     "which is %s according to SLURMD_NODENAME",
			     node);
	return rc;
}

/* This node's count in one of the job's lists. With groups the list is in the
 * order of a step of all their nodes. */
static int allocation_is_of_job(const struct allocation *a,
				const struct allocation_reader *in,
				const char *name, uint32_t *out)
{
	const char *text = allocation_value(in->get, name);
	long index = (long)a->node_index, n = 0;
	int rc = 0;

	*out = 0;
	if (!text || (a->groups && a->nodes != a->job_nodes))
		return 0;
	if (!a->groups)
		rc = allocation_job_index(in, &index);
	if (!rc)
		rc = step_count_on(name, text, index, &n, in->e);
	*out = (uint32_t)n;
	return rc;
}

/* Reads how much of this node belongs to the step. */
static int allocation_read_share(struct allocation *a,
				 const struct allocation_reader *in)
{
	const char *bind = allocation_value(in->get, "SLURM_CPU_BIND_TYPE");
	int rc = allocation_optional(in, "SLURM_CPUS_ON_NODE", &a->cpus);

	if (!rc && !a->cpus)
		rc = allocation_is_of_job(a, in, "SLURM_JOB_CPUS_PER_NODE",
					  &a->cpus);
	if (!rc)
		rc = allocation_optional(in, "SLURM_GPUS_ON_NODE", &a->gpus);
	if (!rc)
		rc = allocation_is_of_job(a, in, ALLOCATION_TASKS, &a->tasks);
	a->bound = bind && (strncmp(bind, "mask_cpu", 8) == 0 ||
			    strncmp(bind, "map_cpu", 7) == 0);
	return rc;
}

/* 1 if a topology plugin of Slurm's or the user's host list orders the tasks:
 * no node can see that order as a whole. */
static int allocation_is_ordered_otherwise(const struct allocation_reader *in)
{
	const char *pattern = allocation_value(in->get,
					       "SLURM_TOPOLOGY_ADDR_PATTERN");
	const char *how = allocation_value(in->get, "SLURM_DISTRIBUTION");

	return (pattern && strcmp(pattern, "node") != 0) ||
	       (how && strncmp(how, "arbitrary", 9) == 0);
}

/* With one task per node the task's number is the node's rank: that is srun's
 * own order, and task 0 gets srun's stdin. */
static int allocation_read_rank(struct allocation *a,
				const struct allocation_reader *in)
{
	uint32_t task = a->node_index;
	int rc = 0;

	if (allocation_value(in->get, "SLURM_PROCID"))
		rc = allocation_optional(in, "SLURM_PROCID", &task);
	if (!rc && task >= a->nodes)
		rc = err_set(in->e, ERR_USAGE,
			     "SLURM_PROCID is %u but SLURM_STEP_NUM_TASKS is "
			     "%u: were they changed since srun set them?",
			     task, a->nodes);
	a->node_rank = task;
	a->ranks_as_listed =
		task == a->node_index && !allocation_is_ordered_otherwise(in);
	return rc;
}

static int allocation_read_step(struct allocation *a,
				const struct allocation_reader *in)
{
	const char *at = allocation_value(in->get, "SLURM_LAUNCH_NODE_IPADDR");
	uint64_t n = 0;
	int rc = allocation_number(in, "SLURM_STEP_ID", 0, &a->step);

	if (!rc)
		rc = allocation_number(in, "SLURM_STEP_NUM_NODES", 1, &n);
	a->nodes = (uint32_t)n;
	if (!rc)
		rc = allocation_number(in, "SLURM_NODEID", 0, &n);
	a->node_index = (uint32_t)n;
	if (!rc && a->node_index >= a->nodes)
		rc = err_set(in->e, ERR_USAGE,
			     "SLURM_NODEID is %u but SLURM_STEP_NUM_NODES is "
			     "%u: were they changed since srun set them?",
			     a->node_index, a->nodes);
	if (!rc)
		rc = allocation_read_nodes(a, in);
	if (!rc)
		rc = allocation_check_tasks(a, in);
	if (!rc)
		rc = allocation_read_rank(a, in);
	if (!rc)
		rc = allocation_read_share(a, in);
	snprintf(a->srun_at, sizeof(a->srun_at), "%s", at ? at : "");
	snprintf(a->id, sizeof(a->id), "slurm-%llu.%llu",
		 (unsigned long long)a->job, (unsigned long long)a->step);
	return rc;
}

/* ---- no step yet ---- */

/* How many tasks each node has; 0: they differ, or it is unknown. */
static int allocation_tasks_each(const struct allocation *a,
				 const struct allocation_reader *in,
				 uint32_t *out)
{
	const char *name = "SLURM_TASKS_PER_NODE";
	const char *text = allocation_value(in->get, name);
	long n = 0, first = 0;
	int rc = 0;

	for (uint32_t i = 0; !rc && text && i < a->nodes; i++) {
		rc = step_count_on(name, text, i, &n, in->e);
		first = i == 0 || n == first ? n : 0;
		if (!first)
			break;
	}
	*out = (uint32_t)first;
	return rc;
}

/* The GPUs in a --tres-per-task such as "cpu=2,gres/gpu:h100=1" (Slurm 23.02:
 * "gres:gpu:1"); NULL: none. */
static const char *allocation_gpus_in(const char *tres)
{
	const char *at = tres ? strstr(tres, "gres/gpu") : NULL;

	return at || !tres ? at : strstr(tres, "gres:gpu");
}

/* Refuses a group that asked for GPUs other than per node: the step's one
 * --gpus-per-node would apply to the nodes of all groups. */
static int allocation_no_gpus_of_groups(const struct allocation *a,
					const struct allocation_reader *in)
{
	static const char *const names[] = {"SLURM_GPUS", "SLURM_GPUS_PER_TASK",
					    "SLURM_TRES_PER_TASK"};
	const char *text;

	for (uint32_t i = 0; i < a->groups; i++) {
		for (size_t j = 0; j < sizeof(names) / sizeof(*names); j++) {
			text = groups_value(in->get, names[j], i);
			if (text && (j < 2 || allocation_gpus_in(text)))
				return err_set(
					in->e, ERR_USAGE,
					"group %u of this heterogeneous job "
					"requested its GPUs per task or in "
					"total (%s_HET_GROUP_%u): use "
					"--gpus-per-node=N in each group that "
					"has GPUs",
					i, names[j], i);
		}
	}
	return 0;
}

/* If the job asked for GPUs per task or in total, a step that does not ask gets
 * those of one task, or some of them: computes the number to ask for. */
static int allocation_gpus_each(struct allocation *a,
				const struct allocation_reader *in)
{
	uint32_t total, tasks;
	int rc = allocation_read_gpus(in, "SLURM_GPUS", &total);

	if (!rc)
		rc = allocation_tasks_each(a, in, &tasks);
	if (rc)
		return rc;
	if (a->gpus_per_task)
		a->gpus_each = a->gpus_per_task * tasks;
	else if (total % a->nodes == 0)
		a->gpus_each = total / a->nodes;
	if (a->gpus_each || (!a->gpus_per_task && !total))
		return 0;
	return err_set(
		in->e, ERR_USAGE,
		"this job requested its GPUs %s, and its %u nodes do not have "
		"equally many: request them with --gpus-per-node=N, or start "
		"the step yourself: srun --ntasks-per-node=1 ... ddprun",
		a->gpus_per_task ? "per task (--gpus-per-task)"
				 : "in total (--gpus)",
		a->nodes);
}

static int allocation_read_no_step(struct allocation *a,
				   const struct allocation_reader *in)
{
	uint64_t n = 0;
	int rc;

	snprintf(a->id, sizeof(a->id), "slurm-%llu",
		 (unsigned long long)a->job);
	if (a->groups) {
		a->nodes = a->job_nodes;
		return allocation_no_gpus_of_groups(a, in);
	}
	rc = allocation_number(in, "SLURM_JOB_NUM_NODES", 1, &n);
	a->nodes = (uint32_t)n;
	return rc ? rc : allocation_gpus_each(a, in);
}

/* Reads --gpus-per-task, or the GPUs in --tres-per-task. */
static int allocation_gpus_per_task(struct allocation *a,
				    const struct allocation_reader *in)
{
	const char *name = "SLURM_TRES_PER_TASK",
		   *text = allocation_value(in->get, name);
	const char *gpu = allocation_gpus_in(text);
	char item[64];
	uint64_t n = 0;
	int rc = allocation_read_gpus(in, "SLURM_GPUS_PER_TASK",
				      &a->gpus_per_task);

	if (rc || a->gpus_per_task || !gpu)
		return rc;
	snprintf(item, sizeof(item), "%.*s", (int)strcspn(gpu, ","), gpu);
	for (gpu = item + strlen(item); gpu[-1] >= '0' && gpu[-1] <= '9'; gpu--)
		;
	rc = allocation_parse(in, name, gpu, 0, &n);
	a->gpus_per_task = (uint32_t)n;
	return rc;
}

/* Reads a heterogeneous job's groups, and its id, which is the first group's.
 */
static int allocation_read_job(struct allocation *a,
			       const struct allocation_reader *in)
{
	int rc = allocation_parse(in, "SLURM_JOB_ID",
				  allocation_job_id(in->get), 0, &a->job);

	if (!rc)
		rc = groups_count(in->get, &a->groups, in->e);
	if (!rc && a->groups)
		rc = groups_nodes(in->get, a->groups, &a->job_nodes, in->e);
	return rc;
}

int allocation_read(struct allocation *a, allocation_get *get, struct err *e)
{
	const struct allocation_reader in = {get, e};
	int rc;

	*a = (struct allocation){.place = allocation_place(get)};
	if (a->place == ALLOCATION_NONE)
		return 0;
	rc = allocation_read_job(a, &in);
	if (!rc)
		rc = allocation_read_life(a, &in);
	if (!rc)
		rc = allocation_gpus_per_task(a, &in);
	if (rc)
		return rc;
	return a->place == ALLOCATION_STEP ? allocation_read_step(a, &in)
					   : allocation_read_no_step(a, &in);
}

const char *allocation_restart(const struct allocation *a, char *out)
{
	out[0] = '\0';
	if (a->restarts)
		snprintf(out, ALLOCATION_RESTART_MAX, " (restart %u)",
			 a->restarts);
	return out;
}
