/* loader.cu: makes a batch from a data set in the device's memory. */
#include "trainers/cuda/device.cuh"
#include "trainers/data/crop.h"

/* A constant bound keeps each thread's values in registers. */
enum { CHANNELS_MAX = 4 };

static __global__ void loader_set_order(struct kernel_order *o,
					const uint32_t *index, uint64_t epoch)
{
	o->index = index;
	o->epoch = epoch;
}

int kernel_order(kernel_stream s, struct kernel_order *o,
		 const uint32_t *index, uint64_t epoch)
{
	LAUNCH(loader_set_order, 1, 1, s, o, index, epoch);
	return LAUNCHED();
}

static __global__ void loader_set_batch(struct kernel_order *o,
					const uint8_t *batch)
{
	o->batch = batch;
}

int kernel_order_batch(kernel_stream s, struct kernel_order *o,
		       const uint8_t *batch)
{
	LAUNCH(loader_set_batch, 1, 1, s, o, batch);
	return LAUNCHED();
}

static __device__ float loader_scale(const struct kernel_load_batch &t, int c,
				     float v)
{
	return t.exact ? v / 255.0f : (v / 255.0f - t.mean[c]) / t.std[c];
}

/* The value of channel c at (y, x) of the result. */
static __device__ float loader_value(const struct kernel_load_batch &t,
				     const struct augment &a,
				     const uint8_t *image, int c, int y, int x)
{
	int iy = y + a.dy, ix = (a.flip ? t.width - 1 - x : x) + a.dx;
	bool inside = iy >= 0 && iy < t.height && ix >= 0 && ix < t.width;
	size_t at = ((size_t)c * t.height + iy) * t.width + ix;

	return loader_scale(t, c, inside ? (float)image[at] : 0.0f);
}

/* Stores the channels of place i of sample blockIdx.x. */
static __device__ void loader_store(const struct kernel_load_batch &t,
				    const float *v, int i)
{
	int places = t.out_height * t.out_width;
	size_t to = (size_t)blockIdx.x * places + i;

	if (t.type == KERNEL_F16)
		pack<fp16>::store(v, t.out, to);
	if (t.type == KERNEL_BF16)
		pack<bf16>::store(v, t.out, to);
	if (t.type != KERNEL_F32)
		return;
	to = (size_t)blockIdx.x * t.channels * places + i;
#pragma unroll
	for (int c = 0; c < CHANNELS_MAX; c++)
		if (c < t.channels)
			((float *)t.out)[to + (size_t)c * places] = v[c];
}

/* The pixels of sample blockIdx.x. */
static __device__ const uint8_t *
loader_image(const struct kernel_load_batch &t, uint32_t sample)
{
	const uint8_t *batch = t.order->batch;

	return (batch ? batch : t.pixels) +
	       (size_t)(batch ? blockIdx.x : sample) * t.channels * t.height *
		       t.width;
}

/* blockIdx.x is the sample, blockIdx.y a part of its places. */
static __global__ void __launch_bounds__(BLOCK)
take(const struct kernel_state *k, struct kernel_load_batch t)
{
	uint32_t sample = t.order->index[k->first + blockIdx.x];
	int places = t.height * t.width;
	const uint8_t *image = loader_image(t, sample);
	struct augment a = {0, 0, 0};

	if (blockIdx.y == 0 && threadIdx.x == 0)
		t.labels_out[blockIdx.x] = t.labels[sample];
	if (!t.out)
		return;
	if (t.augment)
		a = augment_draw(t.seed, t.order->epoch, sample);
	for (int i = (int)(blockIdx.y * blockDim.x + threadIdx.x); i < places;
	     i += (int)(gridDim.y * blockDim.x)) {
		float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};

#pragma unroll
		for (int c = 0; c < CHANNELS_MAX; c++)
			if (c < t.channels)
				v[c] = loader_value(t, a, image, c, i / t.width,
						    i % t.width);
		loader_store(t, v, i);
	}
}

/* Adds up the weighted pixels for (y, x) of the result, before the flip, for
 * each channel. Returns the sum of the weights. */
static __device__ uint64_t loader_sum(const struct kernel_load_batch &t,
				      const struct crop &part,
				      const uint8_t *image, int y, int x,
				      uint64_t *sum)
{
	int top = crop_first(y, part.height, t.out_height);
	int bottom = crop_end(y, part.height, t.out_height);
	int left = crop_first(x, part.width, t.out_width);
	int right = crop_end(x, part.width, t.out_width);
	size_t plane = (size_t)t.height * t.width;
	uint32_t rows = 0, columns = 0;

	for (int i = top; i < bottom; i++) {
		const uint8_t *from = image +
			(size_t)(part.y + i) * t.width + part.x;
		uint32_t row[CHANNELS_MAX] = {0, 0, 0, 0};
		uint32_t by = crop_weight(i, y, part.height, t.out_height);

		columns = 0;
		for (int j = left; j < right; j++) {
			uint32_t w = crop_weight(j, x, part.width, t.out_width);

			columns += w;
#pragma unroll
			for (int c = 0; c < CHANNELS_MAX; c++)
				if (c < t.channels)
					row[c] += w * from[c * plane + j];
		}
		rows += by;
#pragma unroll
		for (int c = 0; c < CHANNELS_MAX; c++)
			sum[c] += (uint64_t)by * row[c];
	}
	return (uint64_t)rows * columns;
}

/* As take, with a part of each sample that is scaled to the result's size. */
static __global__ void __launch_bounds__(BLOCK)
take_part(const struct kernel_state *k, struct kernel_load_batch t)
{
	__shared__ struct crop part;
	uint32_t sample = t.order->index[k->first + blockIdx.x];
	int places = t.out_height * t.out_width;
	const uint8_t *image = loader_image(t, sample);

	if (threadIdx.x == 0) {
		if (blockIdx.y == 0)
			t.labels_out[blockIdx.x] = t.labels[sample];
		if (t.augment == AUGMENT_RESIZE)
			part = crop_draw(t.seed, t.order->epoch, sample,
					 t.height, t.width);
		else
			part = crop_centre(t.height, t.width, t.out_height);
	}
	__syncthreads();
	for (int i = (int)(blockIdx.y * blockDim.x + threadIdx.x); i < places;
	     i += (int)(gridDim.y * blockDim.x)) {
		int y = i / t.out_width, x = i % t.out_width;
		uint64_t sum[CHANNELS_MAX] = {0, 0, 0, 0};
		float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
		uint64_t weight = loader_sum(
			t, part, image, y,
			part.flip ? t.out_width - 1 - x : x, sum);

#pragma unroll
		for (int c = 0; c < CHANNELS_MAX; c++)
			if (c < t.channels)
				v[c] = loader_scale(
					t, c, (float)crop_mean(sum[c], weight));
		loader_store(t, v, i);
	}
}

int kernel_load_batch(kernel_stream s, const struct kernel_state *k,
		      const struct kernel_load_batch *t)
{
	int resizes = t->augment == AUGMENT_RESIZE ||
		      t->out_height != t->height || t->out_width != t->width;
	unsigned parts = ((unsigned)(t->out_height * t->out_width) +
			  BLOCK * 4 - 1) / (BLOCK * 4);

	if (!t->out || parts < 1)
		parts = 1;
	if (resizes && t->out)
		LAUNCH(take_part, dim3((unsigned)t->n, parts), BLOCK, s, k, *t);
	else
		LAUNCH(take, dim3((unsigned)t->n, parts), BLOCK, s, k, *t);
	return LAUNCHED();
}
