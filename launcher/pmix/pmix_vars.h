/* pmix_vars.h: the variables by which the ranks of a node find libpmix's server
 * ("PMIX_RANK=3"), as many for each rank. Pure. */
#ifndef LAUNCHER_PMIX_VARS_H
#define LAUNCHER_PMIX_VARS_H

#include "base/buf.h"

struct pmix_vars {
	char *text;
	char **vars; /* rank i's from i * n on, in text */
	uint32_t n;
};

/* The variables of one more rank: those of env, which ends with NULL, and n
 * more. */
void pmix_vars_put(struct buf *b, char *const *env, char *const *more,
		   uint32_t n);
/* Those of nproc ranks. ERR_PROTOCOL: the ranks do not have the same number of
 * them; -ENOMEM. After an error v needs no release. */
int pmix_vars_get(struct pmix_vars *v, struct slice bytes, uint32_t nproc,
		  struct err *e);
void pmix_vars_release(struct pmix_vars *v);

#endif
