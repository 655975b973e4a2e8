/* cpu_op.h: one collective of the cpu backend, moved on without waiting. Within
 * one host it is one operation of the local transport. Between hosts it has
 * three stages: in each host towards its leader (local), among the leaders
 * (remote), and in each host back (local). A large one that can be cut goes in
 * segments, so that the local transport works on one while the remote one
 * carries another. Order and cuts are the same on all ranks of a host, so that
 * results are, too. */
#ifndef SDK_CPU_OP_H
#define SDK_CPU_OP_H

#include "worker-sdk/comm/comm.h"
#include "worker-sdk/algorithms/schedule.h"
#include "worker-sdk/shm/shm_collective.h"

struct ddp__stages;

struct ddp__cpu_op {
	struct ddp_comm *c;
	const struct ddp__call *call; /* borrowed, as the buffers are */
	const char *send;
	char *recv;
	const struct ddp__stages *stages; /* NULL: in one host */
	size_t size;			  /* bytes of count elements */
	size_t segments, each;		  /* each: elements of one */
	/* The local lane: in 0, in 1, out 0, in 2, out 1, ... */
	size_t turn;
	size_t carried; /* segments that the remote lane is through with */
	int local_busy, remote_busy;
	int started;
	uint64_t moves; /* of ddp__cpu_op_moved */
	/* the leader's, or the root's, own memory */
	char *work, *all, *third;
	size_t *begin;
	struct ddp__shm_op local; /* as the local transport keeps it */
	struct ddp__schedule remote;
};

/* Prepares call; touches nothing shared. */
void ddp__cpu_op_init(struct ddp__cpu_op *op, struct ddp_comm *c,
		      const struct ddp__call *call, const void *send,
		      void *recv);
/* 1: done; 0: others have not come yet; < 0: an error, and the caller aborts
 * both paths. The operations of a communicator are advanced one after the
 * other, in the same order on all its ranks. */
int ddp__cpu_op_advance(struct ddp__cpu_op *op, struct err *e);
/* Advances it to its end, waiting, and releases it: 1 or an error. 0: it may
 * have to wait for both transports at once, and has to be advanced. */
int ddp__cpu_op_run(struct ddp__cpu_op *op, struct err *e);
void ddp__cpu_op_release(struct ddp__cpu_op *op);

/* Whether it has moved since this was last asked. */
int ddp__cpu_op_moved(struct ddp__cpu_op *op);
/* Once begun: whether it waits for ranks of this host, or for other hosts. */
int ddp__cpu_op_awaits_local(const struct ddp__cpu_op *op);
int ddp__cpu_op_awaits_remote(const struct ddp__cpu_op *op);
/* It has stood still for waited_ns: 0, or why waiting on is pointless. */
int ddp__cpu_op_check(struct ddp__cpu_op *op, uint64_t waited_ns,
		      struct err *e);
/* The call that it waits for, and the ranks: one, or enum ddp__from. NULL: it
 * waits for nobody. */
const struct ddp__call *ddp__cpu_op_awaited(const struct ddp__cpu_op *op,
					    int *from);

#endif
