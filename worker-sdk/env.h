/* env.h: a worker's place in the job, as its environment tells it
 * (docs/environment.txt). Reads getenv and nothing else. */
#ifndef SDK_ENV_H
#define SDK_ENV_H

#include "base/sock.h"

struct ddp__env {
	int alone; /* none of it is set: a world of one without a server */
	int rank, world_size;
	int local_rank, local_world_size;
	int node_rank, nodes;
	int attempt;
	uint32_t round;
	struct endpoint server;
	const char *job;       /* borrowed from the environment */
	const char *node_addr; /* NULL: not set */
};

/* ERR_USAGE, naming the variable that is missing or wrong and what to do. */
int ddp__env_read(struct ddp__env *env, struct err *e);

/* given if not 0, else $DDP_TIMEOUT (seconds, -1 for ever), else the default;
 * in ms, negative for ever. */
int ddp__env_timeout(int given, int *timeout_ms, struct err *e);

#endif
