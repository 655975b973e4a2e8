/* agree.h: what the ranks of a communicator tell each other beside the
 * program's data: small values in the host's memory, whatever the backend. */
#ifndef SDK_AGREE_H
#define SDK_AGREE_H

#include "worker-sdk/comm/comm.h"

/* Every rank's size bytes, by rank, in all. A collective of c, of that kind; a
 * failure is the thread's last error. */
int ddp__host_gather(struct ddp_comm *c, enum ddp__kind kind, const void *mine,
	      void *all, size_t size);

/* "rank 3 on n07" into out[DDP__NAME_MAX]; returns out. */
char *ddp__name_rank(struct ddp_comm *c, int rank, char *out);

#endif
