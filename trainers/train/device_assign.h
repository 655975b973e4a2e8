/* device_assign.h: on which device a rank computes: which of the GPUs that it
 * can see, and whether another rank of its host has taken the same; on which
 * cores. */
#ifndef TRAINERS_DEVICE_ASSIGN_H
#define TRAINERS_DEVICE_ASSIGN_H

#include <sched.h>

#include "base/error.h"
#include "trainers/train/trainer_options.h"
#include "worker-sdk/ddp.h"

enum { DEVICE_CLAIM_NAME_MAX = 64 };

/* "core 3", "cores 0-3,8"; a long list is cut off. Pure; returns out. */
const char *device_assign_cores(const cpu_set_t *set, char *out, size_t size);

/* Whether, of ranks whose GPUs have these names on hosts with these leaders,
 * one before `rank` has the same as it: that one, else -1. Pure. */
struct device_claim {
	char leader[16]; /* the host's: ranks with the same one share a host */
	char name[DEVICE_CLAIM_NAME_MAX];
};
int device_assign_conflict(const struct device_claim *all, int rank);

/* The GPU of a local rank: its index among the `count` visible ones, which is
 * returned, and its name on the host: its entry of CUDA_VISIBLE_DEVICES (NULL:
 * unset). Pure. */
int device_assign_gpu(int local_rank, int count, const char *visible,
		      char name[DEVICE_CLAIM_NAME_MAX]);

/* Collective. Sets *index, after all ranks of every host were found to have a
 * GPU of their own, unless o->oversubscribe_gpu. ERR_USAGE says which two ranks
 * of a host share, on the later one. */
int device_assign(ddp_comm *world, const struct trainer_options *o, int count,
		  int *index, struct err *e);

#endif
