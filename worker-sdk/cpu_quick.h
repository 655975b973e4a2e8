/* cpu_quick.h: the short way for the calls that are only waiting: a barrier, or
 * an all_reduce of a few bytes, among ranks of one host, with nothing else
 * under way. What it does is what the long way does, with the same words in
 * shared memory; ranks may go either way in one call. Its point is the order: a
 * rank posts first and does its book-keeping while the others' posts are on
 * their way to it. */
#ifndef SDK_CPU_QUICK_H
#define SDK_CPU_QUICK_H

#include "worker-sdk/comm.h"

/* Enters c, which is occupied, does the call, whose arguments were checked, and
 * leaves: 0 or its error. 1: it has to go the long way, nothing was done. Only
 * where c->quick. */
int ddp__cpu_quick(struct ddp_comm *c, struct ddp__call *call, const void *send,
		   void *recv, struct err *e);

#endif
