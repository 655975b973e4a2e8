/* kernels.h: our own CUDA kernels. Each function puts its kernels into a stream
 * and returns CUDA's error, or 0. They neither allocate nor wait, so all can be
 * captured. Knows neither tensors nor operations.
 *
 * "Values" are nhwc: rows (samples x places) of channels, a multiple of what 16
 * bytes hold; all memory is aligned to 16 bytes. Sums are computed in a fixed
 * order: the same bits each time, on every GPU. */
#ifndef TRAINERS_CUDA_KERNELS_H
#define TRAINERS_CUDA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "trainers/ops/loss_scaler.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *kernel_stream;

/* The type of values; the numbers are those of enum tensor_type. */
enum kernel_type { KERNEL_F32, KERNEL_BF16, KERNEL_F16 };
/* Values in 16 bytes. */
static inline int kernel_lanes(enum kernel_type type)
{
	return type == KERNEL_F32 ? 4 : 8;
}

/* The device's state between steps. */
struct kernel_state {
	uint64_t step, first;
	double lr;
	uint64_t halted;
	int not_finite; /* result of kernel_finite */
	/* In an update with a scaler: the index of the last gradient that is
	 * not finite, and 1; 0: none. */
	unsigned long long overflow;
};

/* ---- arena.cu: the state of a step ---- */

/* Sets all fields but halted, from kernel arguments, so that nothing waits for
 * a copy. */
int kernel_set_step(kernel_stream s, struct kernel_state *k, uint64_t step,
		    uint64_t first, double lr);
/* Sets k->not_finite if one of count values is not finite. */
int kernel_finite(kernel_stream s, struct kernel_state *k,
		  enum kernel_type type, size_t count, const void *x);

/* ---- arena.cu ---- */

int kernel_add(kernel_stream s, size_t count, const float *x, float *y);
int kernel_scale(kernel_stream s, size_t count, float by, float *y);
/* a += b; count is a multiple of what 16 bytes hold. */
int kernel_add_values(kernel_stream s, enum kernel_type type, size_t count,
		      void *a, const void *b);
/* Convert between f32 and a type of 16 bits. */
int kernel_narrow(kernel_stream s, enum kernel_type type, size_t count,
		  const float *from, uint16_t *to);
int kernel_widen(kernel_stream s, enum kernel_type type, size_t count,
		 const uint16_t *from, float *to);

struct kernel_update {
	int adam, nesterov;
	double beta1, beta2; /* adam: needed for their powers */
	float eps, momentum, decay, scale;
	size_t count;
	const float *grad, *loss; /* loss may be NULL */
	float *param, *moment[2];
	uint16_t *narrow; /* param in this type; NULL: not needed */
	enum kernel_type type;
	struct loss_scaler *scaler; /* NULL: none */
};
/* With a scaler three kernels: the search for gradients that are not finite,
 * the update or nothing, and the scaler's next state. */
int kernel_update(kernel_stream s, struct kernel_state *k,
		  const struct kernel_update *u);

/* ---- loader.cu ---- */

/* Pointers whose values change while a captured step stays the same. */
struct kernel_order {
	const uint32_t *index;
	uint64_t epoch;
	const uint8_t *batch; /* the batch's pixels; NULL: all are on the
			       * device */
};
int kernel_order(kernel_stream s, struct kernel_order *o,
		 const uint32_t *index, uint64_t epoch);
int kernel_order_batch(kernel_stream s, struct kernel_order *o,
		       const uint8_t *batch);

struct kernel_load_batch {
	const uint8_t *pixels; /* [][channels][height][width]; unless order
				* has the batch's */
	const uint32_t *labels;
	const struct kernel_order *order;
	int channels, height, width, n;
	float mean[4], std[4];
	int exact; /* mean 0, std 1 */
	int augment; /* enum augment_kind */
	uint64_t seed;
	uint32_t *labels_out; /* [n] */
	/* the result's; another size, and AUGMENT_RESIZE, scales samples
	 * (crop.h) */
	int out_height, out_width;
	/* plain f32, or 16 bits nhwc of 8 channels; NULL: not needed */
	void *out;
	enum kernel_type type;
};
int kernel_load_batch(kernel_stream s, const struct kernel_state *k,
		      const struct kernel_load_batch *t);

/* ---- transpose.cu: between [n][c][places] f32 and nhwc ---- */

struct kernel_transpose {
	enum kernel_type type;
	int n, c, places;
	int channels; /* channels of the nhwc side, zero-padded */
};
int kernel_to_nhwc(kernel_stream s, const struct kernel_transpose *t,
		   const float *from, void *to);
int kernel_from_nhwc(kernel_stream s, const struct kernel_transpose *t,
		     const void *from, float *to);

/* ---- dense.cu ---- */

/* dy = (dy + dy1) where y > 0 (y NULL: everywhere); sum[out] = sums over n. dy1
 * may be NULL. */
int kernel_mask_and_sum(kernel_stream s, int n, int out, const float *y,
			float *dy, const float *dy1, float *sum);

/* ---- norm.cu ---- */

/* Scratch memory for partial sums, in bytes. */
enum { KERNEL_NORM_BLOCKS = 528 };
size_t kernel_norm_room(size_t channels);

struct kernel_norm {
	enum kernel_type type;
	int relu, training;
	size_t rows, channels;
	/* x, the second input (may be NULL) and y: [rows][channels] */
	const void *x, *other;
	void *y;
	const float *weight, *bias;
	float *running_mean, *running_var;
	float *grad_weight, *grad_bias;
	/* dy1, dx and dz may be NULL. dz and dx may share dy's memory. */
	void *dy, *dx, *dz;
	const void *dy1;
	float *room; /* kernel_norm_room */
	/* Private to the operation, [channels] each. */
	float *mean, *var, *inv, *mul, *add, *by_x, *shift;
	/* mul and add as values, for who applies them elsewhere; NULL: none */
	uint16_t *mul_value, *add_value;
	/* [KERNEL_NORM_COUNT + 2 * channels], summed over the ranks: the count
	 * of values, and the sums from KERNEL_NORM_COUNT on */
	float *count;
	int sync; /* forward and backward pass pause for sums over the ranks */
};
enum { KERNEL_NORM_COUNT = 4 };
/* Forward: running statistics; or moments, apply. With sync: moments,
 * all_reduce of the count and `channels` sums, spread, all_reduce of `channels`
 * sums, settle, apply. */
int kernel_norm_running(kernel_stream s, const struct kernel_norm *n);
int kernel_norm_moments(kernel_stream s, const struct kernel_norm *n);
/* As moments, from the sums of x and of its squares over each channel. */
int kernel_norm_moments_of(kernel_stream s, const struct kernel_norm *n,
			   const float *sum, const float *squares);
int kernel_norm_spread(kernel_stream s, const struct kernel_norm *n);
int kernel_norm_settle(kernel_stream s, const struct kernel_norm *n);
int kernel_norm_apply(kernel_stream s, const struct kernel_norm *n);
/* Backward: slopes, back. With sync: an all_reduce of 2 * channels sums and
 * slopes_settle between them. */
int kernel_norm_slopes(kernel_stream s, const struct kernel_norm *n);
/* As slopes, from the gradients of weight and bias; dy is the gradient of the
 * ReLU's input already. */
int kernel_norm_slopes_of(kernel_stream s, const struct kernel_norm *n,
			  const float *d_weight, const float *d_bias);
int kernel_norm_slopes_settle(kernel_stream s, const struct kernel_norm *n);
int kernel_norm_back(kernel_stream s, const struct kernel_norm *n);

/* ---- pool.cu ---- */

struct kernel_pool {
	enum kernel_type type;
	int n, h, w, out_h, out_w;
	int channels;           /* nhwc's */
	int kernel, stride, pad;
};
enum { KERNEL_POOL_MAX = 15 }; /* kernel * kernel fits in a byte */
/* where: [y] positions of the maxima, a byte each */
int kernel_max_pool(kernel_stream s, const struct kernel_pool *p,
		    const void *x, void *y, uint8_t *where);
int kernel_max_pool_back(kernel_stream s, const struct kernel_pool *p,
			 const void *dy, const void *dy1, const uint8_t *where,
			 void *dx);
/* y[n][c], dy[n][c]: plain f32 */
int kernel_average(kernel_stream s, const struct kernel_transpose *t,
		   const void *x, float *y);
int kernel_average_back(kernel_stream s, const struct kernel_transpose *t,
			const float *dy, const float *dy1, void *dx);

/* ---- loss.cu ---- */

struct kernel_tally {
	double loss;
	uint64_t correct, count;
};
struct kernel_loss {
	int n, c;
	float smoothing, scale;
	const float *y;
	const uint32_t *labels; /* cross-entropy */
	const float *target;   /* mse */
	float *dy;             /* may be NULL */
	float *loss;
	struct kernel_tally *tally; /* may be NULL */
	double *room;          /* [KERNEL_LOSS_ROOM] */
	const struct loss_scaler *scaler; /* may be NULL */
};
enum { KERNEL_LOSS_ROOM = 256 };
int kernel_cross_entropy(kernel_stream s, const struct kernel_loss *l);
int kernel_mse(kernel_stream s, const struct kernel_loss *l);

#ifdef __cplusplus
}
#endif
#endif
