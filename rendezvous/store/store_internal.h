/* store_internal.h: the data and functions that the store's files share: keys
 * and values (store.c), waiters (waiter.c), queues (queue.c), barriers and
 * gathers (barrier_gather.c). Other rooms include store.h. */
#ifndef RENDEZVOUS_STORE_INTERNAL_H
#define RENDEZVOUS_STORE_INTERNAL_H

#include <errno.h>

#include "rendezvous/store/account.h"
#include "rendezvous/store/store.h"

/* ---- barrier_gather.c ----
 *
 * Barriers and gathers: callers that wait for each other under a key. Parks
 * waiters and hands them to the store's woken queue. */

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

/* ---- store.c, waiter.c and queue.c ---- */

/* Waiters of one key, in the order in which they came. */
struct store_line {
	struct store_link *first, **end; /* end NULL: never used */
};

struct queued {
	struct queued *next;
	size_t len;
	char value[];
};

/* A name that has a value, a queue (independent of the value) or waiters. */
struct store_entry {
	struct hash_item item; /* first: the table's items are entries */
	struct store_line waiters; /* for a value or a queued value */
	struct store_line gate;    /* store_arrive's, until the value reaches
				    * their size */
	char *value;
	size_t len, cap;
	int exists; /* it has a value */
	struct queued *head, **tail;
	uint64_t queued;
	char key[];
};

struct store {
	struct hash_table entries;
	struct meetings meetings;
	struct store_limits limits;
	size_t bytes;
	size_t taken; /* charged to the account only */
	size_t values; /* entries with a value */
	size_t queues; /* entries with queued values */
	struct store_waiter *woken, **woken_tail;
};

struct store_entry *store_find(struct store *s, struct slice key);
/* The entry of key, made without a value if there is none. The caller gives it
 * a value or a waiter, or calls store_drop_if_unused. */
int store_find_or_make(struct store *s, struct slice key,
		       struct store_entry **out, struct err *e);
void store_drop_if_unused(struct store *s, struct store_entry *en);

/* Charges n bytes to the store's limit and its account, or returns them. */
int store_charge(struct store *s, size_t n, struct err *e);
void store_discharge(struct store *s, size_t n);

/* The same for the account only: memory besides keys and values. */
int store_reserve(struct store *s, size_t n, struct err *e);
void store_unreserve(struct store *s, size_t n);

/* The entry has a value now: wakes the waiters that lack nothing else. */
void store_wake_all_of(struct store_entry *en);
/* A value was queued: wakes the first waiter that lacks nothing else. */
void store_wake_one_of(struct store_entry *en);
/* Moves w to the woken queue, with its result. */
void store_wake(struct store_waiter *w, int code);
void store_queues_release(struct store_entry *en);

enum { STORE_NUMBER_MAX = 24 };
/* v in decimal, at the end of room. */
struct slice store_number_text(int64_t v, char room[STORE_NUMBER_MAX]);

static inline int store_no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "the rendezvous server is out of memory");
}

#endif
