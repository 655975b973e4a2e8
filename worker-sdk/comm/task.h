/* task.h: a collective or a message in one of the engine's queues, as functions
 * that do not depend on its kind or transport. All of it is protected by the
 * engine's lock. */
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
	/* Changed behind the lock; read without it, too: what a task that is
	 * done did can be seen then. */
	_Atomic enum ddp__task_state state;
	const struct ddp__task_kind *kind; /* once it is under way */
	const struct ddp__path *path;	   /* of a message */
	struct ddp_comm *c;
	const struct ddp__call *call;
	const void *send;
	void *recv;
	uint64_t since; /* that it stands still, ns; 0: it moves */
	uint64_t moves; /* of a message: a sum that changes when I move it, */
	uint64_t both;	/* and, in a host, when its other side does */
	union {
		struct ddp__cpu_op op;
		/* a message, as its transport keeps it */
		union {
			struct ddp__shm_msg shm;
			struct ddp__tcp_msg tcp;
		} message;
	};
};

/* What a sleep in poll is about; one for each thread. */
struct ddp__sleeper {
	struct pollfd *polls;
	int n, room;
	int ms; /* 0: do not sleep */
};

/* What a task is: a collective, or a message on one path. */
struct ddp__task_kind {
	/* 1: done; 0: not yet; < 0: its error. */
	int (*advance)(struct ddp__task *t, struct err *e);
	/* Blocks to its end and releases it: 1 or an error. 0: it waits in
	 * several places, and has to be advanced. */
	int (*wait)(struct ddp__task *t, struct err *e);
	/* Since it was last asked: by this rank, or by either side. */
	int (*has_moved)(struct ddp__task *t);
	int (*has_either_moved)(struct ddp__task *t);
	/* It has stood still for waited_ns: 0, or why waiting on is pointless.
	 */
	int (*check)(struct ddp__task *t, uint64_t waited_ns, struct err *e);
	void (*poll)(struct ddp__task *t, struct ddp__sleeper *s);
	void (*release)(struct ddp__task *t); /* NULL: it holds nothing */
};

extern const struct ddp__task_kind ddp__task_collective;

static inline void ddp__task_set_state(struct ddp__task *t,
				       enum ddp__task_state state)
{
	atomic_store_explicit(&t->state, state, memory_order_release);
}

/* A queued task gets under way: sets its kind, touches nothing shared. */
void ddp__task_prepare(struct ddp__task *t);
/* Of a task that stands still: 0, or why it cannot go on. */
int ddp__task_check(struct ddp__task *t, uint64_t now, struct err *e);
/* Room for `more` descriptors beyond those there; NULL: no memory. */
struct pollfd *ddp__sleeper_room(struct ddp__sleeper *s, int more);

#endif
