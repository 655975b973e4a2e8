/* entry.h: the one way into a communicator and out, for every public call: is
 * it alive, is it ours, is no other thread in it; its number; and what
 * becomes of it when an operation fails. What is recorded is recorded here. */
#ifndef SDK_ENTRY_H
#define SDK_ENTRY_H

#include "worker-sdk/comm.h"

/* How often this process was forked off since its program began. */
extern unsigned ddp__forks;
/* Counts forks from now on. Once a process. */
int ddp__watch_forks(struct err *e);

/* Debug builds see each pair of threads in one world; others all but those
 * that come within nanoseconds of each other, for next to nothing. */
#if defined(DDP_DEBUG) || defined(__SANITIZE_ADDRESS__) ||                    \
	defined(__SANITIZE_THREAD__)
#define DDP__EXACT 1
#else
#define DDP__EXACT 0
#endif

/* 0: c can be used; else why not, of the function or call `what`: it is NULL,
 * was freed, or this process was forked off. For what does not occupy it. */
int ddp__check_comm(const struct ddp_comm *c, const char *what, struct err *e);
/* Why c cannot be used by this call, now; sets *e and returns its code. */
int ddp__refuse(struct ddp_comm *c, const struct ddp__call *call,
		struct err *e);

/* Takes c's world for this thread until ddp__vacate. ERR_ARGUMENT: c is NULL or
 * was freed; ERR_USAGE: a forked child, or another thread is in it. */
static inline int ddp__occupy(struct ddp_comm *c, const struct ddp__call *call,
			      struct err *e)
{
	struct ddp__world *w;
	uint64_t none = 0, word = ddp__call_pack(call);

	if (!c || c->magic != DDP__ALIVE || c->world->forks != ddp__forks)
		return ddp__refuse(c, call, e);
	w = c->world;
	if (DDP__EXACT) {
		if (!atomic_compare_exchange_strong(&w->user, &none, word))
			return ddp__refuse(c, call, e);
	} else {
		if (atomic_load_explicit(&w->user, memory_order_relaxed))
			return ddp__refuse(c, call, e);
		atomic_store_explicit(&w->user, word, memory_order_relaxed);
	}
	atomic_store_explicit(&w->user_number, c->calls + 1,
			      memory_order_relaxed);
	return 0;
}

static inline void ddp__vacate(struct ddp_comm *c)
{
	atomic_store_explicit(&c->world->user, 0, memory_order_release);
}

/* An operation begins, unless an earlier one broke the communicator: then its
 * error. */
static inline int ddp__enter(struct ddp_comm *c, struct ddp__call *call,
			     struct err *e)
{
	if (__builtin_expect(c->broken.code, 0)) {
		*e = c->broken;
		return e->code;
	}
	if (!ddp__is_message(call))
		c->calls = call->number;
	/* ddp__occupy has packed it */
	call->ticket = flight_begin(
		c->world->flight, c->id, call->number,
		atomic_load_explicit(&c->world->user, memory_order_relaxed));
	return 0;
}

/* It ended, with rc and, where that is an error, *e. The first error of a
 * communicator is that of all that fail in it; returns 0 or its code. */
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

#endif
