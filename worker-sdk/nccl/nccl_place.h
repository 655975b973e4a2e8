/* nccl_place.h: whether a rank can use NCCL, and the agreement of all ranks on
 * it. The record and the agreement are pure; ddp__nccl_place_find calls CUDA
 * and NCCL. */
#ifndef SDK_NCCL_PLACE_H
#define SDK_NCCL_PLACE_H

#include "base/buf.h"
#include "base/error.h"
#include "worker-sdk/core/env.h"
#include "worker-sdk/core/peers.h"
#include "worker-sdk/nccl/cuda_lib.h"
#include "worker-sdk/nccl/nccl_lib.h"

enum { DDP__PLACE_BRIEF = 128, DDP__PLACE_MAX = 1024 };

struct ddp__nccl_place {
	const struct ddp__cuda *cuda;	  /* NULL: not usable */
	const struct ddp__nccl_lib *nccl; /* NULL: not usable */
	int device;			  /* the CUDA device */
	int share;			  /* DDP_NCCL_SHARE_GPU=1 */
	char gpu[96]; /* equal for two ranks on the same GPU */
	char kind[64]; /* "NVIDIA H100 80GB HBM3"; "": unknown */
	int version;  /* NCCL's version */
	char why[600]; /* the reason why this rank cannot use NCCL; "": it
			* can */
};

/* Loads CUDA and NCCL and chooses a device: the program's current device, if it
 * made one current, else LOCAL_RANK modulo the visible devices. brief: gives up
 * at once without a driver, so that CPU jobs lose no time. With
 * DDP_NCCL_SHARE_GPU=1 it sets the NCCL_* variables that let several ranks
 * share a GPU, unless they are set. */
void ddp__nccl_place_find(struct ddp__nccl_place *p, const struct ddp__env *env,
			  int brief);

/* Encodes and decodes the record for the other ranks: only share, gpu, kind,
 * version and why. ERR_PROTOCOL: it does not parse. */
void ddp__nccl_place_put(struct buf *b, const struct ddp__nccl_place *p);
int ddp__nccl_place_get(struct ddp__nccl_place *p, struct slice s,
			struct err *e);

/* 1 if all n ranks can use NCCL, each with its own GPU; else 0, and why names a
 * rank and its reason. The same on every rank. */
int ddp__nccl_agree(const struct ddp__nccl_place *all, int n,
		    const struct ddp__peers *peers, char why[ERR_TEXT_MAX]);

/* 1 if the GPUs are of several kinds: why then names two ranks and their kinds.
 * The same on every rank. */
int ddp__nccl_kinds_differ(const struct ddp__nccl_place *all, int n,
			   const struct ddp__peers *peers,
			   char why[ERR_TEXT_MAX]);

#endif
