/* pool.c: max-pooling, and the average over a whole image, by our own
 * kernels. */
#include "trainers/cuda/cuda.h"

struct pool {
	struct cuda_op op;
	struct kernel_pool k;
	struct kernel_turn turn; /* average */
	void *where;             /* on the device: max_pool */
};

static struct pool *as_pool(struct cuda_op *op)
{
	return (struct pool *)op;
}

static int check(const struct op_site *s, const char *name, struct err *e)
{
	if (s->in->layout != &layout_nhwc)
		return err_set(e, ERR_USAGE, "%s: pooling comes after a "
			       "convolution", name);
	return 0;
}

/* ---- The greatest of a window ---- */

static int make_max(struct cuda_device *d, struct cuda_op *op,
		    const struct op_site *s, struct err *e)
{
	struct pool *p = as_pool(op);
	const struct op_spec *k = &op->base.spec;
	const struct tensor *in = s->in;
	int h = layout_windows(in->h, k->kernel, k->stride, k->pad);
	int w = layout_windows(in->w, k->kernel, k->stride, k->pad);
	int r = check(s, op->name, e);

	if (r < 0)
		return r;
	if (h < 1 || w < 1)
		return err_set(e, ERR_USAGE, "%s: an image of %d x %d is too "
			       "small for a window of %d", op->name, in->h,
			       in->w, k->kernel);
	if (k->kernel > KERNEL_POOL_MAX || k->pad > k->kernel / 2)
		return err_set(e, ERR_USAGE, "%s: windows are at most %d, and "
			       "padding at most half of one", op->name,
			       KERNEL_POOL_MAX);
	layout_tensor(&op->base.out, in->n, in->c, h, w, in->type);
	p->k = (struct kernel_pool){
		.bf16 = in->type == TENSOR_BF16, .n = in->n, .h = in->h,
		.w = in->w, .out_h = h, .out_w = w,
		.channels = layout_channels(in->c, in->type),
		.kernel = k->kernel, .stride = k->stride, .pad = k->pad,
	};
	return cuda_alloc(&d->base, layout_count(&op->base.out), &p->where, e);
}

static void forward_max(struct cuda_device *d, struct cuda_op *op)
{
	const struct op_memory *m = &op->memory;
	struct pool *p = as_pool(op);

	cuda_note(d, kernel_max_pool(d->stream, &p->k, m->in->data,
				     m->out->data, p->where),
		  op->name);
}

static void backward_max(struct cuda_device *d, struct cuda_op *op)
{
	const struct op_memory *m = &op->memory;
	struct pool *p = as_pool(op);

	if (m->dx)
		cuda_note(d, kernel_max_pool_back(
				     d->stream, &p->k, m->dy[0]->data,
				     m->dy[1] ? m->dy[1]->data : NULL,
				     p->where, m->dx->data),
			  op->name);
}

static void release_max(struct cuda_device *d, struct cuda_op *op)
{
	cuda_free(&d->base, as_pool(op)->where);
}

const struct cuda_kind cuda_max_pool = {
	.size = sizeof(struct pool),
	.make = make_max,
	.forward = forward_max,
	.backward = backward_max,
	.release = release_max,
};

/* ---- The average of an image: it comes out as rows of plain f32 ---- */

static int make_average(struct cuda_device *d, struct cuda_op *op,
			const struct op_site *s, struct err *e)
{
	const struct tensor *in = s->in;
	int r = check(s, op->name, e);

	if (r < 0)
		return r;
	layout_rows(&op->base.out, in->n, in->c);
	as_pool(op)->turn = (struct kernel_turn){
		.bf16 = in->type == TENSOR_BF16, .n = in->n, .c = in->c,
		.places = in->h * in->w,
		.channels = layout_channels(in->c, in->type),
	};
	return 0;
}

static void forward_average(struct cuda_device *d, struct cuda_op *op)
{
	const struct op_memory *m = &op->memory;

	cuda_note(d, kernel_average(d->stream, &as_pool(op)->turn,
				    m->in->data, m->out->data),
		  op->name);
}

static void backward_average(struct cuda_device *d, struct cuda_op *op)
{
	const struct op_memory *m = &op->memory;

	if (m->dx)
		cuda_note(d, kernel_average_back(
				     d->stream, &as_pool(op)->turn,
				     m->dy[0]->data,
				     m->dy[1] ? m->dy[1]->data : NULL,
				     m->dx->data),
			  op->name);
}

const struct cuda_kind cuda_average_pool = {
	.size = sizeof(struct pool),
	.make = make_average,
	.forward = forward_average,
	.backward = backward_average,
};
