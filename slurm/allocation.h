/* allocation.h: reads Slurm's variables: as a task of a step that srun started,
 * or in an allocation without a step (a batch script, salloc's shell). Pure:
 * asks neither the network nor slurmctld, and assumes nothing that no variable
 * says. */
#ifndef SLURM_ALLOCATION_H
#define SLURM_ALLOCATION_H

#include <stdint.h>

#include "base/error.h"
#include "slurm/hostlist.h"

/* The ddprun of a batch script passes the job's SLURM_TASKS_PER_NODE and
 * SLURM_CPUS_PER_TASK under these names to the ddpruns of its step, which
 * overwrites the original variables. */
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
	uint32_t nodes;     /* in the step; else in the allocation */
	uint32_t groups;    /* in a heterogeneous job; 0: it is not one */
	uint32_t job_nodes; /* in all these groups */
	uint64_t end_time; /* unix time when Slurm ends the job; 0: unknown */
	uint32_t restarts; /* how often the job was requeued */
	uint32_t gpus_per_task; /* --gpus-per-task; 0: not given */
	/* a step */
	/* this node's task number, which follows the topology if Slurm knows
	 * it; and its index in the list of nodes, which does not */
	uint32_t node_rank, node_index;
	int ranks_as_listed; /* as far as known, both agree on all nodes */
	char first[HOSTLIST_NAME_MAX + 1]; /* the first node */
	char second[HOSTLIST_NAME_MAX + 1]; /* "": there is none */
	char srun_at[HOSTLIST_NAME_MAX + 1]; /* srun's address; "": unknown */
	int many_tasks; /* not 0: the error is that a node has several tasks,
			 * each of which reports it; 2: this is the first */
	uint32_t cpus, gpus; /* the step's on this node; 0: unknown */
	int bound; /* srun bound this task to some of the CPUs */
	uint32_t tasks; /* ALLOCATION_TASKS, on this node; 0: unknown */
	/* an allocation without a step: the number of GPUs per node that the
	 * step must ask for, since the job did not ask per node; 0: none */
	uint32_t gpus_each;
};

/* A variable's value; NULL if it is not set. */
typedef const char *allocation_get(const char *name);

/* SLURM_STEP_ID alone does not make a step: batch scripts and salloc's
 * interactive step may have one, with a number that srun never gives
 * (4294967291; -5 from Slurm 26.05 on). */
enum allocation_place allocation_place(allocation_get *get);

/* ERR_USAGE, naming the variable and what to write instead, if variables are
 * missing or contradict each other, if a node has several tasks, or if a step
 * with one task per node could not have all GPUs. */
int allocation_read(struct allocation *a, allocation_get *get, struct err *e);

/* Writes to name the step's node with that rank, or "" if there is none or only
 * that node knows its rank. */
void allocation_name(const struct allocation *a, allocation_get *get,
		     uint32_t rank, char name[HOSTLIST_NAME_MAX + 1]);
/* " (restart 2)", or "", into out[ALLOCATION_RESTART_MAX]; returns out. */
const char *allocation_restart(const struct allocation *a, char *out);

#endif
