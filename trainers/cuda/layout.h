/* layout.h: the memory layouts of the CUDA device's tensors and filters, and
 * their conversion from and to PyTorch's in host memory. Pure; needs no CUDA.
 *
 * Activations are nhwc. The channels of a place and of a filter are zero-padded
 * to a multiple of 16 bytes, so that loops run in steps of 16 bytes. Zeros stay
 * zero: a padded channel is the output of a filter of zeros. */
#ifndef TRAINERS_CUDA_LAYOUT_H
#define TRAINERS_CUDA_LAYOUT_H

#include "trainers/ops/ops.h"

/* tensor.layout of an nhwc tensor; NULL: the tensor is plain. */
struct layout {
	const char *name;
};
extern const struct layout layout_nhwc;

/* Padded number of channels. */
int layout_channels(int channels, enum tensor_type type);
size_t layout_value(enum tensor_type type); /* bytes */

/* Set a tensor except its data: nhwc; or plain f32 rows [n][c]. */
void layout_tensor(struct tensor *t, int n, int c, int h, int w,
		   enum tensor_type type);
void layout_rows(struct tensor *t, int n, int c);

/* Number of values, with padding. */
size_t layout_count(const struct tensor *t);

/* out has t->bytes; values are [n][c][h][w]. */
void layout_pack(const struct tensor *t, const float *values, void *out);
void layout_unpack(const struct tensor *t, const void *in, float *values);

/* Filters are [out padded][kernel][kernel][in padded] f32, whatever type the
 * padding is for. */
struct layout_filter {
	int out, in, kernel;
	int out_padded, in_padded;
};
void layout_filter(struct layout_filter *f, int out, int in, int kernel,
		   enum tensor_type type);
size_t layout_filter_size(const struct layout_filter *f);
/* values are PyTorch's [out][in][kernel][kernel]. */
void layout_filter_pack(const struct layout_filter *f, const float *values,
			float *out);
void layout_filter_unpack(const struct layout_filter *f, const float *in,
			  float *values);

/* Output size of a window of this kernel, stride and pad on `size` values; 0:
 * none. */
int layout_windows(int size, int kernel, int stride, int pad);

#endif
