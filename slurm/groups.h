/* groups.h: the groups of a heterogeneous job (sbatch ... : ...), each with
 * variables of its own, SLURM_..._HET_GROUP_0 and so on. A step of several
 * groups has SLURM_STEP_... of all its nodes, as any step has: this is for who
 * starts one. Pure but for groups_unset. */
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

/* "SLURM_JOB_ID", 1: "SLURM_JOB_ID_HET_GROUP_1" */
void groups_name(char out[GROUPS_NAME_MAX], const char *name, uint32_t group);

/* How many groups the job has; 0 where it is not heterogeneous. ERR_USAGE. */
int groups_count(groups_get *get, uint32_t *count, struct err *e);

/* The nodes of all groups. ERR_USAGE names what is missing or no number. */
int groups_nodes(groups_get *get, uint32_t count, uint32_t *nodes,
		 struct err *e);

/* The group's value of a variable, NULL where it is not set. */
const char *groups_value(groups_get *get, const char *name, uint32_t group);

/* Of a step's nodes the first of the first group that has some: NULL where the
 * groups' lists do not say it. Valid as long as the list. */
const char *groups_first(groups_get *get, uint32_t count,
			 const struct hostlist *step);

/* Takes it out of the environment, by its older name (_PACK_GROUP_1), too. */
void groups_unset(const char *name, uint32_t group);

/* Adds SLURM_TASKS_PER_NODE of all groups as one list, in their order, which is
 * that of a step's nodes: "2,1(x2)". Nothing where a group does not say it. */
void groups_tasks(groups_get *get, uint32_t count, struct buf *out);

#endif
