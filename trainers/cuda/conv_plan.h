/* conv_plan.h: a pass of a convolution by cuDNN's graph API: which engines
 * there are, and running one. Knows shapes and cuDNN; neither operations, nor
 * files, nor how long a plan takes (conv_tune.h). Only engines that give the
 * same bits each time are used. A GPU that is not there can be planned for:
 * cuDNN 9.8 accepts a description in its place. */
#ifndef TRAINERS_CUDA_CONV_PLAN_H
#define TRAINERS_CUDA_CONV_PLAN_H

#include <stddef.h>

#include "trainers/cuda/conv_graph.h"

/* The GPU to plan for. One of the two is set. */
struct conv_target {
	cudnnHandle_t handle;
	cudnnBackendDescriptor_t device; /* by conv_target_describe */
};

/* Sets t to the GPU that the text describes, in cuDNN's own JSON
 * (tests/gpu/devices has some). CUDNN_STATUS_NOT_SUPPORTED: cuDNN is older than
 * 9.8. The caller releases t, also after an error. */
cudnnStatus_t conv_target_describe(struct conv_target *t, const char *json);
void conv_target_release(struct conv_target *t);

enum { CONV_ENGINE_MAX = 160, CONV_CONFIGS_MAX = 128 };

/* A pass of a shape: the configurations that cuDNN offers, best first, and at
 * most one plan, which is ready to run. */
struct conv_plan;

/* Asks cuDNN for the configurations. On failure *out is NULL; else the caller
 * closes it. `t` has to outlive it. A shape that cuDNN does not support fails,
 * or has no configurations. */
cudnnStatus_t conv_plan_open(const struct conv_target *t,
			     const struct conv_shape *s, enum conv_pass pass,
			     struct conv_plan **out);
void conv_plan_close(struct conv_plan *p);
int conv_plan_count(const struct conv_plan *p);

/* The name of configuration i: "eng62 2=17 13=3", its engine and its knobs.
 * The same text means the same code, for one GPU and one version of cuDNN. */
const char *conv_plan_name(struct conv_plan *p, int i);

enum conv_verdict {
	CONV_TAKEN,
	CONV_VARIES,   /* other bits each time */
	CONV_COARSE,   /* rounds more than it may: TF32 unasked, sums in 16 bits
			*/
	CONV_COMPILES, /* compiled at run time, which takes seconds */
	CONV_ROOM,     /* its workspace is larger than room_max */
	CONV_REFUSED,  /* cuDNN cannot build it here */
	CONV_VERDICTS
};

/* Makes configuration i the plan, in place of an earlier one. Unless it returns
 * CONV_TAKEN there is no plan afterwards. */
enum conv_verdict conv_plan_take(struct conv_plan *p, int i, size_t room_max);
size_t conv_plan_room(const struct conv_plan *p); /* workspace, in bytes */

/* Forgets the configurations that were not taken. */
void conv_plan_settle(struct conv_plan *p);

/* The memory of a pass: at has what its graph uses. */
struct conv_memory {
	const void *at[CONV_TENSORS];
	void *room;
};

/* Puts the plan into the handle's stream; may be captured. */
cudnnStatus_t conv_plan_run(struct conv_plan *p, cudnnHandle_t handle,
			    const struct conv_memory *m);

#endif
