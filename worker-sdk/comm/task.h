/* task.h: a collective or a message in one of the engine's queues, as functions
 * that do not depend on its kind or transport. The engine's lock protects all
 * of it. */
#ifndef SDK_TASK_H
#define SDK_TASK_H

#include <stdatomic.h>
#include <stdint.h>

#include "worker-sdk/comm/cpu_op.h"
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

/* Prepares a queued task to get under way: sets its kind, touches nothing
 * shared. */
void ddp__task_prepare(struct ddp__task *t);
/* For a task that does not move: 0, or why it cannot go on. */
int ddp__task_check(struct ddp__task *t, uint64_t now, struct err *e);
/* Makes room for `more` descriptors beyond those there; NULL: no memory. */
struct pollfd *ddp__sleeper_room(struct ddp__sleeper *s, int more);

#endif
