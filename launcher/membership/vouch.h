/* vouch.h: what this node tells the server about clients that connect from here
 * to PyTorch's store, which takes no proof: its addresses, for which it may be
 * asked, and which user a socket belongs to. Owns the list of addresses and the
 * search in /proc. Not finding a socket is an answer, no failure. */
#ifndef LAUNCHER_VOUCH_H
#define LAUNCHER_VOUCH_H

#include "launcher/worker/socket_owner.h"
#include "rendezvous/wire.h"

struct vouch {
	struct socket_finder finder;
	struct buf addrs; /* the list of the last JOIN or RESUME */
};

void vouch_init(struct vouch *v);
/* All addresses of this host, as they are now; valid until the next call. */
struct wire_items vouch_addrs(struct vouch *v);
/* Answers a VOUCH into out. ERR_PROTOCOL with text. */
int vouch_answer(struct vouch *v, const struct wire_frame *f, struct buf *out,
		 struct err *e);
/* The inode of the socket here of the client that waits, as /proc names it; 0:
 * not known. */
uint64_t vouch_inode(struct vouch *v, const struct wire_waiting *x);
void vouch_release(struct vouch *v);

/* Whether our user's sockets can be distinguished from others'. In a user
 * namespace that does not map our user id, every user's look the same. */
int vouch_can_identify_users(void);

#endif
