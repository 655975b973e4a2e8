/* conn.h: one client's connection: preface, frames in, bytes out, one timer.
 * Knows the framing of wire.h, in the records of cipher.h once it has keys for
 * them, and nothing of roles, jobs or stores. One with another framing
 * (PyTorch's) gets its bytes as they are. */
#ifndef RENDEZVOUS_CONN_H
#define RENDEZVOUS_CONN_H

#include "base/loop.h"
#include "base/sock.h"
#include "rendezvous/auth/cipher.h"
#include "rendezvous/store/account.h"
#include "rendezvous/wire.h"

struct conn;

enum {
	CONN_READ_MAX = 64 << 10,  /* the shared read buffer; so much a turn */
	CONN_OUT_MAX = 64 << 20,   /* what a client may leave unread */
	CONN_THROTTLE_MAX = 1 << 20,   /* of who leaves more nothing is read */
	CONN_DEAF_MS = 5000,       /* and who asks on meanwhile is closed */
	CONN_LINGER_MS = 1000,     /* from our last word to the close */
	CONN_SMALL = 64 << 10,     /* buffers that a limit does not end */
};

#define CONN_NEVER UINT64_MAX

struct conn_events {
	/* A frame; valid until return. conn_finish may be called in it. */
	void (*on_frame)(struct conn *c, const struct wire_frame *f);
	/* Or, in its place, for one that has no frames: what has come and was
	 * not taken yet. Returns how much of it is taken now; wants is how many
	 * more bytes it is worth waiting for. There is no deadline then. */
	size_t (*on_bytes)(struct conn *c, struct slice in, size_t *wants);
	/* The time of conn_due has come. */
	void (*on_due)(struct conn *c);
	/* What came was not what its client had sent, or it speaks another
	 * version, or its buffers are too much for its account; on_gone
	 * follows, with the same words. Not with on_bytes. */
	void (*on_strange)(struct conn *c, const char *why);
	/* Nothing more will come from it; why, to go after "lost: ". Not
	 * called after conn_finish or conn_drop. */
	void (*on_gone)(struct conn *c, const char *why);
	/* The last call: the memory may go. */
	void (*on_closed)(struct conn *c);
};

/* What all connections of a loop share; zeroed at first. */
struct conn_pool {
	uv_loop_t *loop;
	uint64_t hello_ms; /* from connecting to conn_accept */
	uint64_t silent_ms; /* of a peer's host; listeners have it, too */
	uint64_t bytes_in, bytes_out; /* counted */
	struct conn *dirty; /* with output that is not yet on its way */
	/* What output may say has to be kept before it leaves: 0 when it is;
	 * else it waits, and who is asked calls conn_release_held and then
	 * conn_flush_all again. 2: and no more is to be read before that.
	 * NULL: nothing has to. */
	int (*commit)(void *arg);
	void *commit_arg;
	struct conn *held; /* connections whose output waits for the journal */
	struct conn *stopped; /* not read until then */
	/* An empty buffer that the next with something to say begins with: of
	 * those that ask one thing at a time all use the same, warm one. */
	struct buf spare;
	struct buf sealed; /* the records of one write; empty in between */
	char scratch[CIPHER_RECORD_MAX + CONN_READ_MAX];
};

/* What each request touches lies together at the end, where the owner's own
 * next fields follow: with a thousand clients it is fetched while the kernel
 * reads (HOT_BYTES in conn.c), else waiting for it is what a request costs. */
struct conn {
	uv_timer_t timer;
	uv_write_t write;
	uv_shutdown_t shutdown;
	struct buf sending; /* in uv_write's hands */
	size_t wants;       /* without frames: of how many more bytes */
	int handles;   /* that are not closed yet */
	int shut;      /* our side is shut down */
	int silent;    /* nothing of it is unread: no need to linger */
	int reset;     /* it broke, and its client may live and come again */
	int is_throttled; /* not read until it reads our replies */
	size_t unread; /* of that, when it was looked at last */
	size_t mark;   /* of out, so much is what is being kept */
	struct conn *held_next, **held_pprev;
	struct conn *stopped_next, **stopped_pprev; /* NULL: it is read */
	uint64_t own_due;  /* for its hello, or its linger */
	uint64_t user_due;
	uint64_t armed;    /* when the timer fires */
	uv_tcp_t tcp;
	struct conn_pool *pool;
	const struct conn_events *events;
	struct buf in;      /* a frame, or a record, that is not whole yet */
	struct buf text;    /* from records: a frame that is not whole yet */
	struct buf out;     /* being filled */
	size_t plain;       /* of out: so much is from before its keys */
	struct cipher cipher;
	enum { CONN_PREFACE, CONN_OPEN, CONN_FINISHING, CONN_CLOSED } state;
	int accepted;  /* may send large frames */
	int writing;
	int broken;    /* writing failed: what it sent is read to its end */
	int had_turn;  /* it has more than others get of one turn */
	int is_dirty;
	struct conn *dirty_next;
	uint64_t heard;    /* when something came from it; loop time */
	struct account *account; /* its buffers are counted there; or NULL */
	size_t counted, fixed;   /* so much of it; of that, its owner */
};

/* Takes fd, a connection that was accepted, in any case; c is zeroed by us. 0,
 * or a libuv error; on_closed follows in any case. in_max: the most that
 * on_bytes may leave untaken. */
int conn_open(struct conn *c, struct conn_pool *pool,
	      const struct conn_events *events, size_t in_max, int fd);
/* From here on its buffers, and fixed bytes of its owner's, are counted there,
 * until it is closed; before, elsewhere or nowhere. With more than the account
 * may have, a connection whose buffers grow beyond CONN_SMALL is refused. */
void conn_charge_to(struct conn *c, struct account *a, size_t fixed);
/* From here on nothing is read of it, its end neither, until conn_resume. */
void conn_pause(struct conn *c);
void conn_resume(struct conn *c);
/* Both ends, IPv4 as such. -errno for one that has been reset. */
int conn_addrs(const struct conn *c, struct sock_addr *peer,
	       struct sock_addr *own);
/* It has proved who it is: the deadline is off. */
void conn_proven(struct conn *c);
/* Its HELLO was right: large frames are allowed, and it is proven. */
void conn_accept(struct conn *c);
/* What comes from here on, and what is put out from here on, is records under
 * these keys, which are copied. */
void conn_encrypt(struct conn *c, const struct cipher *keys);
/* Where frames to it are put; they leave with the next conn_flush_all. */
struct buf *conn_out(struct conn *c);
/* For what is not worth a packet of its own: it leaves with what follows. */
static inline struct buf *conn_out_later(struct conn *c)
{
	return &c->out;
}
void conn_flush_all(struct conn_pool *pool);
/* For a commit that takes its time: what has been put out so far waits for
 * conn_release_held; what is put out later, for another. One at a time. */
void conn_hold_output(struct conn_pool *pool);
void conn_release_held(struct conn_pool *pool);
/* Past all that waits to be kept: one whole frame that says nothing of it. 0:
 * not now; put it out as any other. */
int conn_send_unheld(struct conn *c, struct slice frame);
/* It may have more to say than is read of it now. */
static inline int conn_is_stopped(const struct conn *c)
{
	return c->stopped_pprev != NULL;
}
/* When its last connection is closed. */
void conn_pool_release(struct conn_pool *pool);
/* on_due at that time (loop time, ms), once; CONN_NEVER: not. */
void conn_due(struct conn *c, uint64_t when);
/* An error reply with id 0, then conn_finish; to one that was not accepted not
 * a word: it is closed. */
void conn_refuse(struct conn *c, int code, const char *text);
/* Sends what is there, ends our side, waits a moment for the peer to end its
 * own (so that a reset does not eat our last words), closes. */
void conn_finish(struct conn *c);
/* Closes at once. */
void conn_drop(struct conn *c);

#endif
