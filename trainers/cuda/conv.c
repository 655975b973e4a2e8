/* conv.c: convolutions by cuDNN, which can be captured: nhwc, f32 throughout,
 * or bf16 or fp16 with f32 sums. f32 means f32: TF32 only if asked for. Each
 * pass has a plan of the graph API (conv_tune.c). With device_options.fuse, a
 * plan also does work of the batch normalizations around the convolution; where
 * cuDNN has no such plan, the pass is computed alone. Where it has none at all,
 * the legacy calls compute the pass. The device's note says so. All give the
 * same bits each time, if cuDNN can. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "trainers/cuda/conv.h"

enum { ALIGN = 256 };

static struct conv *conv_of(struct cuda_op *op)
{
	return (struct conv *)op;
}

/* ---- Shapes ---- */

static int conv_check(const struct cuda_device *d, const struct op_site *s,
		      const char *name, struct err *e)
{
	const struct op_spec *k = &s->spec;
	const struct tensor *in = s->in;

	if (!(in->plain && in->type == TENSOR_F32) &&
	    (in->layout != &layout_nhwc || in->type != d->base.type))
		return err_set(e, ERR_USAGE,
			       "%s: a convolution must follow the input or "
			       "another layer of images",
			       name);
	if (layout_windows(in->h, k->kernel, k->stride, k->pad) < 1 ||
	    layout_windows(in->w, k->kernel, k->stride, k->pad) < 1)
		return err_set(e, ERR_USAGE, "%s: an image of %d x %d is too "
			       "small for a window of %d", name, in->h, in->w,
			       k->kernel);
	return 0;
}

/* cuDNN counts a tensor's values with an int. */
static int conv_check_size(const struct conv *c, struct err *e)
{
	const struct tensor *t[] = {&c->op.in, &c->op.base.out};
	const int channels[] = {c->op.filter.in_padded,
				c->op.filter.out_padded};

	for (int i = 0; i < 2; i++) {
		size_t image = (size_t)t[i]->h * (size_t)t[i]->w *
			       (size_t)channels[i];
		size_t count = (size_t)t[i]->n * image;

		if (count > INT_MAX)
			return err_set(e, ERR_USAGE, "%s: %d images of "
				       "%d x %d x %d are %zu values, and "
				       "cuDNN takes at most %d at once, which "
				       "are %zu images; use a smaller "
				       "--batch-size, or --accumulate",
				       c->op.name, t[i]->n, channels[i],
				       t[i]->h, t[i]->w, count, INT_MAX,
				       (size_t)INT_MAX / image);
	}
	return 0;
}

static int conv_make(struct cuda_device *d, struct cuda_op *op,
		     const struct op_site *s, struct err *e)
{
	struct conv *c = conv_of(op);
	const struct op_spec *k = &s->spec;
	const struct tensor *in = s->in;
	struct op *base = &op->base;
	int r = conv_check(d, s, op->name, e);

	if (r < 0)
		return r;
	layout_filter(&op->filter, k->out, in->c, k->kernel, d->base.type);
	layout_tensor(&base->out, in->n, k->out,
		      layout_windows(in->h, k->kernel, k->stride, k->pad),
		      layout_windows(in->w, k->kernel, k->stride, k->pad),
		      d->base.type);
	c->weight_count = layout_filter_size(&op->filter);
	base->param_count = 1;
	base->param[0] = (struct op_param){
		"weight", {k->out, in->c, k->kernel, k->kernel},
		(size_t)k->out * (size_t)in->c * (size_t)k->kernel *
			(size_t)k->kernel,
		c->weight_count};
	c->source = s->source;
	op->before = s->source ? cuda_op_of(s->source)->join : NULL;
	c->turn = (struct kernel_transpose){
		.type = cuda_kernel_type(base->out.type), .n = in->n,
		.c = in->c, .places = in->h * in->w,
		.channels = op->filter.in_padded};
	r = conv_check_size(c, e);
	return r < 0 ? r : cuda_dnn_status(conv_legacy_describe(d, c),
					   "its shape", op->name, e);
}

static struct conv_shape conv_shape_of(const struct cuda_device *d,
				       const struct conv *c)
{
	const struct tensor *in = &c->op.in, *out = &c->op.base.out;
	const struct op_spec *k = &c->op.base.spec;

	return (struct conv_shape){
		.n = in->n, .c = c->op.filter.in_padded, .h = in->h,
		.w = in->w, .k = c->op.filter.out_padded, .kernel = k->kernel,
		.stride = k->stride, .pad = k->pad, .out_h = out->h,
		.out_w = out->w, .bf16 = out->type == TENSOR_BF16,
		.fp16 = out->type == TENSOR_F16, .tf32 = d->tf32};
}

/* ---- Plans ---- */

size_t conv_narrow_bytes(const struct conv *c)
{
	size_t bytes = c->weight_count * sizeof(uint16_t);

	return conv_is_narrow(c) ? (bytes + ALIGN - 1) / ALIGN * ALIGN : 0;
}

void *conv_dweight(const struct cuda_device *d, const struct conv *c)
{
	return conv_is_narrow(c) ? d->room : c->op.memory.grad[0];
}

/* The pass that a graph computes. */
static enum conv_pass conv_way(enum conv_pass graph)
{
	switch (graph) {
	case CONV_STATS:
	case CONV_NORM_STATS:
		return CONV_FORWARD;
	case CONV_NORM_BY_WEIGHT:
		return CONV_BY_WEIGHT;
	case CONV_BY_X_NORM:
		return CONV_BY_X;
	default:
		return graph;
	}
}

/* Adds the memory of the batch normalizations around the convolution. */
static void conv_memory_of_norms(const struct conv *c, enum conv_pass graph,
				 struct conv_memory *of)
{
	const struct cuda_join *before = c->op.before, *after = c->op.after;

	if (after) {
		of->at[CONV_SUM] = after->sum;
		of->at[CONV_SQUARES] = after->squares;
	}
	if (!before)
		return;
	if (graph == CONV_NORM_STATS || graph == CONV_NORM_BY_WEIGHT)
		of->at[CONV_X] = before->x;
	of->at[CONV_SCALE] = before->scale;
	of->at[CONV_BIAS] = before->bias;
	of->at[CONV_NORM_X] = before->x;
	of->at[CONV_MEAN] = before->mean;
	of->at[CONV_INV] = before->inv;
	of->at[CONV_NORM_WEIGHT] = before->norm_weight;
	of->at[CONV_NORM_BIAS] = before->norm_bias;
	of->at[CONV_D_WEIGHT] = before->d_weight;
	of->at[CONV_D_BIAS] = before->d_bias;
	of->at[CONV_BY_DZ] = before->unused[0];
	of->at[CONV_BY_NORM_X] = before->unused[1];
	of->at[CONV_SHIFT] = before->unused[2];
}

/* The graph's current memory: d->room may move. */
static struct conv_memory conv_memory_of(const struct cuda_device *d,
					 const struct conv *c,
					 enum conv_pass graph)
{
	const struct op_memory *m = &c->op.memory;
	enum conv_pass way = conv_way(graph);
	struct conv_memory of = {.room = d->room};

	of.at[CONV_X] = way == CONV_BY_X ? conv_dx(c) : conv_x(c);
	of.at[CONV_W] = way == CONV_BY_WEIGHT ? conv_dweight(d, c) : c->weight;
	of.at[CONV_Y] = way == CONV_FORWARD ? m->out->data : m->dy[0]->data;
	if (way == CONV_BY_WEIGHT)
		of.room = (char *)d->room + conv_narrow_bytes(c);
	if (graph >= CONV_PASSES)
		conv_memory_of_norms(c, graph, &of);
	return of;
}

/* 1: the graph has a plan, which from now on computes the pass; 0: it has
 * none. */
static int conv_choose_graph(struct cuda_device *d, struct conv *c,
			     enum conv_pass graph, struct err *e)
{
	struct choice *to = &c->way[conv_way(graph)];
	struct conv_shape s = conv_shape_of(d, c);
	int r = cuda_room(d, conv_narrow_bytes(c), e);

	if (r < 0)
		return r;
	conv_plan_close(to->plan);
	to->graph = graph;
	to->plan = conv_tune(d, &s, graph, conv_memory_of(d, c, graph));
	if (!to->plan)
		return 0;
	to->room = conv_plan_room(to->plan);
	r = cuda_room(d, conv_narrow_bytes(c) + to->room, e);
	return r < 0 ? r : 1;
}

static int conv_choose(struct cuda_device *d, struct conv *c,
		       enum conv_pass way, struct err *e)
{
	int r = conv_choose_graph(d, c, way, e);

	if (r)
		return r < 0 ? r : 0;
	r = conv_legacy_choose(d, c, way, e);
	return r < 0 ? r : cuda_room(d, conv_narrow_bytes(c) +
					c->way[way].room, e);
}

/* Runs the pass, if it has a plan. */
static int conv_run_plan(struct cuda_device *d, struct conv *c,
			 enum conv_pass way)
{
	struct conv_plan *p = c->way[way].plan;
	struct conv_memory m;

	if (!p)
		return 0;
	m = conv_memory_of(d, c, c->way[way].graph);
	cuda_note_dnn(d, conv_plan_run(p, d->cudnn, &m), c->op.name);
	return 1;
}

static void conv_run(struct cuda_device *d, struct conv *c, enum conv_pass way)
{
	if (!conv_run_plan(d, c, way))
		conv_legacy_run(d, c, way);
}

/* ---- Fusion ---- */

/* As conv_choose_graph, for a fused graph; the first convolution without one
 * is reported. */
static int conv_fuse(struct cuda_device *d, struct conv *c,
		     enum conv_pass graph, struct err *e)
{
	char line[256];
	int r = conv_choose_graph(d, c, graph, e);

	if (r || d->unfused & 1u << graph)
		return r;
	d->unfused |= 1u << graph;
	snprintf(line, sizeof(line), "%s: --fuse: cuDNN %zu plans no graph "
		 "'%s' here: such layers are computed one after the other",
		 c->op.name, cudnnGetVersion(), conv_pass_names[graph]);
	if (d->note)
		d->note(line);
	return 0;
}

/* 1: forward and by weight, the convolution normalizes its input itself. Both
 * have to, because nobody else does then. */
static int conv_fuse_input(struct cuda_device *d, struct conv *c, struct err *e)
{
	int r;

	if (!c->op.before || !c->op.after)
		return 0;
	r = conv_fuse(d, c, CONV_NORM_STATS, e);
	if (r == 1)
		r = conv_fuse(d, c, CONV_NORM_BY_WEIGHT, e);
	if (r == 1) {
		c->op.before->is_applied = c->op.after->has_sums = 1;
		c->source->is_hidden = 1;
	}
	return r;
}

/* Chooses the passes that read x. */
static int conv_choose_by_input(struct cuda_device *d, struct conv *c,
				struct err *e)
{
	int r = conv_fuse_input(d, c, e);

	if (r)
		return r;
	if (c->op.after)
		r = conv_fuse(d, c, CONV_STATS, e);
	if (r == 1)
		c->op.after->has_sums = 1;
	if (r == 0)
		r = conv_choose(d, c, CONV_FORWARD, e);
	if (r >= 0 && c->op.training)
		r = conv_choose(d, c, CONV_BY_WEIGHT, e);
	return r;
}

static int conv_choose_by_x(struct cuda_device *d, struct conv *c,
			    struct err *e)
{
	int r = c->op.before ? conv_fuse(d, c, CONV_BY_X_NORM, e) : 0;

	if (r == 1)
		c->op.before->has_slopes = 1;
	return r ? r : conv_choose(d, c, CONV_BY_X, e);
}

/* ---- Memory ---- */

static int conv_bind_weight(struct cuda_device *d, struct conv *c,
			    struct err *e)
{
	uint16_t *narrow;
	int r;

	c->weight = c->op.memory.param[0];
	if (!conv_is_narrow(c))
		return 0;
	r = cuda_narrow(d, c->op.memory.param[0], &narrow, e);
	if (r == 0)
		c->weight = narrow;
	return r;
}

static int conv_bind_transposed(struct cuda_device *d, struct conv *c,
				struct err *e)
{
	size_t bytes = (size_t)c->turn.n * (size_t)c->turn.places *
		       (size_t)c->turn.channels *
		       layout_value(c->op.base.out.type);
	int r = 0;

	if (!c->op.in.plain)
		return 0;
	if (!c->turned)
		r = cuda_alloc(&d->base, bytes, &c->turned, e);
	if (r == 0 && c->op.memory.dx && !c->turned_dx)
		r = cuda_alloc(&d->base, bytes, &c->turned_dx, e);
	return r;
}

static int conv_bind(struct cuda_device *d, struct cuda_op *op, struct err *e)
{
	struct conv *c = conv_of(op);
	int r = conv_bind_weight(d, c, e);

	if (r == 0)
		r = conv_bind_transposed(d, c, e);
	if (r == 0)
		r = conv_choose_by_input(d, c, e);
	if (r >= 0 && op->training && op->memory.dx)
		r = conv_choose_by_x(d, c, e);
	return r < 0 ? r : 0;
}

static void conv_release(struct cuda_device *d, struct cuda_op *op)
{
	struct conv *c = conv_of(op);

	cuda_free(&d->base, c->turned);
	cuda_free(&d->base, c->turned_dx);
	for (int i = 0; i < CONV_PASSES; i++)
		conv_plan_close(c->way[i].plan);
	conv_legacy_release(c);
}

/* ---- Running ---- */

static void conv_forward(struct cuda_device *d, struct cuda_op *op)
{
	struct conv *c = conv_of(op);

	if (c->turned)
		cuda_note(d, kernel_to_nhwc(d->stream, &c->turn,
					    op->memory.in->data, c->turned),
			  op->name);
	conv_run(d, c, CONV_FORWARD);
}

static void conv_backward_weight(struct cuda_device *d, struct conv *c)
{
	conv_run(d, c, CONV_BY_WEIGHT);
	if (conv_is_narrow(c))
		cuda_note(d, kernel_widen(d->stream, c->turn.type,
					  c->weight_count, d->room,
					  c->op.memory.grad[0]),
			  c->op.name);
}

static void conv_backward_x(struct cuda_device *d, struct conv *c)
{
	conv_run(d, c, CONV_BY_X);
	if (c->turned_dx)
		cuda_note(d, kernel_from_nhwc(d->stream, &c->turn,
					      c->turned_dx,
					      c->op.memory.dx->data),
			  c->op.name);
}

static void conv_backward(struct cuda_device *d, struct cuda_op *op)
{
	struct conv *c = conv_of(op);
	const struct op_memory *m = &op->memory;

	if (m->dy[1])
		cuda_note(d, kernel_add_values(d->stream, c->turn.type,
					       layout_count(&op->base.out),
					       m->dy[0]->data,
					       m->dy[1]->data),
			  op->name);
	conv_backward_weight(d, c);
	if (m->dx)
		conv_backward_x(d, c);
}

const struct cuda_kind cuda_conv = {
	.size = sizeof(struct conv),
	.make = conv_make,
	.bind = conv_bind,
	.forward = conv_forward,
	.backward = conv_backward,
	.release = conv_release,
};
