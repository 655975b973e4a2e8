/* step.h: what a task of an srun step derives from the step's variables. Pure:
 * texts in, numbers out; asks neither the network nor slurmctld. */
#ifndef SLURM_STEP_H
#define SLURM_STEP_H

#include <stdint.h>

#include "base/error.h"
#include "slurm/hostlist.h"

enum {
	STEP_PORTS = 16, /* the number of ports that a step tries in turn */
	STEP_PORT_FIRST = 20000, /* below Linux's ephemeral ports */
	STEP_PORT_END = 32000,
};

/* Reads the count of a node, numbered from 0, from a variable such as
 * SLURM_STEP_TASKS_PER_NODE ("2(x3),1"). ERR_USAGE names the variable and the
 * mistake. */
int step_count_on(const char *name, const char *text, long node, long *count,
		  struct err *e);

/* The same for SLURM_STEP_TASKS_PER_NODE. */
int step_tasks_on(const char *tasks_per_node, long node, long *tasks,
		  struct err *e);

typedef const char *step_get(const char *name);

/* Writes the node where the step's tasks meet to out[HOSTLIST_NAME_MAX + 1]:
 * the first of SLURM_STEP_NODELIST, or of the first group of a heterogeneous
 * job. All tasks find the same node. ERR_USAGE names the variable. */
int step_meeting_node(step_get *get, char *out, struct err *e);

/* 1 for the one task that hosts the meeting place: the first on that node. It
 * is not task 0 if a topology plugin orders the tasks (Slurm 26.05). */
int step_is_keeper(step_get *get, const char *meeting_node);

/* The ports where the step's tasks meet, i from 0 to STEP_PORTS - 1. All tasks
 * of a step get the same ports; other steps get others while there are enough.
 */
uint16_t step_port(uint64_t job, uint64_t step, int i);

#endif
