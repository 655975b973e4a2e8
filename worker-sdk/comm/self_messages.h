/* self_messages.h: messages of a rank to itself, matched without a backend. A
 * sent message is copied and kept until it is received. For the program's
 * thread only. */
#ifndef SDK_SELF_MESSAGES_H
#define SDK_SELF_MESSAGES_H

#include "worker-sdk/comm/comm.h"

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
