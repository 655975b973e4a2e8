/* store.h: the world's store, used by one thread at a time: the program's, in a
 * store call, or its progress thread, which asks why a rank left. Where no
 * progress thread can exist (in ddp_init, on nccl) world->kv is used
 * directly. */
#ifndef SDK_STORE_H
#define SDK_STORE_H

#include "worker-sdk/comm/comm.h"

/* For the program: waits for the progress thread's short question. Copy the
 * data that kv returns before you give the store back. */
struct ddp__kv *ddp__store_lock(struct ddp__world *w);
/* For the progress thread: NULL if the store is not free within ms. */
struct ddp__kv *ddp__store_lock_within(struct ddp__world *w, int ms);
void ddp__store_unlock(struct ddp__world *w);

#endif
