/* collective.h: what the public calls have in common: a call with its buffers
 * is checked, entered, and done at once or begun. */
#ifndef SDK_COLLECTIVE_H
#define SDK_COLLECTIVE_H

#include "worker-sdk/comm/comm.h"

/* Given for the request where the call is to return when it is done. */
extern ddp_request *ddp__blocking;

/* A call of this rank. parts: how many times count elements the buffer has; 0
 * where this rank does not use it. */
struct ddp__use {
	struct ddp__call call;
	const void *send;
	void *recv;
	size_t send_parts, recv_parts;
};

/* Checks u and does it; or begins it and sets *request. */
int ddp__collective(struct ddp_comm *c, struct ddp__use *u,
		    ddp_request **request);

/* Of both kinds of calls: is the type known, the count possible, a buffer
 * missing; parts is the larger. The text names the call. */
int ddp__check_use(const struct ddp_comm *c, const struct ddp__use *u,
		   size_t parts, struct err *e);
/* Makes *c the communicator that serves u; for a backend that has a home. */
int ddp__route(struct ddp_comm **c, const struct ddp__use *u, struct err *e);
/* After the checks. */
int ddp__run_or_begin(struct ddp_comm *c, struct ddp__use *u,
		      ddp_request **request, struct err *e);

#endif
