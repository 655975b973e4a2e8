/* kv.h: the key-value store that the ranks share, as a table of functions: in
 * ddprdzv (kv_server.c), in torchrun's TCPStore (kv_tcpstore.c), or in this
 * process for a world of one rank (kv_local.c). The caller has checked keys and
 * sizes. */
#ifndef SDK_KV_H
#define SDK_KV_H

#include "base/buf.h"
#include "base/error.h"

struct ddp__kv;

struct ddp__kv_ops {
	void (*free)(struct ddp__kv *kv);
	int (*set)(struct ddp__kv *kv, struct slice key, struct slice value,
		   struct err *e);
	/* Waits up to timeout_ms (0: does not wait; < 0: no limit). 1 and
	 * *value, valid until the next call; 0: the key is missing, and no rank
	 * can set it, or timeout_ms was 0; ERR_TIMEOUT. */
	int (*get)(struct ddp__kv *kv, struct slice key, int timeout_ms,
		   struct slice *value, struct err *e);
	int (*add)(struct ddp__kv *kv, struct slice key, int64_t delta,
		   int64_t *sum, struct err *e);
	/* 1 and *now, the value afterwards; 0: the key is missing. */
	int (*compare_set)(struct ddp__kv *kv, struct slice key,
			   struct slice expected, struct slice desired,
			   struct slice *now, struct err *e);
	int (*append)(struct ddp__kv *kv, struct slice key, struct slice value,
		      struct err *e);
	/* 1: deleted; 0: the key was missing */
	int (*delete)(struct ddp__kv *kv, struct slice key, struct err *e);
	/* Contributes `mine` as rank `rank` of `size` and waits for the other
	 * ranks: values[size], in rank order, valid until the next call.
	 * ERR_REMOTE: a rank ended first, if the store can know that. */
	int (*gather)(struct ddp__kv *kv, struct slice key, int rank, int size,
		      int timeout_ms, struct slice mine, struct slice *values,
		      struct err *e);
	/* 0 and *text: how that rank ended. ERR_ABORTED: the round is over; e
	 * has the reason. Other errors: nothing known after timeout_ms. The
	 * pointer is NULL if the store cannot know. */
	int (*fate)(struct ddp__kv *kv, int rank, int timeout_ms,
		    struct slice *text, struct err *e);
};

struct ddp__kv {
	const struct ddp__kv_ops *ops;
};

struct endpoint;
struct wire_hello;
struct auth;

/* Each sets *out, which ops->free frees. */
int ddp__kv_server(struct ddp__kv **out, const struct endpoint *where,
		   const struct wire_hello *hello, const struct auth *auth,
		   int timeout_ms, struct err *e);
/* Reconnects a lost connection within timeout_ms (client_set_reconnect). */
void ddp__kv_server_again(struct ddp__kv *kv, int timeout_ms);
/* For large worlds: from now on ranks relay gathered values to each other
 * (gather_relay.h). This rank relays at addr, which outlives kv; NULL: it does
 * not relay. */
void ddp__kv_server_share(struct ddp__kv *kv, const char *addr);
/* For a world without agents: kv's release reports an orderly leave to the
 * server. pipe (or -1) is closed then; rank 0's server lives as long as it is
 * open. */
void ddp__kv_server_guest(struct ddp__kv *kv, int pipe);
/* PyTorch's store, which outlives the world. Keys are prefixed by `prefix` and
 * the number of the world, which is counted in the store, so all ranks must
 * open it. */
int ddp__kv_tcpstore(struct ddp__kv **out, const struct endpoint *where,
		     const char *prefix, int ranks, int timeout_ms,
		     struct err *e);
int ddp__kv_local(struct ddp__kv **out, struct err *e);

/* ---- private_server.c ----
 *
 * Starts a ddprdzv for a world that has no other store, with the rank's
 * listening sockets. The server is not a child of the program, which sees no
 * SIGCHLD and no extra wait() result, and it ends when a pipe is closed. */

struct auth;

/* Starts the program that server_exec_init finds, with copies of n listening
 * sockets, for job `job` of `ranks` ranks, which authenticate with auth. The
 * caller closes *pipe: the server ends once the pipe is closed, also by this
 * process's death, and the ranks have left. ERR_USAGE: there is no such
 * program. */
int ddp__private_server_start(int *pipe, const int *fds, int n, const char *job,
			  int ranks, const struct auth *auth, struct err *e);

#endif
