/* bootstrap.h: how a world that ddprun did not start gets its store:
 * torchrun's, or one that rank 0 starts and that the others find through their
 * launcher. */
#ifndef SDK_BOOTSTRAP_H
#define SDK_BOOTSTRAP_H

#include "worker-sdk/core/env.h"
#include "worker-sdk/kv/kv.h"

/* Opens it within timeout_ms (< 0: for ever). What env does not know yet (-1)
 * it then does: sizes, local ranks, nodes, this node's address. env->alone may
 * turn out to be 1; then *kv stays as it is. host: this one's name. */
int ddp__bootstrap_open(struct ddp__kv **kv, struct ddp__env *env,
		    const char *host, int timeout_ms, struct err *e);

#endif
