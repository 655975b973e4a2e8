/* collective.h: the common part of the public collectives and messages: checks
 * a call and its buffers, enters it, and runs it or begins it. */
#ifndef SDK_COLLECTIVE_H
#define SDK_COLLECTIVE_H

#include "worker-sdk/comm/comm.h"

/* Passed as a call's request: the call returns when it is done. */
extern ddp_request *ddp__blocking;

/* A call of this rank. parts: the buffer's size in units of count elements, or
 * 1 in a call with counts; 0 if this rank does not use the buffer. */
struct ddp__use {
	struct ddp__call call;
	const void *send;
	void *recv;
	size_t send_parts, recv_parts;
};

/* Checks u and runs it, or begins it and sets *request. */
int ddp__collective(struct ddp_comm *c, struct ddp__use *u,
		    ddp_request **request);

/* Checks the type, the count and NULL buffers of a collective or message; parts
 * is the larger of the two. The error names the call. */
int ddp__check_use(const struct ddp_comm *c, const struct ddp__use *u,
		   size_t parts, struct err *e);
/* Sets *c to the communicator that serves u; for a backend with a `home`. */
int ddp__route(struct ddp_comm **c, const struct ddp__use *u, struct err *e);
/* All checks of a call with counts, in collective_v.c. */
int ddp__check_v(const struct ddp_comm *c, const struct ddp__use *u,
		 struct err *e);
/* The type and the operation of a reduction. */
int ddp__check_op(const struct ddp__call *call, struct err *e);
/* Sets ERR_ARGUMENT and a text that begins with the call. */
int ddp__refuse_use(const struct ddp__call *call, struct err *e,
		    const char *fmt, ...)
	__attribute__((cold, noinline, format(printf, 3, 4)));
/* Enters the call and runs or begins it; the caller has checked it. */
int ddp__run_or_begin(struct ddp_comm *c, struct ddp__use *u,
		      ddp_request **request, struct err *e);

#endif
