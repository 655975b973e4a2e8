/* conv_tune.h: chooses the plan of a pass of a convolution: the plan that was
 * the fastest on this kind of GPU, or if that is unknown, the fastest of those
 * measured now. */
#ifndef TRAINERS_CUDA_CONV_TUNE_H
#define TRAINERS_CUDA_CONV_TUNE_H

#include "trainers/cuda/conv_plan.h"
#include "trainers/cuda/cuda.h"

/* DDP_CUDNN_SEARCH */
enum conv_search {
	CONV_FIRST,   /* 0: cuDNN's first choice, unmeasured */
	CONV_REMEMBER, /* unset: measured once per shape, then from the file */
	CONV_SEARCH   /* 1: measured in each run */
};

/* Returns the plan, which the caller closes; its workspace is not yet part of
 * d->room. NULL: the graph API has none, so the legacy calls are to be used.
 * m is the memory of the pass, all but its workspace; measuring overwrites the
 * pass's result. Waits for the device's queue. */
struct conv_plan *conv_tune(struct cuda_device *d, const struct conv_shape *s,
			    enum conv_pass pass, struct conv_memory m);

/* Workspaces larger than this are not considered. */
extern const size_t conv_room_max;

#endif
