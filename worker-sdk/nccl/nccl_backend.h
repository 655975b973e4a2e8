/* nccl_backend.h: the nccl backend: its state and what its files share.
 * nccl_backend.c is the table; how ranks meet is nccl_start.c, messages between
 * two of them nccl_p2p.c, how long is waited for whom nccl_watch.c.
 *
 * A communicator of this backend has another beside it, of the same ranks and
 * the cpu backend: calls whose buffers lie in the host's memory are that one's
 * (ddp__nccl_route), and so are a group's meetings.
 *
 * NCCL is used without blocking: each of its calls is asked for its result
 * until there is one, a deadline passes, or the store says that a rank is gone,
 * since NCCL itself does not see a peer die that it shares memory with. This
 * costs a thread's start in NCCL for each call; DDP_NCCL_BLOCKING=1 spares it,
 * and then a rank that is lost in the midst of a call's set-up can hang others
 * until the launcher ends them. */
#ifndef SDK_NCCL_BACKEND_H
#define SDK_NCCL_BACKEND_H

#include "worker-sdk/comm/comm.h"
#include "worker-sdk/nccl/nccl_place.h"

enum { DDP__NCCL_SPARE = 64 };

struct ddp__nccl_pair;

struct ddp__nccl {
	struct ddp_comm *c;
	struct ddp_comm *host; /* the same ranks on the cpu backend */
	const struct ddp__cuda *cuda;
	const struct ddp__nccl_lib *lib;
	int device;
	void *comm;   /* ncclComm_t */
	void *stream; /* libddp's own; what is not on the caller's is there */
	void *user;   /* ddp_set_stream's, or NULL */
	void *fence;  /* event: what comes before a call */
	void *finish; /* event: the end of a blocking call */
	void *token;  /* a byte on the device, for barriers */
	struct ddp__nccl_pair **pairs; /* to each rank, then from each */
	void *spare[DDP__NCCL_SPARE];  /* events to use again */
	int spares;
	int dead; /* aborted: NCCL is not called any more */
};

/* A call under way: a request's op, or on the stack. */
struct ddp__nccl_op {
	const struct ddp__call *call;
	void *buf; /* of a message */
	void *ready, *done; /* events, or NULL */
	struct ddp__nccl_pair *pair; /* of a message, else NULL */
	struct ddp__nccl_op *next;   /* in the pair */
	int posted; /* it is in its stream, and done behind it */
};

extern const struct ddp__backend ddp__nccl;

/* From a world on the cpu to one on GPUs. wish is "nccl" or "auto". 1 and *out,
 * a communicator that has c beside it; 0: wish is auto and a rank cannot, which
 * e->text says (e->code is 0); or an error, which names rank and host. */
int ddp__nccl_init(struct ddp_comm *c, const struct ddp__exchange *x,
		   const char *wish, struct ddp_comm **out, struct err *e);

/* Of a communicator of this backend: makes *c the one that serves the call: the
 * one beside it where the buffers lie in the host's memory. A buffer that is
 * not used is NULL. ERR_ARGUMENT: they lie in both, or NCCL has no such
 * operation. */
int ddp__nccl_route(struct ddp_comm **c, const struct ddp__call *call,
		    const void *send, const void *recv, struct err *e);

/* The one beside c; c itself where its backend is another. */
const struct ddp_comm *ddp__nccl_host_comm(const struct ddp_comm *c);

/* Tells NCCL that buf will be communicated again and again, so that it may read
 * and write it in place (NVLink SHARP, InfiniBand); no gain on one GPU or over
 * TCP. Only for memory whose end libddp knows of, such as a reducer's arena: a
 * buffer that was freed and is still registered is corrupted later. That is why
 * it is not done behind the program's back. NULL where it is of no use: the
 * memory is the host's or small, this NCCL cannot, c's backend is another; then
 * all works as well. Not collective. */
void *ddp__nccl_register(struct ddp_comm *c, void *buf, size_t size);
void ddp__nccl_deregister(struct ddp_comm *c, void *handle);

/* ---- nccl_start.c */

int ddp__nccl_split(struct ddp_comm *parent, struct ddp_comm *group, int color,
		    int key, const struct ddp__exchange *x, struct err *e);
void ddp__nccl_stop(struct ddp_comm *c);
/* Ends what is under way; who waits for this rank finds why in the store. */
void ddp__nccl_abort(struct ddp_comm *c, const struct err *why);
void ddp__nccl_configure(struct ddp__nccl_config *config);

/* ---- events and devices */

int ddp__nccl_event(struct ddp__nccl *n, void **event, struct err *e);
void ddp__nccl_spare(struct ddp__nccl *n, void *event);
/* Makes n's device current; returns the one that was. */
int ddp__nccl_device(struct ddp__nccl *n);

/* ---- nccl_watch.c */

/* A wait: since when, and when the store is asked next. */
struct ddp__watch {
	struct ddp_comm *c;
	const char *what; /* is waited for: "all_reduce #3 (...)" */
	uint64_t begun, next, pause; /* ns */
	int rank; /* whose fate is asked for next */
};

void ddp__watch_init(struct ddp__watch *w, struct ddp_comm *c,
		     const char *what);
/* Between two looks at what is waited for: lets time pass, at first none. < 0:
 * a rank is gone, or aborted, or the deadline passed; the text names it. */
int ddp__watch_pause(struct ddp__watch *w, struct err *e);
uint64_t ddp__watch_ns(const struct ddp__watch *w);
/* Until NCCL has done what it was asked for on comm. rc: what it answered. */
int ddp__nccl_settle(struct ddp__nccl *n, void *comm, int rc, const char *what,
		     struct err *e);
/* In the store: this world ends, and why. */
void ddp__watch_publish(struct ddp_comm *c, const struct err *why);

/* ---- nccl_p2p.c */

/* Queues op, a message with call and buf set and the rest 0, after those to (or
 * from) the same rank. It moves on in ddp__nccl_push. */
int ddp__nccl_post(struct ddp__nccl *n, struct ddp__nccl_op *op,
		   struct err *e);
/* Moves every message on that can be; never waits. */
int ddp__nccl_push(struct ddp__nccl *n, struct err *e);
/* Of a message that is not posted yet: takes it out. */
void ddp__nccl_unpost(struct ddp__nccl *n, struct ddp__nccl_op *op);
/* The ncclComm_t that a posted message is on. */
void *ddp__nccl_pair_comm(const struct ddp__nccl_pair *p);
/* End of all: with leave they stay in NCCL, to die with the process. */
void ddp__nccl_pairs_free(struct ddp__nccl *n, int abort, int leave);

#endif
