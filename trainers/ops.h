/* ops.h: the operations that models are made of, as one table of functions per
 * kind of device. They know arrays and shapes, neither models nor ranks. */
#ifndef TRAINERS_OPS_H
#define TRAINERS_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trainers/data/dataset.h"

/* y = x weight + bias, and ReLU after it where relu is set. The gradients have
 * the shapes of weight and bias and are overwritten, not added to. */
struct linear {
	int in, out, relu;
	const float *weight; /* [in][out] */
	const float *bias;   /* [out] */
	float *weight_grad;
	float *bias_grad;
};

/* Adam as torch.optim.Adam computes it, without weight decay. */
struct adam {
	double lr, beta1, beta2, eps;
	uint64_t step; /* of this update, from 1 */
};

/* All arrays lie in the device's memory (alloc). n is the number of samples.
 * Every twin computes the same up to the rounding of its sums. */
enum { SPARSE_SAMPLES_MAX = 4096, SPARSE_OUTPUTS_MIN = 16 };

struct ops {
	const char *device; /* "cpu" */

	/* Once, first; threads is how many CPU cores the operations may use. */
	int (*start)(int threads, struct err *e);

	/* Zeroed, aligned to 64 bytes; NULL if there is no memory. */
	void *(*alloc)(size_t bytes);
	void (*free)(void *p);

	/* out[i][k] = pixels[index[i]][k] / 255. */
	void (*gather)(int n, const struct samples *s, const uint32_t *index,
		       float *out);

	void (*linear_forward)(const struct linear *l, int n, const float *x,
			       float *y);
	/* dy[n][out] is the gradient of y and is overwritten by that of the sum
	 * before ReLU. dx[n][in] may be NULL. */
	void (*linear_backward)(const struct linear *l, int n, const float *x,
				const float *y, float *dy, float *dx);

	/* The same two for a first layer, whose x are the samples index[n] of s
	 * by their lists; n <= 4096 and at least 16 outputs. room has
	 * sparse_room bytes of the device's memory, zeroed at first, which
	 * nobody else uses. NULL where the twin has no use for lists. */
	size_t (*sparse_room)(int n, size_t size);
	void (*sparse_forward)(const struct linear *l, int n,
			       const struct samples *s, const uint32_t *index,
			       void *room, float *y);
	void (*sparse_backward)(const struct linear *l, int n,
				const struct samples *s, const uint32_t *index,
				void *room, const float *y, float *dy);

	/* *loss = the mean of -log softmax(x[i])[label[i]]; dx (may be NULL)
	 * its gradient. x and dx are [n][classes]. */
	void (*cross_entropy)(int n, int classes, const float *x,
			      const uint8_t *label, float *loss, float *dx);
	/* *loss = the mean of (y - target)^2 over count values; dy (may be
	 * NULL) its gradient. */
	void (*mse)(size_t count, const float *y, const float *target,
		    float *loss, float *dy);
	/* In how many samples the label's value is the greatest, the first one
	 * of equals counting. */
	int (*count_correct)(int n, int classes, const float *x,
			     const uint8_t *label);

	/* One update of count parameters; m and v are Adam's moments. */
	void (*adam)(const struct adam *a, size_t count, const float *grad,
		     float *p, float *m, float *v);
};

extern const struct ops ops_cpu;

/* The operations for --device: "cpu", or "auto", which is cpu in this build.
 * NULL and a text for what this build or this host has not. */
const struct ops *ops_find(const char *device, struct err *e);

#endif
