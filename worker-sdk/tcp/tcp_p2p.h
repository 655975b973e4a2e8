/* tcp_p2p.h: messages between two ranks of different hosts, over a socket of
 * the pair that their first message makes: the lower rank connects, and the
 * higher rank accepts during any of its calls on messages. Independent of the
 * collectives. Several messages may be under way, but one at a time for each
 * peer and direction; they arrive in the order of sending. A send ends when the
 * kernel has taken all of it. tcp_pair.c makes the sockets. */
#ifndef SDK_TCP_P2P_H
#define SDK_TCP_P2P_H

#include "worker-sdk/tcp/tcp.h"

struct pollfd;
struct ddp__pair;

struct ddp__tcp_p2p {
	int me, n; /* ranks of the communicator */
	struct ddp__listener listener; /* zeroed if all ranks are on this
					* host */
	struct endpoint *where;	 /* address of each rank */
	struct ddp__pair *pairs; /* with each rank; tcp_pair.c's */
	struct ddp__callers callers;
	struct ddp__tcp_msg *active;
	unsigned char key[DDP__KEY];
	uint32_t round;
	uint32_t secure;	 /* encryption that this rank offers; 0: plain
				  * text */
	int timeout_ms;		 /* < 0: no limit */
	const struct ddp__peers *peers;
	int spins;
	int broken;
};

struct ddp__tcp_p2p_setup {
	const struct endpoint *where; /* n addresses, copied; without a host:
				       * not reached by TCP */
	int me, n;
	struct ddp__listener listener; /* taken over, even on failure */
	unsigned char key[DDP__KEY]; /* the same on all ranks */
	uint32_t round;
	int timeout_ms;
	const struct ddp__peers *peers;
};

/* 0, -ENOMEM, or ERR_USAGE ($DDP_ENCRYPT_DATA). Connects to no rank yet. */
int ddp__tcp_p2p_init(struct ddp__tcp_p2p *p,
		      const struct ddp__tcp_p2p_setup *setup, struct err *e);
/* Drops messages under way. p may be zeroed. */
void ddp__tcp_p2p_close(struct ddp__tcp_p2p *p);
/* Sends every connected rank the reason why this one stops. All messages under
 * way, here and there, fail from now on. */
void ddp__tcp_p2p_abort(struct ddp__tcp_p2p *p, const struct err *e);

/* Holds a copy of the call; borrows p and the buffer. p links to it from its
 * first advance until it has ended or p is broken. */
struct ddp__tcp_msg {
	struct ddp__tcp_p2p *p;
	struct ddp__call call;
	char *buf;
	size_t size;
	int peer; /* rank in the communicator */
	int receives;
	size_t moved; /* bytes, including the frame */
	unsigned char frame[DDP__FRAME];
	int linked;
	struct ddp__tcp_msg *next, **link;
};

/* These are the `message` group of tcp's row: msg is a struct ddp__tcp_msg, p2p
 * a struct ddp__tcp_p2p. */
void ddp__tcp_send(void *msg, void *p2p, const struct ddp__call *call,
		   const void *buf, size_t size, int peer);
void ddp__tcp_recv(void *msg, void *p2p, const struct ddp__call *call,
		   void *buf, size_t size, int peer);

/* 1: done; 0: the peer has not arrived yet; < 0: ERR_ARGUMENT (the peer's
 * message has another count or type; the peer fails too, if it is still
 * sending), ERR_REMOTE, ERR_SYSTEM (the peer cannot be reached), or the error
 * with which the peer aborted. After an error only abort and close may be
 * called. */
int ddp__tcp_msg_advance(void *msg, struct err *e);
/* Advances the message until it is done: 0 or an error, also of check. */
int ddp__tcp_msg_run(void *msg, struct err *e);
/* Changes when the message moves. */
uint64_t ddp__tcp_msg_moved(const void *msg);

/* The descriptors that all messages under way wait for: at most max into
 * out. */
int ddp__tcp_p2p_polls(const struct ddp__tcp_p2p *p, struct pollfd *out,
		       int max);
/* The message has not moved for waited_ns: 0, or why further waiting is
 * pointless. */
int ddp__tcp_msg_check(void *msg, uint64_t waited_ns, struct err *e);

/* ---- tcp_pair.c ---- */

enum { DDP__ADDRESSES_MAX = 8 };

struct ddp__greeting;

/* The connection with a rank. */
struct ddp__pair {
	int fd; /* -1: no connection yet */
	struct ddp__secure *secure; /* NULL: plain text */
	enum {
		DDP__PAIR_NONE,
		DDP__PAIR_CONNECTING,
		DDP__PAIR_GREETED, /* this rank sent its hello and awaits the
				    * answer */
		DDP__PAIR_DIFFERS, /* it called; only one of the two encrypts */
		DDP__PAIR_READY
	} state;
	struct ddp__tcp_msg *out, *in; /* under way */
	struct ddp__greeting *greeting;
};

/* 1: the pair of m is ready; 0: not yet. Connects, if this is the lower
 * rank. */
int ddp__pair_ready(struct ddp__tcp_msg *m, struct err *e);
/* Accepts connections: any lower rank may connect at any time and waits until
 * this one accepts, so every wait calls this. */
void ddp__pairs_serve(struct ddp__tcp_p2p *p);
int ddp__pairs_init(struct ddp__tcp_p2p *p, struct err *e);
void ddp__pairs_close(struct ddp__tcp_p2p *p);
/* The descriptors to poll for the listener and the callers that have not proved
 * their claim. */
int ddp__pairs_polls(const struct ddp__tcp_p2p *p, struct pollfd *out, int max);
/* Writes "rank 3 on h1" to out[DDP__NAME_MAX]. */
char *ddp__tcp_p2p_name(const struct ddp__tcp_p2p *p, int rank, char *out);

#endif
