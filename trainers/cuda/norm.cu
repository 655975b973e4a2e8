/* norm.cu: batch normalisation with the addition and ReLU after it: the forward
 * pass. */
#include <math.h>

#include "trainers/cuda/norm.cuh"

static const double epsilon = 1e-5;
static const double momentum = 0.1;

size_t kernel_norm_room(size_t channels)
{
	/* there are at most KERNEL_NORM_BLOCKS parts, and only one if the
	 * channels alone fill that many blocks */
	return KERNEL_NORM_BLOCKS * 2 * channels * sizeof(float);
}

/* Adds ROWS rows, `stride` vectors apart. */
template <typename T, int ROWS>
static __device__ void norm_add_moments(const void *x, size_t at, size_t stride,
					const float *shift, float *sum,
					float *square)
{
	enum { N = pack<T>::N };
	words4 row[ROWS];

#pragma unroll
	for (int k = 0; k < ROWS; k++)
		row[k] = fetch(x, at + k * stride);
	fetched();
#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		float v[N];

		pack<T>::unpack(v, row[k]);
		for (int i = 0; i < N; i++) {
			float d = v[i] - shift[i];

			sum[i] += d;
			square[i] += d * d;
		}
	}
}

/* Sums of x - shift and of its square, where shift is the channel's first
 * value: the mean is then close to zero, so the squares lose no precision. */
template <typename T>
static __global__ void __launch_bounds__(BLOCK)
norm_moments(struct walk w, const void *x, float *parts)
{
	enum { N = pack<T>::N };
	unsigned vector = blockIdx.x * blockDim.x + threadIdx.x;
	size_t step = (size_t)gridDim.y * blockDim.y;
	float shift[N], sum[N], square[N];

	for (int i = 0; i < N; i++)
		sum[i] = square[i] = 0;
	if (vector < w.vectors) {
		size_t row = (size_t)blockIdx.y * blockDim.y + threadIdx.y;
		size_t stride = step * w.vectors;
		size_t at = row * w.vectors + vector;

		pack<T>::load(shift, x, vector);
		for (; row + (ROWS_X - 1) * step < w.rows;
		     row += ROWS_X * step, at += ROWS_X * stride)
			norm_add_moments<T, ROWS_X>(x, at, stride, shift, sum,
						    square);
		for (; row < w.rows; row += step, at += stride)
			norm_add_moments<T, 1>(x, at, stride, shift, sum,
					       square);
	}
	norm_write_parts<N>(w, vector, sum, square, parts);
}

static __device__ uint16_t norm_value(const struct kernel_norm &n, float f)
{
	return n.type == KERNEL_F16 ? narrow1<fp16>(f) : narrow1<bf16>(f);
}

/* The affine form of the normalisation: y = x * mul + add. */
static __device__ void norm_find_scale(const struct kernel_norm &n, size_t c,
				       double mean, double var)
{
	double inv = 1 / sqrt(var + epsilon);
	double mul = (double)n.weight[c] * inv;

	n.inv[c] = (float)inv;
	n.mul[c] = (float)mul;
	n.add[c] = (float)((double)n.bias[c] - mean * mul);
	if (n.mul_value) {
		n.mul_value[c] = norm_value(n, n.mul[c]);
		n.add_value[c] = norm_value(n, n.add[c]);
	}
}

/* Sets mean and var of count values, and updates the running statistics. */
static __device__ void norm_settle(const struct kernel_norm &n, size_t c,
				   double mean, double var, double count)
{
	double unbiased = count > 1 ? count / (count - 1) : 1;
	double m = (double)n.running_mean[c], v = (double)n.running_var[c];

	n.mean[c] = (float)mean;
	n.var[c] = (float)var;
	n.running_mean[c] = (float)(m + momentum * (mean - m));
	n.running_var[c] = (float)(v + momentum * (var * unbiased - v));
	norm_find_scale(n, c, mean, var);
}

static __device__ double norm_first_value(const struct kernel_norm &n, size_t c)
{
	if (n.type == KERNEL_F32)
		return (double)((const float *)n.x)[c];
	if (n.type == KERNEL_F16)
		return (double)widen1<fp16>(((const uint16_t *)n.x)[c]);
	return (double)widen1<bf16>(((const uint16_t *)n.x)[c]);
}

/* The channel's statistics by the sums of x - shift and of its square. */
static __device__ void norm_finish_channel(const struct kernel_norm &n,
					   size_t c, double sum, double square,
					   double shift)
{
	double rows = (double)n.rows, mean = sum / rows;
	double var = square / rows - mean * mean;

	/* this form of the comparison lets NaN through */
	var = var < 0 ? 0 : var;
	mean += shift;
	if (c == 0)
		n.count[0] = (float)rows;
	if (!n.sync) {
		norm_settle(n, c, mean, var, rows);
		return;
	}
	n.mean[c] = (float)mean;
	n.var[c] = (float)var;
	norm_sums(n)[c] = (float)(mean * rows);
}

static __global__ void norm_finish_moments(struct kernel_norm n, unsigned parts)
{
	size_t c = (size_t)blockIdx.x * FINISH_WIDE + threadIdx.x;
	double sum, square;

	norm_add_parts(parts, n.channels, c, n.room, &sum, &square);
	if (threadIdx.y == 0 && c < n.channels)
		norm_finish_channel(n, c, sum, square, norm_first_value(n, c));
}

static __global__ void norm_finish_sums(struct kernel_norm n, const float *sum,
					const float *squares)
{
	size_t c = thread_at();

	if (c < n.channels)
		norm_finish_channel(n, c, (double)sum[c], (double)squares[c],
				    0);
}

/* Computes, from the sums of means times counts, the squares around the overall
 * mean. */
static __global__ void norm_spread(struct kernel_norm n)
{
	size_t c = thread_at();
	double mean, far;

	if (c >= n.channels)
		return;
	mean = (double)norm_sums(n)[c] / (double)n.count[0];
	far = (double)n.mean[c] - mean;
	n.mean[c] = (float)mean;
	norm_sums(n)[c] =
		(float)(((double)n.var[c] + far * far) * (double)n.rows);
}

static __global__ void norm_settle_all(struct kernel_norm n)
{
	size_t c = thread_at();
	double count = (double)n.count[0];

	if (c < n.channels)
		norm_settle(n, c, (double)n.mean[c],
			    (double)norm_sums(n)[c] / count, count);
}

static __global__ void norm_take_running(struct kernel_norm n)
{
	size_t c = thread_at();

	if (c < n.channels)
		norm_find_scale(n, c, (double)n.running_mean[c],
				(double)n.running_var[c]);
}

/* Normalises ROWS rows, `stride` vectors apart. */
template <typename T, bool ADD, int ROWS>
static __device__ void norm_apply_rows(const struct kernel_norm &n, size_t at,
				       size_t stride, const float *mul,
				       const float *add)
{
	enum { N = pack<T>::N };
	words4 x[ROWS], other[ROWS];

#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		x[k] = fetch(n.x, at + k * stride);
		if (ADD)
			other[k] = fetch(n.other, at + k * stride);
	}
	fetched();
#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		float v[N], more[N];

		pack<T>::unpack(v, x[k]);
		if (ADD)
			pack<T>::unpack(more, other[k]);
		for (int i = 0; i < N; i++) {
			v[i] = v[i] * mul[i] + add[i];
			if (ADD)
				v[i] += more[i];
			/* this form of the comparison lets NaN through */
			if (n.relu)
				v[i] = v[i] < 0 ? 0 : v[i];
		}
		pack<T>::store(v, n.y, at + k * stride);
	}
}

/* y may be x's memory: a thread reads a place before it writes it. */
template <typename T, bool ADD>
static __global__ void __launch_bounds__(BLOCK)
norm_apply(struct walk w, struct kernel_norm n)
{
	enum { N = pack<T>::N, ROWS = ADD ? ROWS_MORE : ROWS_X };
	unsigned vector = blockIdx.x * blockDim.x + threadIdx.x;
	size_t step = (size_t)gridDim.y * blockDim.y, stride = step * w.vectors;
	size_t row = (size_t)blockIdx.y * blockDim.y + threadIdx.y;
	size_t at = row * w.vectors + vector;
	float mul[N], add[N];

	if (vector >= w.vectors)
		return;
	load_floats<N>(mul, n.mul, (size_t)vector * N);
	load_floats<N>(add, n.add, (size_t)vector * N);
	for (; row + (ROWS - 1) * step < w.rows;
	     row += ROWS * step, at += ROWS * stride)
		norm_apply_rows<T, ADD, ROWS>(n, at, stride, mul, add);
	for (; row < w.rows; row += step, at += stride)
		norm_apply_rows<T, ADD, 1>(n, at, stride, mul, add);
}

int kernel_norm_running(kernel_stream s, const struct kernel_norm *n)
{
	LAUNCH(norm_take_running, norm_channel_blocks(n), BLOCK, s, *n);
	return LAUNCHED();
}

int kernel_norm_moments(kernel_stream s, const struct kernel_norm *n)
{
	struct walk w = norm_walk(n);
	struct walk_shape g = norm_walk_shape(&w, KERNEL_NORM_BLOCKS);

	LAUNCH_TYPED(n->type, norm_moments, g.grid, g.block, s, w, n->x,
		     n->room);
	LAUNCH(norm_finish_moments, norm_finish_grid(n), norm_finish_block(), s,
	       *n, g.grid.y);
	return LAUNCHED();
}

int kernel_norm_moments_of(kernel_stream s, const struct kernel_norm *n,
			   const float *sum, const float *squares)
{
	LAUNCH(norm_finish_sums, norm_channel_blocks(n), BLOCK, s, *n, sum,
	       squares);
	return LAUNCHED();
}

int kernel_norm_spread(kernel_stream s, const struct kernel_norm *n)
{
	LAUNCH(norm_spread, norm_channel_blocks(n), BLOCK, s, *n);
	return LAUNCHED();
}

int kernel_norm_settle(kernel_stream s, const struct kernel_norm *n)
{
	LAUNCH(norm_settle_all, norm_channel_blocks(n), BLOCK, s, *n);
	return LAUNCHED();
}

int kernel_norm_apply(kernel_stream s, const struct kernel_norm *n)
{
	struct walk w = norm_walk(n);
	struct walk_shape g = norm_walk_shape(&w, BLOCKS_MAX);
	static const norm_kernel kernels[3][2] = {
		{norm_apply<float, false>, norm_apply<float, true>},
		{norm_apply<bf16, false>, norm_apply<bf16, true>},
		{norm_apply<fp16, false>, norm_apply<fp16, true>}};
	norm_kernel kernel = kernels[n->type][n->other != NULL];

	LAUNCH(kernel, g.grid, g.block, s, w, *n);
	return LAUNCHED();
}
