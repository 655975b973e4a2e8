/* call_guard.h: how every public call enters and leaves a communicator. Checks
 * that the communicator is alive, belongs to this process and is not in use by
 * another thread; numbers and records the call; marks the communicator broken
 * if the call fails. */
#ifndef SDK_CALL_GUARD_H
#define SDK_CALL_GUARD_H

#include <pthread.h>

#include "worker-sdk/comm/comm.h"

/* How many forks lie between the start of the program and this process. */
extern unsigned ddp__forks;
/* Starts counting forks. Called once per process. */
int ddp__watch_forks(struct err *e);

/* One thread at a time uses a world, and a second one is detected. Nearly
 * always the caller is the last thread that used the world, so that thread
 * marks its use with plain loads and stores; another thread first forces these
 * stores to become visible (ddp__acquire_anew). Sanitizers cannot follow this,
 * so with them it is off. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DDP__SAME_THREAD 0
#else
#define DDP__SAME_THREAD 1
#endif

/* 0: c can be used; else the error, which names the function or call `what`: c
 * is NULL or was freed, or this process is a forked child. For functions that
 * do not acquire c. */
int ddp__check_comm(const struct ddp_comm *c, const char *what, struct err *e);
/* Sets *e to the reason why this call cannot use c now, and returns its
 * code. */
int ddp__refuse(struct ddp_comm *c, const struct ddp__call *call,
		struct err *e);

/* As ddp__acquire, for a thread that was not the last one in c's world. */
int ddp__acquire_anew(struct ddp_comm *c, const struct ddp__call *call,
		     struct err *e);
/* Another thread entered at the same time: withdraws this thread's mark and
 * refuses the call. */
int ddp__yield(struct ddp_comm *c, const struct ddp__call *call,
		  struct err *e);

/* Takes c's world for this thread until ddp__release. ERR_ARGUMENT: c is NULL
 * or was freed; ERR_CALLER: this is a forked child, or another thread is in the
 * world. */
static inline int ddp__acquire(struct ddp_comm *c, const struct ddp__call *call,
			       struct err *e)
{
	uintptr_t me = (uintptr_t)pthread_self();
	struct ddp__world *w;

	if (!c || c->magic != DDP__ALIVE || c->world->forks != ddp__forks)
		return ddp__refuse(c, call, e);
	w = c->world;
	if (atomic_load_explicit(&w->thread, memory_order_relaxed) != me)
		return ddp__acquire_anew(c, call, e);
	if (atomic_load_explicit(&w->user, memory_order_relaxed))
		return ddp__refuse(c, call, e);
	atomic_store_explicit(&w->user, ddp__call_pack(call),
			      memory_order_relaxed);
	atomic_store_explicit(&w->user_number, c->calls + 1,
			      memory_order_relaxed);
	/* stores first, then loads: guard_barrier orders them for both
	 * threads. If the other thread has cleared w->other again, w->thread is
	 * its own: acquire. */
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(
		    atomic_load_explicit(&w->other, memory_order_acquire) ||
		    atomic_load_explicit(&w->thread, memory_order_relaxed) !=
			    me, 0))
		return ddp__yield(c, call, e);
	return 0;
}

static inline void ddp__release(struct ddp_comm *c)
{
	atomic_store_explicit(&c->world->user, 0, memory_order_release);
}

/* Begins an operation: 0, or the error with which an earlier one broke the
 * communicator. */
static inline int ddp__enter(struct ddp_comm *c, struct ddp__call *call,
			     struct err *e)
{
	if (__builtin_expect(c->broken.code, 0)) {
		*e = c->broken;
		return e->code;
	}
	if (!ddp__is_message(call))
		c->calls = call->number;
	/* ddp__acquire has packed it */
	call->ticket = flight_begin(
		c->world->flight, c->id, call->number,
		atomic_load_explicit(&c->world->user, memory_order_relaxed));
	return 0;
}

/* Where time in this call counts as a wait for c's other ranks, or NULL. */
static inline _Atomic uint64_t *ddp__wait_counter(const struct ddp_comm *c,
						  const struct ddp__call *call)
{
	return ddp__is_message(call) ? NULL : c->waited_ns;
}

/* Ends an operation with rc and, if rc is negative, *e. A communicator's first
 * error becomes the error of all later calls. Returns 0 or its code. */
static inline int ddp__leave(struct ddp_comm *c, const struct ddp__call *call,
			     int rc, struct err *e)
{
	flight_end(c->world->flight, call->ticket, rc < 0);
	if (__builtin_expect(rc >= 0, 1))
		return 0;
	if (!c->broken.code)
		c->broken = *e;
	*e = c->broken;
	return e->code;
}

/* The same for a call in which the program was blocked since ddp__enter. */
static inline int ddp__leave_blocking(struct ddp_comm *c,
				      const struct ddp__call *call, int rc,
				      struct err *e)
{
	_Atomic uint64_t *waited_ns = ddp__wait_counter(c, call);

	if (waited_ns)
		flight_add_wait(waited_ns, flight_entered_ns(c->world->flight,
							     call->ticket));
	return ddp__leave(c, call, rc, e);
}

#endif
