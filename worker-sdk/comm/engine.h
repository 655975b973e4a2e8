/* engine.h: the operations that the cpu backend has under way in one world: a
 * queue of collectives for each communicator, and of messages for each peer and
 * direction. Advances them, and waits for their peers. One lock protects all of
 * it; without a progress thread it is not taken. The holder of the lock
 * advances all queues, and may sleep with it: the progress thread has nothing
 * to do meanwhile. */
#ifndef SDK_ENGINE_H
#define SDK_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "worker-sdk/comm/cpu_op.h"
#include "worker-sdk/comm/request.h"
#include "worker-sdk/shm/shm_p2p.h"
#include "worker-sdk/tcp/tcp_p2p.h"

struct pollfd;
struct ddp__task_kind;

enum ddp__task_state { DDP__QUEUED, DDP__UNDER_WAY, DDP__DONE, DDP__FAILED };

/* A collective or a message in a queue: at r->op of a request, or on the stack
 * of a call that blocks. */
struct ddp__task {
	struct ddp__task *next;
	struct ddp__queue *queue;
	/* Written with the lock held, also read without it: a reader that sees
	 * the task done also sees its results. */
	_Atomic enum ddp__task_state state;
	const struct ddp__task_kind *kind; /* set once it is under way */
	const struct ddp__path *path;	   /* only for a message */
	struct ddp_comm *c;
	const struct ddp__call *call;
	const void *send;
	void *recv;
	uint64_t since; /* time since which it has not moved, ns; 0: it moves */
	uint64_t moves; /* for a message: a sum that changes when this rank
			 * moves it, */
	uint64_t both;	/* and, within a host, when its other side does */
	union {
		struct ddp__cpu_op op;
		/* a message, in its transport's form */
		union {
			struct ddp__shm_msg shm;
			struct ddp__tcp_msg tcp;
		} message;
	};
};

/* What a thread's sleep in poll waits for; one for each thread. */
struct ddp__sleeper {
	struct pollfd *polls;
	int n, room;
	int ms; /* 0: do not sleep */
};

/* The functions of a task's kind: a collective, or a message on one path. */
struct ddp__task_kind {
	/* 1: done; 0: not yet; < 0: its error. */
	int (*advance)(struct ddp__task *t, struct err *e);
	/* Blocks to its end and releases it: 1 or an error. 0: it waits in
	 * several places; the caller has to advance it. */
	int (*wait)(struct ddp__task *t, struct err *e);
	/* Each compares with its last call: moved by this rank, or by either
	 * side. */
	int (*has_moved)(struct ddp__task *t);
	int (*has_either_moved)(struct ddp__task *t);
	/* The task has not moved for waited_ns: 0, or why further waiting is
	 * pointless. */
	int (*check)(struct ddp__task *t, uint64_t waited_ns, struct err *e);
	void (*poll)(struct ddp__task *t, struct ddp__sleeper *s);
	void (*release)(struct ddp__task *t); /* NULL: there is nothing to
					       * release */
};

extern const struct ddp__task_kind ddp__task_collective;

static inline void ddp__task_set_state(struct ddp__task *t,
				       enum ddp__task_state state)
{
	atomic_store_explicit(&t->state, state, memory_order_release);
}

/* With or without the lock. */
static inline int ddp__task_has_ended(const struct ddp__task *t)
{
	enum ddp__task_state state =
		atomic_load_explicit(&t->state, memory_order_acquire);

	return state == DDP__DONE || state == DDP__FAILED;
}

/* Prepares a queued task to get under way: sets its kind, touches nothing
 * shared. */
void ddp__task_prepare(struct ddp__task *t);
/* For a task that does not move: 0, or why it cannot go on. */
int ddp__task_check(struct ddp__task *t, uint64_t now, struct err *e);
/* Makes room for `more` descriptors beyond those there; NULL: no memory. */
struct pollfd *ddp__sleeper_room(struct ddp__sleeper *s, int more);

struct ddp__cpu;

/* A queue of tasks; only the first is under way. */
struct ddp__queue {
	struct ddp__queue *next; /* next in the engine's list of busy queues */
	struct ddp__cpu *cpu;
	struct ddp__task *first, **last;
	int busy;
};

struct ddp__engine {
	pthread_mutex_t lock;
	_Atomic int wanted;	 /* by the program: the progress thread yields
				  * the lock */
	int cpus;		 /* communicators that use it */
	struct ddp__queue *busy; /* list of queues with tasks */
	int tasks;		 /* in all queues */
	int changed;		 /* since the thread went to sleep */
	uint64_t looked;	 /* time of the last check, ns */
	struct ddp__sleeper sleeper;
	/* the progress thread's; threaded is accessed only by the program */
	int threaded;
	pthread_t thread;
	int bell;    /* eventfd that wakes it */
	int asleep;  /* in poll */
	int stopped; /* the thread has to end */
};

/* Adds a user to the world's engine; the first user creates it. */
int ddp__engine_use(struct ddp__world *w, struct err *e);
/* Removes a user; the last user ends the thread and frees the engine. */
void ddp__engine_leave(struct ddp__world *w);

/* The program's thread holds the lock around every call below. */
static inline void ddp__engine_lock(struct ddp__engine *en)
{
	if (!en->threaded)
		return;
	atomic_fetch_add(&en->wanted, 1);
	pthread_mutex_lock(&en->lock);
	atomic_fetch_sub(&en->wanted, 1);
}

/* Wakes the progress thread for the operations still under way. */
void ddp__progress_wake(struct ddp__engine *en);

static inline void ddp__engine_unlock(struct ddp__engine *en)
{
	if (!en->threaded)
		return;
	if (en->tasks && en->asleep && en->changed)
		ddp__progress_wake(en);
	pthread_mutex_unlock(&en->lock);
}

/* Fills t and queues it; t and the arguments must last until t has ended. 0 or
 * -ENOMEM. */
int ddp__engine_add(struct ddp__engine *en, struct ddp__task *t,
		    struct ddp_comm *c, const struct ddp__call *call,
		    const void *send, void *recv, struct err *e);
/* Runs the call at once if no task is queued: allocates no memory and, if the
 * other ranks are there, makes no system call. 1: done; 0: nothing was done,
 * the call has to be queued; < 0: its error. */
int ddp__engine_run(struct ddp_comm *c, const struct ddp__call *call,
		    const void *send, void *recv, struct err *e);
/* Advances all queues as far as possible; 1 if any moved. */
int ddp__engine_move(struct ddp__engine *en);
/* Advances all queues until t has ended, for at most timeout_ms (< 0: no
 * limit). */
void ddp__engine_wait(struct ddp__engine *en, struct ddp__task *t,
		      int timeout_ms);

/* Checks, at intervals, whether tasks that do not move can still continue, and
 * fails those that cannot. */
void ddp__engine_check(struct ddp__engine *en);
/* Restarts the timeouts of all tasks that do not move. */
void ddp__engine_forgive(struct ddp__engine *en);
/* Sleeps until data may have arrived, for at most ms. bell (-1: none) wakes it
 * as well; with a bell the lock is released during the sleep. */
void ddp__engine_sleep(struct ddp__engine *en, struct ddp__sleeper *s, int ms,
		       int bell);

/* The pace of a wait: first it spins, then it sleeps, longer each time. */
struct ddp__pace {
	uint64_t quiet; /* time since which nothing has moved; 0: it moves */
	int ms;
};
/* After a move: how long to sleep; 0: not yet. */
int ddp__pace(struct ddp__pace *p, int moved, uint64_t spin_ns);

/* Fails all present and future tasks of a communicator, and notifies the other
 * ranks; the first error stays. */
void ddp__engine_fail(struct ddp_comm *c, const struct err *e);
/* As ddp__engine_fail, after a failed wait; if the wait was part of a deadlock,
 * *e becomes the deadlock. */
void ddp__engine_fail_in_wait(struct ddp_comm *c, struct err *e);
/* Fails all tasks of a communicator that is about to be freed. The other ranks
 * are not notified, and the tasks' memory is not touched afterwards. */
void ddp__engine_forget(struct ddp_comm *c);
/* Removes empty queues from the busy list, and all queues of cpu (NULL:
 * none). */
void ddp__engine_tidy(struct ddp__engine *en, const struct ddp__cpu *cpu);

/* Starts the thread on a CPU (-1: any); 0 if there is one already. */
int ddp__progress_run(struct ddp__engine *en, int cpu, struct err *e);
void ddp__progress_end(struct ddp__engine *en);

#endif
