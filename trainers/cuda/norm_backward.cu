/* norm_backward.cu: the backward pass of batch normalisation, and of the ReLU
 * after it. */
#include "trainers/cuda/norm.cuh"

/* dz = the gradient of the ReLU's input. y is the normalised value, by which
 * the ReLU was open, or any value of its sign. */
template <int N>
static __device__ void norm_relu_mask(const float *y, float *dz)
{
	for (int i = 0; i < N; i++)
		dz[i] = y[i] <= 0 ? 0 : dz[i];
}

/* The same if nothing was added: then x has the sign, and is read anyway. */
template <int N>
static __device__ void norm_relu_mask_by_x(const float *x, const float *mul,
					   const float *add, float *dz)
{
	for (int i = 0; i < N; i++)
		dz[i] = x[i] * mul[i] + add[i] <= 0 ? 0 : dz[i];
}

/* What a thread of norm_slopes has for its channels. */
template <int N> struct norm_channels {
	float mul[N], add[N], mean[N], sum[N], product[N];
};

/* Adds ROWS rows, `stride` vectors apart. BY_Y: the mask is y's sign. TWO:
 * there is a second gradient. */
template <typename T, bool BY_Y, bool TWO, int ROWS>
static __device__ void norm_add_slopes(const struct kernel_norm &n, size_t at,
				       size_t stride,
				       struct norm_channels<pack<T>::N> &c)
{
	enum { N = pack<T>::N };
	words4 row_dy[ROWS], row_x[ROWS], row_y[ROWS], row_dy1[ROWS];

#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		row_dy[k] = fetch(n.dy, at + k * stride);
		row_x[k] = fetch(n.x, at + k * stride);
		if (TWO)
			row_dy1[k] = fetch(n.dy1, at + k * stride);
		if (BY_Y)
			row_y[k] = fetch(n.y, at + k * stride);
	}
	fetched();
#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		float x[N], dz[N], other[N];

		pack<T>::unpack(dz, row_dy[k]);
		pack<T>::unpack(x, row_x[k]);
		if (TWO) {
			pack<T>::unpack(other, row_dy1[k]);
			for (int i = 0; i < N; i++)
				dz[i] += other[i];
		}
		if (BY_Y) {
			pack<T>::unpack(other, row_y[k]);
			norm_relu_mask<N>(other, dz);
		} else if (n.relu) {
			norm_relu_mask_by_x<N>(x, c.mul, c.add, dz);
		}
		for (int i = 0; i < N; i++) {
			c.sum[i] += dz[i];
			c.product[i] += dz[i] * (x[i] - c.mean[i]);
		}
		if (n.dz)
			pack<T>::store(dz, n.dz, at + k * stride);
	}
}

/* Sums of dz and of dz * (x - mean); stores dz if needed, maybe in dy's
 * memory. */
template <typename T, bool BY_Y, bool TWO>
static __global__ void __launch_bounds__(BLOCK)
norm_slopes(struct walk w, struct kernel_norm n)
{
	enum { N = pack<T>::N, ROWS = BY_Y || TWO ? ROWS_MORE : ROWS_X_DZ };
	unsigned vector = blockIdx.x * blockDim.x + threadIdx.x;
	size_t step = (size_t)gridDim.y * blockDim.y, stride = step * w.vectors;
	size_t row = (size_t)blockIdx.y * blockDim.y + threadIdx.y;
	size_t at = row * w.vectors + vector;
	struct norm_channels<N> c;

	for (int i = 0; i < N; i++)
		c.sum[i] = c.product[i] = 0;
	if (vector < w.vectors) {
		load_floats<N>(c.mul, n.mul, (size_t)vector * N);
		load_floats<N>(c.add, n.add, (size_t)vector * N);
		load_floats<N>(c.mean, n.mean, (size_t)vector * N);
	} else {
		row = w.rows;
	}
	for (; row + (ROWS - 1) * step < w.rows;
	     row += ROWS * step, at += ROWS * stride)
		norm_add_slopes<T, BY_Y, TWO, ROWS>(n, at, stride, c);
	for (; row < w.rows; row += step, at += stride)
		norm_add_slopes<T, BY_Y, TWO, 1>(n, at, stride, c);
	norm_write_parts<N>(w, vector, c.sum, c.product, n.room);
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

/* The channel's gradients by the sums of dz and of dz * (x - mean). */
static __device__ void norm_finish_gradient(const struct kernel_norm &n,
					    size_t c, double dz, double product)
{
	n.grad_bias[c] = (float)dz;
	n.grad_weight[c] = (float)(product * (double)n.inv[c]);
	if (n.sync) {
		norm_sums(n)[c] = (float)dz;
		norm_sums(n)[n.channels + c] = (float)product;
		return;
	}
	norm_find_backward(n, c, dz, product, (double)n.rows);
}

static __global__ void norm_finish_slopes(struct kernel_norm n, unsigned parts)
{
	size_t c = (size_t)blockIdx.x * FINISH_WIDE + threadIdx.x;
	double dz, product;

	norm_add_parts(parts, n.channels, c, n.room, &dz, &product);
	if (threadIdx.y == 0 && c < n.channels)
		norm_finish_gradient(n, c, dz, product);
}

static __global__ void norm_finish_given(struct kernel_norm n,
					 const float *d_weight,
					 const float *d_bias)
{
	size_t c = thread_at();

	if (c < n.channels)
		norm_finish_gradient(n, c, (double)d_bias[c],
				     (double)d_weight[c] / (double)n.inv[c]);
}

static __global__ void norm_settle_slopes(struct kernel_norm n)
{
	size_t c = thread_at();

	if (c < n.channels)
		norm_find_backward(n, c, (double)norm_sums(n)[c],
				   (double)norm_sums(n)[n.channels + c],
				   (double)n.count[0]);
}

/* What a thread of norm_backward has for its channels. */
template <int N> struct norm_factors {
	float mul[N], add[N], by_x[N], shift[N];
};

/* dx of ROWS rows, `stride` vectors apart. MASK: the gradient is that behind
 * the ReLU. */
template <typename T, bool MASK, int ROWS>
static __device__ void norm_backward_rows(const struct kernel_norm &n,
					  const void *from, size_t at,
					  size_t stride,
					  const struct norm_factors<
						  pack<T>::N> &f)
{
	enum { N = pack<T>::N };
	words4 row_dz[ROWS], row_x[ROWS];

#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		row_dz[k] = fetch(from, at + k * stride);
		row_x[k] = fetch(n.x, at + k * stride);
	}
	fetched();
#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		float x[N], dz[N];

		pack<T>::unpack(dz, row_dz[k]);
		pack<T>::unpack(x, row_x[k]);
		if (MASK)
			norm_relu_mask_by_x<N>(x, f.mul, f.add, dz);
		for (int i = 0; i < N; i++)
			dz[i] = dz[i] * f.mul[i] +
				(x[i] * f.by_x[i] + f.shift[i]);
		pack<T>::store(dz, n.dx, at + k * stride);
	}
}

/* dx may be dy's memory. */
template <typename T, bool MASK>
static __global__ void __launch_bounds__(BLOCK)
norm_backward(struct walk w, struct kernel_norm n)
{
	enum { N = pack<T>::N, ROWS = ROWS_X_DZ };
	unsigned vector = blockIdx.x * blockDim.x + threadIdx.x;
	size_t step = (size_t)gridDim.y * blockDim.y, stride = step * w.vectors;
	size_t row = (size_t)blockIdx.y * blockDim.y + threadIdx.y;
	size_t at = row * w.vectors + vector;
	const void *from = n.dz ? n.dz : n.dy;
	struct norm_factors<N> f;

	if (vector >= w.vectors)
		return;
	load_floats<N>(f.mul, n.mul, (size_t)vector * N);
	load_floats<N>(f.add, n.add, (size_t)vector * N);
	load_floats<N>(f.by_x, n.by_x, (size_t)vector * N);
	load_floats<N>(f.shift, n.shift, (size_t)vector * N);
	for (; row + (ROWS - 1) * step < w.rows;
	     row += ROWS * step, at += ROWS * stride)
		norm_backward_rows<T, MASK, ROWS>(n, from, at, stride, f);
	for (; row < w.rows; row += step, at += stride)
		norm_backward_rows<T, MASK, 1>(n, from, at, stride, f);
}

template <typename T> static norm_kernel norm_slopes_kernel(bool by_y, bool two)
{
	if (by_y)
		return two ? norm_slopes<T, true, true> :
			     norm_slopes<T, true, false>;
	return two ? norm_slopes<T, false, true> : norm_slopes<T, false, false>;
}

int kernel_norm_slopes(kernel_stream s, const struct kernel_norm *n)
{
	struct walk w = norm_walk(n);
	struct walk_shape g = norm_walk_shape(&w, KERNEL_NORM_BLOCKS);
	bool by_y = n->relu && n->other, two = n->dy1 != NULL;
	norm_kernel kernel =
		n->type == KERNEL_F16  ? norm_slopes_kernel<fp16>(by_y, two) :
		n->type == KERNEL_BF16 ? norm_slopes_kernel<bf16>(by_y, two) :
					 norm_slopes_kernel<float>(by_y, two);

	LAUNCH(kernel, g.grid, g.block, s, w, *n);
	LAUNCH(norm_finish_slopes, norm_finish_grid(n), norm_finish_block(), s,
	       *n, g.grid.y);
	return LAUNCHED();
}

int kernel_norm_slopes_of(kernel_stream s, const struct kernel_norm *n,
			  const float *d_weight, const float *d_bias)
{
	LAUNCH(norm_finish_given, norm_channel_blocks(n), BLOCK, s, *n,
	       d_weight, d_bias);
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

	/* dz is stored only if there are two gradients or a second input; else
	 * x alone gives the mask */
	bool mask = n->relu && !n->dz;
	static const norm_kernel kernels[3][2] = {
		{norm_backward<float, false>, norm_backward<float, true>},
		{norm_backward<bf16, false>, norm_backward<bf16, true>},
		{norm_backward<fp16, false>, norm_backward<fp16, true>}};
	norm_kernel kernel = kernels[n->type][mask];

	LAUNCH(kernel, g.grid, g.block, s, w, *n);
	return LAUNCHED();
}
