/* listener.h: a listening socket. A connection that its owner cannot take now
 * is kept and offered again; later ones wait in the kernel. They also wait
 * there when descriptors run out; libuv's own listener would close them. Knows
 * nothing of the clients. */
#ifndef RENDEZVOUS_LISTENER_H
#define RENDEZVOUS_LISTENER_H

#include "base/loop.h"

enum {
	LISTENER_AGAIN_MS = 50, /* when memory or descriptors have run out */
	LISTENER_BATCH = 64,    /* connections accepted in one loop turn */
	/* time without a descriptor after which clients are refused: they wait
	 * 5 s for a greeting */
	LISTENER_SCARCE_MS = 3000,
};

enum listener_answer {
	LISTENER_TOOK,      /* the owner has the descriptor */
	LISTENER_WAITS,     /* until listener_again */
	LISTENER_NO_MEMORY, /* offered again in a moment */
};

struct listener {
	uv_poll_t poll;
	uv_timer_t timer;
	int fd;
	void *owner;
	const char *whose; /* for the log: "PyTorch's store" */
	/* A connection. scarce: it got the last descriptor, and should be
	 * refused with that reason. */
	enum listener_answer (*on_connection)(struct listener *l, int fd,
					      int scarce);
	void (*on_closed)(struct listener *l); /* the last call; may be NULL */
	int tells;   /* its clients can be refused with a reason: scarce */
	int handles; /* that are not closed yet */
	int started;
	int reserve; /* a descriptor kept for refusals, or -1 */
	int pending; /* a connection that waits, or -1 */
	int scarce;  /* it got the reserved descriptor */
	int waits;   /* the owner has not taken the pending one */
	int logged;  /* has logged that it waits for memory */
	uint64_t full_since; /* no descriptor is left; loop time, or 0 */
};

/* Takes the socket, even if it fails. The caller has set owner, whose, tells
 * and the callbacks; listener_close has to follow, even after an error. */
int listener_open(struct listener *l, uv_loop_t *loop, int fd);
int listener_start(struct listener *l);
/* The owner may have room for the connection that waits. */
void listener_again(struct listener *l);
void listener_close(struct listener *l);

#endif
