/* tcp_p2p.h: messages between two ranks of different hosts, over a socket of
 * the pair that the first message makes: the lower rank connects, the higher
 * accepts, in whatever call on a message it is. Independent of the collectives.
 *
 * Several messages may be under way, but one at a time for each peer and
 * direction; what is sent is received in that order. A send ends when the
 * kernel has all of it. tcp_pair.c makes the sockets. */
#ifndef SDK_TCP_P2P_H
#define SDK_TCP_P2P_H

#include "worker-sdk/tcp/tcp.h"

struct pollfd;
struct ddp__pair;

struct ddp__tcp_p2p {
	int me, n; /* ranks of the communicator */
	struct ddp__listener listener; /* none where all are on this host */
	struct endpoint *where;	 /* of each rank */
	struct ddp__pair *pairs; /* with each rank; tcp_pair.c's */
	struct ddp__callers callers;
	struct ddp__tcp_msg *active;
	unsigned char key[DDP__KEY];
	uint32_t round;
	uint32_t secure;	 /* what this rank can do; 0: in plain */
	int timeout_ms;		 /* < 0: for ever */
	const struct ddp__peers *peers;
	int spins;
	int broken;
};

struct ddp__tcp_p2p_setup {
	const struct endpoint *where; /* n; copied. No host: not by TCP */
	int me, n;
	struct ddp__listener listener; /* taken over, even on failure */
	unsigned char key[DDP__KEY]; /* the same on all */
	uint32_t round;
	int timeout_ms;
	const struct ddp__peers *peers;
};

/* 0, -ENOMEM, or ERR_USAGE ($DDP_ENCRYPT_DATA). Talks to nobody. */
int ddp__tcp_p2p_init(struct ddp__tcp_p2p *p,
		      const struct ddp__tcp_p2p_setup *setup, struct err *e);
/* Messages under way are forgotten. Zeroed p is fine. */
void ddp__tcp_p2p_close(struct ddp__tcp_p2p *p);
/* Tells every rank with which there is a connection why this one stops. What
 * is under way, here and there, fails from now on. */
void ddp__tcp_p2p_abort(struct ddp__tcp_p2p *p, const struct err *e);

/* Borrows p, a copy of the call and the buffer until it has ended: it is linked
 * into p from its first advance on, until it ends or p is broken. */
struct ddp__tcp_msg {
	struct ddp__tcp_p2p *p;
	struct ddp__call call;
	char *buf;
	size_t size;
	int peer; /* rank of the communicator */
	int receives;
	size_t moved; /* with the frame */
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

/* 1: done. 0: the peer has not come yet. < 0: ERR_ARGUMENT (the peer's message
 * is of another count or type, which the peer hears, too, if it still sends),
 * ERR_REMOTE, ERR_SYSTEM (it cannot be reached), or the error with which the
 * peer aborted. After an error only abort and close are of use. */
int ddp__tcp_msg_advance(void *msg, struct err *e);
/* Advances it until it is done: 0 or an error, also of check. */
int ddp__tcp_msg_run(void *msg, struct err *e);
/* Changes when it moves. */
uint64_t ddp__tcp_msg_moved(const void *msg);

/* What all messages under way wait for; at most max into out. */
int ddp__tcp_p2p_polls(const struct ddp__tcp_p2p *p, struct pollfd *out,
		       int max);
/* After waited_ns in which it did not move: 0, or why waiting on is pointless.
 */
int ddp__tcp_msg_check(void *msg, uint64_t waited_ns, struct err *e);

/* ---- tcp_pair.c ---- */

enum { DDP__ADDRESSES_MAX = 8 };

struct ddp__greeting;

/* What there is with a rank. */
struct ddp__pair {
	int fd; /* -1: no connection yet */
	struct ddp__secure *secure; /* NULL: in plain */
	enum {
		DDP__PAIR_NONE,
		DDP__PAIR_CONNECTING,
		DDP__PAIR_GREETED, /* I said hello and wait for the answer */
		DDP__PAIR_DIFFERS, /* it called; one of us encrypts */
		DDP__PAIR_READY
	} state;
	struct ddp__tcp_msg *out, *in; /* under way */
	struct ddp__greeting *greeting;
};

/* 1: the pair of m is ready; 0: not yet. Connects where that is my part. */
int ddp__pair_ready(struct ddp__tcp_msg *m, struct err *e);
/* Accepts who connects: any lower rank may, at any time, and waits until I do;
 * so whoever waits himself calls this. */
void ddp__pairs_serve(struct ddp__tcp_p2p *p);
int ddp__pairs_init(struct ddp__tcp_p2p *p, struct err *e);
void ddp__pairs_close(struct ddp__tcp_p2p *p);
/* For the listener and those who are not known yet. */
int ddp__pairs_polls(const struct ddp__tcp_p2p *p, struct pollfd *out, int max);
/* "rank 3 on h1" into out[DDP__NAME_MAX] */
char *ddp__tcp_p2p_name(const struct ddp__tcp_p2p *p, int rank, char *out);

#endif
