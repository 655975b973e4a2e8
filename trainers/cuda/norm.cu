/* norm.cu: batch normalisation with the addition and ReLU after it. A thread
 * has 16 bytes of channels and walks down the rows; sums of a block's rows go
 * to parts[block][2][channels], which a second kernel adds in order, in f64. */
#include <math.h>

#include "trainers/cuda/device.cuh"

static const double epsilon = 1e-5;
static const double momentum = 0.1;

enum { FINISH_WIDE = 32, FINISH_DEEP = 16 };

/* How the threads walk a tensor: blockIdx.x and threadIdx.x select the
 * channels, blockIdx.y and threadIdx.y the first row. */
struct walk {
	size_t rows;
	unsigned vectors; /* vectors of 16 bytes in a row */
};

struct walk_shape {
	dim3 grid, block;
};

static unsigned norm_lanes(int bf16)
{
	return bf16 ? 8 : 4;
}

static struct walk norm_walk(const struct kernel_norm *n)
{
	struct walk w = {n->rows,
			 (unsigned)(n->channels / norm_lanes(n->bf16))};

	return w;
}

/* A block has BLOCK threads, a power of two of them side by side, so that a
 * warp reads whole rows even with few channels. */
static struct walk_shape norm_walk_shape(const struct walk *w, unsigned blocks)
{
	unsigned wide = 1, deep, across, down;
	size_t most;

	while (wide < w->vectors && wide < 32)
		wide *= 2;
	deep = BLOCK / wide;
	across = (w->vectors + wide - 1) / wide;
	down = blocks / across ? blocks / across : 1;
	most = (w->rows + deep * 4 - 1) / (deep * 4);
	if (most < down)
		down = most ? (unsigned)most : 1;
	return {dim3(across, down, 1), dim3(wide, deep, 1)};
}

size_t kernel_norm_room(size_t channels)
{
	/* there are at most KERNEL_NORM_BLOCKS parts, and only one if the
	 * channels alone fill that many blocks */
	return KERNEL_NORM_BLOCKS * 2 * channels * sizeof(float);
}

/* The block's sums over its rows: adds a and b of each thread down the block,
 * and the first row of threads writes them. */
template <int N>
static __device__ void norm_write_parts(const struct walk &w, unsigned vector,
					const float *a, const float *b,
					float *parts)
{
	__shared__ float sums[BLOCK][2 * N];
	unsigned me = threadIdx.y * blockDim.x + threadIdx.x;
	size_t channels = (size_t)w.vectors * N;
	float *to = parts + (size_t)blockIdx.y * 2 * channels +
		    (size_t)vector * N;

	for (int i = 0; i < N; i++) {
		sums[me][i] = a[i];
		sums[me][N + i] = b[i];
	}
	for (unsigned half = blockDim.y / 2; half; half /= 2) {
		__syncthreads();
		if (threadIdx.y < half)
			for (int i = 0; i < 2 * N; i++)
				sums[me][i] += sums[me + half * blockDim.x][i];
	}
	if (threadIdx.y || vector >= w.vectors)
		return;
	for (int i = 0; i < N; i++) {
		to[i] = sums[me][i];
		to[channels + i] = sums[me][N + i];
	}
}

/* Sums parts[][which][channel] in f64 over the block's FINISH_DEEP rows of
 * threads; row 0 gets the result. All threads of the block must call it. */
static __device__ double norm_add_parts(unsigned parts, size_t channels,
					int which, size_t channel,
					const float *from)
{
	__shared__ double sums[FINISH_DEEP][FINISH_WIDE];
	double sum = 0, all = 0;

	if (channel < channels)
		for (unsigned p = threadIdx.y; p < parts; p += FINISH_DEEP)
			sum += (double)from[((size_t)p * 2 + which) * channels +
					    channel];
	__syncthreads();
	sums[threadIdx.y][threadIdx.x] = sum;
	__syncthreads();
	for (int i = 0; i < FINISH_DEEP; i++)
		all += sums[i][threadIdx.x];
	return all;
}

static dim3 norm_finish_grid(const struct kernel_norm *n)
{
	return dim3((unsigned)((n->channels + FINISH_WIDE - 1) / FINISH_WIDE));
}

static dim3 norm_finish_block(void)
{
	return dim3(FINISH_WIDE, FINISH_DEEP);
}

static __device__ float *norm_sums(const struct kernel_norm &n)
{
	return n.count + KERNEL_NORM_COUNT;
}

/* One thread for each channel. */
static unsigned norm_channel_blocks(const struct kernel_norm *n)
{
	return (unsigned)((n->channels + BLOCK - 1) / BLOCK);
}

/* ---- Forward ---- */

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
		pack<T>::load(shift, x, vector);
#pragma unroll 4
		for (size_t row = (size_t)blockIdx.y * blockDim.y + threadIdx.y;
		     row < w.rows; row += step) {
			float v[N];

			pack<T>::load(v, x, row * w.vectors + vector);
			for (int i = 0; i < N; i++) {
				float d = v[i] - shift[i];

				sum[i] += d;
				square[i] += d * d;
			}
		}
	}
	norm_write_parts<N>(w, vector, sum, square, parts);
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
	if (n.bf16)
		return (double)float_of((uint32_t)((const uint16_t *)n.x)[c]
					<< 16);
	return (double)((const float *)n.x)[c];
}

static __global__ void norm_finish_moments(struct kernel_norm n, unsigned parts)
{
	size_t c = (size_t)blockIdx.x * FINISH_WIDE + threadIdx.x;
	double sum = norm_add_parts(parts, n.channels, 0, c, n.room);
	double square = norm_add_parts(parts, n.channels, 1, c, n.room);
	double rows = (double)n.rows, mean, var;

	if (threadIdx.y || c >= n.channels)
		return;
	mean = sum / rows;
	var = square / rows - mean * mean;
	/* this form of the comparison lets NaN through */
	var = var < 0 ? 0 : var;
	mean += norm_first_value(n, c);
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

/* y may be x's memory: a thread reads a place before it writes it. */
template <typename T>
static __global__ void __launch_bounds__(BLOCK)
norm_apply(struct walk w, struct kernel_norm n)
{
	enum { N = pack<T>::N };
	unsigned vector = blockIdx.x * blockDim.x + threadIdx.x;
	size_t step = (size_t)gridDim.y * blockDim.y;
	float mul[N], add[N];

	if (vector >= w.vectors)
		return;
	load_floats<N>(mul, n.mul, (size_t)vector * N);
	load_floats<N>(add, n.add, (size_t)vector * N);
#pragma unroll 4
	for (size_t row = (size_t)blockIdx.y * blockDim.y + threadIdx.y;
	     row < w.rows; row += step) {
		size_t at = row * w.vectors + vector;
		float v[N], other[N];

		pack<T>::load(v, n.x, at);
		if (n.other)
			pack<T>::load(other, n.other, at);
		for (int i = 0; i < N; i++) {
			v[i] = v[i] * mul[i] + add[i];
			if (n.other)
				v[i] += other[i];
			/* this form of the comparison lets NaN through */
			if (n.relu)
				v[i] = v[i] < 0 ? 0 : v[i];
		}
		pack<T>::store(v, n.y, at);
	}
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

	LAUNCH_TYPED(n->bf16, norm_moments, g.grid, g.block, s, w, n->x,
		     n->room);
	LAUNCH(norm_finish_moments, norm_finish_grid(n), norm_finish_block(), s,
	       *n, g.grid.y);
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

	LAUNCH_TYPED(n->bf16, norm_apply, g.grid, g.block, s, w, *n);
	return LAUNCHED();
}

/* ---- Backward ---- */

/* dz = the gradient of the ReLU's input. If something was added, y shows where
 * the ReLU was open; else x does, which is read anyway. */
template <int N>
static __device__ void norm_relu_mask(const struct kernel_norm &n,
				      const float *x, const float *y,
				      const float *mul, const float *add,
				      float *dz)
{
	for (int i = 0; i < N; i++) {
		float v = n.other ? y[i] : x[i] * mul[i] + add[i];

		dz[i] = v <= 0 ? 0 : dz[i];
	}
}

/* Sums of dz and of dz * (x - mean); stores dz if needed. */
template <typename T>
static __global__ void __launch_bounds__(BLOCK)
norm_slopes(struct walk w, struct kernel_norm n)
{
	enum { N = pack<T>::N };
	unsigned vector = blockIdx.x * blockDim.x + threadIdx.x;
	size_t step = (size_t)gridDim.y * blockDim.y;
	size_t row = (size_t)blockIdx.y * blockDim.y + threadIdx.y;
	float mul[N], add[N], mean[N], sum[N], product[N];

	for (int i = 0; i < N; i++)
		sum[i] = product[i] = 0;
	if (vector < w.vectors) {
		load_floats<N>(mul, n.mul, (size_t)vector * N);
		load_floats<N>(add, n.add, (size_t)vector * N);
		load_floats<N>(mean, n.mean, (size_t)vector * N);
	} else {
		row = w.rows;
	}
#pragma unroll 2
	for (; row < w.rows; row += step) {
		size_t at = row * w.vectors + vector;
		float x[N], y[N], dz[N], dy1[N];

		pack<T>::load(dz, n.dy, at);
		pack<T>::load(x, n.x, at);
		if (n.dy1) {
			pack<T>::load(dy1, n.dy1, at);
			for (int i = 0; i < N; i++)
				dz[i] += dy1[i];
		}
		if (n.relu) {
			if (n.other)
				pack<T>::load(y, n.y, at);
			norm_relu_mask<N>(n, x, y, mul, add, dz);
		}
		for (int i = 0; i < N; i++) {
			sum[i] += dz[i];
			product[i] += dz[i] * (x[i] - mean[i]);
		}
		if (n.dz)
			pack<T>::store(dz, n.dz, at);
	}
	norm_write_parts<N>(w, vector, sum, product, n.room);
}

/* dx = mul * (dz - sum(dz) / count
 *             - (x - mean) * inv^2 * sum(dz * (x - mean)) / count)
 *    = mul * dz + by_x * x + shift */
static __device__ void norm_find_backward(const struct kernel_norm &n, size_t c,
					  double dz, double product,
					  double count)
{
	double inv = (double)n.inv[c], mul = (double)n.mul[c];
	double by_x = -mul * inv * inv * product / count;

	n.by_x[c] = (float)by_x;
	n.shift[c] = (float)(-mul * dz / count - by_x * (double)n.mean[c]);
}

static __global__ void norm_finish_slopes(struct kernel_norm n, unsigned parts)
{
	size_t c = (size_t)blockIdx.x * FINISH_WIDE + threadIdx.x;
	double dz = norm_add_parts(parts, n.channels, 0, c, n.room);
	double product = norm_add_parts(parts, n.channels, 1, c, n.room);

	if (threadIdx.y || c >= n.channels)
		return;
	n.grad_bias[c] = (float)dz;
	n.grad_weight[c] = (float)(product * (double)n.inv[c]);
	if (n.sync) {
		norm_sums(n)[c] = (float)dz;
		norm_sums(n)[n.channels + c] = (float)product;
		return;
	}
	norm_find_backward(n, c, dz, product, (double)n.rows);
}

static __global__ void norm_settle_slopes(struct kernel_norm n)
{
	size_t c = thread_at();

	if (c < n.channels)
		norm_find_backward(n, c, (double)norm_sums(n)[c],
				   (double)norm_sums(n)[n.channels + c],
				   (double)n.count[0]);
}

/* dx may be dy's memory. */
template <typename T>
static __global__ void __launch_bounds__(BLOCK)
norm_backward(struct walk w, struct kernel_norm n)
{
	enum { N = pack<T>::N };
	unsigned vector = blockIdx.x * blockDim.x + threadIdx.x;
	size_t step = (size_t)gridDim.y * blockDim.y;
	const void *from = n.dz ? n.dz : n.dy;
	float mul[N], add[N], by_x[N], shift[N];

	if (vector >= w.vectors)
		return;
	load_floats<N>(mul, n.mul, (size_t)vector * N);
	load_floats<N>(add, n.add, (size_t)vector * N);
	load_floats<N>(by_x, n.by_x, (size_t)vector * N);
	load_floats<N>(shift, n.shift, (size_t)vector * N);
#pragma unroll 4
	for (size_t row = (size_t)blockIdx.y * blockDim.y + threadIdx.y;
	     row < w.rows; row += step) {
		size_t at = row * w.vectors + vector;
		float x[N], dz[N];

		pack<T>::load(dz, from, at);
		pack<T>::load(x, n.x, at);
		/* dz is stored only if there are two gradients or a second
		 * input; so here x alone gives the mask */
		if (n.relu && !n.dz)
			norm_relu_mask<N>(n, x, x, mul, add, dz);
		for (int i = 0; i < N; i++)
			dz[i] = dz[i] * mul[i] + (x[i] * by_x[i] + shift[i]);
		pack<T>::store(dz, n.dx, at);
	}
}

int kernel_norm_slopes(kernel_stream s, const struct kernel_norm *n)
{
	struct walk w = norm_walk(n);
	struct walk_shape g = norm_walk_shape(&w, KERNEL_NORM_BLOCKS);

	LAUNCH_TYPED(n->bf16, norm_slopes, g.grid, g.block, s, w, *n);
	LAUNCH(norm_finish_slopes, norm_finish_grid(n), norm_finish_block(), s,
	       *n, g.grid.y);
	return LAUNCHED();
}

int kernel_norm_slopes_settle(kernel_stream s, const struct kernel_norm *n)
{
	LAUNCH(norm_settle_slopes, norm_channel_blocks(n), BLOCK, s, *n);
	return LAUNCHED();
}

int kernel_norm_back(kernel_stream s, const struct kernel_norm *n)
{
	struct walk w = norm_walk(n);
	struct walk_shape g = norm_walk_shape(&w, BLOCKS_MAX);

	LAUNCH_TYPED(n->bf16, norm_backward, g.grid, g.block, s, w, *n);
	return LAUNCHED();
}
