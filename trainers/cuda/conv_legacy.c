/* conv_legacy.c: the passes of a convolution by cuDNN's older calls, for where
 * its graph API plans none. */
#include <stdio.h>

#include "trainers/cuda/conv.h"

enum { CHOICES = 16 };
static const char *const way_names[CONV_PASSES] = {
	"a convolution", "a convolution's gradient by its input",
	"a convolution's gradient by its weights"};

/* ---- Shapes ---- */

/* Forbids a legacy call to round more than the precision allows. */
static cudnnMathType_t conv_math(const struct cuda_device *d,
				 const struct conv *c)
{
	if (conv_is_narrow(c))
		return CUDNN_TENSOR_OP_MATH;
	/* the default includes TF32 */
	return d->tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

cudnnStatus_t conv_legacy_describe(const struct cuda_device *d, struct conv *c)
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

void conv_legacy_release(struct conv *c)
{
	for (int i = 0; i < CONV_PASSES; i++)
		if (c->way[i].desc)
			cudnnDestroyConvolutionDescriptor(c->way[i].desc);
	if (c->w)
		cudnnDestroyFilterDescriptor(c->w);
	if (c->y)
		cudnnDestroyTensorDescriptor(c->y);
	if (c->x)
		cudnnDestroyTensorDescriptor(c->x);
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
			d->cudnn, c->x, conv_x(c),
			c->w, c->weight, desc, c->y, m->out->data, CHOICES, n,
			p, d->room, d->room_size);
	else
		rc = cudnnGetConvolutionForwardAlgorithm_v7(
			d->cudnn, c->x, c->w, desc, c->y, CHOICES, n, p);
	for (int i = 0; !rc && i < *n; i++)
		a[i] = ANSWER(p[i]);
	return rc;
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
			d->cudnn, c->x, conv_x(c),
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

int conv_legacy_choose(struct cuda_device *d, struct conv *c,
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

/* ---- Running ---- */

void conv_legacy_run(struct cuda_device *d, struct conv *c, enum conv_pass way)
{
	static const float one = 1, zero = 0;
	const struct op_memory *m = &c->op.memory;
	const struct choice *w = &c->way[way];
	cudnnStatus_t rc;

	if (way == CONV_FORWARD)
		rc = cudnnConvolutionForward(
			d->cudnn, &one, c->x, conv_x(c), c->w, c->weight,
			w->desc, (cudnnConvolutionFwdAlgo_t)w->algorithm,
			d->room, w->room, &zero, c->y, m->out->data);
	else if (way == CONV_BY_X)
		rc = cudnnConvolutionBackwardData(
			d->cudnn, &one, c->w, c->weight, c->y, m->dy[0]->data,
			w->desc, (cudnnConvolutionBwdDataAlgo_t)w->algorithm,
			d->room, w->room, &zero, c->x, conv_dx(c));
	else
		rc = cudnnConvolutionBackwardFilter(
			d->cudnn, &one, c->x, conv_x(c), c->y, m->dy[0]->data,
			w->desc, (cudnnConvolutionBwdFilterAlgo_t)w->algorithm,
			(char *)d->room + conv_narrow_bytes(c), w->room, &zero,
			c->w, conv_dweight(d, c));
	cuda_note_dnn(d, rc, c->op.name);
}
