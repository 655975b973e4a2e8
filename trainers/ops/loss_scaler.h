/* loss_scaler.h: dynamic loss scaling. fp16 has 5 bits of exponent: a gradient
 * below 2^-25 becomes zero. So the losses' gradients are multiplied by a scale,
 * which is as large as it can be, and the update divides by it. Pure; CUDA's
 * kernels use it as well.
 *
 * The rule and its numbers are those of PyTorch's torch.amp.GradScaler
 * (torch/amp/grad_scaler.py; amp_update_scale_cuda_kernel in
 * aten/src/ATen/native/cuda/AmpKernels.cu). Unlike PyTorch, a scale below
 * LOSS_SCALE_LEAST ends the training: then it is not the scale that makes the
 * gradients infinite.
 *
 * Whether a step is skipped is decided by the gradients after the reduction
 * over the ranks. They are the same bits on all ranks, and a sum with a value
 * that is not finite is not finite, so the ranks agree without a message. */
#ifndef TRAINERS_LOSS_SCALER_H
#define TRAINERS_LOSS_SCALER_H

#include <stdint.h>

#ifdef __CUDACC__
#define LOSS_SCALER_FN static inline __host__ __device__
#else
#define LOSS_SCALER_FN static inline
#endif

enum { LOSS_SCALE_FIRST = 65536, LOSS_SCALE_LEAST = 1 };
enum { LOSS_SCALE_GROWS_AFTER = 2000 }; /* steps */
/* 1 / scale is the smallest normal number. */
#define LOSS_SCALE_MOST 0x1p126f

/* Fixed layout: a section of the checkpoint. Also used in device memory, so
 * that a captured step reads and changes it, and the host need not wait. */
struct loss_scaler {
	float scale;   /* a power of 2 */
	uint32_t good; /* steps since the scale changed */
	uint64_t skipped;   /* steps without an update, in all */
	uint64_t in_a_row;  /* those since the last update */
	uint64_t last_step; /* the last of them; 0: none */
	uint64_t last_at;   /* index in the gradients' arena of its last value
			     * that was not finite, which the backward pass
			     * computed first; LOSS_SCALER_NOWHERE: only the
			     * loss was not */
};
#define LOSS_SCALER_NOWHERE UINT64_MAX

LOSS_SCALER_FN struct loss_scaler loss_scaler_new(float scale)
{
	struct loss_scaler s = {scale, 0, 0, 0, 0, LOSS_SCALER_NOWHERE};

	return s;
}

/* The optimizer's own number of a step: skipped steps do not count. */
LOSS_SCALER_FN uint64_t loss_scaler_updates(const struct loss_scaler *s,
					    uint64_t step)
{
	return step > s->skipped ? step - s->skipped : 1;
}

/* After an update. */
LOSS_SCALER_FN void loss_scaler_accept(struct loss_scaler *s)
{
	s->in_a_row = 0;
	if (++s->good < LOSS_SCALE_GROWS_AFTER)
		return;
	s->good = 0;
	if (s->scale < LOSS_SCALE_MOST)
		s->scale *= 2;
}

/* After a step that was skipped because of value `at`. 1: the scale is too
 * small now. */
LOSS_SCALER_FN int loss_scaler_skip(struct loss_scaler *s, uint64_t step,
				    uint64_t at)
{
	s->scale /= 2;
	s->good = 0;
	s->skipped++;
	s->in_a_row++;
	s->last_step = step;
	s->last_at = at;
	return s->scale < LOSS_SCALE_LEAST;
}

#endif
