/* shm_collective.h: collectives among the ranks of one host, over shm.h, as
 * operations: preparing one touches nothing shared; then it is advanced without
 * blocking, or run. All n ranks make the same operations and advance them one
 * after the other in the same order. Each operation leaves the same bits on all
 * ranks. Counts may be 0 and buffers unaligned. Errors are those of
 * ddp__shm_wait; after an error the segment cannot be used any more. */
#ifndef SDK_SHM_COLLECTIVE_H
#define SDK_SHM_COLLECTIVE_H

#include "worker-sdk/core/call.h"
#include "worker-sdk/shm/shm.h"

/* The ranks that get the result: all, or one local index. */
enum { DDP__ALL = -1 };

/* Borrows the segment, the call and the buffers until it has ended; needs no
 * release. All fields belong to shm_collective.c. */
struct ddp__shm_op {
	struct ddp__shm *s;
	const struct ddp__call *call;
	/* Does the work before this rank's next post, if there is one. */
	int (*work)(struct ddp__shm_op *op);
	/* Compares what the ranks posted with the first step; or NULL. */
	int (*check)(const struct ddp__shm_op *op, struct err *e);
	const char *send;
	char *recv; /* NULL if this rank gets no result */
	const int *place;
	/* With counts: those of the call, where all ranks pass the same; and
	 * each block's offset in send and in recv. */
	const struct ddp__counts *counts;
	const size_t *send_begin, *recv_begin;
	size_t pieces; /* in each block, if they share a slot */
	size_t count; /* elements or bytes, depending on work */
	size_t each;  /* elements or bytes in a chunk */
	size_t elem;
	size_t skip, size_out;
	int to, divisor;
	int stream; /* stores to recv bypass the caches */
	int small;  /* use a cell, if one is free */
	int state;
	uint32_t k; /* posts so far */
};

/* These are the `native` group of shm's row: op is a struct ddp__shm_op, shm a
 * struct ddp__shm.
 *
 * Reduces count elements by call->type and op. to: the ranks that get the
 * result. divisor: what DDP_AVG divides by; 1 leaves the sum. send == recv is
 * allowed; ranks without a result do not use recv. */
void ddp__shm_reduce(void *op, void *shm, const struct ddp__call *call,
		     const void *send, void *recv, size_t count, int to,
		     int divisor);

/* recv[0..count) becomes the reduction of part(me) of every rank's send, where
 * part(i) begins at element i*count. recv may be send + me*count. */
void ddp__shm_reduce_scatter(void *op, void *shm, const struct ddp__call *call,
			     const void *send, void *recv, size_t count,
			     int divisor);

/* Broadcasts root's size bytes at from; each rank takes [skip, skip+size_out)
 * of them to `to` (to == from is allowed on the root). */
void ddp__shm_broadcast(void *op, void *shm, const struct ddp__call *call,
			int root, const void *from, size_t size, void *to,
			size_t skip, size_t size_out);

/* Gathers every rank's size bytes at send: on the ranks that get them, rank i's
 * arrive at recv + place[i]*size; place NULL: i. send may be that place
 * itself. */
void ddp__shm_gather(void *op, void *shm, const struct ddp__call *call,
		     const void *send, size_t size, void *recv,
		     const int *place, int to);

/* Scatters: rank i's recv gets size bytes at root's send + place[i]*size; place
 * NULL: i. On the root recv may be that place itself. */
void ddp__shm_scatter(void *op, void *shm, const struct ddp__call *call,
		      int root, const void *send, size_t size, void *recv,
		      const int *place);

/* Sends size bytes at send + place[i]*size to recv + place[me]*size of each
 * rank i; place NULL: i. send == recv is allowed. */
void ddp__shm_all_to_all(void *op, void *shm, const struct ddp__call *call,
			 const void *send, size_t size, void *recv,
			 const int *place);

/* The forms with counts, in shm_collective_v.c: block i of send is for rank i,
 * and block i of recv from it. Blocks lie one after the other and begin at
 * begin[i] elements of elem bytes; begin has a number more than there are
 * blocks. The ranks compare counts with their first step: ERR_ARGUMENT names
 * two ranks whose counts do not match. Except as said, buffers do not
 * overlap.
 *
 * Gathers to the ranks with a recv. v has all counts of the communicator, the
 * same on all its ranks; place[i]: the block of rank i of this host; NULL: i.
 * send may be this rank's block in recv. elem 0: only compares the counts. */
void ddp__shm_all_gather_v(void *op, void *shm, const struct ddp__call *call,
			   const struct ddp__counts *v, size_t elem,
			   const void *send, void *recv, const int *place);

/* begin is the same on all ranks; recv becomes the reduction of block me of
 * every rank's send. recv may be that block. */
void ddp__shm_reduce_scatter_v(void *op, void *shm,
			       const struct ddp__call *call,
			       const struct ddp__counts *v, const void *send,
			       void *recv, int divisor);

void ddp__shm_all_to_all_v(void *op, void *shm, const struct ddp__call *call,
			   size_t elem, const void *send,
			   const size_t *send_begin, void *recv,
			   const size_t *recv_begin);

void ddp__shm_barrier(void *op, void *shm, const struct ddp__call *call);

/* 1: done; 0: other ranks have not arrived yet, and ddp__shm_check finds the
 * reason; < 0: an error. */
int ddp__shm_advance(void *operation, struct err *e);
/* Advances until the operation is done, and waits as ddp__shm_wait does. */
int ddp__shm_run(void *operation, struct err *e);

#endif
