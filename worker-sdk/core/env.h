/* env.h: who started this worker, and its place in the job, as its environment
 * tells it (docs/environment.txt). Reads getenv and nothing else. */
#ifndef SDK_ENV_H
#define SDK_ENV_H

#include "base/sock.h"

/* In this order: the first whose variables are there is the innermost. */
enum ddp__starter {
	DDP__NOBODY,   /* none of it is set */
	DDP__DDPRUN,
	DDP__TORCHRUN, /* or by hand, as PyTorch's env:// */
	DDP__OPENMPI,
	DDP__PMIX,     /* srun --mpi=pmix, prterun: says the rank only */
	DDP__PMI,      /* mpiexec of MPICH (hydra), srun --mpi=pmi2 */
	DDP__SLURM,    /* a task of srun */
	DDP__STARTERS
};

struct ddp__env {
	enum ddp__starter starter;
	int alone; /* a world of one without a server */
	/* -1 where the starter does not say it: ddp_init finds it out before
	 * the ranks meet */
	int rank, world_size;
	int local_rank, local_world_size;
	int node_rank, nodes;
	int attempt;
	uint32_t round;
	int again_ms; /* to find a server again that was lost; 0: it is not */
	/* ddprun: its server. torchrun: PyTorch's store, or where rank 0 makes
	 * one. The others: empty. */
	struct endpoint server;
	int agent_store;       /* torchrun: PyTorch's store is there */
	const char *job;       /* borrowed from the environment; or NULL */
	const char *job_key;   /* the same; nobody proves anything without */
	const char *node_addr; /* NULL: not set */
	char own_addr[SOCK_TEXT_MAX]; /* what ddp_init finds it to be then */
};

/* ERR_USAGE, naming the variable that is missing or wrong and what to do. */
int ddp__env_read(struct ddp__env *env, struct err *e);

/* "mpirun of OpenMPI", for texts. */
const char *ddp__env_starter(const struct ddp__env *env);

/* given if not 0, else $DDP_TIMEOUT (seconds, -1 for ever), else the default;
 * in ms, negative for ever. */
int ddp__env_timeout(int given, int *timeout_ms, struct err *e);

#endif
