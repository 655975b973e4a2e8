/* store.h: the key-value store of one round, and those who wait in it.
 * Pure state: no sockets, no clock. Owns its keys and values and copies what
 * it is given. A waiter is its caller's memory and stays put while it waits. */
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

/* What the holder of a gather's result keeps with it; 0 at first. */
struct held_tag {
	uint32_t number;   /* by which it is found again */
	uint32_t snapshot; /* the last one that it was written into */
};

struct store_limits {
	size_t keys;
	size_t bytes; /* of keys and values together */
	size_t value; /* of one value */
	uint32_t ranks; /* of the round: a gather's size is at most this */
	const char *job; /* for refusals; copied. NULL: "" */
	struct account *account; /* all that it holds is counted there, too:
				  * entries, waiters, meetings. NULL: nowhere */
};

/* One link of a waiter into the list of a key that is not there yet. */
struct store_link {
	struct store_link *next, **pprev; /* pprev NULL: not in a line */
	struct store_line *line;
	struct store_entry *entry;
	struct store_waiter *waiter;
};

/* Someone who waits for keys, or in a barrier or gather. A waiter is zeroed
 * before its first use. When what it waits for happens it moves to the store's
 * woken queue: the caller takes it out there (store_woken), answers, and then
 * releases it. So nothing is ever called back from inside an operation. */
struct store_waiter {
	void *owner; /* the caller's */
	void (*answer)(struct store_waiter *w); /* what store_answer_all does */
	/* the result, once it came out of store_woken: 0, or an error */
	int code;
	/* the store's own from here on */
	enum { WAITER_IDLE, WAITER_KEYS, WAITER_MEETING, WAITER_WOKEN } state;
	struct store *store;
	struct store_waiter *next, **pprev; /* in the meeting, or woken */
	struct store_link *links;           /* of a key wait */
	uint32_t nlinks, links_max, missing, nkeys;
	struct barrier_gather *meeting;
	uint32_t rank; /* of a barrier the caller's to say, before */
};

/* NULL when memory ran out. */
struct store *store_new(const struct store_limits *limits);
/* No waiter may be left in it. NULL is fine. */
void store_free(struct store *s);
/* Other limits from now on. What is there already stays, also beyond them. */
void store_limit(struct store *s, size_t keys, size_t bytes);

/* Each key that is set wakes its waiters. ERR_REFUSED: over a limit. */
int store_set(struct store *s, struct slice key, struct slice value,
	      struct err *e);
/* 1 and *value, valid until the next change; 0: not there. */
int store_get(struct store *s, struct slice key, struct slice *value);
/* ERR_ARGUMENT: the value is no number, or the sum does not fit an int64. */
int store_add(struct store *s, struct slice key, int64_t delta, int64_t *sum,
	      struct err *e);
/* 1 stored, 0 not; negative: error. What is there now is store_get's. */
int store_compare_set(struct store *s, struct slice key, struct slice expected,
		      struct slice desired, struct err *e);
/* The new length, or an error. */
int64_t store_append(struct store *s, struct slice key, struct slice value,
		     struct err *e);
/* 1 if it was there, else 0. */
int store_delete(struct store *s, struct slice key);
/* All or nothing. */
int store_multi_set(struct store *s, const struct slice *keys,
		    const struct slice *values, uint32_t n, struct err *e);
/* How many there are. Those that only wait for a key, and queues, do not count.
 */
size_t store_keys(const struct store *s);
/* Names, values and what is queued; of a name that somebody waits for, too. */
size_t store_bytes(const struct store *s);
/* Zeroed memory for one who waits, counted in the account alone. NULL, and e
 * (not NULL) says why: ERR_REFUSED, -ENOMEM. */
void *store_lend(struct store *s, size_t n, struct err *e);
void store_take_back(struct store *s, void *p, size_t n);
struct account *store_account(const struct store *s);
/* The next of the keys, in any order; *at NULL begins. 1 and the key, 0 at the
 * end. Nothing may change on the way. */
int store_next_key(struct store *s, struct hash_item **at, struct slice *key);

/* Queues live beside the keys: a name may have both, and only store_has and
 * store_wait look at the two. ERR_REFUSED, ERR_ARGUMENT as for store_set. Each
 * push wakes one waiter, who came first. */
int store_push(struct store *s, struct slice key, struct slice value,
	       struct err *e);
/* How many are queued, and the first, valid until the next change. */
uint64_t store_queued(struct store *s, struct slice key, struct slice *value);
/* The next of all that is queued, each queue's in its order: *at and *q NULL
 * begin. 1, the key and what is queued; 0 at the end. Nothing may change on the
 * way. */
int store_next_queued(struct store *s, struct hash_item **at,
		      const struct queued **q, struct slice *key,
		      struct slice *value);
/* Takes the first, of one or more, away. */
void store_pop(struct store *s, struct slice key);
/* Whoever was woken for what is queued will not take it: the next one may. */
void store_nudge(struct store *s, struct slice key);

/* 1 if all n keys are there, or have something queued. */
int store_has(struct store *s, const struct slice *keys, uint32_t n);
/* Parks w until each key has been there; those that are there now count. What
 * it takes is counted among the store's bytes. 0, or an error (ERR_REFUSED
 * where that is too much) and w is not parked. With all keys there it is woken
 * at once. */
int store_wait(struct store *s, const struct slice *keys, uint32_t n,
	       struct store_waiter *w, struct err *e);
/* Parks w until size callers have come to the barrier `key`, itself included.
 * ERR_ARGUMENT: size 0 or not what the others said, or the key is a gather. */
int store_barrier(struct store *s, struct slice key, uint32_t size,
		  struct store_waiter *w, struct err *e);
/* PyTorch's barrier: adds 1 to the key and parks w until that is size or more,
 * when all who are parked there are woken. It is not begun anew by itself: who
 * comes later passes at once. ERR_ARGUMENT as for store_add. */
int store_arrive(struct store *s, struct slice key, int64_t size,
		 struct store_waiter *w, struct err *e);
/* Parks w until ranks 0..size-1 have each come with a value. Woken with
 * ERR_REMOTE where one of them has left or leaves before it came. */
int store_gather(struct store *s, struct slice key, uint32_t size,
		 uint32_t rank, struct slice value, struct store_waiter *w,
		 struct err *e);
/* w, which store_gather has parked or woken, passes the list on to others,
 * where m says. 0 or -ENOMEM. */
int store_offer(struct store_waiter *w, const struct wire_share *m,
		struct err *e);
/* Who does so; empty where nobody does. */
struct share *store_share(struct barrier_gather *m);
/* A rank is gone for good; how says who and how ("rank 1 on h2 exited with
 * code 0"). Gathers that still miss it fail, now and later. 0 or -ENOMEM. */
int store_rank_left(struct store *s, uint32_t rank, const char *how);
/* 1 and the rank that left as number i, from 0; 0: so many have not. */
int store_left_at(const struct store *s, size_t i, uint32_t *rank);

/* Each waiter that is done answers, and none is left. */
void store_answer_all(struct store *s);
/* The next waiter that is done, or NULL. Until store_waiter_release its result
 * may be read: */
struct store_waiter *store_woken(struct store *s);
/* the values of a gather in rank order, *size of them */
const struct slice *store_gathered(const struct store_waiter *w,
				   uint32_t *size);
/* What a gather brought lives on after w, until store_let_go. */
struct barrier_gather *store_hold(struct store_waiter *w);
void store_let_go(struct store *s, struct barrier_gather *m);
const struct slice *store_held(const struct barrier_gather *m, uint32_t *size);
struct held_tag *store_held_tag(struct barrier_gather *m);
/* One that was gathered before; nobody holds it yet. The values are copied.
 * NULL when memory ran out. */
struct barrier_gather *store_remake(struct store *s, const struct slice *values,
			     uint32_t size);
/* The one of those which are held; NULL: none has that number. */
struct barrier_gather *store_find_held(struct store *s, uint32_t number);
struct barrier_gather *store_hold_again(struct barrier_gather *m);
/* the text of a code that is not 0 */
const char *store_waiter_text(const struct store_waiter *w);

/* What one that waits still waits for. */
struct store_awaited {
	enum { STORE_AWAITS_KEYS, STORE_AWAITS_BARRIER, STORE_AWAITS_GATHER }
		kind;
	struct slice key;     /* of a barrier or a gather */
	uint32_t missing, of; /* keys, or callers */
};
void store_awaited(const struct store_waiter *w, struct store_awaited *a);
/* 1 and the next key that w waits for, 0 at the end; *at begins at 0. */
int store_next_missing(const struct store_waiter *w, uint32_t *at,
		       struct slice *key);
/* Sets came[rank] to 1 for those of n ranks that are in w's meeting. */
void store_who_came(const struct store_waiter *w, uint8_t *came, uint32_t n);
/* Puts a key in quotes, shortened, with what is not printable as '?'. */
void store_put_quoted(struct buf *out, struct slice key);
/* Takes w out of wherever it is; idle and zeroed waiters are fine. */
void store_waiter_release(struct store_waiter *w);

#endif
