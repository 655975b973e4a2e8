/* entry.c: why a call is turned away, and counting forks. */
#include "worker-sdk/entry.h"

#include <pthread.h>
#include <string.h>

unsigned ddp__forks;

static int watching; /* or the error of pthread_atfork */

static void on_fork(void)
{
	ddp__forks++;
}

static void watch(void)
{
	watching = pthread_atfork(NULL, NULL, on_fork);
}

int ddp__watch_forks(struct err *e)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch);
	if (!watching)
		return 0;
	return err_set(e, -watching, "ddp_init: pthread_atfork: %s",
		       strerror(watching));
}

int ddp__check_comm(const struct ddp_comm *c, const char *what, struct err *e)
{
	if (!c)
		return err_set(e, ERR_ARGUMENT, "%s: the communicator is NULL",
			       what);
	if (c->magic != DDP__ALIVE)
		return err_set(e, ERR_ARGUMENT,
			       "%s: the communicator was freed", what);
	if (c->world->forks == ddp__forks)
		return 0;
	return err_set(e, ERR_USAGE,
		       "%s: this process was forked off rank %d (pid %lld) "
		       "after ddp_init and is no rank: only ddp_finalize is of "
		       "use here",
		       what, c->world->env.rank, (long long)c->world->pid);
}

int ddp__refuse(struct ddp_comm *c, const struct ddp__call *call, struct err *e)
{
	char mine[DDP__CALL_TEXT], theirs[DDP__CALL_TEXT];
	struct ddp__call other;
	uint64_t number;
	int rc = ddp__check_comm(c, ddp__call_text(call, mine), e);

	if (rc)
		return rc;
	number = atomic_load(&c->world->user_number);
	ddp__call_unpack(&other, atomic_load(&c->world->user), number);
	if (ddp__is_message(&other))
		other.number = 0;
	return err_set(e, ERR_USAGE,
		       "%s: another thread is in %s of this world: its "
		       "communicators are used by one thread at a time",
		       mine, ddp__call_text(&other, theirs));
}
