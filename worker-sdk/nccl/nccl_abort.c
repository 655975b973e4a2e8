/* nccl_abort.c: aborts communicators at the same time. In an NCCL group all get
 * the flag to stop first, and each is then ended by a thread of its own
 * (src/init.cc, setCommAbortFlags; src/group.cc, asyncJobLaunch; NCCL 2.22 to
 * 2.30). Before 2.22 ncclCommAbort does not wait for the end of the group, so
 * the threads are ours. */
#include <pthread.h>
#include <stdlib.h>

#include "worker-sdk/nccl/nccl_backend.h"

enum { ABORTS_IN_GROUPS = 22200 };

struct ddp__abort_thread {
	struct ddp__abort_thread *next;
	const struct ddp__nccl_lib *lib;
	void *comm;
	pthread_t thread;
};

static int abort_has_groups(const struct ddp__aborts *a)
{
	return a->lib->version >= ABORTS_IN_GROUPS;
}

void ddp__aborts_begin(struct ddp__aborts *a, const struct ddp__nccl_lib *lib)
{
	*a = (struct ddp__aborts){.lib = lib};
	if (abort_has_groups(a))
		lib->group_start();
}

static void *abort_main(void *arg)
{
	struct ddp__abort_thread *t = arg;

	t->lib->abort(t->comm);
	return NULL;
}

/* NULL: no memory. */
static struct ddp__abort_thread *abort_thread_new(struct ddp__aborts *a)
{
	struct ddp__abort_thread *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->lib = a->lib;
	t->next = a->threads;
	a->threads = t;
	return t;
}

void ddp__aborts_add(struct ddp__aborts *a, void *comm)
{
	struct ddp__abort_thread *t;

	if (abort_has_groups(a)) {
		a->lib->abort(comm);
		return;
	}
	t = abort_thread_new(a);
	if (!t)
		return; /* it stays in NCCL until the process ends */
	t->comm = comm;
	if (pthread_create(&t->thread, NULL, abort_main, t)) {
		a->threads = t->next;
		free(t);
	}
}

void ddp__aborts_join(struct ddp__aborts *a, pthread_t thread)
{
	struct ddp__abort_thread *t = abort_thread_new(a);

	if (t)
		t->thread = thread;
}

void ddp__aborts_end(struct ddp__aborts *a)
{
	if (abort_has_groups(a))
		a->lib->group_end();
	while (a->threads) {
		struct ddp__abort_thread *t = a->threads;

		a->threads = t->next;
		pthread_join(t->thread, NULL);
		free(t);
	}
}
