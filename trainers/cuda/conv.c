/* conv.c: convolutions by cuDNN's legacy calls, which can be captured: nhwc,
 * f32 throughout or bf16 with f32 sums. f32 means f32: no TF32. Only algorithms
 * that give the same bits each time are used. cuDNN's own choice among them is
 * the same in each run; DDP_CUDNN_SEARCH=1 measures instead. */
#include <string.h>

#include "trainers/cuda/cuda.h"

/* The most scratch memory that an algorithm may use. */
static const size_t room_max = (size_t)1 << 30;

enum { WAYS = 3, CHOICES = 16, ALIGN = 256 };
enum way { FORWARD, BY_X, BY_WEIGHT };
static const char *const way_names[WAYS] = {
	"a convolution", "a convolution's gradient by its input",
	"a convolution's gradient by its weights"};

/* How one pass of a convolution is computed. */
struct choice {
	cudnnConvolutionDescriptor_t desc;
	int algorithm;
	size_t room;
};

struct conv {
	struct cuda_op op;
	cudnnTensorDescriptor_t x, y;
	cudnnFilterDescriptor_t w;
	struct choice way[WAYS];
	const void *weight;  /* in the type used for the product */
	size_t weight_count; /* bf16: first computed as bf16 */
	/* Converts a plain input into memory of our own. */
	struct kernel_transpose turn;
	void *turned, *turned_dx;
};

static struct conv *conv_of(struct cuda_op *op)
{
	return (struct conv *)op;
}

static int conv_is_bf16(const struct conv *c)
{
	return c->op.base.out.type == TENSOR_BF16;
}

/* ---- Shapes ---- */

static int conv_check(const struct cuda_device *d, const struct op_site *s,
		      const char *name, struct err *e)
{
	const struct op_spec *k = &s->spec;
	const struct tensor *in = s->in;

	if (!(in->plain && in->type == TENSOR_F32) &&
	    (in->layout != &layout_nhwc || in->type != d->base.type))
		return err_set(e, ERR_USAGE, "%s: a convolution comes after "
			       "the input, or what is made of images", name);
	if (layout_windows(in->h, k->kernel, k->stride, k->pad) < 1 ||
	    layout_windows(in->w, k->kernel, k->stride, k->pad) < 1)
		return err_set(e, ERR_USAGE, "%s: an image of %d x %d is too "
			       "small for a window of %d", name, in->h, in->w,
			       k->kernel);
	return 0;
}

static cudnnStatus_t conv_describe(struct conv *c)
{
	const struct tensor *in = &c->op.in, *out = &c->op.base.out;
	const struct op_spec *k = &c->op.base.spec;
	const struct layout_filter *f = &c->op.filter;
	cudnnDataType_t type = conv_is_bf16(c) ? CUDNN_DATA_BFLOAT16 :
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
	for (int i = 0; !rc && i < WAYS; i++) {
		cudnnConvolutionDescriptor_t *desc = &c->way[i].desc;

		rc = cudnnCreateConvolutionDescriptor(desc);
		if (!rc)
			rc = cudnnSetConvolution2dDescriptor(
				*desc, k->pad, k->pad, k->stride, k->stride, 1,
				1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
		if (!rc)
			rc = cudnnSetConvolutionMathType(
				*desc, conv_is_bf16(c) ? CUDNN_TENSOR_OP_MATH :
						    CUDNN_FMA_MATH);
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
		.bf16 = conv_is_bf16(c), .n = in->n, .c = in->c,
		.places = in->h * in->w, .channels = op->filter.in_padded};
	return cuda_dnn_status(conv_describe(c), "its shape", op->name, e);
}

/* ---- Algorithms ---- */

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

/* Takes the first algorithm that works; cuDNN lists the best first. */
static int conv_take_algorithm(struct conv *c, enum way way,
			       const struct answer *a, int n, struct err *e)
{
	struct choice *to = &c->way[way];

	for (int i = 0; i < n; i++) {
		if (a[i].status != CUDNN_STATUS_SUCCESS ||
		    a[i].determinism != CUDNN_DETERMINISTIC ||
		    a[i].room > room_max)
			continue;
		to->algorithm = a[i].algorithm;
		to->room = a[i].room;
		/* an f32 convolution keeps f32 math, whatever cuDNN
		 * considered */
		if (!conv_is_bf16(c))
			return 0;
		return cuda_dnn_status(
			cudnnSetConvolutionMathType(to->desc, a[i].math),
			way_names[way], c->op.name, e);
	}
	return err_set(e, ERR_SYSTEM, "%s: cuDNN %zu has no algorithm for %s "
		       "of %d x %d x %d by %d filters of %d x %d",
		       c->op.name, cudnnGetVersion(), way_names[way],
		       c->op.in.c, c->op.in.h, c->op.in.w, c->op.base.spec.out,
		       c->op.filter.kernel, c->op.filter.kernel);
}

static cudnnStatus_t conv_find_forward(struct cuda_device *d, struct conv *c,
				       struct answer *a, int *n)
{
	const struct op_memory *m = &c->op.memory;
	cudnnConvolutionFwdAlgoPerf_t p[CHOICES];
	cudnnConvolutionDescriptor_t desc = c->way[FORWARD].desc;
	cudnnStatus_t rc;

	if (d->search)
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
	cudnnConvolutionDescriptor_t desc = c->way[BY_X].desc;
	cudnnStatus_t rc;

	if (d->search)
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

/* bf16: bytes of the bf16 gradient, at the start of the room. */
static size_t conv_narrow_bytes(const struct conv *c)
{
	size_t bytes = c->weight_count * sizeof(uint16_t);

	return conv_is_bf16(c) ? (bytes + ALIGN - 1) / ALIGN * ALIGN : 0;
}

static void *conv_dweight(const struct cuda_device *d, const struct conv *c)
{
	return conv_is_bf16(c) ? d->room : c->op.memory.grad[0];
}

static cudnnStatus_t conv_find_by_weight(struct cuda_device *d, struct conv *c,
					 struct answer *a, int *n)
{
	const struct op_memory *m = &c->op.memory;
	cudnnConvolutionBwdFilterAlgoPerf_t p[CHOICES];
	cudnnConvolutionDescriptor_t desc = c->way[BY_WEIGHT].desc;
	size_t used = conv_narrow_bytes(c);
	cudnnStatus_t rc;

	if (d->search)
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

static int conv_choose(struct cuda_device *d, struct conv *c, enum way way,
		       struct err *e)
{
	static cudnnStatus_t (*const asks[WAYS])(struct cuda_device *,
						 struct conv *,
						 struct answer *, int *) = {
		conv_find_forward, conv_find_by_x, conv_find_by_weight};
	struct answer a[CHOICES];
	int n = 0;
	cudnnStatus_t status = asks[way](d, c, a, &n);
	int r = cuda_dnn_status(status, way_names[way], c->op.name, e);

	if (status == CUDNN_STATUS_SUCCESS)
		r = conv_take_algorithm(c, way, a, n, e);
	return r < 0 ? r
		     : cuda_room(d, conv_narrow_bytes(c) + c->way[way].room, e);
}

/* ---- Memory ---- */

static int conv_bind_weight(struct cuda_device *d, struct conv *c,
			    struct err *e)
{
	uint16_t *narrow;
	int r;

	c->weight = c->op.memory.param[0];
	if (!conv_is_bf16(c))
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
	if (r == 0 && d->search)
		r = cuda_room(d, room_max / 2, e);
	if (r == 0)
		r = conv_choose(d, c, FORWARD, e);
	if (r == 0 && op->training)
		r = conv_choose(d, c, BY_WEIGHT, e);
	if (r == 0 && op->training && op->memory.dx)
		r = conv_choose(d, c, BY_X, e);
	return r;
}

static void conv_release(struct cuda_device *d, struct cuda_op *op)
{
	struct conv *c = conv_of(op);

	cuda_free(&d->base, c->turned);
	cuda_free(&d->base, c->turned_dx);
	for (int i = 0; i < WAYS; i++)
		if (c->way[i].desc)
			cudnnDestroyConvolutionDescriptor(c->way[i].desc);
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
	const struct choice *way = &c->way[FORWARD];

	if (c->turned)
		cuda_note(d, kernel_to_nhwc(d->stream, &c->turn, m->in->data,
					    c->turned),
			  op->name);
	cuda_note_dnn(d, cudnnConvolutionForward(
				 d->cudnn, &one, c->x,
				 c->turned ? c->turned : m->in->data, c->w,
				 c->weight, way->desc,
				 (cudnnConvolutionFwdAlgo_t)way->algorithm,
				 d->room, way->room, &zero, c->y,
				 m->out->data),
		      op->name);
}

static void conv_backward_weight(struct cuda_device *d, struct conv *c)
{
	const struct op_memory *m = &c->op.memory;
	const struct choice *way = &c->way[BY_WEIGHT];

	cuda_note_dnn(d,
		      cudnnConvolutionBackwardFilter(
			      d->cudnn, &one, c->x,
			      c->turned ? c->turned : m->in->data, c->y,
			      m->dy[0]->data, way->desc,
			      (cudnnConvolutionBwdFilterAlgo_t)way->algorithm,
			      (char *)d->room + conv_narrow_bytes(c), way->room,
			      &zero, c->w, conv_dweight(d, c)),
		      c->op.name);
	if (conv_is_bf16(c))
		cuda_note(d, kernel_widen(d->stream, c->weight_count, d->room,
					  m->grad[0]),
			  c->op.name);
}

static void conv_backward_x(struct cuda_device *d, struct conv *c)
{
	const struct op_memory *m = &c->op.memory;
	const struct choice *way = &c->way[BY_X];

	cuda_note_dnn(d, cudnnConvolutionBackwardData(
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
		cuda_note(d, kernel_add_values(d->stream, conv_is_bf16(c),
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
