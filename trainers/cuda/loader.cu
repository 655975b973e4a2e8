/* loader.cu: makes a batch from a data set in the device's memory. */
#include "trainers/cuda/device.cuh"
#include "trainers/data/augment.h"

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

/* The value of channel c at (y, x) of the result. */
static __device__ float loader_value(const struct kernel_load_batch &t,
				     const struct augment &a,
				     const uint8_t *image, int c, int y, int x)
{
	int iy = y + a.dy, ix = (a.flip ? t.width - 1 - x : x) + a.dx;
	bool inside = iy >= 0 && iy < t.height && ix >= 0 && ix < t.width;
	size_t at = ((size_t)c * t.height + iy) * t.width + ix;
	float v = inside ? (float)image[at] : 0.0f;

	return t.exact ? v / 255.0f : (v / 255.0f - t.mean[c]) / t.std[c];
}

/* blockIdx.x is the sample, blockIdx.y a part of its places. */
static __global__ void __launch_bounds__(BLOCK)
take(const struct kernel_state *k, struct kernel_load_batch t)
{
	uint32_t sample = t.order->index[k->first + blockIdx.x];
	int places = t.height * t.width;
	const uint8_t *batch = t.order->batch;
	const uint8_t *image = (batch ? batch : t.pixels) +
		(size_t)(batch ? blockIdx.x : sample) * t.channels * places;
	struct augment a = {0, 0, 0};

	if (blockIdx.y == 0 && threadIdx.x == 0)
		t.labels_out[blockIdx.x] = t.labels[sample];
	if (!t.out)
		return;
	if (t.augment)
		a = augment_draw(t.seed, t.order->epoch, sample);
	for (int i = (int)(blockIdx.y * blockDim.x + threadIdx.x); i < places;
	     i += (int)(gridDim.y * blockDim.x)) {
		size_t to = (size_t)blockIdx.x * places + i;
		float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};

#pragma unroll
		for (int c = 0; c < CHANNELS_MAX; c++)
			if (c < t.channels)
				v[c] = loader_value(t, a, image, c, i / t.width,
						    i % t.width);
		if (t.type == KERNEL_F16)
			pack<fp16>::store(v, t.out, to);
		if (t.type == KERNEL_BF16)
			pack<bf16>::store(v, t.out, to);
		if (t.type != KERNEL_F32)
			continue;
		to = (size_t)blockIdx.x * t.channels * places + i;
#pragma unroll
		for (int c = 0; c < CHANNELS_MAX; c++)
			if (c < t.channels)
				((float *)t.out)[to + (size_t)c * places] =
					v[c];
	}
}

int kernel_load_batch(kernel_stream s, const struct kernel_state *k,
		      const struct kernel_load_batch *t)
{
	unsigned parts = ((unsigned)(t->height * t->width) + BLOCK * 4 - 1) /
			 (BLOCK * 4);

	if (!t->out || parts < 1)
		parts = 1;
	LAUNCH(take, dim3((unsigned)t->n, parts), BLOCK, s, k, *t);
	return LAUNCHED();
}
