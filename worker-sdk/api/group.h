/* group.h: communicators that libddp makes for itself. */
#ifndef SDK_GROUP_H
#define SDK_GROUP_H

#include "worker-sdk/comm/comm.h"

/* Collective on c: a communicator of the same ranks in the same order, for a
 * reducer, whose buckets begin when they are ready: on c they could change
 * places with the program's calls. 0, or the thread's last error, on all ranks
 * alike. The caller frees it, unless its world ends before. */
int ddp__comm_for_reducer(ddp_comm *c, ddp_comm **own);

#endif
