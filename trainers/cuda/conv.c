/* conv.c: convolutions by cuDNN, which can be captured: nhwc, f32 throughout,
 * or bf16 or fp16 with f32 sums. f32 means f32: TF32 only if asked for. Each
 * pass has a plan of the graph API (conv_tune.h); where that offers none, the
 * legacy calls compute it, and the device's note says so. Both give the same
 * bits each time, if cuDNN can. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "trainers/cuda/cuda.h"

enum { CHOICES = 16, ALIGN = 256 };
static const char *const way_names[CONV_PASSES] = {
	"a convolution", "a convolution's gradient by its input",
	"a convolution's gradient by its weights"};

/* How one pass of a convolution is computed. */
struct choice {
	struct conv_plan *plan; /* NULL: by a legacy algorithm */
	cudnnConvolutionDescriptor_t desc;
	int algorithm;
	size_t room;
};

struct conv {
	struct cuda_op op;
	cudnnTensorDescriptor_t x, y;
	cudnnFilterDescriptor_t w;
	struct choice way[CONV_PASSES];
	const void *weight;  /* in the type of the products */
	size_t weight_count; /* 16 bits: first computed so */
	/* Converts a plain input into the operation's own memory. */
	struct kernel_transpose turn;
	void *turned, *turned_dx;
};

static struct conv *conv_of(struct cuda_op *op)
{
	return (struct conv *)op;
}

static int conv_is_narrow(const struct conv *c)
{
	return c->op.base.out.type != TENSOR_F32; /* bf16 or fp16 */
}

/* Forbids a legacy call to round more than the precision allows. */
static cudnnMathType_t conv_math(const struct cuda_device *d,
				 const struct conv *c)
{
	if (conv_is_narrow(c))
		return CUDNN_TENSOR_OP_MATH;
	/* the default includes TF32 */
	return d->tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
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

static cudnnStatus_t conv_describe(const struct cuda_device *d, struct conv *c)
{
	const struct tensor *in = &c->op.in, *out = &c->op.base.out;
	const struct op_spec *k = &c->op.base.spec;
	const struct layout_filter *f = &c->op.filter;
	cudnnDataType_t type = out->type == TENSOR_F16  ? CUDNN_DATA_HALF :
			       out->type == TENSOR_BF16 ? CUDNN_DATA_BFLOAT16 :
							  CUDNN_DATA_FLOAT;
	cudnnStatus_t rc = cudnnCreateTensorDescriptor(&c->x);

	if (!rc)
		rc = cudnnCreateTensorDescriptor(&c->y);
	if (!rc)
		rc = cudnnCreateFilterDescriptor(&c->w);
	if (!rc)
		rc = cudnnSetTensor4dDescriptor(c->x, CUDNN_TENSOR_NHWC, type,
						in->n, f->in_padded, in->h,
						in->w);
	if (!rc)
		rc = cudnnSetTensor4dDescriptor(c->y, CUDNN_TENSOR_NHWC, type,
						out->n, f->out_padded, out->h,
						out->w);
	if (!rc)
		rc = cudnnSetFilter4dDescriptor(c->w, type, CUDNN_TENSOR_NHWC,
						f->out_padded, f->in_padded,
						f->kernel, f->kernel);
	for (int i = 0; !rc && i < CONV_PASSES; i++) {
		cudnnConvolutionDescriptor_t *desc = &c->way[i].desc;

		rc = cudnnCreateConvolutionDescriptor(desc);
		if (!rc)
			rc = cudnnSetConvolution2dDescriptor(
				*desc, k->pad, k->pad, k->stride, k->stride, 1,
				1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
		if (!rc)
			rc = cudnnSetConvolutionMathType(*desc,
							 conv_math(d, c));
	}
	return rc;
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
	c->turn = (struct kernel_transpose){
		.type = cuda_kernel_type(base->out.type), .n = in->n,
		.c = in->c, .places = in->h * in->w,
		.channels = op->filter.in_padded};
	r = conv_check_size(c, e);
	return r < 0 ? r : cuda_dnn_status(conv_describe(d, c), "its shape",
					   op->name, e);
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

/* ---- Legacy algorithms ---- */

/* The common part of cuDNN's three kinds of answers. */
struct answer {
	int algorithm;
	cudnnStatus_t status;
	size_t room;
	cudnnDeterminism_t determinism;
	cudnnMathType_t math;
};

#define ANSWER(p)                                                             \
	((struct answer){(int)(p).algo, (p).status, (p).memory,               \
			 (p).determinism, (p).mathType})

/* The first algorithm that works, or -1; cuDNN lists the best first. */
static int conv_first_algorithm(const struct answer *a, int n, int any)
{
	for (int i = 0; i < n; i++)
		if (a[i].status == CUDNN_STATUS_SUCCESS &&
		    (any || a[i].determinism == CUDNN_DETERMINISTIC) &&
		    a[i].room <= conv_room_max)
			return i;
	return -1;
}

static int conv_refuse_varying(const struct conv *c, enum conv_pass way,
			       struct err *e)
{
	return err_set(e, ERR_SYSTEM, "--deterministic: %s: cuDNN %zu computes "
		       "%s only in an order that varies; use another "
		       "--precision, or leave --deterministic out",
		       c->op.name, cudnnGetVersion(), way_names[way]);
}

static void conv_note_varies(struct cuda_device *d, const struct conv *c,
			     enum conv_pass way)
{
	char line[256];

	snprintf(line, sizeof(line), "%s: cuDNN %zu computes %s only in an "
		 "order that varies: two runs may differ in the last digits",
		 c->op.name, cudnnGetVersion(), way_names[way]);
	if (d->note)
		d->note(line);
}

static int conv_take_algorithm(struct cuda_device *d, struct conv *c,
			       enum conv_pass way, const struct answer *a,
			       int n, struct err *e)
{
	struct choice *to = &c->way[way];
	int i = conv_first_algorithm(a, n, 0);

	if (i < 0) {
		i = conv_first_algorithm(a, n, 1);
		if (i >= 0 && d->deterministic)
			return conv_refuse_varying(c, way, e);
		if (i >= 0)
			conv_note_varies(d, c, way);
	}
	if (i < 0)
		return err_set(e, ERR_SYSTEM, "%s: cuDNN %zu has no algorithm "
			       "for %s of %d x %d x %d by %d filters of "
			       "%d x %d", c->op.name, cudnnGetVersion(),
			       way_names[way], c->op.in.c, c->op.in.h,
			       c->op.in.w, c->op.base.spec.out,
			       c->op.filter.kernel, c->op.filter.kernel);
	to->algorithm = a[i].algorithm;
	to->room = a[i].room;
	/* an f32 convolution keeps f32 math, whatever cuDNN considered */
	if (conv_math(d, c) == CUDNN_FMA_MATH)
		return 0;
	return cuda_dnn_status(
		cudnnSetConvolutionMathType(to->desc, a[i].math),
		way_names[way], c->op.name, e);
}

static cudnnStatus_t conv_find_forward(struct cuda_device *d, struct conv *c,
				       struct answer *a, int *n)
{
	const struct op_memory *m = &c->op.memory;
	cudnnConvolutionFwdAlgoPerf_t p[CHOICES];
	cudnnConvolutionDescriptor_t desc = c->way[CONV_FORWARD].desc;
	cudnnStatus_t rc;

	if (d->search == CONV_SEARCH)
		rc = cudnnFindConvolutionForwardAlgorithmEx(
			d->cudnn, c->x, c->turned ? c->turned : m->in->data,
			c->w, c->weight, desc, c->y, m->out->data, CHOICES, n,
			p, d->room, d->room_size);
	else
		rc = cudnnGetConvolutionForwardAlgorithm_v7(
			d->cudnn, c->x, c->w, desc, c->y, CHOICES, n, p);
	for (int i = 0; !rc && i < *n; i++)
		a[i] = ANSWER(p[i]);
	return rc;
}

static void *conv_dx(const struct conv *c)
{
	return c->turned_dx ? c->turned_dx : c->op.memory.dx->data;
}

static cudnnStatus_t conv_find_by_x(struct cuda_device *d, struct conv *c,
				    struct answer *a, int *n)
{
	const struct op_memory *m = &c->op.memory;
	cudnnConvolutionBwdDataAlgoPerf_t p[CHOICES];
	cudnnConvolutionDescriptor_t desc = c->way[CONV_BY_X].desc;
	cudnnStatus_t rc;

	if (d->search == CONV_SEARCH)
		rc = cudnnFindConvolutionBackwardDataAlgorithmEx(
			d->cudnn, c->w, c->weight, c->y, m->dy[0]->data, desc,
			c->x, conv_dx(c), CHOICES, n, p, d->room, d->room_size);
	else
		rc = cudnnGetConvolutionBackwardDataAlgorithm_v7(
			d->cudnn, c->w, c->y, desc, c->x, CHOICES, n, p);
	for (int i = 0; !rc && i < *n; i++)
		a[i] = ANSWER(p[i]);
	return rc;
}

/* Bytes of a gradient in 16 bits, at the start of the room. */
static size_t conv_narrow_bytes(const struct conv *c)
{
	size_t bytes = c->weight_count * sizeof(uint16_t);

	return conv_is_narrow(c) ? (bytes + ALIGN - 1) / ALIGN * ALIGN : 0;
}

static void *conv_dweight(const struct cuda_device *d, const struct conv *c)
{
	return conv_is_narrow(c) ? d->room : c->op.memory.grad[0];
}

static cudnnStatus_t conv_find_by_weight(struct cuda_device *d, struct conv *c,
					 struct answer *a, int *n)
{
	const struct op_memory *m = &c->op.memory;
	cudnnConvolutionBwdFilterAlgoPerf_t p[CHOICES];
	cudnnConvolutionDescriptor_t desc = c->way[CONV_BY_WEIGHT].desc;
	size_t used = conv_narrow_bytes(c);
	cudnnStatus_t rc;

	if (d->search == CONV_SEARCH)
		rc = cudnnFindConvolutionBackwardFilterAlgorithmEx(
			d->cudnn, c->x, c->turned ? c->turned : m->in->data,
			c->y, m->dy[0]->data, desc, c->w, conv_dweight(d, c),
			CHOICES, n, p, (char *)d->room + used,
			d->room_size - used);
	else
		rc = cudnnGetConvolutionBackwardFilterAlgorithm_v7(
			d->cudnn, c->x, c->y, desc, c->w, CHOICES, n, p);
	for (int i = 0; !rc && i < *n; i++)
		a[i] = ANSWER(p[i]);
	return rc;
}

static int conv_choose_algorithm(struct cuda_device *d, struct conv *c,
				 enum conv_pass way, struct err *e)
{
	static cudnnStatus_t (*const asks[CONV_PASSES])(
		struct cuda_device *, struct conv *, struct answer *, int *) = {
		conv_find_forward, conv_find_by_x, conv_find_by_weight};
	struct answer a[CHOICES];
	cudnnStatus_t status;
	int n = 0, r = 0;

	if (d->search == CONV_SEARCH)
		r = cuda_room(d, conv_room_max / 2, e);
	if (r < 0)
		return r;
	status = asks[way](d, c, a, &n);
	if (status)
		return cuda_dnn_status(status, way_names[way], c->op.name, e);
	return conv_take_algorithm(d, c, way, a, n, e);
}

/* ---- Plans ---- */

static const void *conv_x(const struct conv *c)
{
	return c->turned ? c->turned : c->op.memory.in->data;
}

/* The pass's current memory: d->room may move. */
static struct conv_memory conv_memory_of(const struct cuda_device *d,
					 const struct conv *c,
					 enum conv_pass way)
{
	const struct op_memory *m = &c->op.memory;
	struct conv_memory of = {conv_x(c), c->weight,
				 way == CONV_FORWARD ? m->out->data :
						       m->dy[0]->data,
				 d->room};

	if (way == CONV_BY_X)
		of.x = conv_dx(c);
	if (way == CONV_BY_WEIGHT) {
		of.w = conv_dweight(d, c);
		of.room = (char *)d->room + conv_narrow_bytes(c);
	}
	return of;
}

static int conv_choose_legacy(struct cuda_device *d, struct conv *c,
			      enum conv_pass way, struct err *e)
{
	char line[256];

	snprintf(line, sizeof(line), "%s: cuDNN %zu plans no graph for %s: "
		 "its older calls compute it, which may take longer",
		 c->op.name, cudnnGetVersion(), way_names[way]);
	if (d->note)
		d->note(line);
	return conv_choose_algorithm(d, c, way, e);
}

static int conv_choose(struct cuda_device *d, struct conv *c,
		       enum conv_pass way, struct err *e)
{
	struct choice *to = &c->way[way];
	struct conv_shape s = conv_shape_of(d, c);
	int r = cuda_room(d, conv_narrow_bytes(c), e);

	if (r < 0)
		return r;
	conv_plan_close(to->plan);
	to->plan = conv_tune(d, &s, way, conv_memory_of(d, c, way));
	if (to->plan)
		to->room = conv_plan_room(to->plan);
	else
		r = conv_choose_legacy(d, c, way, e);
	return r < 0 ? r : cuda_room(d, conv_narrow_bytes(c) + to->room, e);
}

/* Runs the pass, if it has a plan. */
static int conv_run_plan(struct cuda_device *d, struct conv *c,
			 enum conv_pass way)
{
	struct conv_memory m = conv_memory_of(d, c, way);
	struct conv_plan *p = c->way[way].plan;

	if (p)
		cuda_note_dnn(d, conv_plan_run(p, d->cudnn, &m), c->op.name);
	return p != NULL;
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
		r = conv_choose(d, c, CONV_FORWARD, e);
	if (r == 0 && op->training)
		r = conv_choose(d, c, CONV_BY_WEIGHT, e);
	if (r == 0 && op->training && op->memory.dx)
		r = conv_choose(d, c, CONV_BY_X, e);
	return r;
}

static void conv_release(struct cuda_device *d, struct cuda_op *op)
{
	struct conv *c = conv_of(op);

	cuda_free(&d->base, c->turned);
	cuda_free(&d->base, c->turned_dx);
	for (int i = 0; i < CONV_PASSES; i++) {
		conv_plan_close(c->way[i].plan);
		if (c->way[i].desc)
			cudnnDestroyConvolutionDescriptor(c->way[i].desc);
	}
	if (c->w)
		cudnnDestroyFilterDescriptor(c->w);
	if (c->y)
		cudnnDestroyTensorDescriptor(c->y);
	if (c->x)
		cudnnDestroyTensorDescriptor(c->x);
}

/* ---- Running ---- */

static const float one = 1, zero = 0;

static void conv_forward(struct cuda_device *d, struct cuda_op *op)
{
	struct conv *c = conv_of(op);
	const struct op_memory *m = &op->memory;
	const struct choice *way = &c->way[CONV_FORWARD];

	if (c->turned)
		cuda_note(d, kernel_to_nhwc(d->stream, &c->turn, m->in->data,
					    c->turned),
			  op->name);
	if (conv_run_plan(d, c, CONV_FORWARD))
		return;
	cuda_note_dnn(d, cudnnConvolutionForward(
				 d->cudnn, &one, c->x, conv_x(c), c->w,
				 c->weight, way->desc,
				 (cudnnConvolutionFwdAlgo_t)way->algorithm,
				 d->room, way->room, &zero, c->y,
				 m->out->data),
		      op->name);
}

static void conv_backward_weight(struct cuda_device *d, struct conv *c)
{
	const struct op_memory *m = &c->op.memory;
	const struct choice *way = &c->way[CONV_BY_WEIGHT];

	if (!conv_run_plan(d, c, CONV_BY_WEIGHT))
		cuda_note_dnn(
			d,
			cudnnConvolutionBackwardFilter(
				d->cudnn, &one, c->x, conv_x(c), c->y,
				m->dy[0]->data, way->desc,
				(cudnnConvolutionBwdFilterAlgo_t)way->algorithm,
				(char *)d->room + conv_narrow_bytes(c),
				way->room, &zero, c->w, conv_dweight(d, c)),
			c->op.name);
	if (conv_is_narrow(c))
		cuda_note(d, kernel_widen(d->stream, c->turn.type,
					  c->weight_count, d->room,
					  m->grad[0]),
			  c->op.name);
}

static void conv_backward_x(struct cuda_device *d, struct conv *c)
{
	const struct op_memory *m = &c->op.memory;
	const struct choice *way = &c->way[CONV_BY_X];

	if (!conv_run_plan(d, c, CONV_BY_X))
		cuda_note_dnn(
			d,
			cudnnConvolutionBackwardData(
				d->cudnn, &one, c->w, c->weight, c->y,
				m->dy[0]->data, way->desc,
				(cudnnConvolutionBwdDataAlgo_t)way->algorithm,
				d->room, way->room, &zero, c->x, conv_dx(c)),
			c->op.name);
	if (c->turned_dx)
		cuda_note(d, kernel_from_nhwc(d->stream, &c->turn,
					      c->turned_dx, m->dx->data),
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
