/* cpu_conv.c: convolution by oneDNN. Activations stay in one blocked layout
 * from layer to layer; only the weights are converted, once per step. */
#include <stdlib.h>

#include "trainers/ops/cpu.h"

/* A copy of the weights in the layout (and type) that a primitive prefers; if
 * it can use them in place, there is no copy. fp16 always has one, because the
 * arena's weights are not rounded. */
struct turned {
	struct cpu_call reorder; /* .primitive NULL: none */
	void *copy;
	size_t bytes;
	uint64_t generation;
};

struct conv {
	struct cpu_op op;
	cpu_md weight; /* in the arenas: f32, not padded */
	struct cpu_call forward, backward_data, backward_weights;
	struct turned for_forward, for_backward;
	struct cpu_call keep; /* writes the weights' gradient into its arena */
	void *gradient;
	/* A model's input is f32, plane by plane, which may be neither the type
	 * nor the layout that is fast here: then it is copied, and so is its
	 * gradient. */
	struct cpu_call narrow, widen;
	void *in, *dx; /* NULL: the tensors' own memory */
	cpu_md outside; /* the tensors' layout */
};

static struct conv *conv_of(const struct cpu_op *op)
{
	return (struct conv *)op;
}

static const dnnl_alg_kind_t algorithms[] = {
	dnnl_convolution_winograd, dnnl_convolution_direct};
enum { ALGORITHMS = sizeof(algorithms) / sizeof(*algorithms) };

/* The index of the first algorithm to try. Winograd's F(4x4, 3x3) needs 36
 * products for a tile of 16 outputs, and as much again for its transforms; the
 * direct way needs the products of the part of each 3x3 window that lies within
 * the image. oneDNN refuses Winograd unless the window is 3x3 with stride 1. */
static int conv_algorithm(const struct cpu_device *d, const struct conv *c)
{
	int h = c->op.base.out.h, w = c->op.base.out.w;
	int tiles = (h + 3) / 4 * ((w + 3) / 4);

	if (d->direct)
		return 1;
	return 2 * 36 * tiles < (3 * h - 2) * (3 * w - 2) ? 0 : 1;
}

/* The window that the passes move over the image; each pass chooses its own
 * layout for the weights. */
static int conv_window(struct cpu_device *d, const struct conv *c,
		       const struct op_param *p, struct cpu_window *w,
		       struct err *e)
{
	const struct op_spec *s = &c->op.base.spec;
	dnnl_dims_t weight = {p->shape[0], p->shape[1], s->kernel, s->kernel};

	*w = (struct cpu_window){
		.in = c->op.in, .out = c->op.out,
		.strides = {s->stride, s->stride}, .padding = {s->pad, s->pad},
	};
	return cpu_layout(d, weight, cpu_type(d->base.type),
			  dnnl_format_tag_any, &w->weight, c->op.name, e);
}

static int conv_make_pass(struct cpu_device *d, struct conv *c,
			  struct cpu_call *call, enum cpu_pass pass,
			  const struct cpu_window *w, struct err *e)
{
	const struct cpu_call *hint = pass == CPU_FORWARD ? NULL : &c->forward;
	int r = ERR_USAGE;

	for (int i = conv_algorithm(d, c); r < 0 && i < ALGORITHMS; i++)
		r = cpu_convolution_new(d, call, pass, algorithms[i], w, hint,
					c->op.name, e);
	return r;
}

/* The weights' gradient is always f32. */
static int conv_make_backward_weights(struct cpu_device *d, struct conv *c,
				      const struct cpu_window *w, struct err *e)
{
	struct cpu_window f32 = *w;
	struct cpu_md_parts weight;
	int r;

	cpu_md_parts(w->weight, &weight);
	r = cpu_layout(d, weight.dims, dnnl_f32, dnnl_format_tag_any,
		       &f32.weight, c->op.name, e);
	return r < 0 ? r : conv_make_pass(d, c, &c->backward_weights,
					  CPU_BACKWARD_WEIGHTS, &f32, e);
}

/* Makes the forward pass as for training even in a plan that only evaluates:
 * then the weights' layout is the same. */
static int conv_make_passes(struct cpu_device *d, struct conv *c,
			    const struct cpu_window *w, struct err *e)
{
	int r = conv_make_pass(d, c, &c->forward, CPU_FORWARD, w, e);

	if (r == 0 && c->op.training)
		r = conv_make_backward_weights(d, c, w, e);
	if (r == 0 && c->op.training && !c->op.first)
		r = conv_make_pass(d, c, &c->backward_data, CPU_BACKWARD_DATA,
				   w, e);
	return r;
}

/* The arenas store the weights in the layout of their gradient, so that the
 * gradient needs no conversion, unless that layout is padded. */
static int conv_choose_weight(struct cpu_device *d, struct conv *c,
			      const struct op_site *s, struct err *e)
{
	struct cpu_md_parts p;
	cpu_md md;

	if (s->like) {
		c->weight = conv_of((const struct cpu_op *)s->like)->weight;
		return 0;
	}
	md = cpu_call_desc(c->op.training ? &c->backward_weights : &c->forward,
			   c->op.training ? dnnl_query_diff_weights_md :
					    dnnl_query_weights_md);
	cpu_md_parts(md, &p);
	if (p.type != dnnl_f32 || !p.blocked ||
	    dnnl_memory_desc_get_size(md) !=
		    c->op.base.param[0].count * sizeof(float))
		return cpu_layout(d, p.dims, dnnl_f32, dnnl_oihw, &c->weight,
				  c->op.name, e);
	return cpu_layout_keep(d, md, &c->weight, c->op.name, e);
}

/* A model's input comes plane by plane. Without AVX-512, oneDNN writes a
 * pixel's channels side by side fast only if it also reads them so; from planes
 * it takes 1,000 times as long. */
static int conv_choose_input(struct cpu_device *d, struct conv *c,
			     const struct op_site *s, struct err *e)
{
	const struct tensor *in = s->in;
	dnnl_dims_t dims = {in->n, in->c, in->h, in->w};

	c->outside = c->op.in;
	if (in->layout)
		return 0;
	return cpu_layout(d, dims, cpu_type(d->base.type),
			  d->block ? dnnl_nchw : dnnl_nhwc, &c->op.in, s->name,
			  e);
}

static int conv_make(struct cpu_device *d, struct cpu_op *op,
		     const struct op_site *s, struct err *e)
{
	struct conv *c = conv_of(op);
	const struct op_spec *k = &op->base.spec;
	const struct tensor *in = s->in;
	int h = (in->h + 2 * k->pad - k->kernel) / k->stride + 1;
	int w = (in->w + 2 * k->pad - k->kernel) / k->stride + 1;
	struct op_param *p = &op->base.param[0];
	struct cpu_window window;
	int r;

	if (h < 1 || w < 1 || in->h + 2 * k->pad < k->kernel ||
	    in->w + 2 * k->pad < k->kernel)
		return err_set(e, ERR_USAGE, "layer %s: an image of %d x %d is "
			       "too small for a kernel of %d", s->name, in->h,
			       in->w, k->kernel);
	r = conv_choose_input(d, c, s, e);
	if (r == 0)
		r = cpu_tensor(d, &op->base.out, in->n, k->out, h, w, &op->out,
			       s->name, e);
	op->base.param_count = 1;
	*p = (struct op_param){
		.name = "weight",
		.shape = {k->out, in->c, k->kernel, k->kernel},
	};
	p->count = (size_t)k->out * (size_t)in->c * (size_t)k->kernel *
		   (size_t)k->kernel;
	p->size = p->count;
	if (r == 0)
		r = conv_window(d, c, p, &window, e);
	if (r == 0)
		r = conv_make_passes(d, c, &window, e);
	return r < 0 ? r : conv_choose_weight(d, c, s, e);
}

/* Gives `call` the weights, converted if it needs them so. */
static int conv_bind_weights(struct cpu_device *d, struct conv *c,
			     struct cpu_call *call, struct turned *t,
			     struct err *e)
{
	cpu_md want = cpu_call_desc(call, dnnl_query_weights_md);
	float *own = c->op.memory.param[0];
	const char *name = c->op.name;
	size_t bytes = dnnl_memory_desc_get_size(want);
	int r;

	if (dnnl_memory_desc_equal(want, c->weight) && !d->half)
		return cpu_call_arg(d, call, DNNL_ARG_WEIGHTS, want, own, name,
				    e);
	t->copy = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	if (!t->copy)
		return err_no_memory(e, "layer %s: its weights (%zu bytes)",
				     name, bytes);
	t->bytes = bytes;
	t->generation = 0;
	r = cpu_reorder_new(d, &t->reorder, c->weight, want, name, e);
	if (r == 0)
		r = cpu_call_arg(d, &t->reorder, DNNL_ARG_FROM, c->weight,
				 own, name, e);
	if (r == 0)
		r = cpu_call_arg(d, &t->reorder, DNNL_ARG_TO, want, t->copy,
				 name, e);
	if (r == 0)
		r = cpu_call_arg(d, call, DNNL_ARG_WEIGHTS, want, t->copy,
				 name, e);
	return r;
}

static int conv_bind_gradient(struct cpu_device *d, struct conv *c,
			      struct err *e)
{
	cpu_md give = cpu_call_desc(&c->backward_weights,
				    dnnl_query_diff_weights_md);
	struct op_memory *m = &c->op.memory;
	const char *name = c->op.name;
	size_t bytes = dnnl_memory_desc_get_size(give);
	int r;

	if (dnnl_memory_desc_equal(give, c->weight))
		return cpu_call_arg(d, &c->backward_weights,
				    DNNL_ARG_DIFF_WEIGHTS, give, m->grad[0],
				    name, e);
	c->gradient = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	if (!c->gradient)
		return err_no_memory(e, "layer %s: a gradient (%zu bytes)",
				     name, bytes);
	r = cpu_reorder_new(d, &c->keep, give, c->weight, name, e);
	if (r == 0)
		r = cpu_call_arg(d, &c->keep, DNNL_ARG_FROM, give, c->gradient,
				 name, e);
	if (r == 0)
		r = cpu_call_arg(d, &c->keep, DNNL_ARG_TO, c->weight,
				 m->grad[0], name, e);
	if (r == 0)
		r = cpu_call_arg(d, &c->backward_weights,
				 DNNL_ARG_DIFF_WEIGHTS, give, c->gradient,
				 name, e);
	return r;
}

/* Memory for a copy, and the call that converts one tensor into the other. */
static int conv_bind_copy(struct cpu_device *d, struct conv *c,
			  struct cpu_call *call, void *tensor, int narrow,
			  void **copy, struct err *e)
{
	cpu_md inside = c->op.in, outside = c->outside;
	const char *name = c->op.name;
	size_t bytes = dnnl_memory_desc_get_size(inside);
	int r;

	*copy = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	if (!*copy)
		return err_no_memory(e, "layer %s: its input (%zu bytes)", name,
				     bytes);
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

static int conv_bind_input(struct cpu_device *d, struct conv *c, struct err *e)
{
	const struct op_memory *m = &c->op.memory;
	int r = 0;

	/* the loss may need the input as it is */
	if (dnnl_memory_desc_equal(c->outside, c->op.in) &&
	    !(d->half && !m->in->layout))
		return 0;
	r = conv_bind_copy(d, c, &c->narrow, m->in->data, 1, &c->in, e);
	if (r == 0 && m->dx)
		r = conv_bind_copy(d, c, &c->widen, m->dx->data, 0, &c->dx, e);
	return r;
}

static int conv_bind(struct cpu_device *d, struct cpu_op *op, struct err *e)
{
	struct conv *c = conv_of(op);
	struct op_memory *m = &op->memory;
	const char *name = op->name;
	int r = conv_bind_input(d, c, e);
	void *in = c->in ? c->in : m->in->data;

	if (r == 0)
		r = cpu_call_arg(d, &c->forward, DNNL_ARG_SRC, op->in, in,
				 name, e);
	if (r == 0)
		r = cpu_call_arg(d, &c->forward, DNNL_ARG_DST, op->out,
				 m->out->data, name, e);
	if (r == 0)
		r = conv_bind_weights(d, c, &c->forward, &c->for_forward, e);
	if (r < 0 || !op->training)
		return r;
	r = cpu_call_arg(d, &c->backward_weights, DNNL_ARG_SRC, op->in, in,
			 name, e);
	if (r == 0)
		r = cpu_call_arg(d, &c->backward_weights, DNNL_ARG_DIFF_DST,
				 op->out, m->dy[0]->data, name, e);
	if (r == 0)
		r = conv_bind_gradient(d, c, e);
	if (r < 0 || !m->dx)
		return r;
	r = cpu_call_arg(d, &c->backward_data, DNNL_ARG_DIFF_DST, op->out,
			 m->dy[0]->data, name, e);
	if (r == 0)
		r = cpu_call_arg(d, &c->backward_data, DNNL_ARG_DIFF_SRC,
				 op->in, c->dx ? c->dx : m->dx->data, name,
				 e);
	if (r == 0)
		r = conv_bind_weights(d, c, &c->backward_data, &c->for_backward,
				      e);
	return r;
}

/* Values of the input's copy, with their padding. */
static size_t conv_copy_count(const struct conv *c)
{
	return dnnl_memory_desc_get_size(c->op.in) / sizeof(float);
}

static void conv_reorder(struct cpu_device *d, struct turned *t)
{
	if (!t->reorder.primitive || t->generation == d->generation)
		return;
	cpu_call_run(d, &t->reorder);
	if (d->half)
		cpu_half_round(t->bytes / sizeof(float), t->copy);
	t->generation = d->generation;
}

static void conv_forward(struct cpu_device *d, struct cpu_op *op,
			 const struct loader *f)
{
	struct conv *c = conv_of(op);

	conv_reorder(d, &c->for_forward);
	if (c->narrow.primitive)
		cpu_call_run(d, &c->narrow);
	if (d->half && c->in)
		cpu_half_round(conv_copy_count(c), c->in);
	cpu_call_run(d, &c->forward);
}

static void conv_backward(struct cpu_device *d, struct cpu_op *op,
			  const struct loader *f)
{
	struct conv *c = conv_of(op);
	struct op_memory *m = &op->memory;

	if (m->dy[1]) {
		cpu_tensor_add(m->dy[0], m->dy[1]);
		cpu_half_store(d, m->dy[0]);
	}
	cpu_call_run(d, &c->backward_weights);
	if (c->keep.primitive)
		cpu_call_run(d, &c->keep);
	/* cuDNN writes it in the factors' type */
	if (d->half)
		cpu_half_round(op->base.param[0].size, m->grad[0]);
	if (!m->dx)
		return;
	conv_reorder(d, &c->for_backward);
	cpu_call_run(d, &c->backward_data);
	if (d->half && c->dx)
		cpu_half_round(conv_copy_count(c), c->dx);
	if (c->widen.primitive)
		cpu_call_run(d, &c->widen);
}

static void conv_release(struct cpu_op *op)
{
	struct conv *c = conv_of(op);

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

/* Copies weights between PyTorch's layout and the arenas'. */
static void conv_param_copy(struct cpu_device *d, const struct conv *c,
			    void *from, void *to, int into)
{
	const char *name = c->op.name;
	struct cpu_call call = {.desc = NULL};
	struct cpu_md_parts p;
	cpu_md plain, a, b;
	int r;

	cpu_md_parts(c->weight, &p);
	r = cpu_layout(d, p.dims, dnnl_f32, dnnl_oihw, &plain, name, NULL);
	a = into ? plain : c->weight;
	b = into ? c->weight : plain;
	if (r == 0)
		r = cpu_reorder_new(d, &call, a, b, name, NULL);
	if (r == 0)
		r = cpu_call_arg(d, &call, DNNL_ARG_FROM, a, from, name, NULL);
	if (r == 0)
		r = cpu_call_arg(d, &call, DNNL_ARG_TO, b, to, name, NULL);
	if (r == 0)
		cpu_call_run(d, &call);
	else if (!d->base.error)
		d->base.error = r;
	cpu_call_release(&call);
}

static void conv_param_put(struct cpu_device *d, const struct cpu_op *op, int i,
			   float *arena, const float *values)
{
	conv_param_copy(d, conv_of(op), (float *)values, arena, 1);
}

static void conv_param_get(struct cpu_device *d, const struct cpu_op *op, int i,
			   const float *arena, float *values)
{
	conv_param_copy(d, conv_of(op), (float *)arena, values, 0);
}

const struct cpu_kind cpu_conv = {
	.size = sizeof(struct conv),
	.make = conv_make,
	.bind = conv_bind,
	.forward = conv_forward,
	.backward = conv_backward,
	.release = conv_release,
	.put = conv_param_put,
	.get = conv_param_get,
};
