/* linear.c: y = x weight + bias, then ReLU if set. Always in f32, as in the CPU
 * twin: the products are small. Uses cuBLASLt, whose matrices are column-major:
 * our [a][b] is its b x a. The weights in an arena have PyTorch's layout,
 * [out][in]. */
#include <string.h>

#include "trainers/cuda/cuda.h"

enum { ROOM = 32 << 20 };

/* c[m x n] = a[m x k] b[k x n], column-major; turned: a or b is transposed. */
struct product {
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t a, b, c;
	cublasLtMatmulAlgo_t algo;
	size_t room;
};

struct product_shape {
	int turn_a, turn_b;
	size_t m, n, k;
	cublasLtEpilogue_t epilogue;
	const float *bias; /* m values, if the epilogue adds a bias */
};

struct linear {
	struct cuda_op op;
	int in, out;
	struct product forward, by_weight, by_x;
};

static struct linear *linear_of(struct cuda_op *op)
{
	return (struct linear *)op;
}

/* ---- One product ---- */

static cublasStatus_t linear_describe(struct product *p,
				      const struct product_shape *s)
{
	cublasOperation_t a = s->turn_a ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasOperation_t b = s->turn_b ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasStatus_t rc = cublasLtMatmulDescCreate(
		&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);

	if (!rc)
		rc = cublasLtMatmulDescSetAttribute(
			p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof(a));
	if (!rc)
		rc = cublasLtMatmulDescSetAttribute(
			p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof(b));
	if (!rc)
		rc = cublasLtMatmulDescSetAttribute(
			p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &s->epilogue,
			sizeof(s->epilogue));
	if (!rc && s->bias)
		rc = cublasLtMatmulDescSetAttribute(
			p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &s->bias,
			sizeof(s->bias));
	return rc;
}

static cublasStatus_t linear_set_layout(cublasLtMatrixLayout_t *l, int turned,
					size_t rows, size_t columns)
{
	size_t down = turned ? columns : rows, across = turned ? rows : columns;

	return cublasLtMatrixLayoutCreate(l, CUDA_R_32F, down, across,
					  (int64_t)down);
}

/* Limits for an algorithm: the size of our room, the alignment of our arenas,
 * and no sums in the order in which blocks happen to finish. */
static cublasStatus_t linear_limit(cublasLtMatmulPreference_t p)
{
	static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
	};
	const size_t room = ROOM;
	const uint32_t aligned = 64;
	const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
			      CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
	cublasStatus_t rc = cublasLtMatmulPreferenceSetAttribute(
		p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room,
		sizeof(room));

	if (!rc)
		rc = cublasLtMatmulPreferenceSetAttribute(
			p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums,
			sizeof(sums));
	for (int i = 0; !rc && i < 4; i++)
		rc = cublasLtMatmulPreferenceSetAttribute(
			p, alignments[i], &aligned, sizeof(aligned));
	return rc;
}

static cublasStatus_t linear_choose(struct cuda_device *d, struct product *p)
{
	cublasLtMatmulPreference_t preference = NULL;
	cublasLtMatmulHeuristicResult_t found;
	cublasStatus_t rc = cublasLtMatmulPreferenceCreate(&preference);
	int n = 0;

	memset(&found, 0, sizeof(found));
	if (!rc)
		rc = linear_limit(preference);
	if (!rc)
		rc = cublasLtMatmulAlgoGetHeuristic(d->blas, p->desc, p->a,
						    p->b, p->c, p->c,
						    preference, 1, &found, &n);
	if (preference)
		cublasLtMatmulPreferenceDestroy(preference);
	if (!rc && n < 1)
		rc = CUBLAS_STATUS_NOT_SUPPORTED;
	p->algo = found.algo;
	p->room = found.workspaceSize;
	return rc ? rc : found.state;
}

static int linear_product_init(struct cuda_device *d, struct product *p,
			       const struct product_shape *s, const char *name,
			       struct err *e)
{
	cublasStatus_t rc = linear_describe(p, s);

	if (!rc)
		rc = linear_set_layout(&p->a, s->turn_a, s->m, s->k);
	if (!rc)
		rc = linear_set_layout(&p->b, s->turn_b, s->k, s->n);
	if (!rc)
		rc = linear_set_layout(&p->c, 0, s->m, s->n);
	if (!rc)
		rc = linear_choose(d, p);
	return cuda_blas_status(rc, "its product", name, e);
}

static void linear_product_release(struct product *p)
{
	if (p->a)
		cublasLtMatrixLayoutDestroy(p->a);
	if (p->b)
		cublasLtMatrixLayoutDestroy(p->b);
	if (p->c)
		cublasLtMatrixLayoutDestroy(p->c);
	if (p->desc)
		cublasLtMatmulDescDestroy(p->desc);
	memset(p, 0, sizeof(*p));
}

static void linear_product_run(struct cuda_device *d, const struct cuda_op *op,
			       struct product *p, const void *a, const void *b,
			       void *c)
{
	const float one = 1, zero = 0;

	cuda_note_blas(d, cublasLtMatmul(d->blas, p->desc, &one, a, p->a, b,
					 p->b, &zero, c, p->c, c, p->c,
					 &p->algo, d->room, p->room,
					 d->stream),
		       op->name);
}

/* ---- The layer ---- */

static int linear_make(struct cuda_device *d, struct cuda_op *op,
		       const struct op_site *s, struct err *e)
{
	struct linear *l = linear_of(op);
	const struct tensor *in = s->in;
	struct op *base = &op->base;

	if (!in->plain || in->type != TENSOR_F32)
		return err_set(e, ERR_USAGE,
			       "%s: a linear layer must follow the input, an "
			       "average or a linear layer",
			       op->name);
	l->in = in->c * in->h * in->w;
	l->out = base->spec.out;
	layout_rows(&base->out, in->n, l->out);
	base->param_count = 2;
	base->param[0] = (struct op_param){
		"weight", {l->out, l->in, 1, 1},
		(size_t)l->out * (size_t)l->in, (size_t)l->out * (size_t)l->in};
	base->param[1] = (struct op_param){
		"bias", {l->out, 1, 1, 1}, (size_t)l->out, (size_t)l->out};
	return cuda_room(d, ROOM, e);
}

static int linear_bind(struct cuda_device *d, struct cuda_op *op, struct err *e)
{
	struct linear *l = linear_of(op);
	const struct op_memory *m = &op->memory;
	size_t n = (size_t)m->in->n, in = (size_t)l->in, out = (size_t)l->out;
	/* y = weight turned, x; dweight = x, dy turned; dx = weight, dy */
	struct product_shape forward = {
		1, 0, out, n, in,
		op->base.spec.relu ? CUBLASLT_EPILOGUE_RELU_BIAS :
				     CUBLASLT_EPILOGUE_BIAS,
		m->param[1]};
	struct product_shape by_weight = {0, 1, in, out, n,
					  CUBLASLT_EPILOGUE_DEFAULT, NULL};
	struct product_shape by_x = {0, 0, in, n, out,
				     CUBLASLT_EPILOGUE_DEFAULT, NULL};
	int r = linear_product_init(d, &l->forward, &forward, op->name, e);

	if (r < 0 || !op->training)
		return r;
	r = linear_product_init(d, &l->by_weight, &by_weight, op->name, e);
	if (r == 0 && m->dx)
		r = linear_product_init(d, &l->by_x, &by_x, op->name, e);
	return r;
}

static void linear_forward(struct cuda_device *d, struct cuda_op *op)
{
	const struct op_memory *m = &op->memory;

	linear_product_run(d, op, &linear_of(op)->forward, m->param[0],
			   m->in->data, m->out->data);
}

static void linear_backward(struct cuda_device *d, struct cuda_op *op)
{
	struct linear *l = linear_of(op);
	const struct op_memory *m = &op->memory;
	float *dy = m->dy[0]->data;

	cuda_note(d, kernel_mask_and_sum(
			     d->stream, m->in->n, l->out,
			     op->base.spec.relu ? m->out->data : NULL, dy,
			     m->dy[1] ? m->dy[1]->data : NULL, m->grad[1]),
		  op->name);
	linear_product_run(d, op, &l->by_weight, m->in->data, dy, m->grad[0]);
	if (m->dx)
		linear_product_run(d, op, &l->by_x, m->param[0], dy,
				   m->dx->data);
}

static void linear_release(struct cuda_device *d, struct cuda_op *op)
{
	struct linear *l = linear_of(op);

	linear_product_release(&l->forward);
	linear_product_release(&l->by_weight);
	linear_product_release(&l->by_x);
}

const struct cuda_kind cuda_linear = {
	.size = sizeof(struct linear),
	.make = linear_make,
	.bind = linear_bind,
	.forward = linear_forward,
	.backward = linear_backward,
	.release = linear_release,
};
