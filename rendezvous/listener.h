/* listener.h: one listening socket. libuv accepts a connection before it asks,
 * and accepts no other until that one is taken: so a connection that cannot be
 * taken now is kept, and offered again. Knows nothing of who connects. */
#ifndef RENDEZVOUS_LISTENER_H
#define RENDEZVOUS_LISTENER_H

#include "base/loop.h"

enum { LISTENER_AGAIN_MS = 50 }; /* where memory ran out */

enum listener_answer {
	LISTENER_TOOK,      /* by uv_accept on &l->tcp, whatever came of it */
	LISTENER_WAITS,     /* until listener_again */
	LISTENER_NO_MEMORY, /* offered again in a moment */
};

struct listener {
	uv_tcp_t tcp;
	uv_timer_t timer;
	void *owner;
	const char *whose; /* for the log: "the PyTorch store" */
	enum listener_answer (*on_connection)(struct listener *l);
	void (*on_closed)(struct listener *l); /* the last call; may be NULL */
	int handles; /* that are not closed yet */
	int waits;   /* a connection has been accepted and is not taken */
	int logged;  /* that it waits for memory */
};

/* Takes the socket, in any case. The caller has set owner, whose and the
 * callbacks; listener_close has to follow, also after an error. */
int listener_open(struct listener *l, uv_loop_t *loop, int fd);
int listener_start(struct listener *l);
/* What made a connection wait has changed. */
void listener_again(struct listener *l);
void listener_close(struct listener *l);

#endif
