/* barrier_gather.h: barriers and gathers: callers that wait for each other
 * under a key. A part of the store (store.h is what others include): it parks
 * waiters and hands them to the store's woken queue. */
#ifndef RENDEZVOUS_BARRIER_GATHER_H
#define RENDEZVOUS_BARRIER_GATHER_H

#include "rendezvous/store/store.h"

/* A rank that has left, and how: every gather that lacks it fails with that. */
struct departure {
	uint32_t rank;
	char *how;
};

struct meetings {
	struct hash_table table; /* the incomplete ones, by key */
	struct barrier_gather *gathers; /* the gathers among them */
	struct barrier_gather *held;    /* complete, for repeated requests */
	struct departure *left; /* in the order of leaving */
	size_t nleft, cap;
	uint32_t *left_at; /* for each rank: 1 + its index in left, or 0; NULL
			    * while no rank has left */
};

void meetings_release(struct meetings *m);

/* Takes w out of its barrier or gather, whatever its state. */
void barrier_gather_leave(struct store_waiter *w);
void barrier_gather_awaited(const struct store_waiter *w,
			    struct store_awaited *a);

#endif
