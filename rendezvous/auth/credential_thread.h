/* credential_thread.h: a question to munge in a thread of its own, and its
 * answer on the loop. Not in libuv's threads: libmunge tries for 10 s, and a
 * program that ends meanwhile would have to wait for those. */
#ifndef RENDEZVOUS_CREDENTIAL_THREAD_H
#define RENDEZVOUS_CREDENTIAL_THREAD_H

#include "base/loop.h"
#include "rendezvous/auth/credential.h"

struct credential_thread;

typedef void (*credential_answer_cb)(void *owner,
				     const struct credential_question *q);

/* Asks a copy of q; on_answer comes once, from the loop, with its answer, and
 * *out is invalid from then on. An error: it could not be asked (memory,
 * descriptors, threads). */
int credential_thread_start(struct credential_thread **out, uv_loop_t *loop,
			    const struct credential_question *q,
			    credential_answer_cb on_answer, void *owner,
			    struct err *e);
/* No answer is wanted any more. The loop can end, and so can the program. */
void credential_thread_forget(struct credential_thread *t);

#endif
