/* comm.h: a communicator: a group of ranks and the backend that moves their
 * data. The public calls check their arguments and go through one struct of
 * function pointers; everything below knows no public API.
 *
 * For tests only, read in ddp_init:
 *   DDP_TEST_HOSTS=K   this machine's ranks count as K hosts, in equal runs;
 *                      =Ki: dealt in turn, so that hosts' ranks interleave
 *   DDP_TEST_SHM=fail  shared memory cannot be attached: ranks fall back to TCP
 *   DDP_TEST_VERSION=x this rank says that it is that version of libddp */
#ifndef SDK_COMM_H
#define SDK_COMM_H

#include <sys/types.h>

#include "base/error.h"
#include "rendezvous/client.h"
#include "worker-sdk/call.h"
#include "worker-sdk/env.h"
#include "worker-sdk/peers.h"
#include "worker-sdk/topology.h"

struct ddp__local_store;

/* All take checked arguments; the communicator has more than one rank. */
struct ddp__backend {
	const char *name;
	/* Meets the other ranks through c->client. On failure nothing is left;
	 * on success c->state is stop's to free. */
	int (*start)(struct ddp_comm *c, struct err *e);
	void (*stop)(struct ddp_comm *c);
	int (*all_reduce)(struct ddp_comm *c, const struct ddp__call *call,
			  const void *send, void *recv, struct err *e);
	int (*broadcast)(struct ddp_comm *c, const struct ddp__call *call,
			 void *buf, struct err *e);
	int (*all_gather)(struct ddp_comm *c, const struct ddp__call *call,
			  const void *send, void *recv, struct err *e);
	int (*reduce_scatter)(struct ddp_comm *c, const struct ddp__call *call,
			      const void *send, void *recv, struct err *e);
	int (*barrier)(struct ddp_comm *c, const struct ddp__call *call,
		       struct err *e);
};

extern const struct ddp__backend ddp__cpu;

struct ddp_comm {
	struct ddp__env env;
	pid_t pid; /* who called ddp_init; a fork of it is not the rank */
	int timeout_ms; /* < 0: for ever */
	char host[256]; /* this one's name */
	/* one of the two: a server, or a world of one without */
	struct client *client;
	struct ddp__local_store *store;
	char **hosts; /* each rank's host's name, once the ranks have met */
	struct ddp__topology topology;
	struct ddp__peers peers;
	const struct ddp__backend *backend;
	void *state;       /* the backend's; NULL in a world of one */
	uint64_t calls;    /* collectives so far */
	struct err broken; /* code 0, or why no collective works any more */
};

#endif
