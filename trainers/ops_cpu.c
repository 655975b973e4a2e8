/* ops_cpu.c: the operations on CPU cores: matrix products by oneDNN, all else
 * in loops that gcc vectorises, compiled once per level of x86-64 and picked at
 * load time. Sums over many values are taken in parts, in a fixed order. */
#include "trainers/ops.h"

#include <math.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "trainers/ops_cpu.h"

static int start(int threads, struct err *e)
{
#ifdef __SSE2__
	/* Adam's moments of a pixel that is hardly ever inked fade into numbers
	 * too small to be normal, which cost some processors a hundred cycles
	 * each. They are taken as zero. */
	_mm_setcsr(_mm_getcsr() | 0x8040);
#endif
	omp_set_num_threads(threads);
	return 0;
}

static void *alloc(size_t bytes)
{
	size_t rounded = (bytes + 63) & ~(size_t)63;
	void *p = aligned_alloc(64, rounded ? rounded : 64);

	if (p)
		memset(p, 0, rounded);
	return p;
}

/* x / 255 rounded as a division rounds it, for the price of two products: hi is
 * 1/255 cut to 16 bits, so x * hi is exact, and only the sum rounds. */
MULTIVERSION
static void scale_pixels(size_t count, const uint8_t *restrict in,
			 float *restrict out)
{
	const float hi = 0x1.01p-8f;
	const float lo = (float)(1.0 / 255.0 - 0x1.01p-8);

	for (size_t i = 0; i < count; i++) {
		float x = (float)in[i];

		out[i] = x * hi + x * lo;
	}
}

static void gather(int n, const struct samples *s, const uint32_t *index,
		   float *out)
{
	const uint8_t *pixels = s->pixels;
	size_t size = s->size;

	for (int i = 0; i < n; i++) {
		/* The next sample lies anywhere in a map that is larger than
		 * the caches: its lines are asked for while this is read. */
		if (i + 1 < n)
			for (size_t k = 0; k < size; k += 64)
				__builtin_prefetch(pixels +
						   index[i + 1] * size + k);
		scale_pixels(size, pixels + index[i] * size,
			     out + (size_t)i * size);
	}
}

/* The comparison is the way round that lets NaN through, as PyTorch's does. */
MULTIVERSION
void ops_cpu_bias_relu(int n, int out, int relu, const float *restrict bias,
		      float *restrict y)
{
	for (int i = 0; i < n; i++, y += out) {
		if (relu)
			for (int j = 0; j < out; j++) {
				float v = y[j] + bias[j];

				y[j] = v < 0.0f ? 0.0f : v;
			}
		else
			for (int j = 0; j < out; j++)
				y[j] += bias[j];
	}
}

/* c[m][n] = a[m][k] b[k][n], where 'T' means that the array has the matrix the
 * other way round. oneDNN measured 5 to 10 % above OpenBLAS 0.3.21 at our
 * shapes. It only fails for arguments that cannot be. */
static void product(char turn_a, char turn_b, int m, int n, int k,
		    const float *a, const float *b, float *c)
{
	dnnl_sgemm(turn_a, turn_b, m, n, k, 1.0f, a, turn_a == 'T' ? m : k, b,
		   turn_b == 'T' ? k : n, 0.0f, c, n);
}

static void linear_forward(const struct linear *l, int n, const float *x,
			   float *y)
{
	product('N', 'N', n, l->out, l->in, x, l->weight, y);
	ops_cpu_bias_relu(n, l->out, l->relu, l->bias, y);
}

MULTIVERSION
void ops_cpu_mask_and_sum(int n, int out, int relu, const float *restrict y,
			  float *restrict dy, float *restrict sum)
{
	memset(sum, 0, (size_t)out * sizeof *sum);
	for (int i = 0; i < n; i++, y += out, dy += out) {
		if (relu)
			for (int j = 0; j < out; j++) {
				float v = y[j] <= 0.0f ? 0.0f : dy[j];

				dy[j] = v;
				sum[j] += v;
			}
		else
			for (int j = 0; j < out; j++)
				sum[j] += dy[j];
	}
}

static void linear_backward(const struct linear *l, int n, const float *x,
			    const float *y, float *dy, float *dx)
{
	ops_cpu_mask_and_sum(n, l->out, l->relu, y, dy, l->bias_grad);
	product('T', 'N', l->in, l->out, n, x, dy, l->weight_grad);
	if (dx)
		product('N', 'T', n, l->in, l->out, dy, l->weight, dx);
}

static void cross_entropy(int n, int classes, const float *x,
			  const uint8_t *label, float *loss, float *dx)
{
	double total = 0;

	for (int i = 0; i < n; i++, x += classes) {
		float max = x[0], sum = 0;

		for (int j = 1; j < classes; j++)
			max = x[j] > max ? x[j] : max;
		for (int j = 0; j < classes; j++) {
			float v = expf(x[j] - max);

			sum += v;
			if (dx)
				dx[j] = v;
		}
		total += (double)logf(sum) - (double)(x[label[i]] - max);
		if (!dx)
			continue;
		float scale = 1.0f / (sum * (float)n);
		for (int j = 0; j < classes; j++)
			dx[j] *= scale;
		dx[label[i]] -= 1.0f / (float)n;
		dx += classes;
	}
	*loss = (float)(total / n);
}

enum { MSE_PART = 1024 };

/* The sum of squares of one part; dy = (y - target) * scale. The lanes make the
 * order of the sum the same at every width of vector. */
MULTIVERSION
static float square_part(size_t count, const float *restrict y,
			 const float *restrict target, float scale,
			 float *restrict dy)
{
	float lane[16] = {0}, sum = 0;
	size_t i = 0;

	for (; i + 16 <= count; i += 16)
		for (int k = 0; k < 16; k++) {
			float d = y[i + k] - target[i + k];

			lane[k] += d * d;
			dy[i + k] = d * scale;
		}
	for (int k = 0; i < count; i++, k++) {
		float d = y[i] - target[i];

		lane[k] += d * d;
		dy[i] = d * scale;
	}
	for (int k = 0; k < 16; k++)
		sum += lane[k];
	return sum;
}

static void mse(size_t count, const float *y, const float *target, float *loss,
		float *dy)
{
	float unwanted[MSE_PART];
	float scale = (float)(2.0 / (double)count);
	double total = 0;

	for (size_t i = 0; i < count; i += MSE_PART) {
		size_t part = count - i < MSE_PART ? count - i : MSE_PART;

		total += (double)square_part(part, y + i, target + i, scale,
					     dy ? dy + i : unwanted);
	}
	*loss = (float)(total / (double)count);
}

static int count_correct(int n, int classes, const float *x,
			 const uint8_t *label)
{
	int correct = 0;

	for (int i = 0; i < n; i++, x += classes) {
		int best = 0;

		for (int j = 1; j < classes; j++)
			if (x[j] > x[best])
				best = j;
		correct += best == label[i];
	}
	return correct;
}

/* rate = lr / (1 - beta1^t); root = 1 / sqrt(1 - beta2^t) */
MULTIVERSION
static void adam_pass(size_t count, float b1, float b2, float rate, float root,
		      float eps, const float *restrict g, float *restrict p,
		      float *restrict m, float *restrict v, float c1, float c2)
{
	for (size_t i = 0; i < count; i++) {
		float mi = m[i] * b1 + g[i] * c1;
		float vi = v[i] * b2 + g[i] * g[i] * c2;

		m[i] = mi;
		v[i] = vi;
		p[i] -= rate * (mi / (sqrtf(vi) * root + eps));
	}
}

static void adam(const struct adam *a, size_t count, const float *grad,
		 float *p, float *m, float *v)
{
	double t = (double)a->step;
	double rate = a->lr / (1 - pow(a->beta1, t));
	double root = 1 / sqrt(1 - pow(a->beta2, t));

	adam_pass(count, (float)a->beta1, (float)a->beta2, (float)rate,
		  (float)root, (float)a->eps, grad, p, m, v,
		  (float)(1 - a->beta1), (float)(1 - a->beta2));
}

const struct ops ops_cpu = {
	.device = "cpu",
	.start = start,
	.alloc = alloc,
	.free = free,
	.gather = gather,
	.linear_forward = linear_forward,
	.linear_backward = linear_backward,
	.sparse_room = ops_cpu_sparse_room,
	.sparse_forward = ops_cpu_sparse_forward,
	.sparse_backward = ops_cpu_sparse_backward,
	.cross_entropy = cross_entropy,
	.mse = mse,
	.count_correct = count_correct,
	.adam = adam,
};
