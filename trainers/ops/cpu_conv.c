/* cpu_conv.c: convolution by oneDNN. Activations stay in one blocked layout
 * from layer to layer; only weights are turned, once a step. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/ops/cpu.h"

/* A copy of the weights in the layout (and type) that a primitive wants; where
 * it wants them as they lie, there is none. */
struct turned {
	struct cpu_call reorder; /* .primitive NULL: none */
	void *copy;
	uint64_t generation;
};

struct conv {
	struct cpu_op op;
	dnnl_memory_desc_t weight; /* in the arenas: f32, not padded */
	struct cpu_call forward, backward_data, backward_weights;
	struct turned for_forward, for_backward;
	struct cpu_call keep; /* the weights' gradient into its arena */
	void *gradient;
	/* A model's input comes as f32, plane by plane, which may be neither
	 * the type nor the layout that is fast here: a copy of it, and of its
	 * gradient. */
	struct cpu_call narrow, widen;
	void *in, *dx; /* NULL: the tensors' own */
	dnnl_memory_desc_t outside; /* of the tensors */
};

static struct conv *as_conv(const struct cpu_op *op)
{
	return (struct conv *)op;
}

static const dnnl_alg_kind_t algorithms[] = {
	dnnl_convolution_winograd, dnnl_convolution_direct};
enum { ALGORITHMS = sizeof algorithms / sizeof *algorithms };

/* The first of them to try. Winograd's F(4x4, 3x3) takes 36 products for a tile
 * of 16 outputs, and as much again for its transforms, where the definition
 * takes those of a 3x3 window that are within the image. oneDNN refuses what is
 * no 3x3 of stride 1. */
static int first_algorithm(const struct cpu_device *d, const struct conv *c)
{
	dnnl_dim_t h = c->op.out.dims[2], w = c->op.out.dims[3];
	dnnl_dim_t tiles = (h + 3) / 4 * ((w + 3) / 4);

	if (d->direct)
		return 1;
	return 2 * 36 * tiles < (3 * h - 2) * (3 * w - 2) ? 0 : 1;
}

struct shape {
	dnnl_dims_t strides, padding;
	dnnl_memory_desc_t in, weight, weight_grad, out;
};

static void find_shape(const struct conv *c, enum tensor_type type,
		       const struct op_spec *s, struct shape *p)
{
	const dnnl_dim_t *in = c->op.in.dims, *out = c->op.out.dims;
	dnnl_dims_t weight = {out[1], in[1], s->kernel, s->kernel};

	p->strides[0] = p->strides[1] = s->stride;
	p->padding[0] = p->padding[1] = s->pad;
	p->in = c->op.in;
	p->out = c->op.out;
	dnnl_memory_desc_init_by_tag(&p->weight, 4, weight,
				     type == TENSOR_BF16 ? dnnl_bf16 : dnnl_f32,
				     dnnl_format_tag_any);
	dnnl_memory_desc_init_by_tag(&p->weight_grad, 4, weight, dnnl_f32,
				     dnnl_format_tag_any);
}

/* For training, also where it is not: then the weights' layout is the same. */
static int make_forward(struct cpu_device *d, struct conv *c,
			const struct shape *p, struct err *e)
{
	int r = ERR_USAGE;

	for (int i = first_algorithm(d, c); r < 0 && i < ALGORITHMS; i++) {
		dnnl_convolution_desc_t desc;

		r = cpu_status(dnnl_convolution_forward_desc_init(
				       &desc, dnnl_forward_training,
				       algorithms[i], &p->in, &p->weight, NULL,
				       &p->out, p->strides, p->padding,
				       p->padding), "a convolution",
			       c->op.name, e);
		if (r == 0)
			r = cpu_call_new(d, &c->forward, &desc, NULL,
					 c->op.name, e);
	}
	return r;
}

static int make_backward_data(struct cpu_device *d, struct conv *c,
			      const struct shape *p, struct err *e)
{
	int r = ERR_USAGE;

	for (int i = first_algorithm(d, c); r < 0 && i < ALGORITHMS; i++) {
		dnnl_convolution_desc_t desc;

		r = cpu_status(dnnl_convolution_backward_data_desc_init(
				       &desc, algorithms[i], &p->in,
				       &p->weight, &p->out, p->strides,
				       p->padding, p->padding),
			       "a convolution's gradient", c->op.name, e);
		if (r == 0)
			r = cpu_call_new(d, &c->backward_data, &desc,
					 c->forward.desc, c->op.name, e);
	}
	return r;
}

static int make_backward_weights(struct cpu_device *d, struct conv *c,
				 const struct shape *p, struct err *e)
{
	int r = ERR_USAGE;

	for (int i = first_algorithm(d, c); r < 0 && i < ALGORITHMS; i++) {
		dnnl_convolution_desc_t desc;

		r = cpu_status(dnnl_convolution_backward_weights_desc_init(
				       &desc, algorithms[i], &p->in,
				       &p->weight_grad, NULL, &p->out,
				       p->strides, p->padding, p->padding),
			       "a convolution's gradient", c->op.name, e);
		if (r == 0)
			r = cpu_call_new(d, &c->backward_weights, &desc,
					 c->forward.desc, c->op.name, e);
	}
	return r;
}

/* The arenas have the weights as their gradient comes, so that it needs no
 * turning, unless that is padded. */
static void choose_weight(struct conv *c, const struct op_site *s)
{
	const dnnl_memory_desc_t *md;

	if (s->like) {
		c->weight = as_conv((const struct cpu_op *)s->like)->weight;
		return;
	}
	md = cpu_call_desc(c->op.training ? &c->backward_weights : &c->forward,
			   c->op.training ? dnnl_query_diff_weights_md :
					    dnnl_query_weights_md);
	c->weight = *md;
	if (md->data_type != dnnl_f32 || md->format_kind != dnnl_blocked ||
	    dnnl_memory_desc_get_size(md) !=
		    c->op.base.param[0].count * sizeof(float))
		dnnl_memory_desc_init_by_tag(&c->weight, 4, md->dims, dnnl_f32,
					     dnnl_oihw);
}

/* Without AVX-512, oneDNN writes the pixels' channels side by side fast only
 * where it reads them so; from planes it takes 1,000 times as long. */
static void choose_input(const struct cpu_device *d, struct conv *c,
			 const struct op_site *s)
{
	dnnl_memory_desc_t *md = &c->op.in;

	c->outside = *md;
	if (!s->in->layout && !d->block)
		dnnl_memory_desc_init_by_tag(md, 4, c->outside.dims,
					     c->outside.data_type, dnnl_nhwc);
	md->data_type = d->base.type == TENSOR_BF16 ? dnnl_bf16 : dnnl_f32;
}

static int make(struct cpu_device *d, struct cpu_op *op,
		const struct op_site *s, struct err *e)
{
	struct conv *c = as_conv(op);
	const struct op_spec *k = &op->base.spec;
	const struct tensor *in = s->in;
	int h = (in->h + 2 * k->pad - k->kernel) / k->stride + 1;
	int w = (in->w + 2 * k->pad - k->kernel) / k->stride + 1;
	struct op_param *p = &op->base.param[0];
	struct shape shape;
	int r;

	choose_input(d, c, s);
	if (h < 1 || w < 1 || in->h + 2 * k->pad < k->kernel ||
	    in->w + 2 * k->pad < k->kernel)
		return err_set(e, ERR_USAGE, "layer %s: an image of %d x %d is "
			       "too small for a kernel of %d", s->name, in->h,
			       in->w, k->kernel);
	cpu_tensor(d, &op->base.out, in->n, k->out, h, w, &op->out);
	op->base.param_count = 1;
	*p = (struct op_param){
		.name = "weight",
		.shape = {k->out, in->c, k->kernel, k->kernel},
	};
	p->count = (size_t)k->out * (size_t)in->c * (size_t)k->kernel *
		   (size_t)k->kernel;
	p->size = p->count;
	find_shape(c, d->base.type, k, &shape);
	r = make_forward(d, c, &shape, e);
	if (r == 0 && s->training)
		r = make_backward_weights(d, c, &shape, e);
	if (r == 0 && s->training && !s->first)
		r = make_backward_data(d, c, &shape, e);
	if (r == 0)
		choose_weight(c, s);
	return r;
}

/* Gives `call` the weights, turned where it wants them so. */
static int bind_weights(struct cpu_device *d, struct conv *c,
			struct cpu_call *call, struct turned *t, struct err *e)
{
	const dnnl_memory_desc_t *want =
		cpu_call_desc(call, dnnl_query_weights_md);
	float *own = c->op.memory.param[0];
	const char *name = c->op.name;
	size_t bytes = dnnl_memory_desc_get_size(want);
	int r;

	if (dnnl_memory_desc_equal(want, &c->weight))
		return cpu_call_arg(d, call, DNNL_ARG_WEIGHTS, want, own, name,
				    e);
	t->copy = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	if (!t->copy)
		return err_set(e, -ENOMEM, "layer %s: no memory for its "
			       "weights (%zu bytes)", name, bytes);
	t->generation = 0;
	r = cpu_reorder_new(d, &t->reorder, &c->weight, want, name, e);
	if (r == 0)
		r = cpu_call_arg(d, &t->reorder, DNNL_ARG_FROM, &c->weight,
				 own, name, e);
	if (r == 0)
		r = cpu_call_arg(d, &t->reorder, DNNL_ARG_TO, want, t->copy,
				 name, e);
	if (r == 0)
		r = cpu_call_arg(d, call, DNNL_ARG_WEIGHTS, want, t->copy,
				 name, e);
	return r;
}

static int bind_gradient(struct cpu_device *d, struct conv *c, struct err *e)
{
	const dnnl_memory_desc_t *give = cpu_call_desc(
		&c->backward_weights, dnnl_query_diff_weights_md);
	struct op_memory *m = &c->op.memory;
	const char *name = c->op.name;
	size_t bytes = dnnl_memory_desc_get_size(give);
	int r;

	if (dnnl_memory_desc_equal(give, &c->weight))
		return cpu_call_arg(d, &c->backward_weights,
				    DNNL_ARG_DIFF_WEIGHTS, give, m->grad[0],
				    name, e);
	c->gradient = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	if (!c->gradient)
		return err_set(e, -ENOMEM, "layer %s: no memory for a gradient "
			       "(%zu bytes)", name, bytes);
	r = cpu_reorder_new(d, &c->keep, give, &c->weight, name, e);
	if (r == 0)
		r = cpu_call_arg(d, &c->keep, DNNL_ARG_FROM, give, c->gradient,
				 name, e);
	if (r == 0)
		r = cpu_call_arg(d, &c->keep, DNNL_ARG_TO, &c->weight,
				 m->grad[0], name, e);
	if (r == 0)
		r = cpu_call_arg(d, &c->backward_weights,
				 DNNL_ARG_DIFF_WEIGHTS, give, c->gradient,
				 name, e);
	return r;
}

/* Room for a copy, and the call that makes one tensor of the other. */
static int bind_copy(struct cpu_device *d, struct conv *c,
		     struct cpu_call *call, void *tensor, int narrow,
		     void **copy, struct err *e)
{
	const dnnl_memory_desc_t *inside = &c->op.in, *outside = &c->outside;
	const char *name = c->op.name;
	size_t bytes = dnnl_memory_desc_get_size(inside);
	int r;

	*copy = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	if (!*copy)
		return err_set(e, -ENOMEM, "layer %s: no memory for its input "
			       "(%zu bytes)", name, bytes);
	r = cpu_reorder_new(d, call, narrow ? outside : inside,
			    narrow ? inside : outside, name, e);
	if (r == 0)
		r = cpu_call_arg(d, call, narrow ? DNNL_ARG_FROM : DNNL_ARG_TO,
				 outside, tensor, name, e);
	if (r == 0)
		r = cpu_call_arg(d, call, narrow ? DNNL_ARG_TO : DNNL_ARG_FROM,
				 inside, *copy, name, e);
	return r;
}

static int bind_input(struct cpu_device *d, struct conv *c, struct err *e)
{
	const struct op_memory *m = &c->op.memory;
	int r = 0;

	if (dnnl_memory_desc_equal(&c->outside, &c->op.in))
		return 0;
	r = bind_copy(d, c, &c->narrow, m->in->data, 1, &c->in, e);
	if (r == 0 && m->dx)
		r = bind_copy(d, c, &c->widen, m->dx->data, 0, &c->dx, e);
	return r;
}

static int bind(struct cpu_device *d, struct cpu_op *op, struct err *e)
{
	struct conv *c = as_conv(op);
	struct op_memory *m = &op->memory;
	const char *name = op->name;
	int r = bind_input(d, c, e);
	void *in = c->in ? c->in : m->in->data;

	if (r == 0)
		r = cpu_call_arg(d, &c->forward, DNNL_ARG_SRC, &op->in, in,
				 name, e);
	if (r == 0)
		r = cpu_call_arg(d, &c->forward, DNNL_ARG_DST, &op->out,
				 m->out->data, name, e);
	if (r == 0)
		r = bind_weights(d, c, &c->forward, &c->for_forward, e);
	if (r < 0 || !op->training)
		return r;
	r = cpu_call_arg(d, &c->backward_weights, DNNL_ARG_SRC, &op->in, in,
			 name, e);
	if (r == 0)
		r = cpu_call_arg(d, &c->backward_weights, DNNL_ARG_DIFF_DST,
				 &op->out, m->dy[0]->data, name, e);
	if (r == 0)
		r = bind_gradient(d, c, e);
	if (r < 0 || !m->dx)
		return r;
	r = cpu_call_arg(d, &c->backward_data, DNNL_ARG_DIFF_DST, &op->out,
			 m->dy[0]->data, name, e);
	if (r == 0)
		r = cpu_call_arg(d, &c->backward_data, DNNL_ARG_DIFF_SRC,
				 &op->in, c->dx ? c->dx : m->dx->data, name,
				 e);
	if (r == 0)
		r = bind_weights(d, c, &c->backward_data, &c->for_backward, e);
	return r;
}

static void turn(struct cpu_device *d, struct turned *t)
{
	if (!t->reorder.primitive || t->generation == d->generation)
		return;
	cpu_call_run(d, &t->reorder);
	t->generation = d->generation;
}

static void forward(struct cpu_device *d, struct cpu_op *op,
		    const struct feed *f)
{
	struct conv *c = as_conv(op);

	turn(d, &c->for_forward);
	if (c->narrow.primitive)
		cpu_call_run(d, &c->narrow);
	cpu_call_run(d, &c->forward);
}

static void backward(struct cpu_device *d, struct cpu_op *op,
		     const struct feed *f)
{
	struct conv *c = as_conv(op);
	struct op_memory *m = &op->memory;

	if (m->dy[1])
		cpu_tensor_add(m->dy[0], m->dy[1]);
	cpu_call_run(d, &c->backward_weights);
	if (c->keep.primitive)
		cpu_call_run(d, &c->keep);
	if (!m->dx)
		return;
	turn(d, &c->for_backward);
	cpu_call_run(d, &c->backward_data);
	if (c->widen.primitive)
		cpu_call_run(d, &c->widen);
}

static void release(struct cpu_op *op)
{
	struct conv *c = as_conv(op);

	cpu_call_release(&c->forward);
	cpu_call_release(&c->backward_data);
	cpu_call_release(&c->backward_weights);
	cpu_call_release(&c->for_forward.reorder);
	cpu_call_release(&c->for_backward.reorder);
	cpu_call_release(&c->keep);
	cpu_call_release(&c->narrow);
	cpu_call_release(&c->widen);
	free(c->in);
	free(c->dx);
	free(c->for_forward.copy);
	free(c->for_backward.copy);
	free(c->gradient);
}

/* Weights between PyTorch's layout and the arenas'. */
static void move(struct cpu_device *d, const struct conv *c, void *from,
		 void *to, int into)
{
	dnnl_memory_desc_t plain;
	struct cpu_call call;

	dnnl_memory_desc_init_by_tag(&plain, 4, c->weight.dims, dnnl_f32,
				     dnnl_oihw);
	const dnnl_memory_desc_t *a = into ? &plain : &c->weight;
	const dnnl_memory_desc_t *b = into ? &c->weight : &plain;
	int r = cpu_reorder_new(d, &call, a, b, c->op.name, NULL);

	if (r == 0)
		r = cpu_call_arg(d, &call, DNNL_ARG_FROM, a, from, c->op.name,
				 NULL);
	if (r == 0)
		r = cpu_call_arg(d, &call, DNNL_ARG_TO, b, to, c->op.name,
				 NULL);
	if (r == 0)
		cpu_call_run(d, &call);
	else if (!d->base.error)
		d->base.error = r;
	cpu_call_release(&call);
}

static void put(struct cpu_device *d, const struct cpu_op *op, int i,
		float *arena, const float *values)
{
	move(d, as_conv(op), (float *)values, arena, 1);
}

static void get(struct cpu_device *d, const struct cpu_op *op, int i,
		const float *arena, float *values)
{
	move(d, as_conv(op), (float *)arena, values, 0);
}

const struct cpu_kind cpu_conv = {
	.size = sizeof(struct conv),
	.make = make,
	.bind = bind,
	.forward = forward,
	.backward = backward,
	.release = release,
	.put = put,
	.get = get,
};
