/* call_guard.c: refuses calls that may not use a communicator now, with the
 * reason, and counts forks. */
#include "worker-sdk/comm/call_guard.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

unsigned ddp__forks;

static int watching; /* 0, or the error of pthread_atfork */

static void guard_on_fork(void)
{
	ddp__forks++;
}

static void guard_watch_forks(void)
{
	watching = pthread_atfork(NULL, NULL, guard_on_fork);
}

int ddp__watch_forks(struct err *e)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, guard_watch_forks);
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
	return err_set(
		e, ERR_CALLER,
		"%s: this process was forked from rank %d (pid %lld) after "
		"ddp_init and is not a rank: it may only call ddp_finalize",
		what, c->world->env.rank, (long long)c->world->pid);
}

/* Makes every thread of this process pass a memory barrier. If the kernel
 * refuses (before 4.14, or seccomp), threads that enter within nanoseconds of
 * each other are not detected. */
static void guard_barrier(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) &&
	    !syscall(SYS_membarrier,
		     MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

/* theirs: the call that the other thread is in; 0: it has left that call
 * since. */
static int guard_turn_away(struct ddp_comm *c, const struct ddp__call *call,
			   uint64_t theirs, uint64_t number, struct err *e)
{
	char mine[DDP__CALL_TEXT], text[DDP__CALL_TEXT] = "a call";
	struct ddp__call other;

	ddp__call_unpack(&other, theirs, number);
	if (ddp__is_message(&other))
		other.number = 0;
	if (theirs)
		ddp__call_text(&other, text);
	return err_set(e, ERR_CALLER,
		       "%s: another thread is in %s of this world: only one "
		       "thread at a time may use its communicators",
		       ddp__call_text(call, mine), text);
}

int ddp__refuse(struct ddp_comm *c, const struct ddp__call *call, struct err *e)
{
	char text[DDP__CALL_TEXT];
	int rc = ddp__check_comm(c, ddp__call_text(call, text), e);

	return rc ? rc
		  : guard_turn_away(c, call, atomic_load(&c->world->user),
				    atomic_load(&c->world->user_number), e);
}

/* Refuses a call because of a thread that is about to enter one, whose number
 * only that thread knows. */
static int guard_refuse_thread(struct ddp_comm *c, const struct ddp__call *call,
			       struct err *e)
{
	return guard_turn_away(c, call, atomic_load(&c->world->other), 0, e);
}

int ddp__acquire_anew(struct ddp_comm *c, const struct ddp__call *call,
		     struct err *e)
{
	struct ddp__world *w = c->world;
	uint64_t none = 0, word = ddp__call_pack(call);
	int rc = 0;

	if (!atomic_compare_exchange_strong(&w->other, &none, word))
		return guard_refuse_thread(c, call, e);
	/* A thread that set w->user before this is seen below; a thread that
	 * sets it later sees w->other. */
	if (DDP__SAME_THREAD)
		guard_barrier();
	if (atomic_compare_exchange_strong(&w->user, &none, word)) {
		atomic_store(&w->user_number, c->calls + 1);
		if (DDP__SAME_THREAD)
			atomic_store(&w->thread, (uintptr_t)pthread_self());
	} else {
		rc = guard_turn_away(c, call, none,
				     atomic_load(&w->user_number), e);
	}
	atomic_store(&w->other, 0);
	return rc;
}

int ddp__yield(struct ddp_comm *c, const struct ddp__call *call,
		  struct err *e)
{
	uint64_t mine = ddp__call_pack(call);
	int rc = guard_refuse_thread(c, call, e);

	/* unless the other thread has stored its own call since */
	atomic_compare_exchange_strong(&c->world->user, &mine, 0);
	return rc;
}
