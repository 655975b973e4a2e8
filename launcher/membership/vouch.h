/* vouch.h: this node's word for those who connect from here to PyTorch's store:
 * at which addresses it may be asked, and what it answers. */
#ifndef LAUNCHER_VOUCH_H
#define LAUNCHER_VOUCH_H

#include "launcher/worker/socket_owner.h"
#include "rendezvous/wire.h"

struct vouch {
	struct socket_finder finder;
	struct buf addrs; /* JOIN's and RESUME's list, of the last time */
};

void vouch_init(struct vouch *v);
/* All addresses of this host, as they are now; valid until the next call. */
struct wire_items vouch_addrs(struct vouch *v);
/* Answers a VOUCH into out. ERR_PROTOCOL with text. */
int vouch_answer(struct vouch *v, const struct wire_frame *f, struct buf *out,
		 struct err *e);
/* Of the socket here of who waits, by which /proc names it; 0: not known. */
uint64_t vouch_inode(struct vouch *v, const struct wire_waiting *x);
void vouch_release(struct vouch *v);

/* Whether sockets of our user can be told from those of others. In a user
 * namespace that has no place for our user id, every user's look the same. */
int vouch_tells_users_apart(void);

#endif
