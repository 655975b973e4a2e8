/* shm_collective.h: collectives among the ranks of one host, over shm.h, as
 * operations: prepared, which touches nothing shared, and then advanced without
 * ever waiting, or run. All n ranks make the same ones and advance them one
 * after the other in the same order. Each leaves the same bits on all of them.
 * Counts may be 0 and buffers unaligned. Errors are ddp__shm_wait's; after one
 * the segment is of no more use. */
#ifndef SDK_SHM_COLLECTIVE_H
#define SDK_SHM_COLLECTIVE_H

#include "worker-sdk/shm/shm.h"

/* Everyone, or one local index, gets the result. */
enum { DDP__ALL = -1 };

/* Borrows the segment, the call and the buffers until it has ended; needs no
 * release. All fields are shm_collective.c's. */
struct ddp__shm_op {
	struct ddp__shm *s;
	const struct ddp__call *call;
	/* Does what comes before my next post, if there is one. */
	int (*work)(struct ddp__shm_op *op);
	const char *send;
	char *recv; /* NULL where nothing is wanted */
	const int *place;
	size_t count; /* elements or bytes, as work takes it */
	size_t each;  /* of these in a chunk */
	size_t elem;
	size_t skip, size_out;
	int to, divisor;
	int stream; /* recv is written past the caches */
	int small;  /* it goes through a cell, if there is one */
	int state;
	uint32_t k; /* posts so far */
};

/* These are the `native` group of shm's row: op is a struct ddp__shm_op, shm a
 * struct ddp__shm.
 *
 * Of count elements, by call->type and op. divisor: what DDP_AVG divides by;
 * 1 leaves the sum. send == recv is fine; recv is used on those who get. */
void ddp__shm_reduce(void *op, void *shm, const struct ddp__call *call,
		     const void *send, void *recv, size_t count, int to,
		     int divisor);

/* recv[0..count) = reduction of everyone's send[part(me)], where part(i) begins
 * at element i*count of send. recv may be send + me*count. */
void ddp__shm_reduce_scatter(void *op, void *shm, const struct ddp__call *call,
			     const void *send, void *recv, size_t count,
			     int divisor);

/* Root's size bytes at from; each takes [skip, skip+size_out) of them to `to`
 * (to == from is fine on the root). */
void ddp__shm_broadcast(void *op, void *shm, const struct ddp__call *call,
			int root, const void *from, size_t size, void *to,
			size_t skip, size_t size_out);

/* Everyone's size bytes at send, to recv + place[i]*size of those who get;
 * place NULL: i. send may be where it goes. */
void ddp__shm_gather(void *op, void *shm, const struct ddp__call *call,
		     const void *send, size_t size, void *recv,
		     const int *place, int to);

/* To rank i's recv size bytes at root's send + place[i]*size; place NULL: i.
 * On the root recv may be where they lie. */
void ddp__shm_scatter(void *op, void *shm, const struct ddp__call *call,
		      int root, const void *send, size_t size, void *recv,
		      const int *place);

/* To rank i's recv + place[me]*size mine at send + place[i]*size; place NULL:
 * i. send == recv is fine. */
void ddp__shm_all_to_all(void *op, void *shm, const struct ddp__call *call,
			 const void *send, size_t size, void *recv,
			 const int *place);

void ddp__shm_barrier(void *op, void *shm, const struct ddp__call *call);

/* 1: done. 0: others have not come yet; ddp__shm_check finds out why. < 0: the
 * error. */
int ddp__shm_advance(void *operation, struct err *e);
/* Advances until it is done, and waits as ddp__shm_wait does. */
int ddp__shm_run(void *operation, struct err *e);

#endif
