/* credential_thread.c: the thread, and an eventfd that wakes the loop when it
 * is done. Both hold the question; the last to release it frees it. */
#include "rendezvous/auth/credential.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"
#include "rendezvous/auth/proof.h"

struct credential_thread {
	struct credential_question q;
	uv_poll_t poll; /* watches done */
	int done;       /* an eventfd */
	atomic_int holders;
	credential_answer_cb on_answer;
	void *owner;
};

static void credential_thread_release(struct credential_thread *t)
{
	if (atomic_fetch_sub(&t->holders, 1) > 1)
		return;
	close(t->done);
	proof_wipe(&t->q, sizeof(t->q));
	free(t);
}

static void *credential_thread_run(void *arg)
{
	struct credential_thread *t = arg;

	credential_ask(&t->q);
	eventfd_write(t->done, 1);
	credential_thread_release(t);
	return NULL;
}

static void credential_thread_on_closed(uv_handle_t *h)
{
	credential_thread_release(h->data);
}

void credential_thread_forget(struct credential_thread *t)
{
	uv_close((uv_handle_t *)&t->poll, credential_thread_on_closed);
}

static void credential_thread_on_done(uv_poll_t *poll, int status, int events)
{
	struct credential_thread *t = poll->data;
	eventfd_t n;

	if (eventfd_read(t->done, &n) < 0)
		return;
	t->on_answer(t->owner, &t->q);
	credential_thread_forget(t);
}

/* Once the handle is open, t is freed in its close callback. */
static int credential_thread_open_poll(struct credential_thread *t,
				       uv_loop_t *loop)
{
	int rc = uv_poll_init(loop, &t->poll, t->done);

	if (rc < 0) {
		credential_thread_release(t);
		return rc;
	}
	t->poll.data = t;
	rc = uv_poll_start(&t->poll, UV_READABLE, credential_thread_on_done);
	if (rc == 0) {
		atomic_fetch_add(&t->holders, 1);
		rc = thread_detach(credential_thread_run, t, 0);
		if (rc < 0)
			atomic_fetch_sub(&t->holders, 1);
	}
	if (rc < 0)
		credential_thread_forget(t);
	return rc;
}

int credential_thread_start(struct credential_thread **out, uv_loop_t *loop,
			    const struct credential_question *q,
			    credential_answer_cb on_answer, void *owner,
			    struct err *e)
{
	struct credential_thread *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return err_no_memory(e, "a query to munge");
	t->q = *q;
	t->on_answer = on_answer;
	t->owner = owner;
	atomic_init(&t->holders, 1);
	t->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = t->done < 0 ? -errno : 0;
	if (rc < 0)
		free(t);
	else
		rc = credential_thread_open_poll(t, loop);
	if (rc == 0)
		*out = t;
	return loop_check(rc, e, "cannot start a query to munge");
}
