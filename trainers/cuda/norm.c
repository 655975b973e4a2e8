/* norm.c: batch normalisation by our own kernels, or what the convolutions
 * around it leave of it (struct cuda_join). If ranks synchronise, the
 * device's sync_sum adds over all of them: first the mean, then the squares
 * around it, so that no precision is lost in a difference of large numbers. */
#include "trainers/cuda/cuda.h"

struct norm {
	struct cuda_op op;
	struct kernel_norm k;
	struct cuda_join join;
	void *own, *shared; /* on the device: the arrays of k, and of join */
};

static struct norm *norm_of(struct cuda_op *op)
{
	return (struct norm *)op;
}

static int norm_check(const struct op_site *s, const char *name, struct err *e)
{
	const struct tensor *in = s->in, *add = s->add;

	if (in->layout != &layout_nhwc ||
	    (add && (add->layout != &layout_nhwc || add->type != in->type ||
		     add->n != in->n || add->c != in->c || add->h != in->h ||
		     add->w != in->w)))
		return err_set(e, ERR_USAGE,
			       "%s: the tensor that it adds has another shape, "
			       "or does not come from a convolution",
			       name);
	return 0;
}

/* Arrays of one value per channel, each aligned like the whole. */
static int norm_make_room(struct cuda_device *d, struct norm *b, struct err *e)
{
	struct kernel_norm *k = &b->k;
	float **arrays[] = {&k->mean, &k->var, &k->inv, &k->mul,
			    &k->add, &k->by_x, &k->shift};
	size_t c = k->channels, n = sizeof(arrays) / sizeof(*arrays);
	int r = cuda_alloc(&d->base, (n * c + KERNEL_NORM_COUNT + 2 * c) *
				     sizeof(float), &b->own, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		*arrays[i] = (float *)b->own + i * c;
	k->count = (float *)b->own + n * c;
	return 0;
}

/* Joins it with the convolution before, and lets one after join it. */
static int norm_make_join(struct cuda_device *d, struct norm *b,
			  const struct op_site *s, struct err *e)
{
	struct cuda_join *j = &b->join;
	float **arrays[] = {&j->sum, &j->squares, &j->d_weight, &j->d_bias,
			    &j->unused[0], &j->unused[1], &j->unused[2]};
	size_t c = b->k.channels, n = sizeof(arrays) / sizeof(*arrays);
	int r;

	if (!d->fuse || !s->training)
		return 0;
	/* the last array's memory is for scale and bias, of half the size */
	r = cuda_alloc(&d->base, (n + 1) * c * sizeof(float), &b->shared, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		*arrays[i] = (float *)b->shared + i * c;
	j->scale = (uint16_t *)((float *)b->shared + n * c);
	j->bias = j->scale + c;
	b->k.mul_value = j->scale;
	b->k.add_value = j->bias;
	j->mean = b->k.mean;
	j->inv = b->k.inv;
	if (s->source && s->source->spec.kind == OP_CONV)
		cuda_op_of(s->source)->after = j;
	if (!s->add && s->spec.relu && s->reader &&
	    s->reader->kind == OP_CONV)
		b->op.join = j;
	return 0;
}

static int norm_make(struct cuda_device *d, struct cuda_op *op,
		     const struct op_site *s, struct err *e)
{
	struct norm *b = norm_of(op);
	const struct tensor *in = s->in;
	struct op *base = &op->base;
	int r = norm_check(s, op->name, e);
	size_t c;

	if (r < 0)
		return r;
	layout_tensor(&base->out, in->n, in->c, in->h, in->w, in->type);
	c = (size_t)layout_channels(in->c, in->type);
	base->param_count = base->buffer_count = 2;
	for (int i = 0; i < 2; i++) {
		base->param[i] = (struct op_param){
			i ? "bias" : "weight", {in->c, 1, 1, 1},
			(size_t)in->c, c};
		base->buffer[i] = (struct op_param){
			i ? "running_var" : "running_mean", {in->c, 1, 1, 1},
			(size_t)in->c, c};
	}
	b->k = (struct kernel_norm){
		.type = cuda_kernel_type(in->type), .relu = base->spec.relu,
		.training = s->training,
		.rows = (size_t)in->n * (size_t)in->h * (size_t)in->w,
		.channels = c,
		.sync = s->training && d->base.sync_sum,
	};
	r = norm_make_room(d, b, e);
	if (r == 0)
		r = norm_make_join(d, b, s, e);
	if (r == 0)
		r = cuda_room(d, kernel_norm_room(c), e);
	return r;
}

/* If two gradients meet, or the added input needs its gradient, the gradient
 * behind the ReLU is stored, and read again from there. */
static int norm_bind(struct cuda_device *d, struct cuda_op *op, struct err *e)
{
	const struct op_memory *m = &op->memory;
	struct kernel_norm *k = &norm_of(op)->k;

	k->x = m->in->data;
	k->other = m->add ? m->add->data : NULL;
	k->y = m->out->data;
	k->weight = m->param[0];
	k->bias = m->param[1];
	k->running_mean = m->buffer[0];
	k->running_var = m->buffer[1];
	norm_of(op)->join.x = k->x;
	norm_of(op)->join.norm_weight = k->weight;
	norm_of(op)->join.norm_bias = k->bias;
	if (!op->training)
		return 0;
	k->grad_weight = m->grad[0];
	k->grad_bias = m->grad[1];
	k->dy = m->dy[0]->data;
	k->dy1 = m->dy[1] ? m->dy[1]->data : NULL;
	k->dx = m->dx ? m->dx->data : NULL;
	k->dz = m->d_add ? m->d_add->data :
		m->dy[1] || m->add ? m->dy[0]->data : NULL;
	return 0;
}

static void norm_sync_sum(struct cuda_device *d, float *values, size_t n)
{
	int r = d->base.sync_sum(d->base.sync_arg, values, n);

	if (r < 0 && !d->base.error)
		d->base.error = r;
}

static void norm_statistics(struct cuda_device *d, const struct kernel_norm *k,
			    const struct cuda_join *j, const char *name)
{
	cuda_note(d, j->has_sums ? kernel_norm_moments_of(d->stream, k, j->sum,
							  j->squares)
				 : kernel_norm_moments(d->stream, k), name);
	if (!k->sync)
		return;
	norm_sync_sum(d, k->count, KERNEL_NORM_COUNT + k->channels);
	cuda_note(d, kernel_norm_spread(d->stream, k), name);
	norm_sync_sum(d, k->count + KERNEL_NORM_COUNT, k->channels);
	cuda_note(d, kernel_norm_settle(d->stream, k), name);
}

static void norm_forward(struct cuda_device *d, struct cuda_op *op)
{
	struct kernel_norm *k = &norm_of(op)->k;
	const struct cuda_join *j = &norm_of(op)->join;

	k->room = d->room;
	if (op->training)
		norm_statistics(d, k, j, op->name);
	else
		cuda_note(d, kernel_norm_running(d->stream, k), op->name);
	if (!j->is_applied)
		cuda_note(d, kernel_norm_apply(d->stream, k), op->name);
}

static void norm_backward(struct cuda_device *d, struct cuda_op *op)
{
	struct kernel_norm *k = &norm_of(op)->k;
	const struct cuda_join *j = &norm_of(op)->join;

	k->room = d->room;
	if (j->has_slopes)
		k->dz = k->dy; /* which the mask has been applied to */
	cuda_note(d, j->has_slopes ? kernel_norm_slopes_of(d->stream, k,
							   j->d_weight,
							   j->d_bias)
				   : kernel_norm_slopes(d->stream, k),
		  op->name);
	if (k->sync) {
		norm_sync_sum(d, k->count + KERNEL_NORM_COUNT, 2 * k->channels);
		cuda_note(d, kernel_norm_slopes_settle(d->stream, k),
			  op->name);
	}
	if (k->dx)
		cuda_note(d, kernel_norm_back(d->stream, k), op->name);
}

static void norm_release(struct cuda_device *d, struct cuda_op *op)
{
	cuda_free(&d->base, norm_of(op)->own);
	cuda_free(&d->base, norm_of(op)->shared);
}

const struct cuda_kind cuda_batch_norm = {
	.size = sizeof(struct norm),
	.make = norm_make,
	.bind = norm_bind,
	.forward = norm_forward,
	.backward = norm_backward,
	.release = norm_release,
};
