/* api_internal.h: helpers that this room's files share: gathers of small values
 * that libddp exchanges beside the program's data, and communicators that
 * libddp makes for its own use. */
#ifndef SDK_API_INTERNAL_H
#define SDK_API_INTERNAL_H

#include <stdint.h>

#include "base/buf.h"
#include "worker-sdk/comm/comm.h"
#include "worker-sdk/core/env.h"
#include "worker-sdk/kv/kv.h"

/* Gathers size bytes of host memory from each rank into all[c->size][size],
 * ordered by rank, whatever the backend. Collective on c, recorded as a call of
 * that kind. 0, or the error, which is also the thread's last error. */
int ddp__host_gather(struct ddp_comm *c, enum ddp__kind kind, const void *mine,
		     void *all, size_t size);

/* Writes "rank 3 on n07" to out[DDP__NAME_MAX]; returns out. */
char *ddp__name_rank(struct ddp_comm *c, int rank, char *out);

/* 0 if c can be used and the spans are valid; else the error, which names the
 * function `what`. */
int ddp__check_spans(const ddp_comm *c, const char *what,
		     const struct ddp_span *spans, int n, struct err *e);

/* Makes *own, a communicator of the same ranks in the same order, for a
 * reducer: its buckets start when they are ready, so on c their order relative
 * to the program's calls could differ between ranks. Collective on c. 0, or the
 * thread's last error, the same on all ranks. The caller frees *own, unless its
 * world ends first. */
int ddp__comm_new_for_reducer(ddp_comm *c, ddp_comm **own);

/* ---- bootstrap.c ----
 *
 * Gets a store for a world that ddprun did not start: torchrun's, or a server
 * that rank 0 starts and the others find through their launcher. */

/* Sets *kv within timeout_ms (< 0: no limit) and completes env: sizes, local
 * ranks, nodes and this node's address where they were unknown (-1). If
 * env->alone turns out to be 1, *kv is unchanged. host is this host's name. */
int ddp__bootstrap_open(struct ddp__kv **kv, struct ddp__env *env,
		    const char *host, int timeout_ms, struct err *e);

/* ---- events.c ----
 *
 * TensorBoard's event file format: records with checksums, each an Event of its
 * protobuf. Pure: knows neither files nor clocks. */

/* CRC-32C, as in iSCSI: for "123456789" it is 0xE3069283. */
uint32_t ddp__crc32c(const void *data, size_t size);

/* Append one record to out; if out has no room, out->failed says so. wall:
 * seconds since 1970. A file's first record is the version. tag is UTF-8.
 * Readers skip an incomplete last record. */
void ddp__event_version(struct buf *out, double wall);
void ddp__event_scalar(struct buf *out, double wall, int64_t step,
		       struct slice tag, float value);

/* ---- sampler.c ----
 *
 * The order in which a sampler draws. Pure. */

/* From this n on torch.randperm draws 64 bits per index and shuffles
 * differently: aten/src/ATen/native/TensorFactories.cpp, randperm_cpu. */
enum { DDP__RANDPERM_LARGE = UINT32_MAX / 20 };

/* Sets p[n] to torch.randperm on the CPU. large: where the second algorithm
 * starts; always DDP__RANDPERM_LARGE except in tests, which lack the memory for
 * that. */
void ddp__randperm(uint32_t *p, uint64_t n, uint64_t seed, uint64_t large);

/* ---- batch_norm.c ----
 *
 * Combines the mean and variance of two sets of values. Pure. */

/* *mean and *var are those of a values; combines them with the mean and biased
 * variance of b further ones (Chan, Golub, LeVeque 1979). b = 0 changes
 * nothing, whatever b_mean is. */
void ddp__moments_add(double *mean, double *var, uint64_t a, double b_mean,
		      double b_var, uint64_t b);

#endif
