/* comm.h: the world, which a process joins once, and its communicators: groups
 * of its ranks, each with a backend that moves their data. The public calls
 * check their arguments and go through one struct of function pointers;
 * everything below knows no public API.
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
#include "base/flight.h"
#include "worker-sdk/call.h"
#include "worker-sdk/env.h"
#include "worker-sdk/kv.h"
#include "worker-sdk/peers.h"
#include "worker-sdk/topology.h"

/* What the communicators of a process share. */
struct ddp__world {
	struct ddp__env env;
	pid_t pid; /* who called ddp_init; a fork of it is not the rank */
	int timeout_ms; /* < 0: for ever */
	char host[256]; /* this one's name */
	struct ddp__kv *kv;
	char **hosts; /* each rank's host's name, once the ranks have met */
	int comms;    /* communicators made so far */
	struct flight *flight; /* the recorder; NULL: off */
};

/* How the ranks of a communicator to be made tell each other something: mine
 * is one value, values[i] rank i's, valid until the next exchange. The world's
 * go through the store, a group's through the communicator that it is split
 * from. what names the exchange ("init"). */
struct ddp__exchange {
	void *owner;
	int (*gather)(void *owner, const char *what, struct slice mine,
		      struct slice *values, struct err *e);
};

/* All take checked arguments; the communicator has more than one rank. */
struct ddp__backend {
	const char *name;
	/* The ranks of c meet. On failure nothing is left; on success c->state
	 * is stop's to free. */
	int (*start)(struct ddp_comm *c, const struct ddp__exchange *x,
		     struct err *e);
	void (*stop)(struct ddp_comm *c);
	/* Does call, of whatever kind, and returns when it is done. A buffer
	 * that this rank has no use for may be NULL; broadcast and send have
	 * theirs in send, broadcast and recv in recv. */
	int (*run)(struct ddp_comm *c, const struct ddp__call *call,
		   const void *send, void *recv, struct err *e);
};

extern const struct ddp__backend ddp__cpu;

struct ddp_comm {
	struct ddp__world *world;
	int rank, size; /* in this communicator */
	int *ranks;	/* the world's rank of each; NULL: they are the same */
	struct ddp__topology topology;
	struct ddp__peers peers; /* names this communicator's ranks */
	const struct ddp__backend *backend;
	void *state;       /* the backend's; NULL in a communicator of one */
	uint64_t calls;    /* collectives so far */
	uint32_t id; /* the same on all its ranks; the world's is 0 */
	uint64_t ticket;   /* the recorder's, of the blocking call under way */
	struct err broken; /* code 0, or why no collective works any more */
};

#endif
