/* addr_book.h: which owners have which address: one may have several, and one
 * address several owners (a bridge of the same address on each host, agents of
 * one host). Ports do not count, and all of loopback is one address. Pure. */
#ifndef RENDEZVOUS_ADDR_BOOK_H
#define RENDEZVOUS_ADDR_BOOK_H

#include "base/sock.h"
#include "rendezvous/store/hash_table.h"

enum { ADDR_KEY_SIZE = 17 }; /* the family and the address */

/* All zeroes to begin with; who is in it must be forgotten before its end. */
struct addr_book {
	struct hash_table addrs;
};

/* A part of whoever has addresses; all zeroes to begin with. */
struct addr_owner {
	struct addr_claim *claims;
};

/* That it has one. */
struct addr_claim {
	struct addr_owner *owner;
	struct addr_claim *next, **pprev; /* of this address */
	struct addr_claim *owner_next;	  /* of this owner */
	struct addr_at *at;
};

/* Once more is once. 0 or -ENOMEM. */
int addr_book_add(struct addr_book *b, struct addr_owner *owner,
		  const struct sock_addr *a);
void addr_book_forget(struct addr_book *b, struct addr_owner *owner);
/* `to` has what `from` had, and no more; cannot fail. */
void addr_book_move(struct addr_book *b, struct addr_owner *from,
		    struct addr_owner *to);
/* The first who has it, NULL: nobody. */
struct addr_claim *addr_book_find(struct addr_book *b,
				  const struct sock_addr *a);
void addr_book_release(struct addr_book *b);

#endif
