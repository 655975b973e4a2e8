/* shm_collective.h: collectives among the ranks of one host, over shm.h. Each
 * is called by all n ranks with the same call, and leaves the same bits on all.
 * Counts may be 0 and buffers unaligned; errors are ddp__shm_wait's. */
#ifndef SDK_SHM_COLLECTIVE_H
#define SDK_SHM_COLLECTIVE_H

#include "worker-sdk/shm.h"

/* Everyone, or one local index, gets the result. */
enum { DDP__ALL = -1 };

/* Of call->count elements, by call->type and op. divisor: what DDP_AVG divides
 * by; 1 leaves the sum. send == recv is fine; recv is used on those who get. */
int ddp__shm_reduce(struct ddp__shm *s, const struct ddp__call *call,
		    const void *send, void *recv, size_t count, int to,
		    int divisor, struct err *e);

/* recv[0..count) = reduction of everyone's send[part(me)], where part(i) begins
 * at element i*count of send. recv may be send + me*count. */
int ddp__shm_reduce_scatter(struct ddp__shm *s, const struct ddp__call *call,
			    const void *send, void *recv, size_t count,
			    int divisor, struct err *e);

/* Root's size bytes at from; each takes [skip, skip+size_out) of them to `to`
 * (to == from is fine on the root). */
int ddp__shm_broadcast(struct ddp__shm *s, const struct ddp__call *call,
		       int root, const void *from, size_t size, void *to,
		       size_t skip, size_t size_out, struct err *e);

/* Everyone's size bytes at send, to recv + place[i]*size of those who get;
 * place NULL: i. send may be where it goes. */
int ddp__shm_gather(struct ddp__shm *s, const struct ddp__call *call,
		    const void *send, size_t size, void *recv,
		    const int *place, int to, struct err *e);

int ddp__shm_barrier(struct ddp__shm *s, const struct ddp__call *call,
		     struct err *e);

#endif
