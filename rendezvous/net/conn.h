/* conn.h: a client's connection: preface, frames in, bytes out, one timer.
 * Knows the framing of wire.h, and the records of cipher.h once it has keys,
 * but no roles, jobs or stores. With on_bytes (PyTorch's clients) it delivers
 * plain bytes instead of frames. */
#ifndef RENDEZVOUS_CONN_H
#define RENDEZVOUS_CONN_H

#include "base/loop.h"
#include "base/sock.h"
#include "rendezvous/auth/cipher.h"
#include "rendezvous/store/account.h"
#include "rendezvous/wire.h"

struct conn;

enum {
	CONN_READ_MAX = 64 << 10, /* read from a connection in one loop turn */
	CONN_OUT_MAX = 64 << 20,  /* replies that a client has not read */
	CONN_THROTTLE_MAX = 1 << 20, /* unread replies, beyond which we stop
				      * reading */
	CONN_DEAF_MS = 5000,      /* a throttled client that reads nothing is
				   * closed */
	CONN_LINGER_MS = 1000,    /* from our last bytes to the close */
	CONN_SMALL = 64 << 10,    /* buffers allowed in a full account */
};

#define CONN_NEVER UINT64_MAX

struct conn_events {
	/* A frame; valid until return. conn_finish may be called in it. */
	void (*on_frame)(struct conn *c, const struct wire_frame *f);
	/* Instead of on_frame: the bytes that have arrived and were not taken
	 * yet. Returns how many are taken; *wants is how many more it is worth
	 * waiting for. There is no deadline then. */
	size_t (*on_bytes)(struct conn *c, struct slice in, size_t *wants);
	/* The time of conn_due. */
	void (*on_due)(struct conn *c);
	/* The records were forged, the client uses another version, or its
	 * buffers exceed its account; on_gone follows with the same text. Not
	 * with on_bytes. */
	void (*on_strange)(struct conn *c, const char *why);
	/* Nothing more will arrive; why is to follow "lost: ". Not called after
	 * conn_finish or conn_drop. */
	void (*on_gone)(struct conn *c, const char *why);
	/* The last callback: the memory may be freed. */
	void (*on_closed)(struct conn *c);
};

/* Shared by all connections of a loop; zeroed at first. */
struct conn_pool {
	uv_loop_t *loop;
	uint64_t hello_ms; /* from connecting to conn_accept */
	uint64_t silent_ms; /* after that a client's host counts as gone */
	uint64_t bytes_in, bytes_out; /* counted */
	struct conn *dirty; /* with output to be sent */
	/* Called before output leaves; returns 0 if the journal has kept
	 * everything that it depends on. Else the output waits for
	 * conn_release_held and the next conn_flush_all; with 2, reading stops
	 * as well. NULL: there is no journal. */
	int (*commit)(void *arg);
	void *commit_arg;
	struct conn *held; /* connections whose output waits for the journal */
	struct conn *stopped; /* not read until then */
	/* An empty buffer for the next output: connections with one request at
	 * a time share it, so that it stays in the cache. */
	struct buf spare;
	struct buf sealed; /* the records of one write; empty in between */
	char scratch[CIPHER_RECORD_MAX + CONN_READ_MAX];
};

/* The fields that every request touches are together at the end, next to the
 * owner's first ones: with a thousand clients, conn.c prefetches them while the
 * kernel reads (HOT_BYTES). Cache misses would otherwise dominate a request. */
struct conn {
	uv_timer_t timer;
	uv_write_t write;
	uv_shutdown_t shutdown;
	struct buf sending; /* in uv_write's hands */
	size_t wants;       /* with on_bytes: how many more */
	int handles;   /* that are not closed yet */
	int shut;      /* our side is shut down */
	int silent;    /* the client sent nothing unread: no linger */
	int reset;     /* reset by the network: the client may reconnect */
	int is_throttled; /* not read until the client reads our replies */
	size_t unread; /* bytes of replies at the last check */
	size_t mark;   /* bytes of out that wait for the journal */
	struct conn *held_next, **held_pprev;
	struct conn *stopped_next, **stopped_pprev; /* NULL: it is read */
	uint64_t own_due;  /* the deadline for HELLO, or of lingering */
	uint64_t user_due;
	uint64_t armed;    /* when the timer fires */
	uv_tcp_t tcp;
	struct conn_pool *pool;
	const struct conn_events *events;
	struct buf in;      /* an incomplete frame or record */
	struct buf text;    /* from records: an incomplete frame */
	struct buf out;     /* being filled */
	size_t plain;       /* bytes of out that are sent unencrypted */
	struct cipher cipher;
	enum { CONN_PREFACE, CONN_OPEN, CONN_FINISHING, CONN_CLOSED } state;
	int accepted;  /* may send large frames */
	int writing;
	int broken;    /* a write's error: read to the end, then close */
	int had_turn;  /* has had its share of this loop turn */
	int is_dirty;
	struct conn *dirty_next;
	uint64_t heard;    /* when bytes last arrived; loop time */
	struct account *account; /* charged with its buffers; or NULL */
	size_t counted, fixed;   /* bytes charged; of those, for the owner */
};

/* Zeroes c and takes fd, an accepted connection, even if it fails. 0 or a libuv
 * error; on_closed follows in any case. in_max: the most bytes that on_bytes
 * may leave untaken. */
int conn_open(struct conn *c, struct conn_pool *pool,
	      const struct conn_events *events, size_t in_max, int fd);
/* Charges its buffers, and `fixed` bytes for its owner, to this account from
 * now on. When the account is full, a connection whose buffers grow beyond
 * CONN_SMALL is refused. */
void conn_charge_to(struct conn *c, struct account *a, size_t fixed);
/* Reads nothing, not even its end, until conn_resume. */
void conn_pause(struct conn *c);
void conn_resume(struct conn *c);
/* Both ends' addresses, IPv4-mapped ones as IPv4. -errno after a reset. */
int conn_addrs(const struct conn *c, struct sock_addr *peer,
	       struct sock_addr *own);
/* The client is authenticated: removes the deadline for HELLO. */
void conn_proven(struct conn *c);
/* Its HELLO was accepted: as conn_proven, and allows large frames. */
void conn_accept(struct conn *c);
/* From now on both directions are records under these keys, which are copied.
 */
void conn_encrypt(struct conn *c, const struct cipher *keys);
/* The buffer for frames to it; the next conn_flush_all sends them. */
struct buf *conn_out(struct conn *c);
/* The same for frames not worth a packet: they leave with the next ones. */
static inline struct buf *conn_out_later(struct conn *c)
{
	return &c->out;
}
void conn_flush_all(struct conn_pool *pool);
/* For a commit that takes time: all output so far waits for conn_release_held,
 * later output for the next commit. One at a time. */
void conn_hold_output(struct conn_pool *pool);
void conn_release_held(struct conn_pool *pool);
/* Sends a frame that does not depend on the journal ahead of held output. 0:
 * not possible now; use conn_out. */
int conn_send_unheld(struct conn *c, struct slice frame);
/* Reading is stopped: it may have sent more than we have read. */
static inline int conn_is_stopped(const struct conn *c)
{
	return c->stopped_pprev != NULL;
}
/* After the last connection is closed. */
void conn_pool_release(struct conn_pool *pool);
/* Calls on_due once at that time (loop time, ms); CONN_NEVER: not at all. */
void conn_due(struct conn *c, uint64_t when);
/* Sends an error reply with id 0, then conn_finish. A connection that was not
 * accepted is closed without a reply. */
void conn_refuse(struct conn *c, int code, const char *text);
/* Sends the output, shuts down our side, waits a moment for the peer to do the
 * same (so that a reset does not destroy our last bytes), and closes. */
void conn_finish(struct conn *c);
/* Closes at once. */
void conn_drop(struct conn *c);

#endif
