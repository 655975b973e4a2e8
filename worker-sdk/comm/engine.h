/* engine.h: what the cpu backend has under way in one world: the collectives of
 * each communicator in a queue, messages in one for each peer and direction;
 * moving them on, and waiting for whatever they wait for.
 *
 * All of it is behind one lock. Without a progress thread nobody contends for
 * it and it is not taken; whoever holds it moves everything on, and may sleep
 * with it: the thread has nothing to do then. */
#ifndef SDK_ENGINE_H
#define SDK_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "worker-sdk/comm/request.h"
#include "worker-sdk/comm/task.h"

struct ddp__cpu;

/* Tasks of which the first is under way. */
struct ddp__queue {
	struct ddp__queue *next; /* of the engine's busy ones */
	struct ddp__cpu *cpu;
	struct ddp__task *first, **last;
	int busy;
};

struct ddp__engine {
	pthread_mutex_t lock;
	_Atomic int wanted;	 /* by the program: the thread lets it by */
	int cpus;		 /* communicators that use it */
	struct ddp__queue *busy; /* those with tasks */
	int tasks;		 /* in all queues */
	int changed;		 /* since the thread went to sleep */
	uint64_t looked;	 /* when, last; ns */
	struct ddp__sleeper sleeper;
	/* the thread's; threaded is the program's to know */
	int threaded;
	pthread_t thread;
	int bell;    /* eventfd that wakes it */
	int asleep;  /* in poll */
	int stopped; /* it shall end */
};

/* The world's, made with its first communicator; one user more of it. */
int ddp__engine_use(struct ddp__world *w, struct err *e);
/* The last one ends the thread and frees it. */
void ddp__engine_leave(struct ddp__world *w);

/* By the program's thread: around everything below. */
static inline void ddp__engine_lock(struct ddp__engine *en)
{
	if (!en->threaded)
		return;
	atomic_fetch_add(&en->wanted, 1);
	pthread_mutex_lock(&en->lock);
	atomic_fetch_sub(&en->wanted, 1);
}

/* Leaves what is still under way to the thread. */
void ddp__progress_wake(struct ddp__engine *en);

static inline void ddp__engine_unlock(struct ddp__engine *en)
{
	if (!en->threaded)
		return;
	if (en->tasks && en->asleep && en->changed)
		ddp__progress_wake(en);
	pthread_mutex_unlock(&en->lock);
}

/* Fills t, all of which last until it has ended, and queues it. -ENOMEM. */
int ddp__engine_add(struct ddp__engine *en, struct ddp__task *t,
		    struct ddp_comm *c, const struct ddp__call *call,
		    const void *send, void *recv, struct err *e);
/* Does it right here, while nothing is queued: without a queue, memory or a
 * system call. 1: done; 0: it cannot be done so, and nothing was. */
int ddp__engine_run(struct ddp_comm *c, const struct ddp__call *call,
		    const void *send, void *recv, struct err *e);
/* Moves all queues as far as they go; 1 if any moved. */
int ddp__engine_move(struct ddp__engine *en);
/* Moves all until t has ended, for at most timeout_ms (< 0: for ever). */
void ddp__engine_wait(struct ddp__engine *en, struct ddp__task *t,
		      int timeout_ms);

/* Whether what stands still may still go on; now and then. */
void ddp__engine_look(struct ddp__engine *en);
/* What stands still counts as having moved just now. */
void ddp__engine_forgive(struct ddp__engine *en);
/* Sleeps until something may have come, at most ms (< 0: for ever). With a bell
 * (else -1): also until that is readable, and without the lock. */
void ddp__engine_sleep(struct ddp__engine *en, struct ddp__sleeper *s, int ms,
		       int bell);

/* How one who waits goes about it: first it spins, then it sleeps, and longer
 * each time. */
struct ddp__pace {
	uint64_t quiet; /* since when nothing moved; 0: it moves */
	int ms;
};
/* After a move: how long to sleep; 0: not yet. */
int ddp__pace(struct ddp__pace *p, int moved, uint64_t spin_ns);

/* Fails all tasks of a communicator, now and later, and lets the other ranks
 * know; the first error stays. */
void ddp__engine_fail(struct ddp_comm *c, const struct err *e);
/* The same after a failed wait; *e becomes the deadlock that it was part of. */
void ddp__engine_fail_in_wait(struct ddp_comm *c, struct err *e);
/* Fails all tasks of a communicator that is about to be freed; nobody is told,
 * and nothing of theirs is touched afterwards. */
void ddp__engine_forget(struct ddp_comm *c);
/* Takes out the queues that are empty; with cpu, also all of its. */
void ddp__engine_tidy(struct ddp__engine *en, const struct ddp__cpu *cpu);

/* Starts the thread on a CPU (-1: any); 0 if there is one already. */
int ddp__progress_run(struct ddp__engine *en, int cpu, struct err *e);
void ddp__progress_end(struct ddp__engine *en);

#endif
