/* credential_thread.h: asks munge in a separate thread and delivers the answer
 * on the loop. libuv's pool is unsuitable: libmunge retries for 10 s, and a
 * program that ends meanwhile would have to wait for the pool. */
#ifndef RENDEZVOUS_CREDENTIAL_THREAD_H
#define RENDEZVOUS_CREDENTIAL_THREAD_H

#include "base/loop.h"
#include "rendezvous/auth/credential.h"

struct credential_thread;

typedef void (*credential_answer_cb)(void *owner,
				     const struct credential_question *q);

/* Asks a copy of q, then calls on_answer once, from the loop; *out is invalid
 * from then on. Fails for lack of memory, descriptors or threads. */
int credential_thread_start(struct credential_thread **out, uv_loop_t *loop,
			    const struct credential_question *q,
			    credential_answer_cb on_answer, void *owner,
			    struct err *e);
/* The answer is not wanted any more: the loop and the program can end. */
void credential_thread_forget(struct credential_thread *t);

#endif
