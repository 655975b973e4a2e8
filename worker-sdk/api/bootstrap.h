/* bootstrap.h: gets a store for a world that ddprun did not start: torchrun's,
 * or a server that rank 0 starts and the others find through their launcher. */
#ifndef SDK_BOOTSTRAP_H
#define SDK_BOOTSTRAP_H

#include "worker-sdk/core/env.h"
#include "worker-sdk/kv/kv.h"

/* Sets *kv within timeout_ms (< 0: no limit) and completes env: sizes, local
 * ranks, nodes and this node's address where they were unknown (-1). If
 * env->alone turns out to be 1, *kv is unchanged. host is this host's name. */
int ddp__bootstrap_open(struct ddp__kv **kv, struct ddp__env *env,
		    const char *host, int timeout_ms, struct err *e);

#endif
