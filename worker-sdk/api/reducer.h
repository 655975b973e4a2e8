/* reducer.h: what the reducer's files share: what one holds, and whether all
 * ranks made the same. */
#ifndef SDK_REDUCER_H
#define SDK_REDUCER_H

#include "worker-sdk/api/api_internal.h"
#include "worker-sdk/api/bucket.h"
#include "worker-sdk/ddp.h"

enum reducer_state {
	REDUCER_IDLE,
	REDUCER_LOCAL,	/* a backward pass without synchronisation */
	REDUCER_SYNC,	/* one with */
	REDUCER_FAILED	/* why: r->failed */
};

struct ddp_reducer {
	/* What its buckets go through: one of its own, of the same ranks, so
	 * that they never change places with the program's calls. The program's
	 * itself where no bucket's begin depends on time: on GPUs, and where
	 * nobody else is there. NULL: the world ended first. */
	ddp_comm *c;
	int owns_c;
	enum ddp_type type;
	size_t element; /* bytes */
	int apart;	/* the gradients are spans */
	char *grads;	/* else the arena that they lie in, the caller's */
	char **data;	/* each gradient; the caller's */
	/* Of each bucket: where its gradients are gathered; NULL: they lie one
	 * after another and are averaged where they are. */
	char **room;
	void *registration; /* with NCCL, or NULL */
	struct ddp_reducer_options o;
	struct ddp__buckets b;
	enum reducer_state state;
	struct err failed;
	int alone; /* a rank that has nobody to average with, and no hook */
	ddp_request **requests; /* of each bucket; NULL: it has landed */
	int landed; /* buckets whose averages are in the arena */
	int held; /* the last bucket is ready and left to finish */
	uint16_t *wire; /* the arena as bf16, or NULL */
	/* Of each parameter, with find_unused: */
	unsigned char *mine; /* had a gradient here since the last averaging */
	unsigned char *used; /* had one on any rank, in the last averaging */
	char *kept; /* gradients that may have to stay as they are */
};

/* Once data is set: makes the rooms and the wire. 0 or -ENOMEM. */
int ddp__reducer_memory_init(struct ddp_reducer *r);
void ddp__reducer_memory_release(struct ddp_reducer *r);
/* What of bucket k is to be averaged, and as what. */
void *ddp__reducer_load(struct ddp_reducer *r, int k, enum ddp_type *type);
/* Whether that is a copy of the gradients. */
int ddp__reducer_is_copied(const struct ddp_reducer *r, int k);
/* Bucket k has been averaged: the gradients become what was loaded. */
void ddp__reducer_land(struct ddp_reducer *r, int k);

/* Collective on c: tells the ranks whose n, counts, type or options differ from
 * rank 0's. ours: code 0, or why this rank cannot go on, which the others are
 * told. 0, or the error, which all have. */
int ddp__reducer_agree(ddp_comm *c, const struct ddp_reducer *r,
		       const size_t *counts, int n, const struct err *ours);

#endif
