/* cpu_op.h: one collective of the cpu backend, advanced without blocking.
 * Within one host it is one operation of the local transport. Between hosts it
 * has three stages: in each host towards its leader (local), among the leaders
 * (remote), and in each host back (local). A large collective that can be cut
 * is processed in segments, so that the local transport works on one segment
 * while the remote transport carries another. Order and cuts are the same on
 * all ranks of a host, and so are the results. */
#ifndef SDK_CPU_OP_H
#define SDK_CPU_OP_H

#include "worker-sdk/algorithms/schedule.h"
#include "worker-sdk/comm/comm.h"
#include "worker-sdk/shm/shm_collective.h"

struct ddp__stages;

struct ddp__cpu_op {
	struct ddp_comm *c;
	const struct ddp__call *call; /* borrowed, like the buffers */
	const char *send;
	char *recv;
	const struct ddp__stages *stages; /* NULL: all ranks are on one host */
	size_t size;			  /* bytes of count elements */
	size_t segments, each;		  /* each: elements of one segment */
	/* The local lane: in 0, in 1, out 0, in 2, out 1, ... */
	size_t turn;
	size_t carried; /* segments that the remote lane has finished */
	int local_busy, remote_busy;
	int started;
	uint64_t moves; /* see ddp__cpu_op_moved */
	/* memory of the leader, or of the root */
	char *work, *all, *third;
	size_t *begin;
	struct ddp__cpu_counts *counts; /* for a call with counts */
	struct ddp__shm_op local; /* as the local transport keeps it */
	struct ddp__schedule remote;
};

/* Prepares the call without touching shared memory. */
void ddp__cpu_op_init(struct ddp__cpu_op *op, struct ddp_comm *c,
		      const struct ddp__call *call, const void *send,
		      void *recv);
/* 1: done; 0: other ranks have not arrived yet; < 0: an error, and the caller
 * aborts both paths. The operations of a communicator are advanced one after
 * the other, in the same order on all its ranks. */
int ddp__cpu_op_advance(struct ddp__cpu_op *op, struct err *e);
/* Advances the operation to its end, waiting, and releases it: 1 or an error.
 * 0: it may have to wait for both transports at once; the caller has to advance
 * it. */
int ddp__cpu_op_run(struct ddp__cpu_op *op, struct err *e);
void ddp__cpu_op_release(struct ddp__cpu_op *op);

/* 1 if the operation has moved since the last call. */
int ddp__cpu_op_moved(struct ddp__cpu_op *op);
/* After it has begun: 1 if it waits for ranks of this host, 0 if for other
 * hosts. */
int ddp__cpu_op_awaits_local(const struct ddp__cpu_op *op);
int ddp__cpu_op_awaits_remote(const struct ddp__cpu_op *op);
/* The operation has not moved for waited_ns: 0, or why further waiting is
 * pointless. */
int ddp__cpu_op_check(struct ddp__cpu_op *op, uint64_t waited_ns,
		      struct err *e);
/* The call that it waits for, and the ranks: one rank, or enum ddp__from. NULL:
 * it does not wait. */
const struct ddp__call *ddp__cpu_op_awaited(const struct ddp__cpu_op *op,
					    int *from);

/* ---- the stages of each kind of collective ----
 *
 * hierarchical.c and hierarchical_v.c define the stages, within a host and
 * between hosts; cpu_op.c defines their order in time. */

/* in and out prepare op->local and return 1, or 0 if there is nothing to do
 * within the host; all its ranks return the same. between prepares op->remote;
 * it is called on leaders, after a segment's `in` and before its `out`. Errors
 * are -ENOMEM. */
struct ddp__stages {
	int cuts; /* may be cut into segments */
	int (*start)(struct ddp__cpu_op *op, struct err *e); /* allocates */
	int (*in)(struct ddp__cpu_op *op, size_t segment, struct err *e);
	int (*between)(struct ddp__cpu_op *op, size_t segment, struct err *e);
	int (*out)(struct ddp__cpu_op *op, size_t segment, struct err *e);
	void (*end)(struct ddp__cpu_op *op);
	int counts; /* has two segments: the first compares counts */
	void (*release)(struct ddp__cpu_op *op); /* frees op->counts */
};

/* kind must be a collective. */
const struct ddp__stages *ddp__stages(enum ddp__kind kind);

static inline const struct ddp__host *ddp__my_host(const struct ddp_comm *c)
{
	return &c->topology.hosts[c->topology.host_of[c->rank]];
}

static inline int ddp__is_leading(const struct ddp_comm *c)
{
	return ddp__my_host(c)->ranks[0] == c->rank;
}

#endif
