/* nccl_backend.h: the nccl backend: its state, shared by its files.
 * nccl_backend.c is the table, nccl_start.c connects ranks, nccl_collective.c
 * makes collectives NCCL calls, nccl_p2p.c sends messages, nccl_watch.c bounds
 * waits.
 *
 * Each communicator of this backend has a second one beside it, of the same
 * ranks on the cpu backend, which serves calls with buffers in host memory
 * (ddp__nccl_route) and the exchanges of a split.
 *
 * NCCL is used in non-blocking mode: each call is polled until it has a result,
 * a deadline passes, or the store reports a lost rank, since NCCL itself does
 * not notice the death of a peer with which it shares memory. NCCL's manual
 * demands this mode for ncclCommAbort, and that no thread is in another call
 * then; so no thread could abort a blocking communicator whose call hangs.
 * Since 2.23 NCCL starts a thread for each call in this mode;
 * DDP_NCCL_BLOCKING=1 avoids that, but then a rank lost during a call's set-up
 * can hang others until the launcher ends them. */
#ifndef SDK_NCCL_BACKEND_H
#define SDK_NCCL_BACKEND_H

#include <pthread.h>

#include "worker-sdk/comm/comm.h"
#include "worker-sdk/nccl/nccl_place.h"

enum { DDP__NCCL_SPARE = 64 };

struct ddp__nccl_pair;

/* A buffer that the program has registered (ddp_nccl_register). */
struct ddp__nccl_buffer {
	struct ddp__nccl_buffer *next;
	void *buf, *handle;
};

struct ddp__nccl {
	struct ddp_comm *c;
	struct ddp_comm *host; /* the same ranks on the cpu backend */
	const struct ddp__cuda *cuda;
	const struct ddp__nccl_lib *lib;
	int device;
	void *comm;   /* ncclComm_t */
	void *stream; /* libddp's own, for calls without a caller's stream */
	void *user;   /* set by ddp_set_stream, or NULL */
	void *fence;  /* event: work that precedes a call */
	void *finish; /* event: the end of a blocking call */
	void *token;  /* a byte on the device, for barriers */
	struct ddp__nccl_pair **pairs; /* to each rank, then from each */
	void *spare[DDP__NCCL_SPARE];  /* events for reuse */
	int spares;
	int blocking; /* NCCL's calls return when they are done */
	int dead; /* aborted: NCCL must not be called any more */
	/* Where a thread of NCCL's stores the communicator that a split makes,
	 * also after ncclCommSplit has returned; is_splitting: it may still do
	 * so. */
	void *part;
	int is_splitting;
	struct ddp__nccl_buffer *buffers;
};

/* A call under way, in a request's op or on the stack. */
struct ddp__nccl_op {
	const struct ddp__call *call;
	void *buf; /* for a message */
	void *ready, *done; /* events, or NULL */
	struct ddp__nccl_pair *pair; /* for a message, else NULL */
	struct ddp__nccl_op *next;   /* next in the pair's list */
	int posted; /* enqueued; done is recorded behind it */
};

extern const struct ddp__backend ddp__nccl;

/* Adds NCCL to a world on the cpu backend. wish is "nccl" or "auto". 1 and
 * *out, a communicator with c beside it; 0: wish is auto and a rank cannot use
 * NCCL, e->text says why (e->code is 0); or an error, which names rank and
 * host. */
int ddp__nccl_init(struct ddp_comm *c, const struct ddp__exchange *x,
		   const char *wish, struct ddp_comm **out, struct err *e);

/* Sets *c to the communicator that serves the call: the one beside it for
 * buffers in host memory. An unused buffer is NULL. ERR_ARGUMENT: one buffer is
 * in each memory, or NCCL lacks the operation. */
int ddp__nccl_route(struct ddp_comm **c, const struct ddp__call *call,
		    const void *send, const void *recv, struct err *e);

/* The cpu communicator beside c, or c itself on another backend. */
const struct ddp_comm *ddp__nccl_host_comm(const struct ddp_comm *c);

/* 1 if buf is in the memory of c's GPU. */
int ddp__nccl_has_buffer(const struct ddp_comm *c, const void *buf);

/* Registers buf with NCCL, which may then read and write it in place: over
 * InfiniBand, and memory of ncclMemAlloc also over NVLink. Only for memory
 * whose lifetime libddp knows, such as a reducer's arena: freeing a buffer
 * while it is registered corrupts memory later. NULL if registration is of no
 * use: host memory, a small buffer, an NCCL without it, another backend;
 * everything works without it. Not collective. */
void *ddp__nccl_register(struct ddp_comm *c, void *buf, size_t size);
void ddp__nccl_deregister(struct ddp_comm *c, void *handle);
/* Ends the registrations of the program's memory at buf; of all for NULL. After
 * an abort NCCL has none any more: they are only forgotten. */
void ddp__nccl_forget_buffers(struct ddp__nccl *n, const void *buf);

/* ddp_wait_event: an error ends the communicator. */
int ddp__nccl_wait_event(struct ddp_comm *c, void *event, struct err *e);

/* ---- nccl_start.c */

/* Makes n->comm, which all ranks of n->c join at the same time. */
int ddp__nccl_connect(struct ddp__nccl *n, const struct ddp__exchange *x,
		      struct err *e);
int ddp__nccl_split(struct ddp_comm *parent, struct ddp_comm *group, int color,
		    int key, const struct ddp__exchange *x, struct err *e);
void ddp__nccl_stop(struct ddp_comm *c);
/* Ends all operations under way; ranks that wait for this one find the reason
 * in the store. */
void ddp__nccl_abort(struct ddp_comm *c, const struct err *why);
void ddp__nccl_configure(struct ddp__nccl_config *config);

/* ---- nccl_collective.c */

/* Enqueues call in stream; work enqueued in it later runs after the call. */
int ddp__nccl_enqueue(struct ddp__nccl *n, const struct ddp__call *call,
		      const void *send, void *recv, void *stream,
		      struct err *e);
/* The number of a call of n's that the communicator beside n is to run: the
 * later of the two communicators' next ones. A rank that is in, or has just
 * left, an earlier call through host memory would otherwise be taken for a rank
 * that is ahead, in another call. The same on all ranks. */
uint64_t ddp__nccl_host_number(struct ddp__nccl *n, uint64_t number);
/* Call it before a call with counts is enqueued; does nothing for others. Waits
 * until all ranks have made the call: ERR_ARGUMENT if their counts do not
 * match. */
int ddp__nccl_compare_counts(struct ddp__nccl *n, const struct ddp__call *call,
			     struct err *e);

/* ---- events and devices */

int ddp__nccl_event(struct ddp__nccl *n, void **event, struct err *e);
/* Makes n's device current; returns the previous one. */
int ddp__nccl_device(struct ddp__nccl *n);

/* ---- nccl_watch.c */

/* A wait: its start, and the time of the next question to the store. */
struct ddp__watch {
	struct ddp_comm *c;
	const char *what; /* the call: "all_reduce #3 (...)" */
	uint64_t begun, next, pause; /* ns */
	int rank; /* the rank to ask about next */
};

void ddp__watch_init(struct ddp__watch *w, struct ddp_comm *c,
		     const char *what);
/* Call it between two polls: pauses, the first time not at all. < 0: a rank is
 * gone, the world was aborted, or the deadline passed; the text names it. */
int ddp__watch_pause(struct ddp__watch *w, struct err *e);
uint64_t ddp__watch_ns(const struct ddp__watch *w);
/* Waits until NCCL has completed its last call on comm, which returned rc. */
int ddp__nccl_settle(struct ddp__nccl *n, void *comm, int rc, const char *what,
		     struct err *e);
/* 1: event is complete; 0: not yet; or the error that CUDA, or NCCL for comm
 * (or NULL), reports. */
int ddp__nccl_event_done(struct ddp__nccl *n, void *comm, void *event,
			 const char *what, struct err *e);
/* Waits until event is complete; advances messages meanwhile. */
int ddp__nccl_await_event(struct ddp__nccl *n, struct ddp__watch *w,
			  void *event, struct err *e);
/* As ddp__nccl_fail, for an error that may be another rank's end, which NCCL
 * may see first and never names: asks the store for the cause, for a limited
 * time. */
int ddp__nccl_error(struct ddp__nccl *n, void *comm, int rc, const char *what,
		    struct err *e);
/* Publishes the end of this world, and its reason, in the store. */
void ddp__watch_publish(struct ddp_comm *c, const struct err *why);

/* ---- nccl_abort.c */

/* Aborts several communicators at once. ncclCommAbort frees memory of the
 * device, which waits for all that runs there, and kernels spin until their own
 * communicator is aborted: one abort after the other would wait for ever. */
struct ddp__aborts {
	const struct ddp__nccl_lib *lib;
	struct ddp__abort_thread *threads; /* besides an NCCL group */
};

void ddp__aborts_begin(struct ddp__aborts *a, const struct ddp__nccl_lib *lib);
/* comm must not be used any more. */
void ddp__aborts_add(struct ddp__aborts *a, void *comm);
/* thread aborts a communicator. */
void ddp__aborts_join(struct ddp__aborts *a, pthread_t thread);
/* Waits until all are gone. */
void ddp__aborts_end(struct ddp__aborts *a);

/* ---- nccl_bf16.c */

/* Kernels that convert between f32 and bf16, with the bits of math/half.h. For
 * a communicator of this backend. The caller frees *out, even after an
 * error. */
struct ddp__nccl_bf16;
int ddp__nccl_bf16_new(struct ddp_comm *c, struct ddp__nccl_bf16 **out,
		       struct err *e);
void ddp__nccl_bf16_free(struct ddp__nccl_bf16 *b);
/* Enqueue a conversion in the program's stream. */
int ddp__nccl_to_bf16(struct ddp__nccl_bf16 *b, uint16_t *to, const void *from,
		      size_t count, struct err *e);
int ddp__nccl_from_bf16(struct ddp__nccl_bf16 *b, void *to,
			const uint16_t *from, size_t count, struct err *e);
/* Without a stream of the program's: waits until the conversions are done. */
int ddp__nccl_bf16_wait(struct ddp__nccl_bf16 *b, struct err *e);

/* ---- nccl_p2p.c */

/* Queues op, a message with call and buf set and the rest 0, behind earlier
 * messages to (or from) that rank. ddp__nccl_push advances it. */
int ddp__nccl_post(struct ddp__nccl *n, struct ddp__nccl_op *op,
		   struct err *e);
/* Advances all messages without waiting. */
int ddp__nccl_push(struct ddp__nccl *n, struct err *e);
/* Removes a message that is not posted yet. */
void ddp__nccl_unpost(struct ddp__nccl *n, struct ddp__nccl_op *op);
/* The ncclComm_t of a posted message. */
void *ddp__nccl_pair_comm(const struct ddp__nccl_pair *p);
/* Adds all pairs' communicators to those that are aborted. */
void ddp__nccl_pairs_abort(struct ddp__nccl *n, struct ddp__aborts *a);
/* Frees all pairs; with leave they stay in NCCL until the process ends. */
void ddp__nccl_pairs_free(struct ddp__nccl *n, int leave);

#endif
