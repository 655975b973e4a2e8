/* request.h: an operation that the program has begun and not yet waited for.
 * request.c makes and frees requests for all backends; a backend advances
 * them. */
#ifndef SDK_REQUEST_H
#define SDK_REQUEST_H

#include "worker-sdk/comm/comm.h"

struct ddp_request {
	struct ddp_comm *comm; /* NULL: the communicator was freed */
	struct ddp__call call;
	const void *send;
	void *recv;
	/* list comm->requests; the program's thread only */
	struct ddp_request *next, **link;
	/* 1: ended well; < 0: failed, and comm->broken holds the reason; 0: the
	 * backend still has it. The program's thread only. */
	int ended;
	int own; /* a message of this rank to itself, which no backend sees */
	/* the backend's op_size bytes, freed with the request */
	_Alignas(16) char op[];
};

/* A new request, zeroed except for the arguments and linked to c; NULL: no
 * memory. */
struct ddp_request *ddp__request_new(struct ddp_comm *c,
				     const struct ddp__call *call,
				     const void *send, void *recv);
/* As ddp_test, for a caller with other work: does not yield the CPU. */
int ddp__request_test(struct ddp_request *r);
void ddp__request_free(struct ddp_request *r);
/* The request's communicator is about to be freed: r fails, unless it has
 * ended, and stays until the program waits for it. */
void ddp__request_orphan(struct ddp_request *r);

/* ---- self_messages.c ----
 *
 * Messages of a rank to itself, matched without a backend. A sent message is
 * copied and kept until it is received. For the program's thread only. */

struct ddp__use;

/* As ddp__run_or_begin. A blocking receive fails if its message was not sent:
 * it could never end. */
int ddp__self_message(struct ddp_comm *c, struct ddp__use *u,
		     ddp_request **request, struct err *e);
/* Tests a request without a counterpart: 0; waiting without limit is an
 * error. */
int ddp__self_test(struct ddp_request *r, int timeout_ms, struct err *e);
/* The request will no longer be received. */
void ddp__self_forget(struct ddp_request *r);
void ddp__self_release(struct ddp_comm *c);

#endif
