/* layout.h: how the CUDA twin's tensors and filters lie, and turning them from
 * and to PyTorch's order in the host's memory. Pure; needs no CUDA.
 *
 * Activations are nhwc. A place's channels, and a filter's, are padded with
 * zeros to what 16 bytes hold, so that all that walks them does so in steps of
 * 16 bytes. Zeros stay zeros: a padded channel comes of a filter of zeros. */
#ifndef TRAINERS_CUDA_LAYOUT_H
#define TRAINERS_CUDA_LAYOUT_H

#include "trainers/ops/ops.h"

/* What tensor.layout points to where a tensor is nhwc; NULL: it is plain. */
struct layout {
	const char *name;
};
extern const struct layout layout_nhwc;

/* Channels as they lie. */
int layout_channels(int channels, enum tensor_type type);
size_t layout_value(enum tensor_type type); /* bytes */

/* All of a tensor but data: nhwc; and plain f32 rows. */
void layout_tensor(struct tensor *t, int n, int c, int h, int w,
		   enum tensor_type type);
void layout_rows(struct tensor *t, int n, int c);

/* Values as they lie, padding included. */
size_t layout_count(const struct tensor *t);

/* out has t->bytes; values are [n][c][h][w]. */
void layout_pack(const struct tensor *t, const float *values, void *out);
void layout_unpack(const struct tensor *t, const void *in, float *values);

/* Filters are [out padded][kernel][kernel][in padded] f32, whatever the type
 * they are padded for. */
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

/* Places of a line that a window of this size and stride comes to; 0: none. */
int layout_windows(int size, int kernel, int stride, int pad);

#endif
