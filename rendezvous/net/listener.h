/* listener.h: one listening socket. A connection that its owner cannot take now
 * is kept, and offered again; those behind it wait in the kernel. So they do
 * where no descriptor is left, which libuv's own listening would answer by
 * closing them without a word. Knows nothing of who connects. */
#ifndef RENDEZVOUS_LISTENER_H
#define RENDEZVOUS_LISTENER_H

#include "base/loop.h"

enum {
	LISTENER_AGAIN_MS = 50, /* where memory or descriptors ran out */
	LISTENER_BATCH = 64,    /* connections, then others have their turn */
	/* without a descriptor, until those who come are told: clients wait
	 * 5 s for a greeting */
	LISTENER_SCARCE_MS = 3000,
};

enum listener_answer {
	LISTENER_TOOK,      /* the descriptor, whatever came of it */
	LISTENER_WAITS,     /* until listener_again */
	LISTENER_NO_MEMORY, /* offered again in a moment */
};

struct listener {
	uv_poll_t poll;
	uv_timer_t timer;
	int fd;
	void *owner;
	const char *whose; /* for the log: "the PyTorch store" */
	/* A connection. scarce: there was no descriptor for it but the last
	 * one, and it is to be told so, and closed. */
	enum listener_answer (*on_connection)(struct listener *l, int fd,
					      int scarce);
	void (*on_closed)(struct listener *l); /* the last call; may be NULL */
	int tells;   /* its clients can be told something (see scarce) */
	int handles; /* that are not closed yet */
	int started;
	int reserve; /* a descriptor to tell them with, or -1 */
	int pending; /* a connection that waits, or -1 */
	int scarce;  /* that is what it is */
	int waits;   /* a connection has been accepted and is not taken */
	int logged;  /* that it waits for memory */
	uint64_t full_since; /* no descriptor is left; loop time, or 0 */
};

/* Takes the socket, in any case. The caller has set owner, whose, tells and the
 * callbacks; listener_close has to follow, also after an error. */
int listener_open(struct listener *l, uv_loop_t *loop, int fd);
int listener_start(struct listener *l);
/* What made a connection wait has changed. */
void listener_again(struct listener *l);
void listener_close(struct listener *l);

#endif
