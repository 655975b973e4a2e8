/* store.h: the world's store, taken by one thread at a time: the program's, in
 * a store call, or its progress thread, which asks what became of a rank.
 * Where there can be no such thread (in ddp_init, on nccl) world->kv is used
 * as it is. */
#ifndef SDK_STORE_H
#define SDK_STORE_H

#include "worker-sdk/comm/comm.h"

/* For the program: waits for the thread's short question. What kv returns is
 * copied before it is given back. */
struct ddp__kv *ddp__store_take(struct ddp__world *w);
/* For a question in between: NULL if it is not to be had within ms. */
struct ddp__kv *ddp__store_borrow(struct ddp__world *w, int ms);
void ddp__store_give(struct ddp__world *w);

#endif
