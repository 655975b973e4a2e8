/* barrier_gather.h: barriers and gathers: callers that wait for each other
 * under a key. A part of the store (store.h is what others include): it parks
 * waiters and hands them to the store's woken queue. */
#ifndef RENDEZVOUS_BARRIER_GATHER_H
#define RENDEZVOUS_BARRIER_GATHER_H

#include "rendezvous/store/store.h"

/* A rank that has left, and how: each gather that misses it fails with that. */
struct departure {
	uint32_t rank;
	char *how;
};

struct meetings {
	struct hash_table table; /* of those that are not complete, by key */
	struct barrier_gather *gathers; /* those of them that are gathers */
	struct barrier_gather *held;    /* complete, for who asks again */
	struct departure *left; /* in that order */
	size_t nleft, cap;
	uint32_t *left_at; /* of each rank: 1 + its place there, or 0; NULL
			    * while nobody has left */
};

void meetings_release(struct meetings *m);

/* w leaves its meeting, whatever state that is in. */
void barrier_gather_leave(struct store_waiter *w);
void barrier_gather_awaited(const struct store_waiter *w,
			    struct store_awaited *a);

#endif
