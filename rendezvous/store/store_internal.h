/* store_internal.h: the insides of the store, for the files that it consists
 * of: keys and values (store.c), waiters (waiter.c), queues (queue.c), barriers
 * and gathers (barrier_gather.c). Others include store.h. */
#ifndef RENDEZVOUS_STORE_INTERNAL_H
#define RENDEZVOUS_STORE_INTERNAL_H

#include "rendezvous/store/account.h"
#include "rendezvous/store/barrier_gather.h"
#include "rendezvous/store/store.h"

/* Waiters of one key, who came first first. */
struct store_line {
	struct store_link *first, **end; /* end NULL: never used */
};

struct queued {
	struct queued *next;
	size_t len;
	char value[];
};

/* A name: with a value, with a queue (the two do not see each other), or one
 * that somebody waits for. */
struct store_entry {
	struct hash_item item; /* first: the table's items are entries */
	struct store_line waiters; /* for a value, or for what is queued */
	struct store_line gate;    /* for as many as make it open */
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
	size_t taken; /* in the account, beside them */
	size_t values; /* entries with one */
	size_t queues; /* entries with something queued */
	struct store_waiter *woken, **woken_tail;
};

struct store_entry *store_find(struct store *s, struct slice key);
/* The entry of key, made without a value where there is none; it is to get one,
 * or a waiter, or to be given to store_drop_if_unused. */
int store_find_or_make(struct store *s, struct slice key,
		       struct store_entry **out, struct err *e);
void store_drop_if_unused(struct store *s, struct store_entry *en);

/* Counts n bytes more (or fewer) against the store's limit. */
int store_charge(struct store *s, size_t n, struct err *e);
void store_discharge(struct store *s, size_t n);

/* The same in the account alone: memory beside keys and values. */
int store_take(struct store *s, size_t n, struct err *e);
void store_give(struct store *s, size_t n);

/* The entry has a value now: wakes those who waited for nothing else. */
void store_wake_all_of(struct store_entry *en);
/* Something is queued now: wakes the first who has all that it waits for. */
void store_wake_one_of(struct store_entry *en);
/* To the woken queue, with the result. */
void store_wake(struct store_waiter *w, int code);
void store_queues_release(struct store_entry *en);

enum { STORE_NUMBER_MAX = 24 };
/* v in decimal, which lies at the end of room. */
struct slice store_number_text(int64_t v, char room[STORE_NUMBER_MAX]);

static inline int store_no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "the rendezvous server is out of memory");
}

#endif
