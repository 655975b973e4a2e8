/* request.h: an operation that the program has begun and not yet waited for.
 * request.c makes and frees requests for all backends; a backend moves them. */
#ifndef SDK_REQUEST_H
#define SDK_REQUEST_H

#include "worker-sdk/comm/comm.h"

struct ddp_request {
	struct ddp_comm *comm; /* NULL: it was freed */
	struct ddp__call call;
	const void *send;
	void *recv;
	/* of comm->requests; the program's thread only */
	struct ddp_request *next, **link;
	/* 1: ended well; < 0: failed, and comm->broken says why; 0: the
	 * backend has it. The program's thread only. */
	int ended;
	int own; /* a message to oneself, which no backend sees */
	/* the backend's: op_size bytes that go with the request */
	_Alignas(16) char op[];
};

/* A new request, zeroed except for the arguments and linked to c; NULL: no
 * memory. */
struct ddp_request *ddp__request_new(struct ddp_comm *c,
				     const struct ddp__call *call,
				     const void *send, void *recv);
/* ddp_test for a caller that has other work: does not yield the CPU. */
int ddp__request_test(struct ddp_request *r);
void ddp__request_free(struct ddp_request *r);
/* Its communicator is about to be freed: r fails, unless it has ended, and
 * stays until the program waits for it. */
void ddp__request_orphan(struct ddp_request *r);

#endif
