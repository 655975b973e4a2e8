/* cpu_quick.h: the short way for the calls that are only waiting: a barrier, or
 * an all_reduce of a few bytes, among ranks of one host, with nothing else
 * under way. What it does is what the long way does, with the same words in
 * shared memory; ranks may go either way in one call. Its point is the order: a
 * rank posts first and does its book-keeping while the others' posts are on
 * their way to it. */
#ifndef SDK_CPU_QUICK_H
#define SDK_CPU_QUICK_H

#include "worker-sdk/collective.h"
#include "worker-sdk/shm.h"

/* Bytes of a call that may go it, or DDP__NOT_QUICK: so may one whose arguments
 * are not plainly right. */
#define DDP__NOT_QUICK ((size_t)-1)
static inline size_t ddp__quick_size(const struct ddp__use *u)
{
	uintptr_t s = (uintptr_t)u->send, r = (uintptr_t)u->recv;
	size_t size;

	if (u->call.kind == DDP__BARRIER)
		return 0;
	if ((u->call.kind != DDP__ALL_REDUCE &&
	     u->call.kind != DDP__SHOULD_STOP) ||
	    u->call.count > DDP__SHM_TINY ||
	    (unsigned)u->call.type >= DDP_TYPES ||
	    (unsigned)u->call.op >= DDP_BAND || !s || !r)
		return DDP__NOT_QUICK;
	size = u->call.count * ddp_type_size(u->call.type);
	if (size > DDP__SHM_TINY ||
	    (s != r && s + DDP__SHM_TINY > r && r + DDP__SHM_TINY > s))
		return DDP__NOT_QUICK;
	return size;
}

/* Enters c, which is occupied and `quick`, does the call, of that size, and
 * leaves: 0 or its error. 1: it has to go the long way, nothing was done. */
int ddp__cpu_quick(struct ddp_comm *c, struct ddp__call *call, size_t size,
		   const void *send, void *recv, struct err *e);

#endif
