/* pool.c: max-pooling, and the average over a whole image, by our own
 * kernels. */
#include "trainers/cuda/cuda.h"

struct pool {
	struct cuda_op op;
	struct kernel_pool k;
	struct kernel_transpose turn; /* average */
	void *where;             /* on the device: max_pool */
};

static struct pool *pool_of(struct cuda_op *op)
{
	return (struct pool *)op;
}

static int pool_check(const struct op_site *s, const char *name, struct err *e)
{
	if (s->in->layout != &layout_nhwc)
		return err_set(e, ERR_USAGE,
			       "%s: pooling must follow a convolution", name);
	return 0;
}

/* ---- The maximum of a window ---- */

static int max_pool_make(struct cuda_device *d, struct cuda_op *op,
			 const struct op_site *s, struct err *e)
{
	struct pool *p = pool_of(op);
	const struct op_spec *k = &op->base.spec;
	const struct tensor *in = s->in;
	int h = layout_windows(in->h, k->kernel, k->stride, k->pad);
	int w = layout_windows(in->w, k->kernel, k->stride, k->pad);
	int r = pool_check(s, op->name, e);

	if (r < 0)
		return r;
	if (h < 1 || w < 1)
		return err_set(e, ERR_USAGE, "%s: an image of %d x %d is too "
			       "small for a window of %d", op->name, in->h,
			       in->w, k->kernel);
	if (k->kernel > KERNEL_POOL_MAX || k->pad > k->kernel / 2)
		return err_set(e, ERR_USAGE,
			       "%s: a window has at most %d, and padding at "
			       "most half of it",
			       op->name, KERNEL_POOL_MAX);
	layout_tensor(&op->base.out, in->n, in->c, h, w, in->type);
	p->k = (struct kernel_pool){
		.type = cuda_kernel_type(in->type), .n = in->n, .h = in->h,
		.w = in->w, .out_h = h, .out_w = w,
		.channels = layout_channels(in->c, in->type),
		.kernel = k->kernel, .stride = k->stride, .pad = k->pad,
	};
	return cuda_alloc(&d->base, layout_count(&op->base.out), &p->where, e);
}

static void max_pool_forward(struct cuda_device *d, struct cuda_op *op)
{
	const struct op_memory *m = &op->memory;
	struct pool *p = pool_of(op);

	cuda_note(d, kernel_max_pool(d->stream, &p->k, m->in->data,
				     m->out->data, p->where),
		  op->name);
}

static void max_pool_backward(struct cuda_device *d, struct cuda_op *op)
{
	const struct op_memory *m = &op->memory;
	struct pool *p = pool_of(op);

	if (m->dx)
		cuda_note(d, kernel_max_pool_back(
				     d->stream, &p->k, m->dy[0]->data,
				     m->dy[1] ? m->dy[1]->data : NULL,
				     p->where, m->dx->data),
			  op->name);
}

static void max_pool_release(struct cuda_device *d, struct cuda_op *op)
{
	cuda_free(&d->base, pool_of(op)->where);
}

const struct cuda_kind cuda_max_pool = {
	.size = sizeof(struct pool),
	.make = max_pool_make,
	.forward = max_pool_forward,
	.backward = max_pool_backward,
	.release = max_pool_release,
};

/* ---- The average of an image: the output is rows of plain f32 ---- */

static int average_pool_make(struct cuda_device *d, struct cuda_op *op,
			     const struct op_site *s, struct err *e)
{
	const struct tensor *in = s->in;
	int r = pool_check(s, op->name, e);

	if (r < 0)
		return r;
	layout_rows(&op->base.out, in->n, in->c);
	pool_of(op)->turn = (struct kernel_transpose){
		.type = cuda_kernel_type(in->type), .n = in->n, .c = in->c,
		.places = in->h * in->w,
		.channels = layout_channels(in->c, in->type),
	};
	return 0;
}

static void average_pool_forward(struct cuda_device *d, struct cuda_op *op)
{
	const struct op_memory *m = &op->memory;

	cuda_note(d, kernel_average(d->stream, &pool_of(op)->turn,
				    m->in->data, m->out->data),
		  op->name);
}

static void average_pool_backward(struct cuda_device *d, struct cuda_op *op)
{
	const struct op_memory *m = &op->memory;

	if (m->dx)
		cuda_note(d, kernel_average_back(
				     d->stream, &pool_of(op)->turn,
				     m->dy[0]->data,
				     m->dy[1] ? m->dy[1]->data : NULL,
				     m->dx->data),
			  op->name);
}

const struct cuda_kind cuda_average_pool = {
	.size = sizeof(struct pool),
	.make = average_pool_make,
	.forward = average_pool_forward,
	.backward = average_pool_backward,
};
