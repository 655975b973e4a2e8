/* store.h: the key-value store of one round, and its waiters. Pure state: no
 * sockets, no clock. Owns its keys and values, which it copies. A waiter is the
 * caller's memory and must not move while it waits. */
#ifndef RENDEZVOUS_STORE_H
#define RENDEZVOUS_STORE_H

#include "base/buf.h"
#include "base/error.h"
#include "rendezvous/store/hash_table.h"

struct account;
struct store;
struct store_entry;
struct store_line;
struct queued;
struct barrier_gather;
struct share;
struct wire_share;

/* The holder's data about a gather's result; 0 at first. */
struct held_tag {
	uint32_t number;   /* in the journal */
	uint32_t snapshot; /* the last that includes it */
};

struct store_limits {
	size_t keys;
	size_t bytes; /* keys and values together */
	size_t value; /* one value */
	uint32_t ranks; /* the round's: a gather's size is at most this */
	const char *job; /* for refusals; copied. NULL: "" */
	struct account *account; /* charged with all its memory; or NULL */
};

/* Links a waiter into the line of a key that does not exist yet. */
struct store_link {
	struct store_link *next, **pprev; /* pprev NULL: not in a line */
	struct store_line *line;
	struct store_entry *entry;
	struct store_waiter *waiter;
};

/* Waits for keys, or in a barrier or gather. Zeroed before its first use. When
 * its wait is over it moves to the store's woken queue, from which the caller
 * takes it (store_woken), replies, and releases it. So no operation ever calls
 * back. */
struct store_waiter {
	void *owner; /* the caller's */
	void (*answer)(struct store_waiter *w); /* called by store_answer_all */
	/* the result, once store_woken has returned it: 0, or an error */
	int code;
	/* private to the store from here on */
	enum { WAITER_IDLE, WAITER_KEYS, WAITER_MEETING, WAITER_WOKEN } state;
	struct store *store;
	struct store_waiter *next, **pprev; /* in the meeting, or woken */
	struct store_link *links;           /* for a wait for keys */
	uint32_t nlinks, links_max, missing, nkeys;
	struct barrier_gather *meeting;
	uint32_t rank; /* for a barrier, the caller sets it first */
};

/* NULL: out of memory. */
struct store *store_new(const struct store_limits *limits);
/* No waiter may be left in it. NULL is fine. */
void store_free(struct store *s);
/* Changes the limits. What exceeds them already stays. */
void store_limit(struct store *s, size_t keys, size_t bytes);

/* Setting a key wakes its waiters. ERR_REFUSED: over a limit. */
int store_set(struct store *s, struct slice key, struct slice value,
	      struct err *e);
/* 1 and *value, valid until the next change; 0: the key does not exist. */
int store_get(struct store *s, struct slice key, struct slice *value);
/* ERR_ARGUMENT: the value is not a number, or the sum does not fit an int64. */
int store_add(struct store *s, struct slice key, int64_t delta, int64_t *sum,
	      struct err *e);
/* 1: stored; 0: not; < 0: an error. Get the current value with store_get. */
int store_compare_set(struct store *s, struct slice key, struct slice expected,
		      struct slice desired, struct err *e);
/* The new length, or an error. */
int64_t store_append(struct store *s, struct slice key, struct slice value,
		     struct err *e);
/* 1 if the key existed, else 0. */
int store_delete(struct store *s, struct slice key);
/* All or nothing. */
int store_multi_set(struct store *s, const struct slice *keys,
		    const struct slice *values, uint32_t n, struct err *e);
/* The number of keys with a value; queues and awaited keys do not count. */
size_t store_keys(const struct store *s);
/* The bytes of names, values and queues, including names that are awaited. */
size_t store_bytes(const struct store *s);
/* Zeroed memory for a waiter, charged to the account only. NULL, and e (not
 * NULL) is set: ERR_REFUSED, -ENOMEM. */
void *store_memory_new(struct store *s, size_t n, struct err *e);
void store_memory_free(struct store *s, void *p, size_t n);
struct account *store_account(const struct store *s);
/* Iterates over the keys in no particular order; *at NULL begins. 1 and the
 * key, or 0 at the end. The store must not change meanwhile. */
int store_next_key(struct store *s, struct hash_item **at, struct slice *key);

/* Queues are separate from keys: a name may have both, and only store_has and
 * store_wait consider both. ERR_REFUSED, ERR_ARGUMENT as store_set. Each push
 * wakes one waiter, the first. */
int store_push(struct store *s, struct slice key, struct slice value,
	       struct err *e);
/* The number of queued values, and the first, valid until the next change. */
uint64_t store_queued(struct store *s, struct slice key, struct slice *value);
/* Iterates over all queued values, each queue in order: *at and *q NULL begin.
 * 1, the key and the value; or 0 at the end. The store must not change
 * meanwhile. */
int store_next_queued(struct store *s, struct hash_item **at,
		      const struct queued **q, struct slice *key,
		      struct slice *value);
/* Removes the first value of a queue that is not empty. */
void store_pop(struct store *s, struct slice key);
/* The waiter that was woken for a queued value does not take it: wakes the
 * next. */
void store_nudge(struct store *s, struct slice key);

/* 1 if each of n keys has a value or a non-empty queue. */
int store_has(struct store *s, const struct slice *keys, uint32_t n);
/* Parks w until each key has existed, now or later; with all keys there it is
 * woken at once. Its memory counts among the store's bytes. 0, or an error
 * (ERR_REFUSED: over the limit), and then w is not parked. */
int store_wait(struct store *s, const struct slice *keys, uint32_t n,
	       struct store_waiter *w, struct err *e);
/* Parks w until size callers, itself included, are at the barrier `key`.
 * ERR_ARGUMENT: size is 0 or differs from the others', or the key is a gather.
 */
int store_barrier(struct store *s, struct slice key, uint32_t size,
		  struct store_waiter *w, struct err *e);
/* PyTorch's barrier: adds 1 to the key and parks w until it is size or more,
 * which wakes all that are parked there. It does not reset: later callers pass
 * at once. ERR_ARGUMENT as store_add. */
int store_arrive(struct store *s, struct slice key, int64_t size,
		 struct store_waiter *w, struct err *e);
/* Parks w until each of ranks 0..size-1 has brought a value. Woken with
 * ERR_REMOTE if one of them has left, or leaves before that. */
int store_gather(struct store *s, struct slice key, uint32_t size,
		 uint32_t rank, struct slice value, struct store_waiter *w,
		 struct err *e);
/* The same of nodes 0..size-1, whatever their ranks do. */
int store_gather_of_nodes(struct store *s, struct slice key, uint32_t size,
			  uint32_t node, struct slice value,
			  struct store_waiter *w, struct err *e);
/* w, which store_gather has parked or woken, passes the list on at m's address.
 * 0 or -ENOMEM. */
int store_offer(struct store_waiter *w, const struct wire_share *m,
		struct err *e);
/* The offers to pass the list on; may be empty. */
struct share *store_share(struct barrier_gather *m);
/* A rank is gone for good; how is "rank 1 on h2 exited with code 0". Gathers
 * that lack it fail, now and later. 0 or -ENOMEM. */
int store_rank_left(struct store *s, uint32_t rank, const char *how);
/* 1 and the rank that left as number i, from 0; or 0 if fewer have left. */
int store_left_at(const struct store *s, size_t i, uint32_t *rank);

/* Calls answer for all woken waiters. */
void store_answer_all(struct store *s);
/* The next woken waiter, or NULL. Its result can be read until
 * store_waiter_release. */
struct store_waiter *store_woken(struct store *s);
/* Keeps a gather's result beyond w, until store_drop_held. */
struct barrier_gather *store_hold(struct store_waiter *w);
void store_drop_held(struct store *s, struct barrier_gather *m);
/* Its values in rank order, *size of them. */
const struct slice *store_held(const struct barrier_gather *m, uint32_t *size);
struct held_tag *store_held_tag(struct barrier_gather *m);
/* A result from the journal, which is not held yet. Copies the values. NULL:
 * out of memory. */
struct barrier_gather *store_remake(struct store *s, const struct slice *values,
			     uint32_t size);
/* The held result with that number, or NULL. */
struct barrier_gather *store_find_held(struct store *s, uint32_t number);
struct barrier_gather *store_hold_again(struct barrier_gather *m);
/* The text of a code that is not 0. */
const char *store_waiter_text(const struct store_waiter *w);

/* Describes what a waiter still waits for. */
struct store_awaited {
	enum { STORE_AWAITS_KEYS, STORE_AWAITS_BARRIER, STORE_AWAITS_GATHER }
		kind;
	struct slice key;     /* the barrier's or gather's */
	uint32_t missing, of; /* keys, or callers */
};
void store_awaited(const struct store_waiter *w, struct store_awaited *a);
/* 1 and the next key that w waits for, or 0 at the end; *at begins at 0. */
int store_next_missing(const struct store_waiter *w, uint32_t *at,
		       struct slice *key);
/* Sets came[rank] to 1 for each of n ranks in w's barrier or gather. */
void store_arrived(const struct store_waiter *w, uint8_t *came, uint32_t n);
/* Appends a key in quotes, shortened, with '?' for unprintable bytes. */
void store_put_quoted(struct buf *out, struct slice key);
/* Ends w's wait, whatever it waits for; an idle or zeroed w is fine. */
void store_waiter_release(struct store_waiter *w);

#endif
