/* pool.cu: the maximum of a window, and the average of an image. A thread
 * handles 16 bytes of channels of one place. The backward pass gathers, so that
 * no sum depends on an order that varies. */
#include "trainers/cuda/device.cuh"

struct pixel {
	size_t sample;
	int y, x;
	size_t vector;
};

static __device__ struct pixel pool_pixel(size_t i, size_t vectors, int h,
					  int w)
{
	struct pixel p;

	p.vector = i % vectors;
	i /= vectors;
	p.x = (int)(i % w);
	i /= w;
	p.y = (int)(i % h);
	p.sample = i / h;
	return p;
}

static __device__ size_t pool_vector(size_t sample, int y, int x, size_t vector,
				     size_t vectors, int h, int w)
{
	return ((sample * h + y) * w + x) * vectors + vector;
}

/* As in PyTorch, the first of equal values counts, and NaN is greater than all
 * others. op_new has checked that a window has at least one place that is not
 * padding. */
template <typename T>
static __global__ void pool_max(struct kernel_pool p, size_t count,
				const void *x, void *y, uint8_t *where)
{
	enum { N = pack<T>::N };
	size_t vectors = (size_t)p.channels / N;

	for (size_t i = thread_at(); i < count; i += thread_count()) {
		struct pixel at = pool_pixel(i, vectors, p.out_h, p.out_w);
		typename pack<T>::places places = 0;
		float best[N], v[N];
		int found[N], any = 0;

		for (int k = 0; k < p.kernel * p.kernel; k++) {
			int iy = at.y * p.stride - p.pad + k / p.kernel;
			int ix = at.x * p.stride - p.pad + k % p.kernel;

			if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w)
				continue;
			pack<T>::load(v, x, pool_vector(at.sample, iy, ix,
							at.vector, vectors, p.h,
							p.w));
			for (int c = 0; c < N; c++)
				if (!any || v[c] > best[c] || v[c] != v[c]) {
					best[c] = v[c];
					found[c] = k;
				}
			any = 1;
		}
		for (int c = 0; c < N; c++)
			places |= (typename pack<T>::places)found[c] << 8 * c;
		pack<T>::store(best, y, i);
		((typename pack<T>::places *)where)[i] = places;
	}
}

int kernel_max_pool(kernel_stream s, const struct kernel_pool *p,
		    const void *x, void *y, uint8_t *where)
{
	size_t n = (size_t)p->n * p->out_h * p->out_w *
		   (p->channels / kernel_lanes(p->type));

	LAUNCH_TYPED(p->type, pool_max, blocks_for(n), BLOCK, s, *p, n, x, y,
		     where);
	return LAUNCHED();
}

/* The first window in a row of windows that contains place i: i + pad lies in
 * [k * stride, k * stride + kernel). */
static __device__ int pool_first_window(const struct kernel_pool &p, int i)
{
	int after = i + p.pad - p.kernel + 1;

	return after <= 0 ? 0 : (after + p.stride - 1) / p.stride;
}

static __device__ int pool_last_window(const struct kernel_pool &p, int i,
				       int out)
{
	int last = (i + p.pad) / p.stride;

	return last < out ? last : out - 1;
}

template <typename T>
static __global__ void pool_max_backward(struct kernel_pool p, size_t count,
					 const void *dy, const void *dy1,
					 const uint8_t *where, void *dx)
{
	enum { N = pack<T>::N };
	size_t vectors = (size_t)p.channels / N;

	for (size_t i = thread_at(); i < count; i += thread_count()) {
		struct pixel at = pool_pixel(i, vectors, p.h, p.w);
		int y1 = pool_last_window(p, at.y, p.out_h);
		int x1 = pool_last_window(p, at.x, p.out_w);
		float sum[N], v[N], v1[N];

		for (int c = 0; c < N; c++)
			sum[c] = 0;
		for (int y = pool_first_window(p, at.y); y <= y1; y++)
			for (int x = pool_first_window(p, at.x); x <= x1; x++) {
				int k = (at.y + p.pad - y * p.stride) *
						p.kernel +
					at.x + p.pad - x * p.stride;
				size_t o =
					pool_vector(at.sample, y, x, at.vector,
						    vectors, p.out_h, p.out_w);
				typename pack<T>::places found =
					((const typename pack<T>::places *)
						 where)[o];

				pack<T>::load(v, dy, o);
				if (dy1)
					pack<T>::load(v1, dy1, o);
				for (int c = 0; c < N; c++)
					if ((int)(found >> 8 * c & 255) == k)
						sum[c] += dy1 ? v[c] + v1[c]
							      : v[c];
			}
		pack<T>::store(sum, dx, i);
	}
}

int kernel_max_pool_back(kernel_stream s, const struct kernel_pool *p,
			 const void *dy, const void *dy1, const uint8_t *where,
			 void *dx)
{
	size_t n = (size_t)p->n * p->h * p->w *
		   (p->channels / kernel_lanes(p->type));

	LAUNCH_TYPED(p->type, pool_max_backward, blocks_for(n), BLOCK, s, *p, n,
		     dy, dy1, where, dx);
	return LAUNCHED();
}

/* ---- The average of an image ---- */

template <typename T>
static __global__ void pool_average(struct kernel_transpose t, size_t count,
				    const void *x, float *y)
{
	enum { N = pack<T>::N };
	size_t vectors = (size_t)t.channels / N;
	float part = 1.0f / (float)t.places;

	for (size_t i = thread_at(); i < count; i += thread_count()) {
		size_t sample = i / vectors, vector = i % vectors;
		float sum[N], v[N];

		for (int c = 0; c < N; c++)
			sum[c] = 0;
#pragma unroll 4
		for (int k = 0; k < t.places; k++) {
			pack<T>::load(v, x, (sample * t.places + k) * vectors +
						    vector);
			for (int c = 0; c < N; c++)
				sum[c] += v[c];
		}
		for (int c = 0; c < N; c++)
			if (vector * N + c < (size_t)t.c)
				y[sample * t.c + vector * N + c] =
					sum[c] * part;
	}
}

int kernel_average(kernel_stream s, const struct kernel_transpose *t,
		   const void *x, float *y)
{
	size_t n = (size_t)t->n * (t->channels / kernel_lanes(t->type));

	LAUNCH_TYPED(t->type, pool_average, blocks_for(n), BLOCK, s, *t, n, x,
		     y);
	return LAUNCHED();
}

/* The same gradient for every place; zero in padding channels. */
template <typename T>
static __global__ void pool_average_backward(struct kernel_transpose t,
					     size_t count, const float *dy,
					     const float *dy1, void *dx)
{
	enum { N = pack<T>::N };
	size_t vectors = (size_t)t.channels / N;
	float part = 1.0f / (float)t.places;

	for (size_t i = thread_at(); i < count; i += thread_count()) {
		size_t vector = i % vectors, sample = i / vectors / t.places;
		float v[N];

		for (int c = 0; c < N; c++) {
			size_t at = sample * t.c + vector * N + c;

			v[c] = 0;
			if (vector * N + c < (size_t)t.c)
				v[c] = (dy1 ? dy[at] + dy1[at] : dy[at]) *
				       part;
		}
		pack<T>::store(v, dx, i);
	}
}

int kernel_average_back(kernel_stream s, const struct kernel_transpose *t,
			const float *dy, const float *dy1, void *dx)
{
	size_t n = (size_t)t->n * t->places *
		   (t->channels / kernel_lanes(t->type));

	LAUNCH_TYPED(t->type, pool_average_backward, blocks_for(n), BLOCK, s,
		     *t, n, dy, dy1, dx);
	return LAUNCHED();
}
