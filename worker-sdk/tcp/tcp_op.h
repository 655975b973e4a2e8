/* tcp_op.h: one operation among the hosts' leaders, moved on without waiting.
 * It is a row of steps; a step is messages, each of which goes its way on its
 * own. What the steps of a collective are is tcp_collective.c's.
 *
 * Operations on one ddp__tcp are advanced one after the other, in the same
 * order on all hosts: the second not before the first has ended. Those of
 * several may be under way at once. */
#ifndef SDK_TCP_OP_H
#define SDK_TCP_OP_H

#include "worker-sdk/tcp/tcp.h"

struct pollfd;

/* A message on one socket. */
struct ddp__message {
	struct ddp__message *next; /* on the same socket, in the same way */
	char *data;
	size_t size;
	size_t moved; /* with the frame; of a fold: what was folded */
	/* To send: no byte before the same byte of this one has come. */
	const struct ddp__message *after;
	/* To receive: data becomes data op what comes, in whole elements, then
	 * is divided by divisor if that is over 1. */
	int folds, divisor;
	int ranks[2]; /* of data, and of what comes */
	unsigned char frame[DDP__FRAME];
};

/* The messages of a step on one socket in one way, in their order. */
struct ddp__stream {
	int link, sends;
	struct ddp__message *head, *tail;
	char *window;	 /* where what is to be folded comes in */
	size_t unfolded; /* bytes at its start, or of the frame before them */
	size_t got;	 /* of the frame and data of a message to fold */
};

struct ddp__tcp_op {
	struct ddp__tcp *t;
	struct ddp__call call;
	/* Ends the step before and adds the messages of the next; 1: there is
	 * none, the operation has ended. */
	int (*step)(struct ddp__tcp_op *op, struct err *e);
	int turn; /* steps so far */
	/* the collective's own */
	char *buf, *other;
	const size_t *begin, *other_begin;
	size_t count, elem;
	int root, divisor;
	int scaled; /* buffers hold what ddp__add_scaled takes */
	int phase;
	size_t *ranges;
	char *scratch; /* of t: what it holds ends with the operation */
	/* tcp_op.c's own */
	struct ddp__message *messages;
	int used, room;
	struct ddp__stream *streams;
	int busy, streams_room; /* those with messages left are the first */
	int noticed; /* the turn whose wait the hosts awaited know of */
	int moved; /* since it was last asked */
};

/* 1: it has ended; 0: others have not come yet; < 0: ERR_REMOTE, ERR_TIMEOUT,
 * ERR_ARGUMENT (a host is in another call), ERR_PROTOCOL, -ENOMEM, or the error
 * with which a host aborted. After one the caller releases the operation and
 * calls ddp__tcp_abort: nothing more can be moved. */
int ddp__tcp_advance(struct ddp__tcp_op *op, struct err *e);
/* Advances it to its end, waiting; then releases it. 0 or an error. */
int ddp__tcp_run(struct ddp__tcp_op *op, struct err *e);
/* Frees what it holds. An operation that was released, or never advanced, may
 * be released again. */
void ddp__tcp_op_release(struct ddp__tcp_op *op);

/* What the operation under way waits for: at most max of them into out; returns
 * how many. Call it after an advance that returned 0. */
int ddp__tcp_polls(const struct ddp__tcp *t, struct pollfd *out, int max);
/* After waited_ns without progress: 0, or why there is no sense in waiting on:
 * the timeout has passed, a host aborted, or is in another call. */
int ddp__tcp_look(struct ddp__tcp *t, uint64_t waited_ns, struct err *e);

/* ---- for steps ---- */

/* Room for `messages` messages over as many as `streams` pairs of host and
 * direction, in this step. -ENOMEM. */
int ddp__tcp_reserve(struct ddp__tcp_op *op, int messages, int streams,
		     struct err *e);
/* A message to or from a host; long ones are cut over the rails, the same way
 * at both ends. Returns the first piece. after (NULL: none) is what a message
 * of the same size that comes returned. */
struct ddp__message *ddp__tcp_send_to(struct ddp__tcp_op *op, int host,
				      const void *data, size_t size,
				      const struct ddp__message *after);
struct ddp__message *ddp__tcp_receive_from(struct ddp__tcp_op *op, int host,
					   void *data, size_t size);
/* As receive_from, but what comes, which is of so many ranks, is reduced into
 * data as it comes; the last time it is divided where the op is DDP_AVG. */
struct ddp__message *ddp__tcp_fold_from(struct ddp__tcp_op *op, int host,
					void *data, size_t size, int ranks,
					int last);

/* op->scratch has size bytes; -ENOMEM. */
int ddp__tcp_scratch(struct ddp__tcp_op *op, size_t size, struct err *e);

#endif
