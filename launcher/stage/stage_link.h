/* stage_link.h: a connection between two nodes' stage helpers: blocking, and
 * after a hello of both ends in records that only they can read or make
 * (rendezvous/auth/cipher.h). docs/protocol-stage.txt describes the bytes.
 *
 * The node that has the data listens. The node that wants it connects, and
 * proves that it has the listener's token, which it has from the rendezvous
 * server. The keys depend on random bytes of both ends.
 *
 * Failures: ERR_REMOTE or -errno if the peer is gone or the bytes are not its
 * own; the text names the peer. */
#ifndef LAUNCHER_STAGE_LINK_H
#define LAUNCHER_STAGE_LINK_H

#include <stddef.h>

#include "base/sock.h"
#include "rendezvous/auth/cipher.h"

struct stage_link {
	int fd; /* -1: none */
	struct cipher_way in, out;
	struct buf raw, text, sealed;
	size_t used; /* bytes of text that were received */
	char peer[SOCK_TEXT_MAX];
};

/* Connects to addr, within 10 s. name: the peer, for messages. After an error
 * l needs no close; the same holds for stage_link_accept. */
int stage_link_connect(struct stage_link *l, const struct sock_addr *addr,
		       const struct proof *token, const char *name,
		       struct err *e);
/* Waits for a peer that has the token. Others are turned away. */
int stage_link_accept(struct stage_link *l, int listener,
		      const struct proof *token, struct err *e);
void stage_link_close(struct stage_link *l);

/* Sends n bytes. */
int stage_link_send(struct stage_link *l, const void *data, size_t n,
		    struct err *e);
/* Receives exactly n bytes. */
int stage_link_receive(struct stage_link *l, void *to, size_t n, struct err *e);

/* The same for frames (stage_frame.h), which need no records. Sends n bytes. */
int stage_link_send_frames(struct stage_link *l, const void *frames, size_t n,
			   struct err *e);
/* Waits for bytes, and takes what there is, at most room: how many. */
long stage_link_receive_frames(struct stage_link *l, void *to, size_t room,
			       struct err *e);

#endif
