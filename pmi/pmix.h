/* pmix.h: PMIx, what OpenMPI's mpirun and srun --mpi=pmix offer their ranks:
 * libpmix.so.2, looked up when it is needed, with declarations of our own. */
#ifndef PMI_PMIX_H
#define PMI_PMIX_H

#include <stddef.h>

#include "base/error.h"

struct pmix;

/* What the launcher says of this rank; -1 where it says nothing. */
struct pmix_self {
	int rank, world_size, local_rank, local_world_size;
};

/* Loads the library and speaks to the launcher: it runs a thread from here to
 * _close. ERR_USAGE where there is no library. */
int pmix_open(struct pmix **p, struct pmix_self *self,
		   struct err *e);
/* The text of rank `from` becomes that of all ranks, which all call it, each
 * time with a new key. */
int pmix_share(struct pmix *p, const char *key, int from, char *text,
	       size_t size, int timeout_ms, struct err *e);
void pmix_close(struct pmix *p); /* NULL is fine */

#endif
