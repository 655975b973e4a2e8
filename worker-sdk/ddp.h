/* ddp.h: libddp, the worker side of a distributed data-parallel job in C.
 *
 * A program calls ddp_init, which finds its place in the job from its
 * environment (ddprun sets it), meets the other ranks and returns the world: a
 * communicator of all ranks. Collectives are called by every rank of a
 * communicator, in the same order, with the same count, type and operation.
 * Calls that differ are DDP_ERR_ARGUMENT, with a text that names both. So it
 * is, on cpu, where ranks wait for each other in collectives of different
 * communicators: within a second or two.
 *
 * libddp never prints, never exits, installs no signal handler, and starts a
 * thread only where a function says so and is called. A communicator, with the
 * groups split from it and their requests, may be used by one thread at a time.
 *
 * Every function that can fail returns 0 (or a value) on success and a
 * negative DDP_ERR_* or -errno on failure; ddp_last_error() then holds one
 * sentence that says what failed, where (host, rank, address) and what to do.
 */
#ifndef DDP_H
#define DDP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_VERSION_MAJOR 0
#define DDP_VERSION_MINOR 1
#define DDP_VERSION_PATCH 0
#define DDP_API __attribute__((visibility("default")))

/* ---- Errors ---- */

/* Who is to blame for an error: all codes of libddp's own. Values never
 * change. */
enum ddp_error {
	DDP_ERR_ARGUMENT = -20001, /* the caller: NULL, a bad count or rank */
	DDP_ERR_USAGE = -20002,	   /* the environment is missing or wrong */
	DDP_ERR_SYSTEM = -20003,   /* this host's operating system refused */
	DDP_ERR_REMOTE = -20004,   /* another rank failed or left */
	DDP_ERR_PROTOCOL = -20005, /* a peer said something that cannot be */
	DDP_ERR_TIMEOUT = -20006,  /* the deadline passed */
	DDP_ERR_ABORTED = -20007,  /* the round or the job was ended */
	DDP_ERR_INTERNAL = -20008, /* a bug in libddp */
	DDP_ERR_REFUSED = -20009,  /* the rendezvous server refused */
	DDP_ERR_DATA = -20010,	   /* a file's contents are wrong */
	DDP_ERR_PROOF = -20011,	   /* no proof that this process is of the job:
				    * DDP_JOB_KEY is missing or wrong */
	/* The rendezvous server, where etcd keeps the job: another ddprdzv
	 * serves it, none does yet, etcd does not say which. */
	DDP_ERR_MOVED = -20012,
	DDP_ERR_NOT_YET = -20013,
	DDP_ERR_NO_ETCD = -20014,
	/* A thread that calls while another one is in a call of the same world,
	 * or a child that the rank forked. */
	DDP_ERR_CALLER = -20015
};

/* The text of this thread's last error; "" if there was none. Valid until the
 * thread's next call into libddp. */
DDP_API const char *ddp_last_error(void);
/* A few words for a code; never NULL. */
DDP_API const char *ddp_error_name(int code);
/* Says in $TORCHELASTIC_ERROR_FILE why this process is about to fail, in
 * torchrun's form; the launcher shows it. Does nothing where the variable is
 * unset or empty. The first message stays: later ones change nothing. Any text
 * will do; bytes that are no UTF-8 are replaced, and of a very long text the
 * first 32 KiB are kept. Needs no ddp_init. Leaves ddp_last_error alone, so
 * that its text can be the message; returns 0 or -errno. */
DDP_API int ddp_record_error(const char *message);
/* "0.1.0" */
DDP_API const char *ddp_version(void);

/* ---- The world ---- */

typedef struct ddp_comm ddp_comm;

struct ddp_options {
	/* "cpu": buffers lie in the host's memory. "nccl": on the current CUDA
	 * device, too; a call's all in the one or all in the other. "auto":
	 * nccl where every rank has a GPU of its own and NCCL can be loaded,
	 * else cpu; ddp_last_error() then says why. All ranks give the same.
	 * NULL: $DDP_BACKEND, else "auto". */
	const char *backend;
	/* How long a rank waits for others, in ddp_init and in each collective,
	 * before it fails with DDP_ERR_TIMEOUT; ms. 0: $DDP_TIMEOUT (seconds),
	 * else 1,800,000 as in torch.distributed. < 0: for ever. A rank that
	 * was stopped while it waited (Ctrl-Z, Slurm's suspend) begins anew. */
	int timeout_ms;
};

/* Joins the job and sets *world, which ddp_finalize frees. options may be NULL.
 * Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK,
 * GROUP_WORLD_SIZE, DDP_RDZV_ENDPOINT, DDP_JOB_ID and DDP_ROUND. With none of
 * them set: a world of one, which needs no server. With some of them missing or
 * wrong: DDP_ERR_USAGE, naming the variable. DDP_ERR_REMOTE: a rank left before
 * it came to ddp_init (the text says who and how). */
DDP_API int ddp_init(ddp_comm **world, const struct ddp_options *options);

/* Leaves: frees the world, closes its connections and shared memory. Does not
 * wait for the others (call ddp_barrier first to leave together). NULL is fine.
 * In a child that the rank forked it only lets memory go: the rank stays. */
DDP_API void ddp_finalize(ddp_comm *world);

DDP_API int ddp_rank(const ddp_comm *c);             /* 0..world size-1 */
DDP_API int ddp_world_size(const ddp_comm *c);       /* a group's: its size */
/* The rank that `rank` of this communicator has in the world; -1: none. */
DDP_API int ddp_world_rank(const ddp_comm *c, int rank);
DDP_API int ddp_local_rank(const ddp_comm *c);       /* within its agent */
DDP_API int ddp_local_world_size(const ddp_comm *c);
DDP_API int ddp_node_rank(const ddp_comm *c);
DDP_API int ddp_nodes(const ddp_comm *c);
DDP_API int ddp_attempt(const ddp_comm *c);          /* restarts so far */
/* The backend in use: "cpu" or "nccl". */
DDP_API const char *ddp_backend(const ddp_comm *c);
/* The lowest rank of those of c that share this rank's memory (its host). */
DDP_API int ddp_host_leader(const ddp_comm *c);
/* One sentence about what works, but not as well as it should: that this host's
 * ranks cannot share memory, and why. "" if there is nothing. */
DDP_API const char *ddp_warning(const ddp_comm *c);

/* ---- Groups and failure ---- */

/* Collective on c. Ranks that give the same color form a group; in it they are
 * ordered by key, then by their rank in c. *group is freed by ddp_comm_free.
 * color < 0: in no group, *group is NULL. c stays as it is. */
DDP_API int ddp_comm_split(ddp_comm *c, int color, int key, ddp_comm **group);
/* Leaves a group, as ddp_finalize leaves the world. Before the world is left,
 * every group is. Requests of the group (or the world) that have not ended fail
 * with DDP_ERR_ABORTED, and their buffers are left alone from then on; each is
 * still to be waited for, which frees it. NULL is fine. */
DDP_API void ddp_comm_free(ddp_comm *group);

/* After a failure: ends everything under way on the world of c and its groups,
 * here and on the ranks that wait for this one (they fail with DDP_ERR_ABORTED
 * and `why`, which may be NULL). Returns at once; afterwards only
 * ddp_comm_free and ddp_finalize are of use. Then the process may exit, or call
 * ddp_init again, as all ranks then must. */
DDP_API int ddp_abort(ddp_comm *c, const char *why);

/* ---- Collectives ----
 * count is in elements. Results are identical on all ranks, bit by bit, and
 * from run to run with the same ranks on the same hosts. A count of 0 is legal;
 * so is one over 2^31. Buffers may have any alignment. send and recv must not
 * overlap but in the way that a function says. */

/* Values never change; there may be more in a later version. */
enum ddp_type {
	DDP_F32 = 0,
	DDP_F64 = 1,
	DDP_I32 = 2,
	DDP_I64 = 3,
	DDP_F16 = 4,  /* IEEE 754 binary16 */
	DDP_BF16 = 5, /* the upper half of an f32 */
	DDP_I8 = 6,
	DDP_U8 = 7,
	DDP_TYPES = 8 /* how many there are in this version */
};
enum ddp_op {
	DDP_SUM = 0,
	DDP_AVG = 1, /* the sum divided by the world size */
	DDP_MIN = 2,
	DDP_MAX = 3,
	DDP_PROD = 4,
	DDP_BAND = 5, /* bits; integers only */
	DDP_BOR = 6,
	DDP_OPS = 7 /* how many there are in this version */
};

/* Bytes of one element; 0 for an unknown type. */
DDP_API size_t ddp_type_size(enum ddp_type type);

/* recv[i] = op over all ranks of send[i]; count elements each. send == recv is
 * legal. DDP_AVG of integers is rounded towards zero. Integer sums and products
 * wrap around. f16 and bf16 are reduced in f32 and rounded, to nearest even:
 * within a host once, at the end; between hosts each time that a host adds its
 * own part. DDP_AVG overflows only where the average itself does not fit; other
 * operations also where they do over some of the hosts. On H hosts an average
 * is off by at most (H + 1) * u * the mean of all |send[i]|, and a sum by (H +
 * 1) * u * the sum of them, where u is 2^-11 for f16 and 2^-8 for bf16; an f16
 * average near 0, where f16 has no smaller steps than 2^-24, by H * 2^-24
 * more. */
DDP_API int ddp_all_reduce(ddp_comm *c, const void *send, void *recv,
			   size_t count, enum ddp_type type, enum ddp_op op);

/* As all_reduce, but only rank root gets recv; it may be NULL on the others. */
DDP_API int ddp_reduce(ddp_comm *c, const void *send, void *recv, size_t count,
		       enum ddp_type type, enum ddp_op op, int root);

/* Copies buf[count] of rank root into buf of all others. */
DDP_API int ddp_broadcast(ddp_comm *c, void *buf, size_t count,
			  enum ddp_type type, int root);

/* recv[r*count + i] = send[i] of rank r; recv has world size * count elements.
 * send may be recv + rank*count. */
DDP_API int ddp_all_gather(ddp_comm *c, const void *send, void *recv,
			   size_t count, enum ddp_type type);

/* As all_gather, but only rank root gets recv; it may be NULL on the others. */
DDP_API int ddp_gather(ddp_comm *c, const void *send, void *recv, size_t count,
		       enum ddp_type type, int root);

/* recv[i] = send[rank*count + i] of rank root; send has world size * count
 * elements there and may be NULL on the others. On the root recv may be
 * send + rank*count. */
DDP_API int ddp_scatter(ddp_comm *c, const void *send, void *recv,
			size_t count, enum ddp_type type, int root);

/* recv[i] = op over all ranks of send[rank*count + i]; send has world size *
 * count elements, recv count. recv may be send + rank*count. */
DDP_API int ddp_reduce_scatter(ddp_comm *c, const void *send, void *recv,
			       size_t count, enum ddp_type type,
			       enum ddp_op op);

/* recv[r*count + i] = send[rank*count + i] of rank r; both have world size *
 * count elements. send == recv is legal. */
DDP_API int ddp_all_to_all(ddp_comm *c, const void *send, void *recv,
			   size_t count, enum ddp_type type);

/* Returns when every rank has called it. */
DDP_API int ddp_barrier(ddp_comm *c);

/* ---- Point to point ----
 * What one rank sends another receives, in the order in which it was sent, with
 * the same count and type. They are apart from the collectives: neither waits
 * for the other. A send may return before its receive is called, or not. */

DDP_API int ddp_send(ddp_comm *c, const void *buf, size_t count,
		     enum ddp_type type, int to);
DDP_API int ddp_recv(ddp_comm *c, void *buf, size_t count, enum ddp_type type,
		     int from);

/* ---- Asynchronous forms ----
 * Each begins what its namesake does and sets *request. The collectives of a
 * communicator run in the order in which they were called. Buffers belong to
 * the operation until it has ended. It moves on in every call on the world's
 * communicators that waits, in ddp_test and ddp_wait; by itself only with a
 * progress thread (cpu) or on a GPU (nccl). */

typedef struct ddp_request ddp_request;

DDP_API int ddp_all_reduce_async(ddp_comm *c, const void *send, void *recv,
				 size_t count, enum ddp_type type,
				 enum ddp_op op, ddp_request **request);
DDP_API int ddp_reduce_async(ddp_comm *c, const void *send, void *recv,
			     size_t count, enum ddp_type type, enum ddp_op op,
			     int root, ddp_request **request);
DDP_API int ddp_broadcast_async(ddp_comm *c, void *buf, size_t count,
				enum ddp_type type, int root,
				ddp_request **request);
DDP_API int ddp_all_gather_async(ddp_comm *c, const void *send, void *recv,
				 size_t count, enum ddp_type type,
				 ddp_request **request);
DDP_API int ddp_gather_async(ddp_comm *c, const void *send, void *recv,
			     size_t count, enum ddp_type type, int root,
			     ddp_request **request);
DDP_API int ddp_scatter_async(ddp_comm *c, const void *send, void *recv,
			      size_t count, enum ddp_type type, int root,
			      ddp_request **request);
DDP_API int ddp_reduce_scatter_async(ddp_comm *c, const void *send, void *recv,
				     size_t count, enum ddp_type type,
				     enum ddp_op op, ddp_request **request);
DDP_API int ddp_all_to_all_async(ddp_comm *c, const void *send, void *recv,
				 size_t count, enum ddp_type type,
				 ddp_request **request);
DDP_API int ddp_barrier_async(ddp_comm *c, ddp_request **request);
DDP_API int ddp_send_async(ddp_comm *c, const void *buf, size_t count,
			   enum ddp_type type, int to, ddp_request **request);
DDP_API int ddp_recv_async(ddp_comm *c, void *buf, size_t count,
			   enum ddp_type type, int from,
			   ddp_request **request);

/* 1: ended well. 0: not yet. < 0: it failed. Frees nothing. */
DDP_API int ddp_test(ddp_request *request);
/* Waits for its end, frees it and sets *request to NULL. Returns what the
 * blocking form would have. *request NULL: 0. */
DDP_API int ddp_wait(ddp_request **request);
/* As ddp_wait, but no longer than timeout_ms (0: as ddp_test; < 0: as
 * ddp_wait): then DDP_ERR_TIMEOUT, and *request stays and is still under
 * way. That this is what happened: *request is not NULL. */
DDP_API int ddp_wait_timeout(ddp_request **request, int timeout_ms);
/* Waits for all n and frees them; returns the first error there was. */
DDP_API int ddp_wait_all(ddp_request **requests, int n);

/* Starts one thread that moves this world's operations on while the program
 * computes; ddp_finalize ends it. cpu: where it runs; -1: wherever the process
 * may. It sleeps while there is nothing to do. On nccl it does nothing. */
DDP_API int ddp_progress_start(ddp_comm *world, int cpu);

/* ---- The store ----
 * Small values shared by the ranks of this round, kept by the rendezvous
 * server, dropped when the round ends. Keys up to 8 KiB, values up to 8 MiB.
 * In a world of one without a server these work on a store in this process. */

DDP_API int ddp_store_set(ddp_comm *c, const char *key, const void *value,
			  size_t size);
/* Waits up to timeout_ms (< 0: for ever; 0: not at all) for key, then copies at
 * most capacity bytes into value. Returns the value's whole size, or
 * DDP_ERR_TIMEOUT. value may be NULL when capacity is 0. */
DDP_API int64_t ddp_store_get(ddp_comm *c, const char *key, void *value,
			      size_t capacity, int timeout_ms);
/* Adds to the decimal number at key (0 if missing); *result (may be NULL) is
 * the sum. */
DDP_API int ddp_store_add(ddp_comm *c, const char *key, int64_t delta,
			  int64_t *result);
/* Replaces expected by desired. Returns 1 if the key now holds desired, 0 if it
 * holds something else or is missing: whoever must know that it was the one
 * that replaced gives a desired value of its own, such as its rank. A missing
 * key matches an expected_size of 0. */
DDP_API int ddp_store_compare_set(ddp_comm *c, const char *key,
				  const void *expected, size_t expected_size,
				  const void *desired, size_t desired_size);
DDP_API int ddp_store_append(ddp_comm *c, const char *key, const void *value,
			     size_t size);
/* 1 if key existed, 0 if not. */
DDP_API int ddp_store_delete(ddp_comm *c, const char *key);

/* ---- NCCL ----
 * For programs that call NCCL themselves; docs/sdk.md shows it. */

/* 128 bytes (an ncclUniqueId) made by rank 0 and the same on all ranks; a new
 * one at each call. Collective on c. Needs libnccl on rank 0, but no GPU. */
DDP_API int ddp_nccl_unique_id(ddp_comm *c, void *id, size_t size);
/* The ncclComm_t of a communicator whose backend is nccl; libddp keeps it. Its
 * calls may return ncclInProgress, unless DDP_NCCL_BLOCKING=1. NULL where the
 * backend is cpu, and after a failure. */
DDP_API void *ddp_nccl_comm(const ddp_comm *c);
/* nccl: collectives of c are enqueued on this cudaStream_t and return at once;
 * an async form begins when the work that is in it now has ended, and ddp_wait
 * makes the stream wait, not the program. NULL (so it begins): libddp's own
 * stream, and a blocking call returns when the result is there. cpu: nothing
 * happens. */
DDP_API int ddp_set_stream(ddp_comm *c, void *stream);

/* ---- The distributed sampler ----
 * PyTorch's DistributedSampler and randperm, index by index
 * (torch/utils/data/distributed.py, aten's MT19937). */

/* What becomes of samples that do not divide by the world size. */
enum ddp_remainder {
	/* the first indices come again, so that all have as many */
	DDP_PAD = 0,
	DDP_DROP = 1, /* left out, so that all have as many (drop_last) */
	/* each sample once: some ranks have one more (evaluation) */
	DDP_EXACT = 2
};

struct ddp_sampler {
	uint64_t dataset_size;
	int rank;
	int world_size;
	uint64_t seed;
	int shuffle; /* 0: in order */
	enum ddp_remainder remainder;
	/* from here on libddp's own */
	uint64_t samples; /* of this rank */
	uint32_t *order;  /* of the epoch, dataset_size indices */
	uint64_t epoch;
};

/* Fills s. dataset_size up to 2^32-1. The caller frees with _release. */
DDP_API int ddp_sampler_init(struct ddp_sampler *s, uint64_t dataset_size,
			     int rank, int world_size, uint64_t seed,
			     int shuffle, enum ddp_remainder remainder);
DDP_API void ddp_sampler_release(struct ddp_sampler *s);
/* Draws the order of an epoch: randperm of seed + epoch. */
DDP_API void ddp_sampler_set_epoch(struct ddp_sampler *s, uint64_t epoch);
/* How many samples this rank gets in an epoch. */
DDP_API uint64_t ddp_sampler_size(const struct ddp_sampler *s);
/* The i-th index of this rank in the epoch, i < ddp_sampler_size. */
DDP_API uint32_t ddp_sampler_index(const struct ddp_sampler *s, uint64_t i);

/* ---- Checkpoints ----
 * One file of named sections with a version and a checksum. Written next to its
 * name, synced, then renamed: a kill at any moment leaves the old file or the
 * new one, never a torn one. A symbolic link stays one: what it leads to is
 * replaced. */

struct ddp_section {
	const char *name; /* up to 63 bytes, unique in the file */
	void *data;
	size_t size; /* bytes */
};

/* Writes path. Call it on one rank. kind names what the file is of ("mnist_mlp
 * 784-50-10"), up to 255 bytes; loading under another kind is an error.
 * -ENOSPC, -EACCES and the like leave an old file as it was. -EISDIR: path
 * names a folder. -EFBIG: the file would exceed the process's limit (ulimit
 * -f); no SIGXFSZ is raised. */
DDP_API int ddp_checkpoint_save(const char *path, const char *kind,
				const struct ddp_section *sections, int n);

/* Reads path into the sections' data; names and sizes must match the file's.
 * Nothing is written to any data unless the whole file is right. -ENOENT: there
 * is no file. DDP_ERR_DATA: truncated, damaged, of another kind (the text names
 * both), of a newer version, or a section is missing or of another size. */
DDP_API int ddp_checkpoint_load(const char *path, const char *kind,
				const struct ddp_section *sections, int n);

/* ---- The DDP reducer ----
 * Averages gradients over the ranks while the backward pass still computes
 * (Li et al., "PyTorch Distributed", VLDB 2020). Gradients lie in one arena, or
 * apart in spans, in the order of the forward pass. They are cut into buckets
 * from the last one on; a bucket is all-reduced when all its gradients are
 * ready, in the same order on every rank. On cpu it overlaps with a progress
 * thread (ddp_progress_start).
 *
 * On cpu the buckets go through a communicator of the reducer's own ("reducer
 * 1" in errors): the program may call any collective of c at any point of a
 * step. On nccl they share c, and each begins in the call of ready that
 * completes it: a program that calls collectives of c before the last ready of
 * a step calls ready in the same order on all ranks.
 */

typedef struct ddp_reducer ddp_reducer;

struct ddp_reducer_options {
	size_t first_bucket; /* bytes; 0: 1 MiB */
	/* Bytes of each later one. 0: a sixteenth of all, but at most 25 MiB
	 * (which is PyTorch's) and at least first_bucket: what is left to do
	 * when the backward pass ends is the last bucket. */
	size_t bucket;
	/* Sends f32 gradients as bf16: half the bytes. Each rounding, one where
	 * a rank sends and one or more of sums, is off by at most 2^-8 of its
	 * value. cpu only. */
	int bf16;
	/* Parameters may have no gradient in a step: there this rank counts as
	 * zeros, and what no rank used is left as it is. cpu only. */
	int find_unused;
	/* Replaces the all_reduce of a bucket, as DDP's communication hooks do:
	 * begins one and sets *request (or does it, and leaves it NULL). What
	 * it leaves in bucket is what all ranks then have; < 0 is a failure.
	 * With bf16 type is DDP_BF16. c is the communicator of the buckets, of
	 * the same ranks in the same order as the reducer's: collectives on it
	 * never meet the program's. A hook may wait for the other ranks' where
	 * all of them call ready in the same order. */
	int (*hook)(void *arg, ddp_comm *c, void *bucket, size_t count,
		    enum ddp_type type, ddp_request **request);
	void *hook_arg;
};

/* grads: the arena, which stays the caller's, of counts[0..n) elements one
 * after another, f32 or f64; options may be NULL. Collective on c: ranks that
 * differ in n, counts or options are told (DDP_ERR_ARGUMENT). */
DDP_API int ddp_reducer_new(ddp_reducer **r, ddp_comm *c, void *grads,
			    enum ddp_type type, const size_t *counts, int n,
			    const struct ddp_reducer_options *options);

struct ddp_span {
	void *data;
	size_t count;
	enum ddp_type type;
};
/* The same for gradients that lie apart: grads[0..n) in the order of the
 * forward pass, all f32 or all f64, at any address. The array itself need not
 * outlive the call. A span of 256 KiB or more (64 KiB where all ranks share a
 * host) is a bucket of its own and is averaged in place; smaller ones share
 * buckets. The spans of such a bucket are copied together before it is
 * averaged, and back afterwards, unless they are neighbours in memory. All
 * ranks call this, or all ddp_reducer_new. cpu only.
 */
DDP_API int ddp_reducer_new_spans(ddp_reducer **r, ddp_comm *c,
				  const struct ddp_span *grads, int n,
				  const struct ddp_reducer_options *options);
/* Before its communicator is freed. Waits for what is under way: after a
 * failure ddp_abort ends that. NULL is fine. */
DDP_API void ddp_reducer_free(ddp_reducer *r);
/* A backward pass begins. sync 0: its gradients stay local, to be accumulated
 * (no_sync); ready then only notes that the parameter was used, and finish,
 * which may be left out, does nothing. All ranks make the same steps with sync,
 * and the same collectives within each. */
DDP_API int ddp_reducer_begin(ddp_reducer *r, int sync);
/* The gradient of parameter i is complete, and not written to until finish. In
 * any order; the last parameter first is best. Moves on what is under way. */
DDP_API int ddp_reducer_ready(ddp_reducer *r, int i);
/* Waits until all gradients in the arena are averages over the ranks. Without
 * find_unused a parameter that was not ready is an error that names it. */
DDP_API int ddp_reducer_finish(ddp_reducer *r);
/* 1 if any rank used parameter i in the last finished step (find_unused), or in
 * one before it since the last that was synchronised; else 0. */
DDP_API int ddp_reducer_used(const ddp_reducer *r, int i);

/* Broadcasts parameters and buffers from root, small ones together. All ranks
 * give the same counts and types; one that does not is told, and keeps its own
 * data. */
DDP_API int ddp_broadcast_spans(ddp_comm *c, const struct ddp_span *spans,
				int n, int root);

/* Synchronised batch normalisation: from each rank's mean[channels] and biased
 * var[channels] over its *count values a channel (0 is legal) to those of all
 * ranks (Chan, Golub, LeVeque 1979), the same bits on all; where no rank has
 * values they stay. In the host's memory on either backend. The backward pass
 * needs only sums: ddp_all_reduce of sum(dy) and sum(dy * xhat). */
DDP_API int ddp_sync_batch_norm(ddp_comm *c, float *mean, float *var,
				size_t channels, uint64_t *count);

/* ---- Together ---- */

enum ddp_scope { DDP_HOST = 0, DDP_JOB = 1 };

/* The lowest rank of each host, or rank 0 of the job, runs fn(arg); the others
 * wait, without a timeout, until it has returned: nobody reads a data set that
 * is half there. Returns what fn returned (DDP_HOST: on this host); < 0
 * anywhere is a failure, which all return, and the text says on which rank. A
 * rank that dies meanwhile is an error as ever. Hosts wait for each other: no
 * timeout runs against one that is slower. Collective on c, which fn must not
 * use. */
DDP_API int ddp_once(ddp_comm *c, enum ddp_scope scope, int (*fn)(void *arg),
		     void *arg);

/* Asks the job to stop after this step: from a signal handler, too. */
DDP_API void ddp_request_stop(ddp_comm *c);
/* 1, on all ranks at the same call, once any rank or the launcher (preemption,
 * time limit) has asked for it; else 0. Collective on c: call it every step.
 * To who calls it ddprun sends no signal then, but where its patience ends. */
DDP_API int ddp_should_stop(ddp_comm *c);

/* ---- Metrics ----
 * Scalars over steps as JSON lines (metrics.jsonl) and as TensorBoard events
 * (events.out.tfevents.*), which TensorBoard and W&B read. For one rank. A line
 * is {"step":5,"wall_time":1700000000.25,"tag":"loss/train","value":0.5}; NaN
 * and infinities are legal, in JSON as "NaN", "Infinity", "-Infinity". Each
 * scalar is written at once: a kill tears at most the last record, which
 * readers skip. A failure (a full disk) is returned and leaves whole records;
 * later scalars are tried again. */

typedef struct ddp_metrics ddp_metrics;
enum ddp_metrics_format { DDP_JSONL = 1, DDP_TENSORBOARD = 2 };

/* Makes dir, and those above it, if it is missing; formats: of enum
 * ddp_metrics_format, or'ed. An existing metrics.jsonl is appended to, after a
 * torn last line was cut off; of events there is a new file each time. */
DDP_API int ddp_metrics_open(ddp_metrics **m, const char *dir, int formats);
/* tag: "loss/train", 1 to 1023 bytes of UTF-8. Events hold value as an f32. */
DDP_API int ddp_metrics_scalar(ddp_metrics *m, const char *tag, double value,
			       int64_t step);
/* Waits until the disk has what was written. */
DDP_API int ddp_metrics_flush(ddp_metrics *m);
/* Flushes and frees; the first error that there was. NULL: 0. */
DDP_API int ddp_metrics_close(ddp_metrics *m);

#ifdef __cplusplus
}
#endif
#endif
