/* ddp.h: libddp, the worker side of a distributed data-parallel job in C.
 *
 * A program calls ddp_init, which reads the rank's place in the job from the
 * environment (ddprun sets it), connects to the other ranks and returns the
 * world: a communicator of all ranks. Every rank of a communicator calls the
 * same collectives in the same order, with the same count, type and operation.
 * Calls that do not match fail with DDP_ERR_ARGUMENT and a text that names both
 * of them. On the cpu backend the same happens, within a second or two, when
 * ranks wait for each other in collectives of different communicators.
 *
 * Every function that can fail returns 0 (or a value) on success and a
 * negative DDP_ERR_* or -errno on failure; ddp_last_error() then holds one
 * sentence that says what failed, where (host, rank, address) and what to do.
 *
 * Pointers passed in stay the caller's and are not kept after the call, unless
 * the function says so. A returned const char * belongs to libddp.
 *
 * A communicator, the groups split from it and their requests may be used by
 * one thread at a time. libddp never prints, never exits and installs no signal
 * handler; it starts a thread only in functions that say so. */
#ifndef DDP_H
#define DDP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_VERSION_MAJOR 0
#define DDP_VERSION_MINOR 2
#define DDP_VERSION_PATCH 0
#define DDP_API __attribute__((visibility("default")))

/* ---- Errors ---- */

/* libddp's own codes; each names the party at fault. Values never change. */
enum ddp_error {
	DDP_ERR_ARGUMENT = -20001, /* the caller: NULL, a bad count or rank */
	DDP_ERR_USAGE = -20002,	   /* the environment is missing or wrong */
	DDP_ERR_SYSTEM = -20003,   /* this host's operating system refused */
	DDP_ERR_REMOTE = -20004,   /* another rank failed or left */
	DDP_ERR_PROTOCOL = -20005, /* a peer sent something invalid */
	DDP_ERR_TIMEOUT = -20006,  /* the deadline passed */
	DDP_ERR_ABORTED = -20007,  /* the round or the job ended */
	DDP_ERR_INTERNAL = -20008, /* a bug in libddp */
	DDP_ERR_REFUSED = -20009,  /* the rendezvous server refused */
	/* A file's contents are wrong; or gradients are not finite, or ranks
	 * differ, in data that was checked. */
	DDP_ERR_DATA = -20010,
	/* This process cannot prove that it belongs to the job: DDP_JOB_KEY is
	 * missing or wrong. */
	DDP_ERR_PROOF = -20011,
	/* Where etcd keeps the job: another ddprdzv serves it now; none does
	 * yet; etcd cannot be asked which one does. */
	DDP_ERR_MOVED = -20012,
	DDP_ERR_NOT_YET = -20013,
	DDP_ERR_NO_ETCD = -20014,
	/* Called while another thread was in a call on the same world, or in a
	 * child process that the rank forked. */
	DDP_ERR_CALLER = -20015
};

/* The text of this thread's last error, "" if there was none. Valid until this
 * thread's next call into libddp. */
DDP_API const char *ddp_last_error(void);
/* A short description of an error code; never NULL. */
DDP_API const char *ddp_error_name(int code);
/* Writes to $TORCHELASTIC_ERROR_FILE, in torchrun's format, why this process is
 * about to fail; the launcher prints it. Does nothing if the variable is unset
 * or empty. The first message is kept, later ones are ignored. Invalid UTF-8 is
 * replaced, and a message is cut after 32 KiB. May be called before ddp_init.
 * Returns 0 or -errno and does not change ddp_last_error(), so
 * ddp_record_error(ddp_last_error()) works. */
DDP_API int ddp_record_error(const char *message);
/* The library's version: "0.2.0". */
DDP_API const char *ddp_version(void);

/* ---- The world ---- */

typedef struct ddp_comm ddp_comm;

struct ddp_options {
	/* "cpu": buffers are in host memory. "nccl": they are on the current
	 * CUDA device or in host memory, but all of one call in the same of the
	 * two. "auto": nccl if every rank has its own GPU and NCCL can be
	 * loaded, else cpu, and ddp_last_error() says why. The same on all
	 * ranks. NULL: $DDP_BACKEND, else "auto". */
	const char *backend;
	/* Milliseconds that ddp_init and each collective wait for the other
	 * ranks before they fail with DDP_ERR_TIMEOUT. 0: $DDP_TIMEOUT (in
	 * seconds), else 30 minutes, torch.distributed's default. < 0: no
	 * limit. The time starts over after this process was suspended (Ctrl-Z,
	 * Slurm's suspend). */
	int timeout_ms;
};

/* Joins the job and sets *world, which ddp_finalize frees. Returns when all
 * ranks have joined. options may be NULL: all defaults.
 * Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK,
 * GROUP_WORLD_SIZE, DDP_RDZV_ENDPOINT, DDP_JOB_ID and DDP_ROUND. If none of
 * them is set, the world has one rank and needs no server. DDP_ERR_USAGE: one
 * is missing or wrong; the text names it. DDP_ERR_REMOTE: a rank ended before
 * it called ddp_init; the text says which and how. */
DDP_API int ddp_init(ddp_comm **world, const struct ddp_options *options);

/* Leaves the job: frees world and closes its connections and shared memory.
 * Does not wait for the other ranks; call ddp_barrier first to leave together.
 * NULL is allowed. In a forked child it only frees memory, and the rank, which
 * is the parent, stays in the job. */
DDP_API void ddp_finalize(ddp_comm *world);

DDP_API int ddp_rank(const ddp_comm *c);             /* 0..world size-1 */
DDP_API int ddp_world_size(const ddp_comm *c);       /* ranks in c */
/* The world rank of `rank` of c; -1 if c has no such rank. */
DDP_API int ddp_world_rank(const ddp_comm *c, int rank);
DDP_API int ddp_local_rank(const ddp_comm *c);       /* within its agent */
DDP_API int ddp_local_world_size(const ddp_comm *c);
DDP_API int ddp_node_rank(const ddp_comm *c);
DDP_API int ddp_nodes(const ddp_comm *c);
DDP_API int ddp_attempt(const ddp_comm *c);          /* restarts, from 0 */
/* The backend in use: "cpu" or "nccl". */
DDP_API const char *ddp_backend(const ddp_comm *c);
/* The lowest rank of c on this host, of those that share memory with it. */
DDP_API int ddp_host_leader(const ddp_comm *c);
/* One sentence about a setup that works but is slower than it should be, such
 * as why the ranks of this host cannot share memory. "" if there is nothing. */
DDP_API const char *ddp_warning(const ddp_comm *c);

/* ---- Groups and failure ---- */

/* Splits c into groups, as MPI_Comm_split does. Collective on c. Ranks with the
 * same color form a group, ordered by key, then by their rank in c. A rank with
 * color < 0 is in no group: *group is NULL. ddp_comm_free frees *group; c stays
 * as it is. */
DDP_API int ddp_comm_split(ddp_comm *c, int color, int key, ddp_comm **group);
/* This rank's role in a job of several programs, or of nodes with --role:
 * ROLE_NAME, else "default". It lives as long as the environment. */
DDP_API const char *ddp_role(const ddp_comm *c);
/* ddp_comm_split with a group for each role; collective on c. */
DDP_API int ddp_comm_split_by_role(ddp_comm *c, ddp_comm **group);
/* Frees a group. Free every group before ddp_finalize frees the world. Requests
 * of the group (of the world) that are still under way fail with
 * DDP_ERR_ABORTED, and their buffers are not touched any more; ddp_wait must
 * still be called on each, to free it. NULL is allowed. */
DDP_API void ddp_comm_free(ddp_comm *group);

/* For use after a failure: ends every operation on the world of c and on its
 * groups, here and on the ranks that wait for this one: theirs fail with
 * DDP_ERR_ABORTED and the text `why` (may be NULL). Returns at once. Afterwards
 * only ddp_comm_free and ddp_finalize may be called on c; then the process
 * exits, or all ranks call ddp_init again. */
DDP_API int ddp_abort(ddp_comm *c, const char *why);

/* ---- Collectives ----
 * A call returns when this rank's part is complete, or enqueues it on a stream
 * (ddp_set_stream). count is in elements; 0 is legal, and so is more than 2^31.
 * Buffers may have any alignment. send and recv must not overlap, except as a
 * function says. Below, n is ddp_world_size(c) and rank is ddp_rank(c).
 * Results are the same on all ranks, bit for bit, and from run to run with the
 * same ranks on the same hosts; on nccl, if NCCL chooses the same algorithm. */

/* Values never change; later versions may add more. */
enum ddp_type {
	DDP_F32 = 0,
	DDP_F64 = 1,
	DDP_I32 = 2,
	DDP_I64 = 3,
	DDP_F16 = 4,  /* IEEE 754 binary16 */
	DDP_BF16 = 5, /* the upper half of an f32 */
	DDP_I8 = 6,
	DDP_U8 = 7,
	DDP_TYPES = 8 /* the number of types in this version */
};
enum ddp_op {
	DDP_SUM = 0,
	DDP_AVG = 1, /* the sum divided by n */
	DDP_MIN = 2,
	DDP_MAX = 3,
	DDP_PROD = 4,
	DDP_BAND = 5, /* bitwise and, or; integers only */
	DDP_BOR = 6,
	DDP_OPS = 7 /* the number of operations in this version */
};

/* Bytes in one element; 0 for an unknown type. */
DDP_API size_t ddp_type_size(enum ddp_type type);

/* recv[i] = op over all ranks of send[i], for i in 0..count-1. send == recv is
 * legal.
 * Integers: sums and products wrap around; DDP_AVG rounds towards zero.
 * f16 and bf16 are rounded for each rank on nccl. On cpu they are reduced in
 * f32 and rounded to nearest even: once within a host, then for each host. Over
 * H hosts an average is off by at most (H + 1) * u * mean |send[i]|, a sum by
 * (H + 1) * u * sum |send[i]|, where u is 2^-11 for f16 and 2^-8 for bf16; near
 * 0, where the steps of f16 are 2^-24, an f16 average is off by up to H * 2^-24
 * more. DDP_AVG overflows only if the average does not fit the type; other
 * operations also if the result over some of the hosts does not. */
DDP_API int ddp_all_reduce(ddp_comm *c, const void *send, void *recv,
			   size_t count, enum ddp_type type, enum ddp_op op);

/* As ddp_all_reduce, but only root gets recv; the others may pass NULL. */
DDP_API int ddp_reduce(ddp_comm *c, const void *send, void *recv, size_t count,
		       enum ddp_type type, enum ddp_op op, int root);

/* Copies buf[0..count) of rank root into buf of every other rank. */
DDP_API int ddp_broadcast(ddp_comm *c, void *buf, size_t count,
			  enum ddp_type type, int root);

/* recv[r*count + i] = send[i] of rank r: recv is [n][count]. send may be
 * recv + rank*count. */
DDP_API int ddp_all_gather(ddp_comm *c, const void *send, void *recv,
			   size_t count, enum ddp_type type);

/* As ddp_all_gather, but only root gets recv; the others may pass NULL. */
DDP_API int ddp_gather(ddp_comm *c, const void *send, void *recv, size_t count,
		       enum ddp_type type, int root);

/* recv[i] = send[rank*count + i] of rank root: send is [n][count] there and may
 * be NULL on the others. On the root recv may be send + rank*count. */
DDP_API int ddp_scatter(ddp_comm *c, const void *send, void *recv,
			size_t count, enum ddp_type type, int root);

/* recv[i] = op over all ranks of send[rank*count + i]: send is [n][count], recv
 * [count]. recv may be send + rank*count. */
DDP_API int ddp_reduce_scatter(ddp_comm *c, const void *send, void *recv,
			       size_t count, enum ddp_type type,
			       enum ddp_op op);

/* recv[r*count + i] = send[rank*count + i] of rank r: both are [n][count].
 * send == recv is legal. */
DDP_API int ddp_all_to_all(ddp_comm *c, const void *send, void *recv,
			   size_t count, enum ddp_type type);

/* The ddp_*_v calls have a count for each rank, which may be 0; a count array
 * has n numbers and is not kept. Blocks lie in rank order without gaps, as with
 * PyTorch's split sizes: MPI's displacements would only add gaps, which other
 * ranks cannot check. Counts that do not match fail with DDP_ERR_ARGUMENT; the
 * text names two ranks and their counts. On nccl these calls, asynchronous or
 * not, wait until all ranks have called, to compare the counts; a rank with no
 * element at all passes pointers to the same kind of memory as the others. */

/* Block r of recv, counts[r] elements, is the send of rank r. All ranks pass
 * the same counts. send may be this rank's block of recv. */
DDP_API int ddp_all_gather_v(ddp_comm *c, const void *send, void *recv,
			     const size_t *counts, enum ddp_type type);
/* recv = op over all ranks of block `rank` of their send, where block r has
 * counts[r] elements. All ranks pass the same counts. recv may be this block.
 */
DDP_API int ddp_reduce_scatter_v(ddp_comm *c, const void *send, void *recv,
				 const size_t *counts, enum ddp_type type,
				 enum ddp_op op);
/* Block r of recv, recv_counts[r] elements, is block `rank` of the send of rank
 * r, send_counts[rank] elements there. */
DDP_API int ddp_all_to_all_v(ddp_comm *c, const void *send,
			     const size_t *send_counts, void *recv,
			     const size_t *recv_counts, enum ddp_type type);

/* Returns when every rank of c has called it. */
DDP_API int ddp_barrier(ddp_comm *c);

/* ---- Point to point ----
 * Messages between two ranks of c arrive in the order in which they were sent;
 * count and type must match. They are independent of collectives: neither waits
 * for the other. A send may or may not return before its receive is called. */

DDP_API int ddp_send(ddp_comm *c, const void *buf, size_t count,
		     enum ddp_type type, int to);
DDP_API int ddp_recv(ddp_comm *c, void *buf, size_t count, enum ddp_type type,
		     int from);

/* ---- Asynchronous forms ----
 * Each starts the operation of its name and sets *request, which ddp_wait
 * frees. Buffers belong to the operation until it has ended: do not write to
 * send, do not touch recv. Collectives of a communicator run in the order of
 * the calls. An operation advances while this rank is in ddp_test, ddp_wait or
 * any call that waits on a communicator of the same world; without such a call
 * only with a progress thread (cpu) or on a GPU (nccl). */

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
DDP_API int ddp_all_gather_v_async(ddp_comm *c, const void *send, void *recv,
				   const size_t *counts, enum ddp_type type,
				   ddp_request **request);
DDP_API int ddp_reduce_scatter_v_async(ddp_comm *c, const void *send,
				       void *recv, const size_t *counts,
				       enum ddp_type type, enum ddp_op op,
				       ddp_request **request);
DDP_API int ddp_all_to_all_v_async(ddp_comm *c, const void *send,
				   const size_t *send_counts, void *recv,
				   const size_t *recv_counts,
				   enum ddp_type type, ddp_request **request);
DDP_API int ddp_barrier_async(ddp_comm *c, ddp_request **request);
DDP_API int ddp_send_async(ddp_comm *c, const void *buf, size_t count,
			   enum ddp_type type, int to, ddp_request **request);
DDP_API int ddp_recv_async(ddp_comm *c, void *buf, size_t count,
			   enum ddp_type type, int from,
			   ddp_request **request);

/* 1: complete. 0: under way. < 0: failed. Never waits, frees nothing. */
DDP_API int ddp_test(ddp_request *request);
/* Waits until the operation ends, frees *request and sets it to NULL. Returns
 * what the blocking form would have returned; 0 if *request is NULL. */
DDP_API int ddp_wait(ddp_request **request);
/* As ddp_wait, for at most timeout_ms milliseconds (0: does not wait; < 0: no
 * limit). When they pass it returns DDP_ERR_TIMEOUT, and the operation is still
 * under way: *request is not NULL, unlike after an operation that itself failed
 * with DDP_ERR_TIMEOUT. */
DDP_API int ddp_wait_timeout(ddp_request **request, int timeout_ms);
/* Waits for all n requests and frees them. Returns the first error, or 0. */
DDP_API int ddp_wait_all(ddp_request **requests, int n);

/* Starts a thread that advances this world's operations while the program
 * computes; ddp_finalize ends it. It runs on CPU number cpu, or wherever the
 * process may if cpu is -1, and sleeps while nothing is under way. Does nothing
 * on nccl. */
DDP_API int ddp_progress_start(ddp_comm *world, int cpu);

/* ---- The store ----
 * Small values that the ranks share: kept by the rendezvous server, dropped
 * when the round ends. Keys are up to 8 KiB, values up to 8 MiB. In a world of
 * one without a server the store is in this process. */

DDP_API int ddp_store_set(ddp_comm *c, const char *key, const void *value,
			  size_t size);
/* Waits up to timeout_ms milliseconds (< 0: no limit; 0: not at all) until key
 * exists, then copies at most capacity bytes of it into value. Returns the
 * size of the whole value in bytes, or DDP_ERR_TIMEOUT. value may be NULL if
 * capacity is 0. */
DDP_API int64_t ddp_store_get(ddp_comm *c, const char *key, void *value,
			      size_t capacity, int timeout_ms);
/* Adds delta to the decimal number at key (0 if key is missing) and sets
 * *result, which may be NULL, to the sum. */
DDP_API int ddp_store_add(ddp_comm *c, const char *key, int64_t delta,
			  int64_t *result);
/* If key holds expected, sets it to desired. An expected_size of 0 matches a
 * missing key. Returns 1 if key holds desired afterwards, else 0. It is also 1
 * if another rank set the same value before: to learn which rank won, use
 * values that differ, such as the rank. */
DDP_API int ddp_store_compare_set(ddp_comm *c, const char *key,
				  const void *expected, size_t expected_size,
				  const void *desired, size_t desired_size);
/* Appends to the value of key, which is made if missing. */
DDP_API int ddp_store_append(ddp_comm *c, const char *key, const void *value,
			     size_t size);
/* Deletes key. Returns 1 if it existed, else 0. */
DDP_API int ddp_store_delete(ddp_comm *c, const char *key);

/* ---- NCCL ----
 * For programs that call NCCL themselves; docs/sdk.md shows it. */

/* Sets id, of size 128 bytes, to an ncclUniqueId that rank 0 makes: the same on
 * all ranks, a new one at each call. Collective on c. Needs libnccl on rank 0,
 * but no GPU. */
DDP_API int ddp_nccl_unique_id(ddp_comm *c, void *id, size_t size);
/* The ncclComm_t of c, which stays libddp's; NULL if the backend is cpu, and
 * after a failure. NCCL's calls on it may return ncclInProgress, unless
 * DDP_NCCL_BLOCKING=1 is set. */
DDP_API void *ddp_nccl_comm(const ddp_comm *c);
/* Sets *p to size bytes of the GPU's memory that NCCL can read and write in
 * place over NVLink once it is registered: memory of ncclMemAlloc (before NCCL
 * 2.19, of cudaMalloc). For the gradients of a reducer, which registers them.
 * Its content is undefined. DDP_ERR_ARGUMENT: the backend is cpu. Not
 * collective. */
DDP_API int ddp_nccl_alloc(ddp_comm *c, size_t size, void **p);
/* Frees memory of ddp_nccl_alloc, before ddp_finalize and after the reducer,
 * and ends its registrations. Waits for the device. NULL is allowed. */
DDP_API void ddp_nccl_free(ddp_comm *c, void *p);
/* Registers size bytes of the program's GPU memory for the collectives of c:
 * NCCL may then read and write them in place, over InfiniBand, and over NVLink
 * if they are ddp_nccl_alloc's (ncclCommRegister, since NCCL 2.19; older ones
 * ignore the call). Each communicator, groups too, has registrations of its
 * own. Deregister the memory before it is freed, on all communicators: NCCL
 * corrupts it otherwise. DDP_ERR_ARGUMENT: the backend is cpu, the memory is
 * the host's, or this address is registered already. Not collective. */
DDP_API int ddp_nccl_register(ddp_comm *c, void *buf, size_t size);
/* Ends the registration of the memory at buf, when no collective uses it any
 * more. Does nothing without one: ddp_nccl_free, ddp_comm_free, ddp_finalize
 * and every failure of c end registrations as well. After ddp_init, register
 * again. */
DDP_API void ddp_nccl_deregister(ddp_comm *c, void *buf);
/* nccl: collectives of c are enqueued on this cudaStream_t and return at once.
 * An async form starts after the work that is in the stream now, and ddp_wait
 * makes the stream wait, not the program. NULL, the default: a stream of
 * libddp's own, and a blocking call returns when its result is there. The
 * stream stays the caller's. Does nothing on cpu. */
DDP_API int ddp_set_stream(ddp_comm *c, void *stream);

/* Waits until this cudaEvent_t of the program's is complete, in place of
 * cudaEventSynchronize or cudaStreamSynchronize. These wait for ever if the
 * event follows a collective that a rank does not enter; this call fails as a
 * blocking collective does: it names the rank that died, or at the world's
 * timeout the ranks that are late. Needs the backend nccl. Not collective. */
DDP_API int ddp_wait_event(ddp_comm *c, void *event);

/* ---- The distributed sampler ----
 * Which samples of a data set each rank reads in an epoch. Yields the indices
 * of PyTorch's DistributedSampler, with its randperm
 * (torch/utils/data/distributed.py, aten's MT19937). No call communicates. */

/* What happens to the remainder when world_size does not divide the data set's
 * size. */
enum ddp_remainder {
	DDP_PAD = 0,  /* ranks get equally many: the first indices come again */
	DDP_DROP = 1, /* ranks get equally many: it is left out (drop_last) */
	DDP_EXACT = 2 /* each sample comes once: some ranks get one more */
};

struct ddp_sampler {
	uint64_t dataset_size;
	int rank;
	int world_size;
	uint64_t seed;
	int shuffle; /* 0: in order */
	enum ddp_remainder remainder;
	/* private: */
	uint64_t samples; /* this rank's, per epoch */
	uint32_t *order;  /* [dataset_size], of this epoch */
	uint64_t epoch;
};

/* Fills in s, at epoch 0; ddp_sampler_release frees what it holds. dataset_size
 * is at most 2^32-1. */
DDP_API int ddp_sampler_init(struct ddp_sampler *s, uint64_t dataset_size,
			     int rank, int world_size, uint64_t seed,
			     int shuffle, enum ddp_remainder remainder);
DDP_API void ddp_sampler_release(struct ddp_sampler *s);
/* Sets the order of an epoch: the randperm of seed + epoch. */
DDP_API void ddp_sampler_set_epoch(struct ddp_sampler *s, uint64_t epoch);
/* The number of samples of this rank in an epoch. */
DDP_API uint64_t ddp_sampler_size(const struct ddp_sampler *s);
/* The i-th index of this rank in the epoch; i < ddp_sampler_size(s). */
DDP_API uint32_t ddp_sampler_index(const struct ddp_sampler *s, uint64_t i);

/* ---- Checkpoints ----
 * One file of named sections with a version and a checksum. It is written under
 * a temporary name beside path, synced, then renamed: a kill at any moment
 * leaves the old file or the new one, never a torn one. If path is a symbolic
 * link, the file that it points to is replaced. */

struct ddp_section {
	const char *name; /* up to 63 bytes, unique in the file */
	void *data;	  /* the caller's */
	size_t size;	  /* bytes */
};

/* Writes sections[0..n) to path. Call it on one rank. kind, up to 255 bytes,
 * names the contents ("mnist_mlp 784-50-10"): loading under another kind fails.
 * After an error (-ENOSPC, -EACCES ...) an old file is unchanged. -EISDIR: path
 * is a directory. -EFBIG: the file would exceed the process's limit (ulimit
 * -f); no SIGXFSZ is raised. */
DDP_API int ddp_checkpoint_save(const char *path, const char *kind,
				const struct ddp_section *sections, int n);

/* Reads path into the data of sections[0..n), whose names and sizes must match
 * the file's. Data changes only if the whole file is right. -ENOENT: no file.
 * DDP_ERR_DATA: it is truncated, damaged, of another kind (the text names both)
 * or of a newer version; or a section is missing or of another size. */
DDP_API int ddp_checkpoint_load(const char *path, const char *kind,
				const struct ddp_section *sections, int n);

/* ---- The DDP reducer ----
 * Averages gradients over the ranks while the backward pass still computes
 * (Li et al., "PyTorch Distributed", VLDB 2020). Gradients are in one arena or
 * in separate spans, in the order of the forward pass, and are grouped into
 * buckets from the last one on. A bucket is all-reduced when all its gradients
 * are ready, in the same order on every rank. A step is
 * begin, then ready once for each parameter, then finish.
 *
 * On cpu the all-reduce runs meanwhile only with ddp_progress_start, and the
 * buckets have their own communicator ("reducer 1" in errors), so the program
 * may call collectives of c at any point of a step. On nccl buckets share c,
 * and each starts in the call of ready that completes it: a program that calls
 * collectives of c before the last ready of a step must call ready in the same
 * order on all ranks. */

typedef struct ddp_reducer ddp_reducer;

struct ddp_reducer_options {
	size_t first_bucket; /* bytes; 0: 1 MiB */
	/* Bytes of each later bucket. 0: a sixteenth of all gradients, at least
	 * first_bucket and at most PyTorch's 25 MiB. Only the last bucket is
	 * still to be reduced when the backward pass ends. */
	size_t bucket;
	/* Sends f32 gradients as bf16: half the bytes. The values that a rank
	 * sends are rounded once, sums at least once; each rounding changes a
	 * value by at most 2^-8 of it. Gradients on a GPU are converted there,
	 * which takes half of their memory once more; NCCL then rounds sums for
	 * each rank, as in ddp_all_reduce. */
	int bf16;
	/* A step may leave parameters without a gradient: this rank then
	 * contributes zeros. A gradient that no rank has is left as it is. cpu
	 * only. */
	int find_unused;
	/* Replaces the all_reduce of a bucket, like DDP's communication hooks.
	 * Either starts an operation and sets *request, or completes it and
	 * leaves *request NULL. All ranks then have what it leaves in bucket,
	 * whose type is DDP_BF16 with bf16. < 0: failed. c has the reducer's
	 * ranks in the same order; on cpu it is the buckets' own communicator,
	 * without collectives of the program. A hook may wait for the hooks of
	 * other ranks only if all ranks call ready in the same order. */
	int (*hook)(void *arg, ddp_comm *c, void *bucket, size_t count,
		    enum ddp_type type, ddp_request **request);
	void *hook_arg;
};

/* Sets *r, which ddp_reducer_free frees. grads is an arena of n gradients one
 * after another, of counts[i] elements each, f32 or f64; it stays the caller's
 * and outlives *r. options may be NULL. Collective on c. DDP_ERR_ARGUMENT:
 * ranks differ in n, counts or options. */
DDP_API int ddp_reducer_new(ddp_reducer **r, ddp_comm *c, void *grads,
			    enum ddp_type type, const size_t *counts, int n,
			    const struct ddp_reducer_options *options);

struct ddp_span {
	void *data;	    /* the caller's */
	size_t count;	    /* elements */
	enum ddp_type type;
};
/* As ddp_reducer_new, for gradients at separate addresses: grads[0..n), in the
 * order of the forward pass, all f32 or all f64. The data outlives *r, the
 * array need not outlive the call. A span of 256 KiB or more (64 KiB if all
 * ranks share a host) is its own bucket and is averaged in place. Smaller spans
 * share buckets, and are copied into one and back unless they are adjacent in
 * memory. All ranks call this function, or all ddp_reducer_new. cpu only. */
DDP_API int ddp_reducer_new_spans(ddp_reducer **r, ddp_comm *c,
				  const struct ddp_span *grads, int n,
				  const struct ddp_reducer_options *options);
/* Waits for operations under way, which ddp_abort ends after a failure, and
 * frees r. Call it before the communicator is freed. NULL is allowed. */
DDP_API void ddp_reducer_free(ddp_reducer *r);
/* Starts a step, before the backward pass. sync 0: gradients stay local and
 * accumulate (no_sync); ready only records that a parameter was used, and
 * finish does nothing and may be left out. All ranks must make the same steps
 * with sync, and the same collectives within each. */
DDP_API int ddp_reducer_begin(ddp_reducer *r, int sync);
/* The gradient of parameter i is complete; do not touch it until finish. Any
 * order is legal, the last parameter first is best. Advances operations. */
DDP_API int ddp_reducer_ready(ddp_reducer *r, int i);
/* Ends the step: waits until all gradients are averages over the ranks, or sums
 * (ddp_reducer_use_sums). Without find_unused it fails if a parameter was not
 * ready; the text names it. */
DDP_API int ddp_reducer_finish(ddp_reducer *r);
/* 1 if any rank used parameter i in the last step with sync or in one without
 * that it accumulated, else 0. Always 1 without find_unused. */
DDP_API int ddp_reducer_used(const ddp_reducer *r, int i);

/* on 1: from the next step with sync on, finish leaves sums over the ranks, not
 * averages, for a program that divides its loss by their number; 0, the
 * default: averages. On nccl sums are faster where NVLink SHARP reduces them,
 * which it does not do for averages of floats. A hook decides for itself. All
 * ranks call this with the same value, between steps. */
DDP_API int ddp_reducer_use_sums(ddp_reducer *r, int on);

/* on 1: from the next step with sync on, ready looks for NaN and infinity in
 * this rank's gradient, before the sum spreads it to all ranks, and finish in
 * the averages; 0, the default: no longer. If any rank has found one, finish
 * completes the step and returns DDP_ERR_DATA on all ranks; the text names the
 * lowest of these ranks and its first such parameter. The averages then hold
 * NaN or infinity, and the next step may begin. All ranks call this with the
 * same value, between steps. cpu only. */
DDP_API int ddp_reducer_check_finite(ddp_reducer *r, int on);

/* factor > 1 (100, say): from the next step with sync on, finish looks for a
 * rank whose gradient of a parameter has, before the average, a value more than
 * factor times larger than the largest of most ranks: a bit flip that matters,
 * wrong samples, a wrong loss. It completes the step and returns DDP_ERR_DATA
 * on all ranks; the text names that rank and parameter, and the averages are
 * not to be used. 0, the default: no longer. It looks at the averages in each
 * step, and compares the ranks only when one has grown to 4 times what was
 * usual. Not seen are flips that leave a value in the range of the others, most
 * of all those of its lower bits. With fewer than 3 ranks nothing is looked
 * for. All ranks call this with the same value, between steps. cpu only. */
DDP_API int ddp_reducer_check_norms(ddp_reducer *r, double factor);

/* Compares the data of spans[0..n) (parameters, buffers, the optimizer's state)
 * over the ranks by a hash, bit for bit. Host memory on either backend. Returns
 * 0, or on all ranks DDP_ERR_DATA: the text names the ranks whose data differs
 * from that of most ranks, and the first such span. c stays usable.
 * DDP_ERR_ARGUMENT: ranks differ in n, counts or types. Collective on c. */
DDP_API int ddp_check_replicas(ddp_comm *c, const struct ddp_span *spans,
			       int n);

/* Broadcasts the data of spans[0..n) (parameters, buffers) from root; small
 * ones travel together. Collective on c. DDP_ERR_ARGUMENT: this rank's counts
 * or types differ from the root's; the data of these spans is unchanged. */
DDP_API int ddp_broadcast_spans(ddp_comm *c, const struct ddp_span *spans,
				int n, int root);

/* Synchronised batch normalisation. In: mean[channels] and biased var[channels]
 * of this rank's *count values per channel (0 is legal). Out: those of the
 * values of all ranks (Chan, Golub, LeVeque 1979), the same bits on every rank;
 * unchanged if no rank has values. Host memory on either backend. Collective on
 * c. The backward pass needs only sums: ddp_all_reduce of sum(dy) and of
 * sum(dy * xhat). */
DDP_API int ddp_sync_batch_norm(ddp_comm *c, float *mean, float *var,
				size_t channels, uint64_t *count);

/* ---- Once for all ranks, stopping together ---- */

enum ddp_scope { DDP_HOST = 0, DDP_JOB = 1 };

/* Runs fn(arg) on one rank while the others wait: the lowest rank of each host
 * (DDP_HOST), or rank 0 of c (DDP_JOB). For example, to download a data set.
 * The wait, also of hosts for slower hosts, has no timeout, but fails as usual
 * if a rank dies. Returns what fn returned (DDP_HOST: on this host). If fn
 * fails anywhere (< 0), all ranks return an error, and the text names the rank.
 * Collective on c, which fn must not use. */
DDP_API int ddp_once(ddp_comm *c, enum ddp_scope scope, int (*fn)(void *arg),
		     void *arg);

/* Asks the job to stop after this step. May be called in a signal handler. */
DDP_API void ddp_request_stop(ddp_comm *c);
/* Returns 1, on all ranks in the same call, once any rank or the launcher
 * (preemption, time limit) has asked the job to stop, else 0. Collective on c:
 * call it every step. On such a stop ddprun sends no signal to a worker that
 * calls this function until the grace period is over. */
DDP_API int ddp_should_stop(ddp_comm *c);
/* Reports that this rank has done a step (>= 0), which ddprun then shows. After
 * a restart count on from the checkpoint's: restarts that reach no further step
 * end the job (ddprun --max-no-progress-restarts). */
DDP_API int ddp_step(ddp_comm *c, int64_t step);

/* ---- Metrics ----
 * Scalars over steps, written by one rank as JSON lines (metrics.jsonl) and as
 * TensorBoard events (events.out.tfevents.*), which TensorBoard and W&B read. A
 * line is {"step":5,"wall_time":1700000000.25,"tag":"loss/train","value":0.5};
 * NaN and infinities are written as "NaN", "Infinity" and "-Infinity". Each
 * scalar is written at once: a kill tears at most the last record, which
 * readers skip. After an error (a full disk) the files hold whole records, and
 * the next scalar tries again. */

typedef struct ddp_metrics ddp_metrics;
enum ddp_metrics_format { DDP_JSONL = 1, DDP_TENSORBOARD = 2 };

/* Opens the files in dir and sets *m, which ddp_metrics_close frees. Makes dir
 * and its parents if missing. formats: enum ddp_metrics_format values, or'ed.
 * Appends to an existing metrics.jsonl, after cutting off a torn last line;
 * events are in a new file each time. */
DDP_API int ddp_metrics_open(ddp_metrics **m, const char *dir, int formats);
/* tag ("loss/train") is 1 to 1023 bytes of UTF-8. Events hold an f32. */
DDP_API int ddp_metrics_scalar(ddp_metrics *m, const char *tag, double value,
			       int64_t step);
/* Waits until everything written is on disk (fsync). */
DDP_API int ddp_metrics_flush(ddp_metrics *m);
/* Flushes and frees m (NULL: 0). Returns the first error of any call on m. */
DDP_API int ddp_metrics_close(ddp_metrics *m);

#ifdef __cplusplus
}
#endif
#endif
