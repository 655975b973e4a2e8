/* cpu_fastpath.h: a fast path for calls whose cost is only latency: a barrier,
 * an all_reduce of a few bytes or a small broadcast, among ranks of one host,
 * with no other operation in flight. It uses the same words in shared memory as
 * the engine does, so some ranks of a call may take the fast path and others
 * not. It is fast because of its order: a rank posts first, and does its
 * bookkeeping while the other ranks' posts arrive. */
#ifndef SDK_CPU_FASTPATH_H
#define SDK_CPU_FASTPATH_H

#include "worker-sdk/comm/collective.h"
#include "worker-sdk/shm/shm.h"

/* The bytes of a call that may take the fast path, or DDP__NO_FASTPATH: it may
 * not, or its arguments need the full checks. */
#define DDP__NO_FASTPATH ((size_t)-1)
static inline size_t ddp__fastpath_size(const struct ddp_comm *c,
				     const struct ddp__use *u)
{
	const struct ddp__call *call = &u->call;
	uintptr_t s = (uintptr_t)u->send, r = (uintptr_t)u->recv;
	int is_broadcast = call->kind == DDP__BROADCAST;
	size_t most = is_broadcast ? DDP__SHM_CELL : DDP__SHM_TINY, size;

	if (call->kind == DDP__BARRIER)
		return 0;
	if ((!is_broadcast && call->kind != DDP__ALL_REDUCE &&
	     call->kind != DDP__SHOULD_STOP) ||
	    call->count > most || (unsigned)call->type >= DDP_TYPES ||
	    (unsigned)call->op >= DDP_BAND || !s || !r ||
	    (unsigned)call->root >= (unsigned)c->size)
		return DDP__NO_FASTPATH;
	size = ddp__call_bytes(call);
	if (size > most || (s != r && s + most > r && r + most > s))
		return DDP__NO_FASTPATH;
	return size;
}

/* Enters c, which is acquired and has_fastpath, runs the call of that size, and
 * leaves: 0 or its error. 1: the call cannot take the fast path, and nothing
 * was done. */
int ddp__cpu_fastpath(struct ddp_comm *c, struct ddp__call *call, size_t size,
		   const void *send, void *recv, struct err *e);

#endif
