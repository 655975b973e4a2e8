/* torch_session.h: one client that speaks PyTorch's protocol: bytes in, replies
 * out, on the store of a round. Pure: its owner has the sockets. Behaves as
 * PyTorch's own server, without its faults (see the .c file). */
#ifndef RENDEZVOUS_TORCH_SESSION_H
#define RENDEZVOUS_TORCH_SESSION_H

#include "rendezvous/store/store.h"
#include "rendezvous/torch/torch_wire.h"

struct torch_session {
	struct store_waiter waiter; /* first: the waiter is cast to the
				     * session */
	struct store *store;
	struct buf *(*out)(struct torch_session *t); /* the buffer for
						      * replies */
	/* The request changed the store. May be NULL. */
	void (*changed)(struct torch_session *t, struct slice request);
	enum torch_generation generation;
	/* The client gave up a wait. May be NULL. */
	void (*gave_up)(struct torch_session *t);
	int parked;      /* in WAIT or BARRIER */
	struct torch_cursor cursor;
	struct buf owed; /* keys, each after a u32 length, of a WAIT that was
			  * answered because values are queued there: this
			  * client takes them next, or the next waiter is
			  * woken */
};

void torch_session_init(struct torch_session *t, struct store *store,
			struct buf *(*out)(struct torch_session *t));
/* Offers values that it was woken for and has not taken to the next waiter.
 * Call store_answer_all after it. */
void torch_session_release(struct torch_session *t);

/* Executes the complete requests at the start of in. Returns their size, or
 * ERR_PROTOCOL, ERR_REFUSED, ERR_ARGUMENT or -ENOMEM with text: the connection
 * must be closed, because the protocol has no error replies. Requests that were
 * executed stay in effect. Call store_answer_all after it. */
long torch_session_take(struct torch_session *t, struct slice in,
			struct err *e);
/* Repeats a request from the journal, which changed the store of a former
 * server. Errors as torch_session_take. */
int torch_session_replay(struct store *store, enum torch_generation g,
			 struct slice request, struct err *e);
/* The number of further bytes that torch_session_take needs to make
 * progress. */
size_t torch_session_wants(const struct torch_session *t, struct slice in);

#endif
