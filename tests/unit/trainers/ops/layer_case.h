/* layer_case.h: runs one layer through a table of operations, with its values
 * in PyTorch's layout in host memory, and computes the same in double. */
#ifndef TESTS_LAYER_CASE_H
#define TESTS_LAYER_CASE_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/ops/ops.h"

static const struct ops *const ops = &ops_cpu;
static struct device *device;
static struct device *narrow; /* the bf16 device; NULL: this processor has
			       * none */
static struct device *half; /* rounds to fp16 */
static uint32_t chance = 1;

/* -1..1 */
static float draw(void)
{
	chance = chance * 1664525u + 1013904223u;
	return (float)(chance >> 8) * 0x1p-23f - 1.0f;
}

static float *draw_array(size_t n)
{
	float *p = calloc(n, sizeof(*p));

	ck_assert_ptr_nonnull(p);
	for (size_t i = 0; i < n; i++)
		p[i] = draw();
	return p;
}

/* ---- A case ---- */

struct shape {
	struct op_spec spec;
	int n, c, h, w;
	int add;   /* batch_norm adds a second input */
	int sides; /* number of incoming gradients: 1 or 2 */
	int plain; /* the input is the model's input, not an activation */
	double near;
};

/* The relative tolerance: bf16 rounds values and weights by up to 2^-9, fp16 by
 * up to 2^-12. */
static double near(const struct shape *s)
{
	if (device == half)
		return s->near > 2e-3 ? s->near : 2e-3;
	return device == narrow ? 1.5e-2 : s->near;
}

/* All arrays are in PyTorch's layout, in host memory. */
struct layer_case {
	const struct shape *s;
	struct op *maker, *op; /* maker: an operation whose output has the
				* input's layout */
	struct tensor in, add, out, dy[2], dx, d_add;
	size_t ins, outs, params[2];
	float *x, *a, *y;       /* in, add, out */
	float *c[2];            /* the loss is sum((c[0] + c[1]) * y) */
	float *p[2], *gp[2], *gx, *ga;
	float *arena[2], *grad[2], *buffer[2]; /* the device's */
};

static size_t values_of(const struct tensor *t)
{
	return (size_t)t->n * (size_t)t->c * (size_t)t->h * (size_t)t->w;
}

static void give_memory(struct tensor *t)
{
	ck_assert_int_eq(ops->alloc(device, t->bytes, &t->data, NULL), 0);
}

static float *device_floats(size_t n)
{
	void *p;

	ck_assert_int_eq(ops->alloc(device, n * sizeof(float), &p, NULL), 0);
	return p;
}

/* Makes a tensor like the layer's input: the model's own, or a
 * convolution's. */
static void make_input(struct layer_case *k)
{
	const struct shape *s = k->s;
	struct tensor image = {.n = s->n, .c = s->plain ? s->c : 3, .h = s->h,
			       .w = s->w, .plain = 1};
	struct op_site site = {
		.spec = {.kind = OP_CONV, .out = s->c, .kernel = 1,
			 .stride = 1},
		.name = "maker", .in = &image, .training = 1, .first = 1,
	};

	image.bytes = values_of(&image) * sizeof(float);
	k->in = image;
	if (s->plain)
		return;
	ck_assert_int_eq(ops->op_new(device, &site, &k->maker, NULL), 0);
	k->in = k->maker->out;
}

static void make_params(struct layer_case *k)
{
	for (int i = 0; i < k->op->param_count; i++) {
		const struct op_param *p = &k->op->param[i];

		k->params[i] = p->count;
		k->p[i] = draw_array(p->count);
		k->gp[i] = draw_array(p->count);
		k->arena[i] = device_floats(p->size);
		k->grad[i] = device_floats(p->size);
		ops->param_put(device, k->op, i, k->arena[i], k->p[i]);
	}
	for (int i = 0; i < k->op->buffer_count; i++)
		k->buffer[i] = device_floats(k->op->buffer[i].size);
}

static void bind(struct layer_case *k)
{
	struct op_memory m = {.in = &k->in, .out = &k->out, .dx = &k->dx};
	struct tensor *all[] = {&k->in, &k->add, &k->out, &k->dy[0],
				&k->dy[1], &k->dx, &k->d_add};

	k->add = k->dx = k->d_add = k->in;
	k->out = k->dy[0] = k->dy[1] = k->op->out;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		give_memory(all[i]);
	if (k->s->add) {
		m.add = &k->add;
		m.d_add = &k->d_add;
	}
	for (int i = 0; i < 2; i++) {
		m.param[i] = k->arena[i];
		m.grad[i] = k->grad[i];
		m.buffer[i] = k->buffer[i];
		m.dy[i] = i < k->s->sides ? &k->dy[i] : NULL;
	}
	ck_assert_int_eq(ops->op_bind(device, k->op, &m, NULL), 0);
}

static void case_init(struct layer_case *k, const struct shape *s)
{
	struct op_site site = {.spec = s->spec, .name = "layer",
			       .training = 1};

	memset(k, 0, sizeof(*k));
	k->s = s;
	make_input(k);
	site.in = &k->in;
	site.add = s->add ? &k->in : NULL;
	ck_assert_int_eq(ops->op_new(device, &site, &k->op, NULL), 0);
	make_params(k);
	bind(k);
	k->ins = values_of(&k->in);
	k->outs = values_of(&k->out);
	k->x = draw_array(k->ins);
	k->a = draw_array(k->ins);
	k->y = draw_array(k->outs);
	k->c[0] = draw_array(k->outs);
	k->c[1] = draw_array(k->outs);
	k->gx = draw_array(k->ins);
	k->ga = draw_array(k->ins);
	if (s->sides < 2)
		memset(k->c[1], 0, k->outs * sizeof(float));
}

/* Puts values into the tensor, and replaces them by their rounded form. */
static void put(const struct tensor *t, float *values)
{
	ops->tensor_put(device, t, values);
	ops->tensor_get(device, t, values);
}

static void run(struct layer_case *k)
{
	put(&k->in, k->x);
	put(&k->add, k->a);
	ops->op_forward(device, k->op, NULL);
	ops->tensor_get(device, &k->out, k->y);
	put(&k->dy[0], k->c[0]);
	put(&k->dy[1], k->c[1]);
	ops->op_backward(device, k->op, NULL);
	ops->tensor_get(device, &k->dx, k->gx);
	ops->tensor_get(device, &k->d_add, k->ga);
	for (int i = 0; i < k->op->param_count; i++)
		ops->param_get(device, k->op, i, k->grad[i], k->gp[i]);
	ck_assert_int_eq(ops->wait(device, NULL), 0);
}

static void case_release(struct layer_case *k)
{
	struct tensor *tensors[] = {&k->in, &k->add, &k->out, &k->dy[0],
				    &k->dy[1], &k->dx, &k->d_add};
	float *all[] = {k->x, k->a, k->y, k->c[0], k->c[1], k->p[0], k->p[1],
			k->gp[0], k->gp[1], k->gx, k->ga};
	float *floats[] = {k->arena[0], k->arena[1], k->grad[0], k->grad[1],
			   k->buffer[0], k->buffer[1]};

	ops->op_free(device, k->op);
	ops->op_free(device, k->maker);
	for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); i++)
		ops->free(device, tensors[i]->data);
	for (size_t i = 0; i < sizeof(floats) / sizeof(*floats); i++)
		ops->free(device, floats[i]);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		free(all[i]);
}

/* ---- The same in double ---- */

/* A single value that is read with an amount added to it. */
static const float *moved;
static double moved_by;

static double at(const float *p, size_t i)
{
	return (double)p[i] + (p + i == moved ? moved_by : 0);
}

static double relu(const struct layer_case *k, double v)
{
	return k->s->spec.relu && v < 0 ? 0 : v;
}

static size_t place(const struct tensor *t, int n, int c, int h, int w)
{
	return (((size_t)n * (size_t)t->c + (size_t)c) * (size_t)t->h +
		(size_t)h) * (size_t)t->w + (size_t)w;
}

static double linear(const struct layer_case *k, int n, int j)
{
	size_t in = k->ins / (size_t)k->in.n;
	double sum = at(k->p[1], (size_t)j);

	for (size_t i = 0; i < in; i++)
		sum += at(k->x, (size_t)n * in + i) *
		       at(k->p[0], (size_t)j * in + i);
	return relu(k, sum);
}

/* A window of the input: conv's sum, or the maximum. */
static double window(const struct layer_case *k, int n, int c, int h, int w)
{
	const struct op_spec *s = &k->s->spec;
	int conv = s->kind == OP_CONV, from = conv ? 0 : c;
	int to = conv ? k->in.c : c + 1;
	double sum = 0, most = -INFINITY;

	for (int i = from; i < to; i++)
		for (int a = 0; a < s->kernel; a++)
			for (int b = 0; b < s->kernel; b++) {
				int y = h * s->stride + a - s->pad;
				int x = w * s->stride + b - s->pad;
				double v;

				if (y < 0 || x < 0 || y >= k->in.h ||
				    x >= k->in.w)
					continue;
				v = at(k->x, place(&k->in, n, i, y, x));
				most = v > most ? v : most;
				if (conv)
					sum += v * at(k->p[0],
						      (size_t)(((c * k->in.c +
								 i) *
							 s->kernel + a) *
							s->kernel + b));
			}
	return conv ? sum : most;
}

static double average(const struct layer_case *k, int n, int c)
{
	double sum = 0;

	for (int h = 0; h < k->in.h; h++)
		for (int w = 0; w < k->in.w; w++)
			sum += at(k->x, place(&k->in, n, c, h, w));
	return sum / (k->in.h * k->in.w);
}

/* Mean and variance of a channel over the batch. */
static void statistics(const struct layer_case *k, int c, double *mean,
		       double *var)
{
	int places = k->in.h * k->in.w;
	double sum = 0, square = 0, count = (double)k->in.n * places;

	for (int n = 0; n < k->in.n; n++)
		for (int i = 0; i < places; i++)
			sum += at(k->x, place(&k->in, n, c, 0, 0) + (size_t)i);
	for (int n = 0; n < k->in.n; n++)
		for (int i = 0; i < places; i++) {
			double far = at(k->x, place(&k->in, n, c, 0, 0) +
						      (size_t)i) -
				     sum / count;

			square += far * far;
		}
	*mean = sum / count;
	*var = square / count;
}

static void outputs(const struct layer_case *k, double *y)
{
	double mean = 0, var = 1;

	for (int c = 0; c < k->out.c; c++) {
		if (k->s->spec.kind == OP_BATCH_NORM)
			statistics(k, c, &mean, &var);
		for (int n = 0; n < k->out.n; n++)
			for (int h = 0; h < k->out.h; h++)
				for (int w = 0; w < k->out.w; w++) {
					size_t i = place(&k->out, n, c, h, w);
					size_t q = (size_t)c;
					double v;

					switch (k->s->spec.kind) {
					case OP_LINEAR:
						y[i] = linear(k, n, c);
						break;
					case OP_AVERAGE_POOL:
						y[i] = average(k, n, c);
						break;
					case OP_BATCH_NORM:
						v = (at(k->x, i) - mean) /
							    sqrt(var + 1e-5) *
							    at(k->p[0], q) +
						    at(k->p[1], q);
						if (k->s->add)
							v += at(k->a, i);
						y[i] = relu(k, v);
						break;
					default:
						y[i] = window(k, n, c, h, w);
					}
				}
	}
}

#endif
