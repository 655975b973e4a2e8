/* kv.h: the key-value store that the ranks share, whoever keeps it: ddprdzv
 * (kv_server.c), torchrun (kv_tcpstore.c), or this process in a world of one
 * (kv_local.c). One struct of function pointers each; keys and sizes have been
 * checked. */
#ifndef SDK_KV_H
#define SDK_KV_H

#include "base/buf.h"
#include "base/error.h"

struct ddp__kv;

struct ddp__kv_ops {
	void (*free)(struct ddp__kv *kv);
	int (*set)(struct ddp__kv *kv, struct slice key, struct slice value,
		   struct err *e);
	/* Waits up to timeout_ms (0: not at all, < 0: for ever). 1 and *value,
	 * valid until the next call; 0: not there, and nobody will set it, or
	 * timeout_ms was 0; ERR_TIMEOUT: not there in time. */
	int (*get)(struct ddp__kv *kv, struct slice key, int timeout_ms,
		   struct slice *value, struct err *e);
	int (*add)(struct ddp__kv *kv, struct slice key, int64_t delta,
		   int64_t *sum, struct err *e);
	/* 1 and *now, what the key holds then; 0: it is missing. */
	int (*compare_set)(struct ddp__kv *kv, struct slice key,
			   struct slice expected, struct slice desired,
			   struct slice *now, struct err *e);
	int (*append)(struct ddp__kv *kv, struct slice key, struct slice value,
		      struct err *e);
	/* 1 deleted, 0 was missing */
	int (*delete)(struct ddp__kv *kv, struct slice key, struct err *e);
	/* Gives mine, as that of `rank` of `size`, and waits for the others':
	 * values, size of them in rank order, valid until the next call. A rank
	 * that ended before it came is an ERR_REMOTE, where that is known. */
	int (*gather)(struct ddp__kv *kv, struct slice key, int rank, int size,
		      int timeout_ms, struct slice mine, struct slice *values,
		      struct err *e);
	/* 0 and *text: what became of that rank. ERR_ABORTED: the round is
	 * over, and e says why. Another error: nothing known after timeout_ms.
	 * NULL: nobody knows. */
	int (*fate)(struct ddp__kv *kv, int rank, int timeout_ms,
		    struct slice *text, struct err *e);
};

struct ddp__kv {
	const struct ddp__kv_ops *ops;
};

struct endpoint;
struct wire_hello;
struct auth;

/* Each sets *out, which ops->free frees, or returns an error. */
int ddp__kv_server(struct ddp__kv **out, const struct endpoint *where,
		   const struct wire_hello *hello, const struct auth *auth,
		   int timeout_ms, struct err *e);
/* A connection that is lost is made again, within so
 * long (client_come_again). */
void ddp__kv_server_again(struct ddp__kv *kv, int timeout_ms);
/* For a large world: from now on its ranks relay to each other what they gather
 * (gather_relay.h), this one at addr, which outlives kv; NULL: it relays
 * nothing. */
void ddp__kv_server_share(struct ddp__kv *kv, const char *addr);
/* This world has no agents: freeing it tells the server that the rank leaves in
 * good order. pipe (or -1): then closed, on which rank 0's server goes. */
void ddp__kv_server_guest(struct ddp__kv *kv, int pipe);
/* PyTorch's store, which outlives the world: prefix goes before each key, and
 * after it which world it is, counted in the store; so all ranks open it. */
int ddp__kv_tcpstore(struct ddp__kv **out, const struct endpoint *where,
		     const char *prefix, int ranks, int timeout_ms,
		     struct err *e);
int ddp__kv_local(struct ddp__kv **out, struct err *e);

#endif
