/* gather_fanout.h: how the list of a gather gets to all its ranks when it
 * leaves the server once: which ranks pass it on, and who has it from whom.
 * Pure state of one gather: owns the places that were offered; knows no
 * connections. */
#ifndef RENDEZVOUS_GATHER_FANOUT_H
#define RENDEZVOUS_GATHER_FANOUT_H

#include "rendezvous/wire.h"

enum { SHARE_FANOUT = 4 };

/* A rank that passes it on, and where. */
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
	uint32_t bytes; /* of the list, once it is known */
	int digested;
	char hash[WIRE_HASH_SIZE];
};

/* What a rank is told. */
struct share_part {
	const struct share_place *from; /* NULL: the server gives it all */
	uint32_t comers; /* at most so many come to it */
	uint32_t depth;	 /* hands that it goes through on the way */
};

/* 1: its sender passes it on; 0: it does not; ERR_PROTOCOL: an address or a
 * token that is none. */
int gather_fanout_is_offer(const struct wire_share *m, struct err *e);
/* The rank does, where m says, and has not said so before. 0 or -ENOMEM. */
int gather_fanout_offer(struct share *s, uint32_t rank,
			const struct wire_share *m, struct err *e);
/* It does not any more; fine where it never did. */
void gather_fanout_withdraw(struct share *s, uint32_t rank);
void gather_fanout_release(struct share *s);

/* Of ranks 0..size-1, when all have come. */
struct share_part gather_fanout_part_of(const struct share *s, uint32_t rank,
				uint32_t size);
/* Sets bytes and hash, once: of each value with its length before it. */
void gather_fanout_digest(struct share *s, const struct slice *values,
			  uint32_t n);

#endif
