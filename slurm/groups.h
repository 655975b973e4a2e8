/* groups.h: the groups of a heterogeneous job (sbatch ... : ...), each with
 * variables of its own, SLURM_..._HET_GROUP_0 and so on. Needed to start a step
 * of several groups; the step itself has SLURM_STEP_... of all its nodes, as
 * any step. Pure except groups_unset. */
#ifndef SLURM_GROUPS_H
#define SLURM_GROUPS_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "slurm/hostlist.h"

enum {
	GROUPS_MAX = 128, /* Slurm's MAX_HET_JOB_COMPS */
	GROUPS_NAME_MAX = 64,
};

typedef const char *groups_get(const char *name);

/* For "SLURM_JOB_ID" and group 1: "SLURM_JOB_ID_HET_GROUP_1". */
void groups_name(char out[GROUPS_NAME_MAX], const char *name, uint32_t group);

/* Sets *count to the number of groups; 0 if the job is not heterogeneous. 0 or
 * ERR_USAGE. */
int groups_count(groups_get *get, uint32_t *count, struct err *e);

/* Sets *nodes to the number of all groups' nodes. ERR_USAGE names a variable
 * that is missing or not a number. */
int groups_nodes(groups_get *get, uint32_t count, uint32_t *nodes,
		 struct err *e);

/* The group's value of a variable; NULL if it is not set. */
const char *groups_value(groups_get *get, const char *name, uint32_t group);

/* The step's first node in the order of the groups; NULL if the groups' lists
 * do not show it. Valid as long as the list. */
const char *groups_first(groups_get *get, uint32_t count,
			 const struct hostlist *step);

/* Removes the group's variable from the environment, and its older name
 * (_PACK_GROUP_1). */
void groups_unset(const char *name, uint32_t group);

/* Appends SLURM_TASKS_PER_NODE of all groups as one list in the order of the
 * groups, which is that of a step's nodes: "2,1(x2)". Appends nothing if a
 * group lacks it. */
void groups_tasks(groups_get *get, uint32_t count, struct buf *out);

#endif
