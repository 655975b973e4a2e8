/* device_assign.h: which of the visible GPUs a rank uses, whether another rank
 * of its host uses the same one, and the cores it runs on. */
#ifndef TRAINERS_DEVICE_ASSIGN_H
#define TRAINERS_DEVICE_ASSIGN_H

#include <sched.h>

#include "base/error.h"
#include "trainers/train/trainer_options.h"
#include "worker-sdk/ddp.h"

enum { DEVICE_CLAIM_NAME_MAX = 64 };

/* Writes "core 3" or "cores 0-3,8" to out, cut to size. Pure; returns out. */
const char *device_assign_cores(const cpu_set_t *set, char *out, size_t size);

/* The first rank before `rank` with the same GPU on the same host; -1: none.
 * Pure. */
struct device_claim {
	char leader[16]; /* the host's leader: equal on the ranks of a host */
	char name[DEVICE_CLAIM_NAME_MAX];
};
int device_assign_conflict(const struct device_claim *all, int rank);

/* The GPU of a local rank: returns its index among the `count` visible ones and
 * writes its name, the entry of CUDA_VISIBLE_DEVICES (visible; NULL: unset), or
 * the index. Pure. */
int device_assign_gpu(int local_rank, int count, const char *visible,
		      char name[DEVICE_CLAIM_NAME_MAX]);

/* Collective. Sets *index to this rank's GPU. ERR_USAGE, on the later of the
 * two ranks: two ranks of a host would share a GPU, without
 * o->oversubscribe_gpu. */
int device_assign(ddp_comm *world, const struct trainer_options *o, int count,
		  int *index, struct err *e);

#endif
