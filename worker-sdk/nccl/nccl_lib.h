/* nccl_lib.h: NCCL, loaded on demand: libddp is built without it and runs
 * without it. The declarations are ours; a test compares them with nccl.h if
 * that exists. Needs no GPU: ids are made without one. */
#ifndef SDK_NCCL_LIB_H
#define SDK_NCCL_LIB_H

#include <limits.h>
#include <stddef.h>

#include "base/error.h"
#include "worker-sdk/ddp.h"

enum { DDP__NCCL_ID = 128 };

struct ddp__nccl_id {
	char bytes[DDP__NCCL_ID];
};

/* ncclResult_t */
enum {
	DDP__NCCL_SUCCESS,
	DDP__NCCL_CUDA,
	DDP__NCCL_SYSTEM,
	DDP__NCCL_INTERNAL,
	DDP__NCCL_ARGUMENT,
	DDP__NCCL_USAGE,
	DDP__NCCL_REMOTE,
	DDP__NCCL_IN_PROGRESS
};

/* ncclConfig_t of 2.18: NCCL reads `size` bytes and sets later fields
 * itself. */
struct ddp__nccl_config {
	size_t size;
	unsigned int magic, version;
	int blocking, cga_cluster_size, min_ctas, max_ctas;
	const char *net_name;
	int split_share;
	int traffic_class; /* new in 2.25; here it pads the struct */
};

#define DDP__NCCL_CONFIG                                                      \
	{                                                                     \
		sizeof(struct ddp__nccl_config), 0xcafebeef, 21800, INT_MIN,  \
			INT_MIN, INT_MIN, INT_MIN, NULL, INT_MIN, INT_MIN     \
	}

/* The oldest supported version: ncclCommSplit is new in 2.18. */
enum { DDP__NCCL_OLDEST = 21800, DDP__NCCL_SCALABLE = 22300 };

/* field, symbol, arguments: all return an ncclResult_t. A comm is an
 * ncclComm_t, a stream a cudaStream_t. */
#define DDP__NCCL_CALLS(X)                                                    \
	X(get_version, ncclGetVersion, (int *version))                         \
	X(get_unique_id, ncclGetUniqueId, (struct ddp__nccl_id * id))          \
	X(init, ncclCommInitRankConfig,                                        \
	  (void **comm, int ranks, struct ddp__nccl_id id, int rank,           \
	   struct ddp__nccl_config *config))                                   \
	X(split, ncclCommSplit,                                                \
	  (void *comm, int color, int key, void **group,                       \
	   struct ddp__nccl_config *config))                                   \
	X(finalize, ncclCommFinalize, (void *comm))                            \
	X(destroy, ncclCommDestroy, (void *comm))                              \
	X(abort, ncclCommAbort, (void *comm))                                  \
	X(async_error, ncclCommGetAsyncError, (void *comm, int *result))       \
	X(group_start, ncclGroupStart, (void))                                 \
	X(group_end, ncclGroupEnd, (void))                                     \
	X(all_reduce, ncclAllReduce,                                           \
	  (const void *send, void *recv, size_t count, int type, int op,       \
	   void *comm, void *stream))                                          \
	X(reduce, ncclReduce,                                                  \
	  (const void *send, void *recv, size_t count, int type, int op,       \
	   int root, void *comm, void *stream))                                \
	X(broadcast, ncclBroadcast,                                            \
	  (const void *send, void *recv, size_t count, int type, int root,     \
	   void *comm, void *stream))                                          \
	X(all_gather, ncclAllGather,                                           \
	  (const void *send, void *recv, size_t count, int type, void *comm,   \
	   void *stream))                                                      \
	X(reduce_scatter, ncclReduceScatter,                                   \
	  (const void *send, void *recv, size_t count, int type, int op,       \
	   void *comm, void *stream))                                          \
	X(send, ncclSend,                                                      \
	  (const void *buf, size_t count, int type, int peer, void *comm,      \
	   void *stream))                                                      \
	X(recv, ncclRecv,                                                      \
	  (void *buf, size_t count, int type, int peer, void *comm,            \
	   void *stream))

/* Missing in some versions from DDP__NCCL_OLDEST on; NULL then. */
#define DDP__NCCL_NEWER_CALLS(X)                                              \
	X(init_scalable, ncclCommInitRankScalable,                            \
	  (void **comm, int ranks, int rank, int n, struct ddp__nccl_id *ids, \
	   struct ddp__nccl_config *config))                                  \
	X(register_buffer, ncclCommRegister,                                  \
	  (void *comm, void *buf, size_t size, void **handle))                \
	X(deregister_buffer, ncclCommDeregister, (void *comm, void *handle))  \
	X(mem_alloc, ncclMemAlloc, (void **p, size_t size))                   \
	X(mem_free, ncclMemFree, (void *p))

struct ddp__nccl_lib {
#define X(field, symbol, args) int (*field) args;
	DDP__NCCL_CALLS(X)
	DDP__NCCL_NEWER_CALLS(X)
#undef X
	const char *(*error_text)(int rc);
	const char *(*last_error)(void *comm);
	int version; /* 22809 is 2.28.9 */
	char from[256];
};

/* Loads libnccl once per process and never unloads it: $DDP_NCCL_LIB, else
 * libnccl.so.2 as the loader finds it, else from the directory of CUDA's
 * installer. ERR_SYSTEM: which library was searched for, where, what to do; or
 * it is too old. Any thread may call it. */
int ddp__nccl_load(const struct ddp__nccl_lib **out, struct err *e);

/* NCCL's numbers for ours; -1: not supported (DDP_BAND, DDP_BOR). */
int ddp__nccl_type(enum ddp_type type);
int ddp__nccl_op(enum ddp_op op);

/* 1 for NCCL 2.28.3 to 2.28.8, which crashes in ncclCommAbort if the process
 * makes communicators afterwards: these are not aborted. */
int ddp__nccl_abort_crashes(int version);

/* Sets e to the meaning of an ncclResult_t other than success, with NCCL's last
 * error text and, where known, what to do. what: "all_reduce #3 (...)". Returns
 * ERR_REMOTE for a lost peer, ERR_USAGE for two ranks on one GPU, else
 * ERR_SYSTEM. */
int ddp__nccl_fail(const struct ddp__nccl_lib *lib, void *comm, int rc,
		   const char *what, struct err *e);

#endif
