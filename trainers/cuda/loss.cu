/* loss.cu: losses and their gradients. Blocks leave their sums in the room; if
 * there are several, a last block adds these in order. */
#include <math.h>

#include "trainers/cuda/device.cuh"

/* A warp computes one sample at a time. A block leaves two sums. */
enum { WARP = 32, WARPS = 16, LOSS_BLOCKS = KERNEL_LOSS_ROOM / 2 };

static __device__ float loss_warp_sum(float v)
{
	for (int d = WARP / 2; d; d /= 2)
		v += __shfl_xor_sync(0xffffffffu, v, d);
	return v;
}

/* The greatest value; of equal values the first counts. *at is its place. */
static __device__ float loss_warp_max(float v, int *at)
{
	for (int d = WARP / 2; d; d /= 2) {
		float other = __shfl_xor_sync(0xffffffffu, v, d);
		int there = __shfl_xor_sync(0xffffffffu, *at, d);

		if (other > v || (other == v && there < *at)) {
			v = other;
			*at = there;
		}
	}
	return v;
}

static __device__ float loss_gradient_scale(const struct kernel_loss &l)
{
	return l.scaler ? l.scaler->scale : 1;
}

/* This warp's sample: its loss, and 1 in *correct if the label has the greatest
 * output. PyTorch's smoothing: the target is (1 - smoothing) of the label and
 * smoothing / classes of each class. */
static __device__ double loss_of_sample(const struct kernel_loss &l, int i,
					int lane, int *correct)
{
	const float *x = l.y + (size_t)i * l.c;
	int label = (int)l.labels[i], at = 0;
	float even = l.smoothing / (float)l.c;
	float scale = l.scale / (float)l.n * loss_gradient_scale(l);
	float max = -INFINITY, sum = 0, all = 0, by;
	double log_sum, loss;

	for (int j = lane; j < l.c; j += WARP)
		if (x[j] > max || j == lane) {
			max = x[j];
			at = j;
		}
	if (lane >= l.c)
		at = l.c;
	max = loss_warp_max(max, &at);
	for (int j = lane; j < l.c; j += WARP) {
		sum += expf(x[j] - max);
		all += x[j] - max;
	}
	sum = loss_warp_sum(sum);
	all = loss_warp_sum(all);
	log_sum = (double)logf(sum);
	loss = log_sum - (double)(x[label] - max);
	if (l.smoothing > 0)
		loss = (double)(1 - l.smoothing) * loss +
		       (double)even * (l.c * log_sum - (double)all);
	*correct = at == label;
	if (!l.dy)
		return loss;
	by = scale / sum;
	for (int j = lane; j < l.c; j += WARP) {
		float d = expf(x[j] - max) * by - scale * even;

		if (j == label)
			d -= scale * (1 - l.smoothing);
		l.dy[(size_t)i * l.c + j] = d;
	}
	return loss;
}

/* Called by one thread of the last block: writes the batch's results. */
static __device__ void loss_write(const struct kernel_loss &l, double mean,
				  double sum, uint64_t correct)
{
	*l.loss = (float)(mean * (double)l.scale);
	if (!l.tally)
		return;
	l.tally->loss += sum;
	l.tally->correct += correct;
	l.tally->count += (uint64_t)l.n;
}

static __global__ void __launch_bounds__(WARP *WARPS, 2)
cross_entropy(struct kernel_loss l)
{
	__shared__ double losses[WARPS];
	__shared__ int hits[WARPS];
	int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
	double loss = 0;
	int right = 0;

	for (int i = (int)blockIdx.x * WARPS + warp; i < l.n;
	     i += (int)gridDim.x * WARPS) {
		int correct;

		loss += loss_of_sample(l, i, lane, &correct);
		right += correct;
	}
	if (lane == 0) {
		losses[warp] = loss;
		hits[warp] = right;
	}
	__syncthreads();
	if (threadIdx.x)
		return;
	for (int i = 1; i < WARPS; i++) {
		loss += losses[i];
		right += hits[i];
	}
	if (gridDim.x == 1) {
		loss_write(l, loss / l.n, loss, (uint64_t)right);
		return;
	}
	l.room[2 * blockIdx.x] = loss;
	l.room[2 * blockIdx.x + 1] = right;
}

/* The block's sum, returned to the thread with threadIdx.x 0. */
static __device__ double loss_block_sum(double v)
{
	__shared__ double sums[BLOCK];

	__syncthreads(); /* the last call's sums have been read */
	sums[threadIdx.x] = v;
	for (int half = BLOCK / 2; half; half /= 2) {
		__syncthreads();
		if ((int)threadIdx.x < half)
			sums[threadIdx.x] += sums[threadIdx.x + half];
	}
	return sums[threadIdx.x];
}

static __global__ void __launch_bounds__(BLOCK)
finish_cross_entropy(struct kernel_loss l, int blocks)
{
	bool has = (int)threadIdx.x < blocks;
	double loss = loss_block_sum(has ? l.room[2 * threadIdx.x] : 0);
	double right = loss_block_sum(has ? l.room[2 * threadIdx.x + 1] : 0);

	if (threadIdx.x == 0)
		loss_write(l, loss / l.n, loss, (uint64_t)right);
}

int kernel_cross_entropy(kernel_stream s, const struct kernel_loss *l)
{
	int blocks = (l->n + WARPS - 1) / WARPS;

	if (blocks > LOSS_BLOCKS)
		blocks = LOSS_BLOCKS;
	LAUNCH(cross_entropy, (unsigned)blocks, WARP * WARPS, s, *l);
	if (blocks > 1)
		LAUNCH(finish_cross_entropy, 1, BLOCK, s, *l, blocks);
	return LAUNCHED();
}

/* ---- Mean of squares ---- */

static __global__ void __launch_bounds__(BLOCK)
squares(struct kernel_loss l, size_t count, float scale)
{
	float sum = 0;
	double all;

	scale *= loss_gradient_scale(l);
	for (size_t i = thread_at(); i < count; i += thread_count()) {
		float d = l.y[i] - l.target[i];

		sum += d * d;
		if (l.dy)
			l.dy[i] = d * scale;
	}
	all = loss_block_sum((double)sum);
	if (threadIdx.x == 0)
		l.room[blockIdx.x] = all;
}

static __global__ void __launch_bounds__(BLOCK)
finish_squares(struct kernel_loss l, int blocks, double count)
{
	double sum = loss_block_sum(
		(int)threadIdx.x < blocks ? l.room[threadIdx.x] : 0);

	if (threadIdx.x == 0)
		loss_write(l, sum / count, sum / l.c, 0);
}

int kernel_mse(kernel_stream s, const struct kernel_loss *l)
{
	size_t count = (size_t)l->n * l->c;
	size_t blocks = (count + BLOCK * 8 - 1) / (BLOCK * 8);
	float scale = (float)(2.0 / (double)count * (double)l->scale);

	if (blocks > KERNEL_LOSS_ROOM)
		blocks = KERNEL_LOSS_ROOM;
	LAUNCH(squares, (unsigned)blocks, BLOCK, s, *l, count, scale);
	LAUNCH(finish_squares, 1, BLOCK, s, *l, (int)blocks, (double)count);
	return LAUNCHED();
}
