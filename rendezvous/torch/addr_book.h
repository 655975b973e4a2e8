/* addr_book.h: which owners have which address. An owner may have several
 * addresses, and an address several owners (the same bridge address on each
 * host, several agents on a host). Ignores ports; all loopback addresses count
 * as one. Pure. */
#ifndef RENDEZVOUS_ADDR_BOOK_H
#define RENDEZVOUS_ADDR_BOOK_H

#include "base/sock.h"
#include "rendezvous/store/hash_table.h"

enum { ADDR_KEY_SIZE = 17 }; /* the family and the address */

/* All zeroes at first. Forget every owner before releasing it. */
struct addr_book {
	struct hash_table addrs;
};

/* Embedded in each owner of addresses. All zeroes at first. */
struct addr_owner {
	struct addr_claim *claims;
};

/* One owner's claim to one address. */
struct addr_claim {
	struct addr_owner *owner;
	struct addr_claim *next, **pprev; /* this address's */
	struct addr_claim *owner_next;	  /* this owner's */
	struct addr_at *at;
};

/* Adding an address twice is allowed. 0 or -ENOMEM. */
int addr_book_add(struct addr_book *b, struct addr_owner *owner,
		  const struct sock_addr *a);
void addr_book_forget(struct addr_book *b, struct addr_owner *owner);
/* Replaces the addresses of `to` by those of `from`; cannot fail. */
void addr_book_move(struct addr_book *b, struct addr_owner *from,
		    struct addr_owner *to);
/* The address's first claim, or NULL. */
struct addr_claim *addr_book_find(struct addr_book *b,
				  const struct sock_addr *a);
void addr_book_release(struct addr_book *b);

#endif
