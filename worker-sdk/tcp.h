/* tcp.h: the hosts' leaders and a socket between each two of them: messages,
 * many at a time and in both directions, without deadlock. Knows nothing of
 * types or shared memory; tcp_collective.c moves data with it. */
#ifndef SDK_TCP_H
#define SDK_TCP_H

#include <stddef.h>
#include <stdint.h>

#include "base/sock.h"
#include "worker-sdk/call.h"
#include "worker-sdk/peers.h"

enum { DDP__FRAME = 40, DDP__MESH_COOKIE = 16 };

struct ddp__transfer;

struct ddp__tcp {
	int me, n;        /* hosts */
	int *fd;          /* by host; -1: mine */
	int *leaders;     /* world rank of each host's leader */
	int timeout_ms;   /* < 0: for ever */
	int spins;        /* a CPU to spare: look before sleeping */
	const struct ddp__peers *peers;
	const struct ddp__call *call; /* under way */
	struct ddp__transfer *transfers; /* scratch: 2n of them */
	struct pollfd *polls;
	char *scratch;
	size_t scratch_size;
	int broken;
};

/* A message to or from a host; a host may have one of each at a time. */
struct ddp__transfer {
	int host;
	const char *out; /* NULL with out_len 0: an empty message */
	char *in;
	size_t out_len, in_len;
	int sends, receives;
	/* Called as bytes arrive: in[0..got) is there. NULL: nothing. */
	void (*on_data)(struct ddp__transfer *x, size_t got);
	void *arg;
	/* tcp.c's own */
	size_t sent, got; /* with the frame */
	unsigned char out_frame[DDP__FRAME], in_frame[DDP__FRAME];
};

/* A listener for the other leaders, on addr (where they will be told to
 * connect), else, if that is no address of this host, on every interface.
 * Returns its descriptor and sets *port. */
int ddp__tcp_listen(const char *addr, uint16_t *port, struct err *e);

struct ddp__tcp_site {
	struct endpoint where;
	int leader; /* world rank */
};

struct ddp__tcp_setup {
	const struct ddp__tcp_site *sites; /* n of them */
	int me, n, listener;
	unsigned char cookie[DDP__MESH_COOKIE]; /* the same on all */
	uint32_t round;
	int timeout_ms;
	const struct ddp__peers *peers;
};

/* Connects each to each. Who cannot show the cookie is hung up on. On failure
 * nothing is left open. ddp__tcp_close frees. */
int ddp__tcp_connect(struct ddp__tcp *t, const struct ddp__tcp_setup *setup,
		     struct err *e);
void ddp__tcp_close(struct ddp__tcp *t);

/* Moves all n messages to their end. ERR_REMOTE, ERR_TIMEOUT (nothing moved for
 * timeout_ms), ERR_ARGUMENT (a peer is in another call), or the error with
 * which a peer aborted; after one, every later run fails. */
int ddp__tcp_run(struct ddp__tcp *t, struct ddp__transfer *x, int n,
		 struct err *e);

/* Tells every other leader why this one stops. */
void ddp__tcp_abort(struct ddp__tcp *t, const struct err *e);

/* At least size bytes that last until the next call; NULL: no memory. */
char *ddp__tcp_scratch(struct ddp__tcp *t, size_t size);

/* At *x, prepared with all zero but host. */
struct ddp__transfer *ddp__transfer_init(struct ddp__transfer *x, int host);
void ddp__transfer_send(struct ddp__transfer *x, const void *data, size_t size);
void ddp__transfer_receive(struct ddp__transfer *x, void *data, size_t size);

#endif
