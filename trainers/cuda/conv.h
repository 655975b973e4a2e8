/* conv.h: shared by the files of convolutions: conv.c, which chooses how each
 * pass is computed, and conv_legacy.c, which has cuDNN's older calls. */
#ifndef TRAINERS_CUDA_CONV_H
#define TRAINERS_CUDA_CONV_H

#include "trainers/cuda/cuda.h"

/* How one pass of a convolution is computed. */
struct choice {
	struct conv_plan *plan; /* NULL: by a legacy algorithm */
	enum conv_pass graph;	/* the plan's: the pass, or a fused one */
	cudnnConvolutionDescriptor_t desc;
	int algorithm;
	size_t room;
};

struct conv {
	struct cuda_op op;
	cudnnTensorDescriptor_t x, y;
	cudnnFilterDescriptor_t w;
	struct choice way[CONV_PASSES];
	const void *weight;  /* in the type of the products */
	size_t weight_count; /* 16 bits: first computed so */
	/* Converts a plain input into the operation's own memory. */
	struct kernel_transpose turn;
	void *turned, *turned_dx;
	struct op *source; /* the op_site's */
};

static inline int conv_is_narrow(const struct conv *c)
{
	return c->op.base.out.type != TENSOR_F32; /* bf16 or fp16 */
}

static inline const void *conv_x(const struct conv *c)
{
	return c->turned ? c->turned : c->op.memory.in->data;
}

static inline void *conv_dx(const struct conv *c)
{
	return c->turned_dx ? c->turned_dx : c->op.memory.dx->data;
}

/* Bytes of a gradient in 16 bits, at the start of the room. */
size_t conv_narrow_bytes(const struct conv *c);
/* Where the gradient by the weights is computed. */
void *conv_dweight(const struct cuda_device *d, const struct conv *c);

/* ---- conv_legacy.c ---- */

/* Describes the shape to cuDNN. */
cudnnStatus_t conv_legacy_describe(const struct cuda_device *d, struct conv *c);
void conv_legacy_release(struct conv *c);
/* Chooses the pass's algorithm and sets its room; the device's note says so.
 * ERR_SYSTEM: there is none that may be used. */
int conv_legacy_choose(struct cuda_device *d, struct conv *c,
		       enum conv_pass way, struct err *e);
/* Puts the pass into the stream. */
void conv_legacy_run(struct cuda_device *d, struct conv *c, enum conv_pass way);

#endif
