/* pmix.h: PMIx, what OpenMPI's mpirun and srun --mpi=pmix offer their ranks:
 * libpmix.so.2, looked up when it is needed, with declarations of our own. */
#ifndef SDK_PMIX_H
#define SDK_PMIX_H

#include <stddef.h>

#include "base/error.h"

struct ddp__pmix;

/* What the launcher says of this rank; -1 where it says nothing. */
struct ddp__pmix_self {
	int rank, world_size, local_rank, local_world_size;
};

/* Loads the library and speaks to the launcher: it runs a thread from here to
 * _close. ERR_USAGE where there is no library. */
int ddp__pmix_open(struct ddp__pmix **p, struct ddp__pmix_self *self,
		   struct err *e);
/* Rank 0's text becomes that of all ranks, which all call it. */
int ddp__pmix_share(struct ddp__pmix *p, char *text, size_t size,
		    int timeout_ms, struct err *e);
void ddp__pmix_close(struct ddp__pmix *p); /* NULL is fine */

#endif
