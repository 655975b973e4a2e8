/* nccl_place.h: whether a rank can use NCCL, and if not why; and what all ranks
 * make of that. The record and the agreement are pure; ddp__nccl_place_find
 * asks CUDA and NCCL. */
#ifndef SDK_NCCL_PLACE_H
#define SDK_NCCL_PLACE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "worker-sdk/core/env.h"
#include "worker-sdk/core/peers.h"
#include "worker-sdk/nccl/cuda_lib.h"
#include "worker-sdk/nccl/nccl_lib.h"

enum { DDP__PLACE_BRIEF = 128, DDP__PLACE_MAX = 1024 };

struct ddp__nccl_place {
	const struct ddp__cuda *cuda;	  /* NULL: cannot */
	const struct ddp__nccl_lib *nccl; /* NULL: cannot */
	int device;			  /* the CUDA device to use */
	int share;			  /* DDP_NCCL_SHARE_GPU=1 */
	char gpu[96]; /* the same for two ranks: they have the same GPU */
	int version;  /* NCCL's */
	char why[600]; /* why it cannot; "" if it can */
};

/* Loads what is needed and chooses a device: the one that the program has made
 * current, else LOCAL_RANK modulo the number of visible ones. brief: gives up
 * at once where there is no driver, so that a CPU's job loses no time here.
 * With DDP_NCCL_SHARE_GPU=1 sets the NCCL_* variables by which NCCL accepts
 * several ranks on a GPU, those that are not set yet. */
void ddp__nccl_place_find(struct ddp__nccl_place *p, const struct ddp__env *env,
			  int brief);

/* As bytes, for the other ranks, and back; ERR_PROTOCOL if it does not parse.
 * Only what the agreement needs: share, gpu, version, why. */
void ddp__nccl_place_put(struct buf *b, const struct ddp__nccl_place *p);
int ddp__nccl_place_get(struct ddp__nccl_place *p, struct slice s,
			struct err *e);

/* 1 if all n ranks can, each with a GPU of its own; 0 if not, and why says
 * which rank cannot and why. The same on every rank. */
int ddp__nccl_agree(const struct ddp__nccl_place *all, int n,
		    const struct ddp__peers *peers, char why[ERR_TEXT_MAX]);

#endif
