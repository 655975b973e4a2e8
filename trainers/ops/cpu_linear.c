/* cpu_linear.c: y = x weight + bias, then ReLU if set. Always in f32: the
 * products are small. oneDNN computes the matrix products. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/ops/cpu.h"

struct linear {
	struct cpu_op op;
	struct cpu_dense dense; /* the arenas store weight as [in][out] */
	void *room;             /* for lists; NULL: lists are not used */
	const struct samples *lists; /* lists of the last batch that went
				      * forward */
	const uint32_t *index;
};

static struct linear *linear_of(const struct cpu_op *op)
{
	return (struct linear *)op;
}

/* This form of the comparison lets NaN through, as PyTorch's does. */
MULTIVERSION
void cpu_bias_relu(int n, int out, int relu, const float *restrict bias,
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

MULTIVERSION
void cpu_mask_and_sum(int n, int out, int relu, const float *restrict y,
		      float *restrict dy, float *restrict sum)
{
	memset(sum, 0, (size_t)out * sizeof(*sum));
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

/* c[m][n] = a[m][k] b[k][n], where 'T' means that the array holds the
 * transposed matrix. At our shapes oneDNN was 5 to 10 % faster than OpenBLAS
 * 0.3.21. It fails only for invalid arguments. */
static void linear_product(char turn_a, char turn_b, int m, int n, int k,
			   const float *a, const float *b, float *c)
{
	dnnl_sgemm(turn_a, turn_b, m, n, k, 1.0f, a, turn_a == 'T' ? m : k, b,
		   turn_b == 'T' ? k : n, 0.0f, c, n);
}

static int linear_make(struct cpu_device *d, struct cpu_op *op,
		       const struct op_site *s, struct err *e)
{
	struct linear *l = linear_of(op);
	const struct tensor *in = s->in;
	int width = in->c * in->h * in->w, out = op->base.spec.out;
	struct op *base = &op->base;

	if (!in->plain || in->type != TENSOR_F32)
		return err_set(e, ERR_USAGE,
			       "layer %s: a linear layer must follow the "
			       "input, an average or a linear layer",
			       s->name);
	l->dense.in = width;
	l->dense.out = out;
	l->dense.relu = base->spec.relu;
	base->out = (struct tensor){
		.n = in->n, .c = out, .h = 1, .w = 1, .plain = 1,
		.bytes = (size_t)in->n * (size_t)out * sizeof(float),
	};
	base->param_count = 2;
	base->param[0] = (struct op_param){
		"weight", {out, width, 1, 1}, (size_t)out * (size_t)width,
		(size_t)out * (size_t)width};
	base->param[1] = (struct op_param){"bias", {out, 1, 1, 1}, (size_t)out,
					   (size_t)out};
	base->takes_lists = s->first && in->n <= SPARSE_SAMPLES_MAX &&
			    out >= SPARSE_OUTPUTS_MIN && width < 65536;
	return 0;
}

static int linear_bind(struct cpu_device *d, struct cpu_op *op, struct err *e)
{
	struct linear *l = linear_of(op);
	const struct op_memory *m = &op->memory;
	size_t bytes;

	l->dense.weight = m->param[0];
	l->dense.bias = m->param[1];
	l->dense.weight_grad = m->grad[0];
	l->dense.bias_grad = m->grad[1];
	if (!op->base.takes_lists)
		return 0;
	bytes = cpu_sparse_room(m->in->n, (size_t)l->dense.in);
	l->room = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	if (!l->room)
		return err_set(e, -ENOMEM,
			       "layer %s: out of memory for %zu bytes; use a "
			       "smaller --batch-size",
			       op->name, bytes);
	memset(l->room, 0, bytes);
	return 0;
}

static void linear_forward(struct cpu_device *d, struct cpu_op *op,
			   const struct loader *f)
{
	struct linear *l = linear_of(op);
	const struct op_memory *m = &op->memory;
	const struct cpu_dense *k = &l->dense;
	int n = m->in->n;

	l->lists = l->room && f ? f->lists : NULL;
	if (l->lists) {
		l->index = f->index;
		cpu_sparse_forward(k, n, l->lists, l->index, l->room,
				   m->out->data);
		return;
	}
	linear_product('N', 'N', n, k->out, k->in, m->in->data, k->weight,
		       m->out->data);
	cpu_bias_relu(n, k->out, k->relu, k->bias, m->out->data);
}

static void linear_backward(struct cpu_device *d, struct cpu_op *op,
			    const struct loader *f)
{
	struct linear *l = linear_of(op);
	const struct op_memory *m = &op->memory;
	const struct cpu_dense *k = &l->dense;
	float *dy = m->dy[0]->data;
	int n = m->in->n;

	if (m->dy[1])
		cpu_tensor_add(m->dy[0], m->dy[1]);
	if (l->lists) {
		cpu_sparse_backward(k, n, l->lists, l->index, l->room,
				    m->out->data, dy);
		return;
	}
	cpu_mask_and_sum(n, k->out, k->relu, m->out->data, dy, k->bias_grad);
	linear_product('T', 'N', k->in, k->out, n, m->in->data, dy,
		       k->weight_grad);
	if (m->dx)
		linear_product('N', 'T', n, k->in, k->out, dy, k->weight,
			       m->dx->data);
}

static void linear_release(struct cpu_op *op)
{
	free(linear_of(op)->room);
}

/* to[j][i] = from[i][j] */
static void linear_transpose(size_t rows, size_t columns, const float *from,
			     float *to)
{
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < columns; j++)
			to[j * rows + i] = from[i * columns + j];
}

static void linear_param_put(struct cpu_device *d, const struct cpu_op *op,
			     int i, float *arena, const float *values)
{
	const struct cpu_dense *k = &linear_of(op)->dense;

	if (i == 0)
		linear_transpose((size_t)k->out, (size_t)k->in, values, arena);
	else
		memcpy(arena, values, (size_t)k->out * sizeof(*values));
}

static void linear_param_get(struct cpu_device *d, const struct cpu_op *op,
			     int i, const float *arena, float *values)
{
	const struct cpu_dense *k = &linear_of(op)->dense;

	if (i == 0)
		linear_transpose((size_t)k->in, (size_t)k->out, arena, values);
	else
		memcpy(values, arena, (size_t)k->out * sizeof(*values));
}

const struct cpu_kind cpu_linear = {
	.size = sizeof(struct linear),
	.make = linear_make,
	.bind = linear_bind,
	.forward = linear_forward,
	.backward = linear_backward,
	.release = linear_release,
	.put = linear_param_put,
	.get = linear_param_get,
};
