/* cpu_op.h: one collective of the cpu backend, moved on without waiting. In a
 * host it is one operation over shared memory. Between hosts it has three
 * stages: in each host towards its leader, among the leaders over TCP, and in
 * each host back. What is large and can be cut goes in segments, so that shared
 * memory works on one while TCP carries another: always in the same order, on
 * all ranks of a host, and with the same cuts, so that results are too. */
#ifndef SDK_CPU_OP_H
#define SDK_CPU_OP_H

#include "worker-sdk/comm/comm.h"
#include "worker-sdk/shm/shm_collective.h"
#include "worker-sdk/tcp/tcp_collective.h"

struct ddp__stages;

struct ddp__cpu_op {
	struct ddp_comm *c;
	const struct ddp__call *call; /* borrowed, as the buffers are */
	const char *send;
	char *recv;
	const struct ddp__stages *stages; /* NULL: in one host */
	size_t size;			  /* bytes of count elements */
	size_t segments, each;		  /* each: elements of one */
	/* The lane of shared memory: in 0, in 1, out 0, in 2, out 1, ... */
	size_t turn;
	size_t carried; /* segments that TCP is through with */
	int shm_busy, tcp_busy;
	int started;
	uint64_t moves; /* of ddp__cpu_op_moved */
	/* the leader's, or the root's, own memory */
	char *work, *all, *third;
	size_t *begin;
	struct ddp__shm_op shm;
	struct ddp__tcp_op tcp;
};

/* Prepares call; touches nothing shared. */
void ddp__cpu_op_init(struct ddp__cpu_op *op, struct ddp_comm *c,
		      const struct ddp__call *call, const void *send,
		      void *recv);
/* 1: done; 0: others have not come yet; < 0: the error, which the caller tells
 * the other ranks. The operations of a communicator are advanced one after the
 * other, in the same order on all its ranks. */
int ddp__cpu_op_advance(struct ddp__cpu_op *op, struct err *e);
/* Advances it to its end, waiting; not where it may have to wait for two things
 * at once. 1 or an error. */
int ddp__cpu_op_run(struct ddp__cpu_op *op, struct err *e);
int ddp__cpu_op_is_two(const struct ddp__cpu_op *op);
void ddp__cpu_op_release(struct ddp__cpu_op *op);

/* Whether it has since it was last asked. */
int ddp__cpu_op_moved(struct ddp__cpu_op *op);
/* Once begun: that others on this host come. */
int ddp__cpu_op_awaits_shm(const struct ddp__cpu_op *op);

#endif
