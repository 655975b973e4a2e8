/* ddp.h: libddp, the worker side of a distributed data-parallel job in C.
 *
 * A program calls ddp_init, which finds its place in the job from its
 * environment (ddprun sets it), meets the other ranks and returns the world: a
 * communicator of all ranks. Collectives are called by every rank of a
 * communicator, in the same order, with the same count, type and operation.
 *
 * libddp never prints, never exits, installs no signal handler and starts no
 * thread. A communicator may be used by one thread at a time.
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

/* Who is to blame for an error. Values never change. */
enum ddp_error {
	DDP_ERR_ARGUMENT = -20001, /* the caller: NULL, a bad count or rank */
	DDP_ERR_USAGE = -20002,    /* the environment is missing or wrong */
	DDP_ERR_SYSTEM = -20003,   /* this host's operating system refused */
	DDP_ERR_REMOTE = -20004,   /* another rank failed or left */
	DDP_ERR_PROTOCOL = -20005, /* a peer said something that cannot be */
	DDP_ERR_TIMEOUT = -20006,  /* the deadline passed */
	DDP_ERR_ABORTED = -20007,  /* the round or the job was ended */
	DDP_ERR_INTERNAL = -20008, /* a bug in libddp */
	DDP_ERR_REFUSED = -20009,  /* the rendezvous server refused */
	DDP_ERR_DATA = -20010      /* a file's contents are wrong */
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
	/* "cpu", "nccl" or "auto"; NULL: $DDP_BACKEND, else "auto", which is
	 * cpu on a host without CUDA. */
	const char *backend;
	/* How long a rank waits for others, in ddp_init and in each collective,
	 * before it fails with DDP_ERR_TIMEOUT; ms. 0: $DDP_TIMEOUT (seconds),
	 * else 1,800,000 as in torch.distributed. < 0: for ever. */
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
DDP_API int ddp_world_size(const ddp_comm *c);
DDP_API int ddp_local_rank(const ddp_comm *c);       /* within its agent */
DDP_API int ddp_local_world_size(const ddp_comm *c);
DDP_API int ddp_node_rank(const ddp_comm *c);
DDP_API int ddp_nodes(const ddp_comm *c);
DDP_API int ddp_attempt(const ddp_comm *c);          /* restarts so far */
/* The backend in use: "cpu" or "nccl". */
DDP_API const char *ddp_backend(const ddp_comm *c);
/* The lowest rank of those that share this rank's memory (its host). */
DDP_API int ddp_host_leader(const ddp_comm *c);

/* ---- Collectives ----
 * count is in elements. Results are identical on all ranks, bit by bit, and
 * from run to run with the same ranks on the same hosts. A count of 0 is legal.
 * Buffers may have any alignment. */

enum ddp_type { DDP_F32, DDP_F64, DDP_I32, DDP_I64, DDP_TYPES };
enum ddp_op { DDP_SUM, DDP_AVG, DDP_MIN, DDP_MAX, DDP_OPS };

/* Bytes of one element; 0 for an unknown type. */
DDP_API size_t ddp_type_size(enum ddp_type type);

/* recv[i] = op over all ranks of send[i]; count elements each. send == recv is
 * legal, other overlap is not. DDP_AVG is the sum divided by the world size; of
 * integers, rounded towards zero. Integer sums wrap around. */
DDP_API int ddp_all_reduce(ddp_comm *c, const void *send, void *recv,
			   size_t count, enum ddp_type type, enum ddp_op op);

/* Copies buf[count] of rank root into buf of all others. */
DDP_API int ddp_broadcast(ddp_comm *c, void *buf, size_t count,
			  enum ddp_type type, int root);

/* recv[r*count + i] = send[i] of rank r; recv has world size * count elements.
 * send may be recv + rank*count. */
DDP_API int ddp_all_gather(ddp_comm *c, const void *send, void *recv,
			   size_t count, enum ddp_type type);

/* recv[i] = op over all ranks of send[rank*count + i]; send has world size *
 * count elements, recv count. recv may be send + rank*count. */
DDP_API int ddp_reduce_scatter(ddp_comm *c, const void *send, void *recv,
			       size_t count, enum ddp_type type,
			       enum ddp_op op);

/* Returns when every rank has called it. */
DDP_API int ddp_barrier(ddp_comm *c);

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

/* ---- The distributed sampler ----
 * PyTorch's DistributedSampler and randperm, index by index
 * (torch/utils/data/distributed.py, aten's MT19937). */

struct ddp_sampler {
	uint64_t dataset_size;
	int rank;
	int world_size;
	uint64_t seed;
	int shuffle;   /* 0: in order */
	int drop_last; /* 0: pad with the first indices again */
	/* from here on libddp's own */
	uint64_t samples; /* per rank */
	uint32_t *order;  /* of the epoch, dataset_size indices */
	uint64_t epoch;
};

/* Fills s. dataset_size up to 2^32-1. The caller frees with _release. */
DDP_API int ddp_sampler_init(struct ddp_sampler *s, uint64_t dataset_size,
			     int rank, int world_size, uint64_t seed,
			     int shuffle, int drop_last);
DDP_API void ddp_sampler_release(struct ddp_sampler *s);
/* Draws the order of an epoch: randperm of seed + epoch. */
DDP_API void ddp_sampler_set_epoch(struct ddp_sampler *s, uint64_t epoch);
/* How many samples each rank gets in an epoch. */
DDP_API uint64_t ddp_sampler_size(const struct ddp_sampler *s);
/* The i-th index of this rank in the epoch, i < ddp_sampler_size. */
DDP_API uint32_t ddp_sampler_index(const struct ddp_sampler *s, uint64_t i);

/* ---- Checkpoints ----
 * One file of named sections with a version and a checksum. Written next to its
 * name, synced, then renamed: a kill at any moment leaves the old file or the
 * new one, never a torn one. */

struct ddp_section {
	const char *name; /* up to 63 bytes, unique in the file */
	void *data;
	size_t size; /* bytes */
};

/* Writes path. Call it on one rank. kind names what the file is of ("mnist_mlp
 * 784-50-10"), up to 255 bytes; loading under another kind is an error.
 * -ENOSPC, -EACCES and the like leave an old file as it was. */
DDP_API int ddp_checkpoint_save(const char *path, const char *kind,
				const struct ddp_section *sections, int n);

/* Reads path into the sections' data; names and sizes must match the file's.
 * Nothing is written to any data unless the whole file is right. -ENOENT: there
 * is no file. DDP_ERR_DATA: truncated, damaged, of another kind (the text names
 * both), of a newer version, or a section is missing or of another size. */
DDP_API int ddp_checkpoint_load(const char *path, const char *kind,
				const struct ddp_section *sections, int n);

#ifdef __cplusplus
}
#endif
#endif
