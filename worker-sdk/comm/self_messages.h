/* self_messages.h: messages of a rank to itself, matched without a backend.
 * What is sent is copied, and kept until it is received. The program's thread
 * only. */
#ifndef SDK_SELF_MESSAGES_H
#define SDK_SELF_MESSAGES_H

#include "worker-sdk/comm/comm.h"

struct ddp__use;

/* Sent or to be received and without its counterpart yet, oldest first: there
 * are only ever those of one kind. */
struct ddp__letter;

/* As ddp__run_or_begin. A blocking receive of what was not sent is an error:
 * it would wait for ever. */
int ddp__self_message(struct ddp_comm *c, struct ddp__use *u,
		     ddp_request **request, struct err *e);
/* Of a request that was not received yet: 0; waiting for ever is an error. */
int ddp__self_test(struct ddp_request *r, int timeout_ms, struct err *e);
/* The request will not be received any more. */
void ddp__self_forget(struct ddp_request *r);
void ddp__self_release(struct ddp_comm *c);

#endif
