/* allocation.h: what a ddprun concludes from Slurm's variables: as a task of a
 * step that srun started, or in an allocation where no step was started yet (a
 * batch script, salloc's shell). Pure: asks neither the network nor slurmctld,
 * and takes nothing for granted that a variable does not say. */
#ifndef SLURM_ALLOCATION_H
#define SLURM_ALLOCATION_H

#include <stdint.h>

#include "base/error.h"
#include "slurm/hostlist.h"

/* What the ddprun of a batch script tells those of the step that it starts:
 * the job's SLURM_TASKS_PER_NODE and SLURM_CPUS_PER_TASK, which the step's own
 * hide. */
#define ALLOCATION_TASKS "DDP_SLURM_TASKS_PER_NODE"
#define ALLOCATION_CPUS_PER_TASK "DDP_SLURM_CPUS_PER_TASK"

enum allocation_place {
	ALLOCATION_NONE,    /* not under Slurm */
	ALLOCATION_STEP,    /* a task of a step */
	ALLOCATION_NO_STEP, /* a batch script, or a shell of salloc */
};

enum { ALLOCATION_ID_MAX = 48, ALLOCATION_RESTART_MAX = 32 };

struct allocation {
	enum allocation_place place;
	uint64_t job, step;
	char id[ALLOCATION_ID_MAX]; /* "slurm-12.0"; "slurm-12": no step */
	uint32_t nodes;     /* of the step; else of the allocation */
	uint32_t groups;    /* of a heterogeneous job; 0: it is none */
	uint32_t job_nodes; /* of all these groups */
	uint64_t end_time; /* unix time of Slurm's end of it; 0: not said */
	uint32_t restarts; /* so often was the job requeued */
	uint32_t gpus_per_task; /* --gpus-per-task; 0: not said */
	/* of a step */
	/* this node's: its task's number, which follows the topology where
	 * Slurm knows one; its place in the list of nodes, which does not */
	uint32_t node_rank, node_index;
	int ranks_as_listed; /* as far as is known both are the same on all */
	char first[HOSTLIST_NAME_MAX + 1]; /* the first node */
	char second[HOSTLIST_NAME_MAX + 1]; /* "": there is none */
	char srun_at[HOSTLIST_NAME_MAX + 1]; /* srun's address; "": not said */
	int many_tasks; /* what is wrong is that a node has several, and all say
			 * so; this is the first of them: 2 */
	uint32_t cpus, gpus; /* of this node that are the step's; 0: not said */
	int bound; /* srun bound this task to some of the CPUs */
	uint32_t tasks; /* ALLOCATION_TASKS, on this node; 0: not said */
	/* of an allocation without a step: the GPUs of each node that a step
	 * has to ask for by number, as the job did not ask by node; 0: none */
	uint32_t gpus_each;
};

/* A variable's value, NULL where it is not set. */
typedef const char *allocation_get(const char *name);

/* SLURM_STEP_ID alone does not make a step: batch scripts and salloc's
 * interactive step may have one, with a number that srun never gives
 * (4294967291; -5 from Slurm 26.05 on). */
enum allocation_place allocation_place(allocation_get *get);

/* ERR_USAGE names the variable, and what to write instead: variables that are
 * missing or do not agree, several tasks on a node, GPUs of which a step of one
 * task a node could not have all. */
int allocation_read(struct allocation *a, allocation_get *get, struct err *e);

/* The step's node of that rank, in a text of the caller's; "" where there is
 * none, or where only that node itself knows its rank. */
void allocation_name(const struct allocation *a, allocation_get *get,
		     uint32_t rank, char name[HOSTLIST_NAME_MAX + 1]);
/* " (restart 2)", or "", into out[ALLOCATION_RESTART_MAX]; returns out. */
const char *allocation_restart(const struct allocation *a, char *out);

#endif
