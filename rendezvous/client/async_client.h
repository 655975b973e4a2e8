/* async_client.h: a non-blocking connection to the rendezvous server on a libuv
 * loop, for the agent and for tools. Turns bytes into frames and back; the
 * owner knows what they mean. If a ddprdzv refers it to the job's leader, it
 * connects there, once. */
#ifndef RENDEZVOUS_ASYNC_CLIENT_H
#define RENDEZVOUS_ASYNC_CLIENT_H

#include "base/loop.h"
#include "base/sock.h"
#include "rendezvous/auth/client_handshake.h"
#include "rendezvous/wire.h"

struct async_client;

enum { LINK_PATIENCE_MS = 100 };

struct async_client_events {
	/* Both sides are authenticated, and the server has accepted us. */
	void (*on_open)(struct async_client *l);
	/* A frame; valid until return. The owner may call async_client_close in
	 * it. */
	void (*on_frame)(struct async_client *l, const struct wire_frame *f);
	/* The connection failed, was lost or closed, the peer broke the
	 * protocol, one side failed to authenticate (ERR_PROOF; ERR_REFUSED if
	 * the server closed after our proof, perhaps because it died), or the
	 * job has no leader yet (ERR_NOT_YET; ERR_NO_ETCD if it cannot be
	 * known). Called once, and not after async_client_close. */
	void (*on_lost)(struct async_client *l, const struct err *why);
	/* After async_client_close: the memory may be freed or used again. */
	void (*on_closed)(struct async_client *l);
};

struct async_client {
	void *owner; /* the caller's */
	const struct async_client_events *events;
	uv_loop_t *loop;
	uv_tcp_t tcp;
	uv_connect_t connect;
	struct sock_addr addr; /* the server's; after a referral, the
				* leader's */
	struct handshake hand; /* has the job's key and the cipher once it is
				* open */
	struct buf in;
	struct buf raw;     /* with a cipher: records received */
	struct buf sealed;  /* with a cipher: records of out; empty in
			     * between */
	struct buf out;     /* being filled; waits for the server's proof */
	struct buf sending; /* in uv_write's hands */
	uv_write_t write;
	int state;
	int speaks;      /* the preface was sent, or is about to be */
	int moved;       /* it has followed a referral */
	int was_refused; /* the server's last message ended it */
	struct credential_thread *munge; /* being asked; or NULL */
	int unsent;      /* the error of a write, which ends it */
	int refused;     /* the error of a connect that failed at once */
	int handle_gone; /* tcp was closed because of it */
};

/* Zeroes l and starts connecting; sends preface and HELLO (id 1) when the
 * greeting has arrived. Set owner after it. auth must outlive l, hello need
 * not. 0, or out of memory, and then on_closed is not called. A connect that
 * fails at once is reported by on_lost, from the loop. */
int async_client_start(struct async_client *l, uv_loop_t *loop,
		       const struct sock_addr *addr,
		       const struct wire_hello *hello, const struct auth *auth,
		       const struct async_client_events *events, struct err *e);

/* Call it after LINK_PATIENCE_MS without a greeting: sends the preface now,
 * because the reply of a foreign server says more than silence. */
void async_client_send_preface(struct async_client *l);

/* The buffer to put frames into; then async_client_flush sends what is there.
 */
struct buf *async_client_out(struct async_client *l);
void async_client_flush(struct async_client *l);

/* Our end of the connection, as the server sees it without NAT. */
static inline int async_client_local_addr(struct async_client *l,
					  struct sock_addr *out)
{
	int len = sizeof(out->ss);
	int rc = uv_tcp_getsockname(&l->tcp, (struct sockaddr *)&out->ss, &len);

	out->len = (socklen_t)len;
	return rc;
}

/* Sends the queued output, then closes; on_closed follows later (at once if no
 * connection was begun). Idempotent. */
void async_client_close(struct async_client *l);
/* The same at once, without sending the queued output. */
void async_client_drop(struct async_client *l);
/* The same with a reset, so that the server sees a broken connection instead of
 * an orderly close. */
static inline void async_client_tear(struct async_client *l)
{
	uv_os_fd_t fd;

	if (uv_fileno((uv_handle_t *)&l->tcp, &fd) == 0)
		sock_reset_at_close(fd);
	async_client_drop(l);
}
/* 1: the server's host has not acknowledged our data, which was retransmitted.
 */
static inline int async_client_is_stalled(const struct async_client *l)
{
	uv_os_fd_t fd;

	return uv_fileno((const uv_handle_t *)&l->tcp, &fd) == 0 &&
	       sock_is_stalled(fd);
}
/* 0 while the connection is still being made. */
int async_client_is_connected(const struct async_client *l);
/* ERR_PROOF if the server's time for our HELLO ran out while munge was asked;
 * else 0. */
int async_client_munge_is_late(const struct async_client *l, struct err *e);
/* 1: the server has our munge credential and is asking its munged. */
int async_client_is_checked(const struct async_client *l);

#endif
