/* progress.c: the thread that advances a world's operations while the program
 * computes. It holds the engine's lock except while it sleeps or the program
 * asks for it. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/comm/engine.h"
#include "worker-sdk/core/last_error.h"

/* It spins only briefly, for operations that follow immediately: the program
 * needs the CPU. */
#define SPIN_NS 10000u

void ddp__progress_wake(struct ddp__engine *en)
{
	en->changed = 0;
	eventfd_write(en->bell, 1);
}

/* Lets the program take the lock; a plain unlock would not ensure that. */
static void progress_yield(struct ddp__engine *en)
{
	if (!atomic_load(&en->wanted))
		return;
	pthread_mutex_unlock(&en->lock);
	while (atomic_load(&en->wanted))
		sched_yield();
	pthread_mutex_lock(&en->lock);
}

static void *progress_thread(void *arg)
{
	struct ddp__engine *en = arg;
	struct ddp__sleeper sleeper = {NULL, 0, 0, 0};
	struct ddp__pace pace = {0, 1};
	eventfd_t count;

	pthread_mutex_lock(&en->lock);
	while (!en->stopped) {
		int ms = -1;

		if (en->tasks) {
			int moved = ddp__engine_move(en);

			ms = en->tasks ? ddp__pace(&pace, moved, SPIN_NS) : 0;
		}
		if (ms) {
			en->changed = 0;
			ddp__engine_sleep(en, &sleeper, ms, en->bell);
			eventfd_read(en->bell, &count);
			ddp__engine_check(en);
		}
		progress_yield(en);
	}
	pthread_mutex_unlock(&en->lock);
	free(sleeper.polls);
	return NULL;
}

/* The new thread blocks all signals, so that the program's threads get them. It
 * waits for the lock until it is on its CPU: musl has no attribute for that. */
static int progress_start_thread(struct ddp__engine *en, const cpu_set_t *cpus)
{
	sigset_t all, old;
	int rc, runs;

	pthread_mutex_lock(&en->lock);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&en->thread, NULL, progress_thread, en);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	runs = rc == 0;
	if (runs && cpus)
		rc = pthread_setaffinity_np(en->thread, sizeof(*cpus), cpus);
	en->stopped = runs && rc;
	pthread_mutex_unlock(&en->lock);
	if (runs && rc) {
		pthread_join(en->thread, NULL);
		en->stopped = 0;
	}
	return rc;
}

int ddp__progress_run(struct ddp__engine *en, int cpu, struct err *e)
{
	cpu_set_t cpus;
	int rc;

	if (en->threaded)
		return 0;
	en->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (en->bell < 0)
		return err_set(e, -errno, "ddp_progress_start: eventfd: %s",
			       strerror(errno));
	CPU_ZERO(&cpus);
	if (cpu >= 0 && cpu < CPU_SETSIZE)
		CPU_SET(cpu, &cpus);
	rc = cpu >= CPU_SETSIZE
		     ? EINVAL
		     : progress_start_thread(en, cpu < 0 ? NULL : &cpus);
	if (rc) {
		close(en->bell);
		en->bell = -1;
		return err_set(e, rc == EINVAL ? ERR_ARGUMENT : -rc,
			       "ddp_progress_start: cannot start a thread on "
			       "CPU %d: %s",
			       cpu, strerror(rc));
	}
	en->threaded = 1;
	return 0;
}

void ddp__progress_end(struct ddp__engine *en)
{
	if (!en->threaded)
		return;
	ddp__engine_lock(en);
	en->stopped = 1;
	ddp__progress_wake(en);
	pthread_mutex_unlock(&en->lock);
	pthread_join(en->thread, NULL);
	close(en->bell);
	en->bell = -1;
	en->threaded = en->stopped = 0;
}

int ddp_progress_start(ddp_comm *world, int cpu)
{
	static const struct ddp__call call = {.kind = DDP__PROGRESS};
	struct err *e = ddp__last_error();
	int rc = ddp__acquire(world, &call, e);

	if (rc)
		return rc;
	if (world->name[0])
		rc = err_set(e, ERR_ARGUMENT,
			     "ddp_progress_start: this communicator is group "
			     "%s: give the world",
			     world->name);
	else if (world->state && world->backend->progress)
		rc = world->backend->progress(world, cpu, e);
	ddp__release(world);
	return rc;
}
