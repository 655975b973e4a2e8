/* gather_fanout.h: a tree in which ranks pass on the list of a gather, so that
 * it leaves the server only once. Pure state of one gather: owns the addresses
 * that ranks have offered; knows no connections. */
#ifndef RENDEZVOUS_GATHER_FANOUT_H
#define RENDEZVOUS_GATHER_FANOUT_H

#include "rendezvous/store/store.h"
#include "rendezvous/wire.h"

enum { SHARE_FANOUT = 4 };

/* A rank, or a node, that passes the list on, and its address. */
struct share_place {
	uint32_t rank;
	uint16_t port;
	char *addr;
	char token[WIRE_TOKEN_SIZE];
};

/* Zeroed is empty. */
struct share {
	struct share_place *places; /* by rank */
	uint32_t n, cap;
	uint32_t bytes; /* the list's size, once it is known */
	int digested;
	char hash[WIRE_HASH_SIZE];
};

/* A rank's part in the tree. */
struct share_part {
	const struct share_place *from; /* NULL: from the server */
	uint32_t comers; /* ranks that will connect to it, at most */
	uint32_t depth;	 /* senders between the server and this rank */
};

/* 1: its sender passes the list on; 0: it does not; ERR_PROTOCOL: the address
 * or the token is invalid. */
int gather_fanout_is_offer(const struct wire_share *m, struct err *e);
/* The place in the list of a rank that sends m: its own, or its node's. */
uint32_t gather_fanout_place(const struct wire_share *m, uint32_t rank);
/* Parks w as m says (store_gather, or for nodes), with its offer if it makes
 * one. 0, or their errors or that of gather_fanout_is_offer. */
int gather_fanout_join(struct store *store, const struct wire_share *m,
		       uint32_t rank, struct store_waiter *w, struct err *e);
/* Adds the rank's offer m, its first. 0 or -ENOMEM. */
int gather_fanout_offer(struct share *s, uint32_t rank,
			const struct wire_share *m, struct err *e);
/* Removes the rank's offer, if it has made one. */
void gather_fanout_withdraw(struct share *s, uint32_t rank);
void gather_fanout_release(struct share *s);

/* The part of a rank in 0..size-1, once all ranks have called. */
struct share_part gather_fanout_part_of(const struct share *s, uint32_t rank,
				uint32_t size);
/* Computes bytes and hash, once, over the values, each after its length. */
void gather_fanout_digest(struct share *s, const struct slice *values,
			  uint32_t n);

/* ---- the replies to the callers of a complete gather: the list of all values,
 * or the address of a rank that passes it on. A list that does not fit in a
 * frame becomes an error reply. */

/* The reply to GATHER or SHARED_LIST. */
void gather_fanout_put_list(struct buf *out, enum wire_type type, uint32_t id,
		       const struct barrier_gather *m);
/* The reply to the rank's SHARE. */
void gather_fanout_put_shared(struct buf *out, uint32_t id,
			      struct barrier_gather *m, uint32_t rank);

#endif
