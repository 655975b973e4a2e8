/* nccl_standin.h: a communicator of the stand-in, and the calls that a group
 * collects. nccl_comm.c makes and ends communicators, nccl_memory.c has their
 * memory, nccl_group.c runs groups, nccl_kernel.c computes. */
#ifndef STANDIN_NCCL_STANDIN_H
#define STANDIN_NCCL_STANDIN_H

#include <pthread.h>
#include <stdint.h>

#include <nccl.h>

#include "nccl_mesh.h"
#include "standin.h"

#define COMM_ALIVE 0x636f6d6d616c6976ull

struct group;

struct ncclComm {
	uint64_t magic;
	int rank, size, device, blocking;
	struct mesh_id id;
	int splits;
	_Atomic int state;  /* the result of the last call, an ncclResult_t */
	_Atomic int lost;   /* a peer closed its connection under a kernel */
	_Atomic int stop;   /* NCCL's abort flag */
	struct ncclComm *child; /* that a split is making */
	struct mesh mesh;
	char *sends, *receives; /* by rank: messages are set up */
	int collectives;	/* ... and so are collectives */
	_Atomic uint64_t launched, finished; /* kernels */
	void *memory; /* on the device: to free it waits for the device */
	struct group *group; /* the non-blocking group that it is in */
	int is_finalized, is_destroyed;
	struct ncclComm *older; /* the one made before it, for leak checkers */
};

enum kernel_kind {
	KERNEL_ALL_REDUCE,
	KERNEL_REDUCE,
	KERNEL_REDUCE_SCATTER,
	KERNEL_BROADCAST,
	KERNEL_ALL_GATHER,
	KERNEL_SEND,
	KERNEL_RECV
};

/* A call that runs on the device. */
struct kernel {
	struct kernel *next; /* messages of one group run together */
	struct ncclComm *comm;
	enum kernel_kind kind;
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
	int root; /* or the peer */
	cudaStream_t stream;
	uint64_t number; /* of this communicator's kernels */
};

/* A call of a group: a kernel, or a job that the host runs. */
struct task {
	struct task *next;
	struct ncclComm *comm;
	struct kernel *kernel;
	ncclResult_t (*job)(struct task *t);
	int is_end; /* abort or destroy: afterwards comm does not exist */
	struct ncclComm *made; /* init, split */
	ncclComm_t *out;       /* split */
	int color, key, was_busy;
	ncclResult_t rc;
	pthread_t thread;
};

/* ---- nccl_group.c */

int standin_version(void); /* 22809 is 2.28.9 */
long standin_number(const char *variable, long otherwise);
/* Notes a call of NCCL's in STANDIN_LOG. */
void standin_log(const char *call);
/* NCCL's WARN: becomes the text of ncclGetLastError. */
void standin_warn(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
/* Sleeps, unless comm is stopped. */
void standin_delay(const struct ncclComm *comm, long us);

ncclResult_t group_enter(void);
/* Adds t, which it then owns; on an error it frees t. */
ncclResult_t group_add(struct task *t);
/* Keeps rc, if an error, as the group's result; returns it. */
ncclResult_t group_note(ncclResult_t rc);
ncclResult_t group_leave(void);
/* Joins the thread of comm's group. */
void group_join(struct ncclComm *comm);
/* NCCL's ncclCommEnsureReady (src/init.cc). */
ncclResult_t group_ready(struct ncclComm *comm);
struct task *group_task(struct ncclComm *comm);

/* ---- nccl_comm.c */

/* NCCL's CommCheck (src/misc/argcheck.cc). */
ncclResult_t comm_check(const struct ncclComm *comm, const char *call);
/* For a call on a non-blocking communicator: the state after it. */
ncclResult_t comm_result(struct ncclComm *comm, ncclResult_t rc);

/* ---- nccl_memory.c */

/* comm ends, and with it its registrations. */
void standin_forget_buffers(const struct ncclComm *comm);

/* ---- nccl_kernel.c */

/* Puts k, and the messages linked to it, into its stream; takes it. */
ncclResult_t kernel_launch(struct kernel *k);

#endif
