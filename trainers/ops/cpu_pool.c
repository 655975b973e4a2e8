/* cpu_pool.c: max-pooling by oneDNN, and the average over a whole image. */
#include <stdlib.h>

#include "trainers/ops/cpu_vector.h"

/* ---- The maximum of a window ---- */

struct max_pool {
	struct cpu_op op;
	struct cpu_call forward, backward;
	void *where; /* the places of the maxima, in oneDNN's own form */
};

static struct max_pool *max_pool_of(const struct cpu_op *op)
{
	return (struct max_pool *)op;
}

static int max_pool_make(struct cpu_device *d, struct cpu_op *op,
			 const struct op_site *s, struct err *e)
{
	struct max_pool *p = max_pool_of(op);
	const struct op_spec *k = &op->base.spec;
	const struct tensor *in = s->in;
	int h = (in->h + 2 * k->pad - k->kernel) / k->stride + 1;
	int w = (in->w + 2 * k->pad - k->kernel) / k->stride + 1;
	struct cpu_window window = {
		.in = op->in, .kernel = {k->kernel, k->kernel},
		.strides = {k->stride, k->stride}, .padding = {k->pad, k->pad},
	};
	int r;

	/* C divides towards zero: a window that is too large also gives h =
	 * 1 */
	if (h < 1 || w < 1 || in->h + 2 * k->pad < k->kernel ||
	    in->w + 2 * k->pad < k->kernel)
		return err_set(e, ERR_USAGE, "layer %s: an image of %d x %d is "
			       "too small for a window of %d", s->name, in->h,
			       in->w, k->kernel);
	r = cpu_tensor(d, &op->base.out, in->n, in->c, h, w, &op->out, s->name,
		       e);
	window.out = op->out;
	if (r == 0)
		r = cpu_pooling_new(d, &p->forward, CPU_FORWARD, s->training,
				    &window, NULL, s->name, e);
	if (r == 0 && s->training)
		r = cpu_pooling_new(d, &p->backward, CPU_BACKWARD_DATA, 1,
				    &window, &p->forward, s->name, e);
	return r;
}

static int max_pool_bind(struct cpu_device *d, struct cpu_op *op, struct err *e)
{
	struct max_pool *p = max_pool_of(op);
	const struct op_memory *m = &op->memory;
	cpu_md md;
	size_t bytes;
	int r = cpu_call_arg(d, &p->forward, DNNL_ARG_SRC, op->in, m->in->data,
			     op->name, e);

	if (r == 0)
		r = cpu_call_arg(d, &p->forward, DNNL_ARG_DST, op->out,
				 m->out->data, op->name, e);
	if (r < 0 || !op->training)
		return r;
	md = cpu_call_desc(&p->forward, dnnl_query_workspace_md);
	bytes = dnnl_memory_desc_get_size(md);
	p->where = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	if (!p->where)
		return err_no_memory(e, "layer %s: %zu bytes", op->name, bytes);
	r = cpu_call_arg(d, &p->forward, DNNL_ARG_WORKSPACE, md, p->where,
			 op->name, e);
	if (r == 0)
		r = cpu_call_arg(d, &p->backward, DNNL_ARG_WORKSPACE, md,
				 p->where, op->name, e);
	if (r == 0)
		r = cpu_call_arg(d, &p->backward, DNNL_ARG_DIFF_DST, op->out,
				 m->dy[0]->data, op->name, e);
	if (r == 0 && m->dx)
		r = cpu_call_arg(d, &p->backward, DNNL_ARG_DIFF_SRC, op->in,
				 m->dx->data, op->name, e);
	return r;
}

static void max_pool_forward(struct cpu_device *d, struct cpu_op *op,
			     const struct loader *f)
{
	cpu_call_run(d, &max_pool_of(op)->forward);
}

static void max_pool_backward(struct cpu_device *d, struct cpu_op *op,
			      const struct loader *f)
{
	if (!op->memory.dx)
		return;
	if (op->memory.dy[1])
		cpu_tensor_add(op->memory.dy[0], op->memory.dy[1]);
	cpu_call_run(d, &max_pool_of(op)->backward);
}

static void max_pool_release(struct cpu_op *op)
{
	struct max_pool *p = max_pool_of(op);

	cpu_call_release(&p->forward);
	cpu_call_release(&p->backward);
	free(p->where);
}

const struct cpu_kind cpu_max_pool = {
	.size = sizeof(struct max_pool),
	.make = max_pool_make,
	.bind = max_pool_bind,
	.forward = max_pool_forward,
	.backward = max_pool_backward,
	.release = max_pool_release,
};

/* ---- The average of an image: the output is rows of plain f32 ---- */

static int average_pool_make(struct cpu_device *d, struct cpu_op *op,
			     const struct op_site *s, struct err *e)
{
	const struct tensor *in = s->in;

	op->base.out = (struct tensor){
		.n = in->n, .c = in->c, .h = 1, .w = 1, .plain = 1,
		.bytes = (size_t)in->n * (size_t)in->c * sizeof(float),
	};
	return 0;
}

/* Where the values of sample i's channel c are: the first one, and the distance
 * between two. */
struct run_of {
	size_t at, stride;
};

static struct run_of average_pool_find_run(const struct cpu_md_parts *p,
					   size_t i, size_t c)
{
	size_t block = (size_t)p->block;

	return (struct run_of){
		i * (size_t)p->strides[0] + c / block * (size_t)p->strides[1] +
			c % block,
		(size_t)p->strides[3],
	};
}

MULTIVERSION
static void average_pool_run(const struct cpu_md_parts *p, size_t i, int bf16,
			     const void *x, float *y)
{
	size_t c = (size_t)p->dims[1];
	size_t places = (size_t)(p->dims[2] * p->dims[3]), k = 0;
	float part = 1.0f / (float)places;

	for (; k + LANES <= c; k += LANES) {
		struct run_of run = average_pool_find_run(p, i, k);
		v16 sum = {0}, v;

		for (size_t j = 0; j < places; j++) {
			load16(&v, x, run.at + j * run.stride, bf16);
			sum += v;
		}
		sum *= part;
		store16(&sum, y, k, 0);
	}
	for (; k < c; k++) {
		struct run_of run = average_pool_find_run(p, i, k);
		float sum = 0;

		for (size_t j = 0; j < places; j++)
			sum += load1(x, run.at + j * run.stride, bf16);
		y[k] = sum * part;
	}
}

/* dx = dy / places, for every place. */
MULTIVERSION
static void average_pool_spread(const struct cpu_md_parts *p, size_t i,
				int bf16, const float *dy, void *dx)
{
	size_t c = (size_t)p->dims[1];
	size_t places = (size_t)(p->dims[2] * p->dims[3]), k = 0;
	float part = 1.0f / (float)places;

	for (; k < c; k += LANES) {
		size_t lanes = c - k < LANES ? c - k : LANES;
		struct run_of run = average_pool_find_run(p, i, k);
		v16 v = {0};

		for (size_t l = 0; l < lanes; l++)
			v[l] = dy[k + l] * part;
		for (size_t j = 0; j < places; j++) {
			size_t at = run.at + j * run.stride;

			if (lanes == LANES) {
				store16(&v, dx, at, bf16);
				continue;
			}
			for (size_t l = 0; l < lanes; l++) {
				if (bf16)
					((uint16_t *)dx)[at + l] = (uint16_t)(
						((u16x32)v)[l] >> 16);
				else
					((float *)dx)[at + l] = v[l];
			}
		}
	}
}

static void average_pool_forward(struct cpu_device *d, struct cpu_op *op,
				 const struct loader *f)
{
	const struct op_memory *m = &op->memory;
	size_t n = (size_t)m->in->n, c = (size_t)m->in->c;
	struct cpu_md_parts p;
	float *y = m->out->data;

	cpu_md_parts(op->in, &p);
#pragma omp parallel for schedule(static)
	for (size_t i = 0; i < n; i++)
		average_pool_run(&p, i, m->in->type == TENSOR_BF16, m->in->data,
				 y + i * c);
}

static void average_pool_backward(struct cpu_device *d, struct cpu_op *op,
				  const struct loader *f)
{
	const struct op_memory *m = &op->memory;
	size_t n = (size_t)m->in->n, c = (size_t)m->in->c;
	const float *dy = m->dy[0]->data;
	struct cpu_md_parts p;

	if (!m->dx)
		return;
	if (m->dy[1])
		cpu_tensor_add(m->dy[0], m->dy[1]);
	cpu_md_parts(op->in, &p);
#pragma omp parallel for schedule(static)
	for (size_t i = 0; i < n; i++)
		average_pool_spread(&p, i, m->in->type == TENSOR_BF16,
				    dy + i * c, m->dx->data);
}

const struct cpu_kind cpu_average_pool = {
	.size = sizeof(struct cpu_op),
	.make = average_pool_make,
	.forward = average_pool_forward,
	.backward = average_pool_backward,
};
