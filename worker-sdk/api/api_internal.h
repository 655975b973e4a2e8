/* api_internal.h: helpers that this room's files share: gathers of small values
 * that libddp exchanges beside the program's data, and communicators that
 * libddp makes for its own use. */
#ifndef SDK_API_INTERNAL_H
#define SDK_API_INTERNAL_H

#include "worker-sdk/comm/comm.h"

/* Gathers size bytes of host memory from each rank into all[c->size][size],
 * ordered by rank, whatever the backend. Collective on c, recorded as a call of
 * that kind. 0, or the error, which is also the thread's last error. */
int ddp__host_gather(struct ddp_comm *c, enum ddp__kind kind, const void *mine,
		     void *all, size_t size);

/* Writes "rank 3 on n07" to out[DDP__NAME_MAX]; returns out. */
char *ddp__name_rank(struct ddp_comm *c, int rank, char *out);

/* 0 if c can be used and the spans are valid; else the error, which names the
 * function `what`. */
int ddp__check_spans(const ddp_comm *c, const char *what,
		     const struct ddp_span *spans, int n, struct err *e);

/* Makes *own, a communicator of the same ranks in the same order, for a
 * reducer: its buckets start when they are ready, so on c their order relative
 * to the program's calls could differ between ranks. Collective on c. 0, or the
 * thread's last error, the same on all ranks. The caller frees *own, unless its
 * world ends first. */
int ddp__comm_new_for_reducer(ddp_comm *c, ddp_comm **own);

#endif
