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

/* ---- compression ----
 *
 * Compresses blocks with zstd, which is loaded if this host has it, and leaves
 * blocks alone that hardly become smaller. */

struct stage_zip {
	void *library; /* NULL: none */
	size_t (*compress)(void *to, size_t room, const void *from, size_t n,
			   int level);
	size_t (*decompress)(void *to, size_t room, const void *from, size_t n);
	unsigned (*is_error)(size_t code);
	unsigned skip; /* blocks that are not tried */
};

/* DDP_STAGE_ZSTD=0: nothing is compressed. */
void stage_zip_open(struct stage_zip *z);
/* The size of the compressed block in to, which has room for n bytes; 0: send
 * it as it is. */
size_t stage_zip_put(struct stage_zip *z, void *to, const void *from, size_t n);
/* The next block is of another file, which may differ. */
void stage_zip_try_again(struct stage_zip *z);
/* 0, or -1: from is not a block that becomes n bytes. */
int stage_zip_get(struct stage_zip *z, void *to, size_t n, const void *from,
		  size_t size);

#endif
