/* torch_session.h: one client that speaks PyTorch's protocol: bytes in, replies
 * out, on the store of a round. Pure: sockets are its owner's. It does what
 * PyTorch's own server does, but for that one's faults (see the .c file). */
#ifndef RENDEZVOUS_TORCH_SESSION_H
#define RENDEZVOUS_TORCH_SESSION_H

#include "rendezvous/store/store.h"
#include "rendezvous/torch/torch_wire.h"

struct torch_session {
	struct store_waiter waiter; /* first: so it is found by it */
	struct store *store;
	struct buf *(*out)(struct torch_session *t); /* where replies go */
	/* It has done this, and its store is another now; NULL: nobody asks. */
	void (*changed)(struct torch_session *t, struct slice request);
	enum torch_generation generation;
	/* It has waited, and gives that up; NULL: nobody asks. */
	void (*gave_up)(struct torch_session *t);
	int parked;      /* in WAIT or BARRIER */
	struct torch_cursor cursor;
	struct buf owed; /* keys, u32 length each, of a WAIT that was answered
			  * for what is queued there: this one takes it next,
			  * or the next who waits may */
};

void torch_session_init(struct torch_session *t, struct store *store,
			struct buf *(*out)(struct torch_session *t));
/* What it was woken for and has not taken goes to the next who waits: call
 * store_answer_all after it. */
void torch_session_release(struct torch_session *t);

/* Takes the requests at the start of in; returns how many bytes those were, or
 * ERR_PROTOCOL, ERR_REFUSED, ERR_ARGUMENT, -ENOMEM with text: the connection
 * has to close, for the protocol has no error reply. What was applied before
 * stays. Call store_answer_all after it. */
long torch_session_take(struct torch_session *t, struct slice in,
			struct err *e);
/* Of one before it, of a server that is no more: its request, which changed a
 * store, changes this one. As torch_session_take. */
int torch_session_replay(struct store *store, enum torch_generation g,
			 struct slice request, struct err *e);
/* How many more bytes it takes until torch_session_take may get further. */
size_t torch_session_wants(const struct torch_session *t, struct slice in);

#endif
