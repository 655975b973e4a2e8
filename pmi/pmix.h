/* pmix.h: PMIx, which OpenMPI's mpirun and srun --mpi=pmix offer their ranks:
 * loads libpmix.so.2 when needed, with declarations of our own. */
#ifndef PMI_PMIX_H
#define PMI_PMIX_H

#include <stddef.h>

#include "base/error.h"

struct pmix;

/* What the launcher reports about this rank; -1: nothing. */
struct pmix_self {
	int rank, world_size, local_rank, local_world_size;
};

/* Loads the library and connects to the launcher; the library runs a thread
 * until pmix_close. ERR_USAGE if there is no library. */
int pmix_open(struct pmix **p, struct pmix_self *self,
		   struct err *e);
/* All ranks call it, each time with a new key; the text of rank `from` is
 * copied to the others. */
int pmix_share(struct pmix *p, const char *key, int from, char *text,
	       size_t size, int timeout_ms, struct err *e);
void pmix_close(struct pmix *p); /* NULL is fine */

#endif
