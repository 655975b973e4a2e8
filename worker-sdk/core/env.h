/* env.h: this worker's launcher and its place in the job, read from the
 * environment (docs/environment.txt). Only calls getenv. */
#ifndef SDK_ENV_H
#define SDK_ENV_H

#include "base/sock.h"

/* Checked in this order: the first launcher whose variables are set is the
 * innermost. */
enum ddp__starter {
	DDP__NOBODY,   /* none of their variables is set */
	DDP__DDPRUN,
	DDP__TORCHRUN, /* torchrun, or set by hand as for PyTorch's env:// */
	DDP__OPENMPI,
	DDP__PMIX,     /* srun --mpi=pmix, prterun: they set only the rank */
	DDP__PMI,      /* mpiexec of MPICH (hydra), srun --mpi=pmi2 */
	DDP__SLURM,    /* a task of srun */
	DDP__STARTERS
};

struct ddp__env {
	enum ddp__starter starter;
	int alone; /* a world of one without a server */
	/* -1: unknown; ddp_init finds it before the ranks connect */
	int rank, world_size;
	int local_rank, local_world_size;
	int node_rank, nodes;
	int attempt;
	uint32_t round;
	int again_ms; /* time allowed for reconnecting to a lost server; 0: do
		       * not reconnect */
	/* ddprun: its server. torchrun: PyTorch's store, or the address where
	 * rank 0 starts one. Other launchers: empty. */
	struct endpoint server;
	int agent_store;       /* torchrun: its agent serves PyTorch's store */
	const char *job;       /* borrowed from the environment; may be NULL */
	const char *job_key;   /* as job; NULL: no authentication */
	const char *node_addr; /* NULL: not set */
	char own_addr[SOCK_TEXT_MAX]; /* ddp_init finds it if node_addr is not
				       * set */
};

/* Fills in env. ERR_USAGE: the text names the variable that is missing or
 * wrong, and what to do. */
int ddp__env_read(struct ddp__env *env, struct err *e);

/* The launcher's name for messages: "mpirun of OpenMPI". */
const char *ddp__env_starter(const struct ddp__env *env);

/* Sets *timeout_ms to given unless that is 0, else to $DDP_TIMEOUT (seconds;
 * -1: no limit), else to the default; negative: no limit. */
int ddp__env_timeout(int given, int *timeout_ms, struct err *e);

#endif
