/* tcp_steps.h: the messages of a step of algorithms/transport.h, over the
 * sockets between the hosts' leaders. Each message moves independently of the
 * others. These functions are the `step` group of tcp's row. */
#ifndef SDK_TCP_STEPS_H
#define SDK_TCP_STEPS_H

#include "worker-sdk/algorithms/transport.h"
#include "worker-sdk/tcp/tcp.h"

/* A message, or its part for one rail. */
struct ddp__piece {
	struct ddp__piece *next; /* next on the same socket in the same
				  * direction */
	char *data;
	size_t size;
	size_t moved; /* with the frame; for a fold: bytes folded */
	/* For sending: each byte is sent only after the same byte of this piece
	 * has been received. */
	const struct ddp__piece *after;
	/* For receiving: the arriving elements are folded into data, which is
	 * then divided by divisor if that is over 1. */
	int folds, divisor;
	int ranks[2]; /* ranks summed in data, and in the arriving bytes */
	unsigned char frame[DDP__FRAME];
};

/* The pieces of a step on one socket in one direction, in their order. */
struct ddp__stream {
	int link, sends;
	struct ddp__piece *head, *tail;
	char *window;	 /* buffer for the arriving bytes of a fold */
	size_t unfolded; /* bytes at the window's start, or of the frame before
			  * them */
	size_t got;	 /* bytes of the frame and data of the piece to fold */
};

void ddp__tcp_step_begin(struct ddp__schedule *s);
int ddp__tcp_step_reserve(struct ddp__schedule *s, int messages, int pairs,
			  struct err *e);
/* Long messages are cut into pieces for the rails, the same way at both ends;
 * the handle is the first piece. */
void *ddp__tcp_step_send(struct ddp__schedule *s, int host, const void *data,
			 size_t size, const void *after);
void *ddp__tcp_step_recv(struct ddp__schedule *s, int host, void *data,
			 size_t size);
void *ddp__tcp_step_fold(struct ddp__schedule *s, int host, void *data,
			 size_t size, int ranks, int last);
int ddp__tcp_step_scratch(struct ddp__schedule *s, size_t size, struct err *e);
int ddp__tcp_step_advance(struct ddp__schedule *s, struct err *e);
int ddp__tcp_step_wait(struct ddp__schedule *s, struct err *e);
/* Before an operation: counts what was sent until then, so that
 * ddp__tcp_step_check knows what was lost in it. */
void ddp__tcp_count_before(struct ddp__tcp *t);
int ddp__tcp_step_check(void *tcp, uint64_t waited_ns, struct err *e);
void ddp__tcp_step_release(struct ddp__schedule *s);
/* The descriptors that the schedule under way waits for: at most max of them
 * into out. */
int ddp__tcp_step_polls(const struct ddp__tcp *t, struct pollfd *out, int max);

#endif
