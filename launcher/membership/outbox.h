/* outbox.h: this node's notices that the next server may not have: EXITED,
 * FAILED and STOP since the last JOIN, as frames in the order in which they
 * were added. A server that resumes this node says how many it has; the rest is
 * replayed. Owns the bytes, sends nothing. Pure; all that fails is memory. */
#ifndef LAUNCHER_OUTBOX_H
#define LAUNCHER_OUTBOX_H

#include "base/buf.h"
#include "base/error.h"
#include "rendezvous/wire.h"

struct outbox {
	struct buf frames;
	/* One of them is more than a worker's exit with code 0: without a
	 * server this node cannot go on. */
	int is_urgent;
};

void outbox_init(struct outbox *o);
void outbox_release(struct outbox *o);

/* A JOIN is sent: the server needs nothing that came before it. */
void outbox_clear(struct outbox *o);

/* Adds a notice. frame is the part to send now, if there is a server; valid
 * until the next call. -ENOMEM or -ENOBUFS, with text: then the outbox is of no
 * use any more, as the server would wait for what it cannot have. */
int outbox_add_exited(struct outbox *o, const struct wire_exited *x,
		      struct slice *frame, struct err *e);
int outbox_add_failed(struct outbox *o, const struct wire_failed *x,
		      struct slice *frame, struct err *e);
int outbox_add_stop(struct outbox *o, const struct wire_stop *x,
		    struct slice *frame, struct err *e);

/* The frames after the first `heard`, which the server has. */
struct slice outbox_unheard(const struct outbox *o, uint32_t heard);

#endif
