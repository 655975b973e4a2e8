/* conv_graph.c: builds operation graphs from the lists of their operations. A
 * descriptor must not be freed before what refers to it, so a graph keeps all
 * that it is made of. */
#include "trainers/cuda/conv_graph.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { ALIGNMENT = 16 };

const char *const conv_pass_names[CONV_GRAPHS] = {
	[CONV_FORWARD] = "forward",
	[CONV_BY_X] = "by_x",
	[CONV_BY_WEIGHT] = "by_weight",
	[CONV_STATS] = "forward+sums",
	[CONV_NORM_STATS] = "norm+forward+sums",
	[CONV_NORM_BY_WEIGHT] = "norm+by_weight",
	[CONV_BY_X_NORM] = "by_x+norm",
};

typedef cudnnBackendDescriptor_t desc;

/* ---- Descriptors ---- */

static desc graph_part(struct conv_graph *g, cudnnBackendDescriptorType_t type)
{
	desc d = NULL;

	if (!g->rc && g->parts == CONV_PARTS_MAX)
		g->rc = CUDNN_STATUS_ALLOC_FAILED;
	if (!g->rc)
		g->rc = cudnnBackendCreateDescriptor(type, &d);
	if (!g->rc)
		g->part[g->parts++] = d;
	return d;
}

static void graph_set(struct conv_graph *g, desc d,
		      cudnnBackendAttributeName_t name,
		      cudnnBackendAttributeType_t type, int64_t count,
		      const void *values)
{
	if (!g->rc)
		g->rc = cudnnBackendSetAttribute(d, name, type, count, values);
}

static void graph_set_int(struct conv_graph *g, desc d,
			  cudnnBackendAttributeName_t name, int64_t value)
{
	graph_set(g, d, name, CUDNN_TYPE_INT64, 1, &value);
}

static void graph_set_desc(struct conv_graph *g, desc d,
			   cudnnBackendAttributeName_t name, desc value)
{
	graph_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void graph_set_f32(struct conv_graph *g, desc d,
			  cudnnBackendAttributeName_t name)
{
	cudnnDataType_t type = CUDNN_DATA_FLOAT;

	graph_set(g, d, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

static void graph_finalize(struct conv_graph *g, desc d)
{
	if (!g->rc)
		g->rc = cudnnBackendFinalize(d);
}

static void graph_add(struct conv_graph *g, desc op)
{
	graph_finalize(g, op);
	if (!g->rc && g->ops == CONV_OPS_MAX)
		g->rc = CUDNN_STATUS_ALLOC_FAILED;
	if (!g->rc)
		g->op[g->ops++] = op;
}

/* ---- Tensors ---- */

static desc graph_tensor(struct conv_graph *g, int64_t id, bool is_virtual,
			 cudnnDataType_t type, int n, int c, int h, int w)
{
	int64_t dims[] = {n, c, h, w};
	int64_t strides[] = {(int64_t)h * w * c, 1, (int64_t)w * c, c};
	desc d = graph_part(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

	graph_set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
		  &type);
	graph_set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4,
		  dims);
	graph_set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4,
		  strides);
	graph_set_int(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
	graph_set_int(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, ALIGNMENT);
	graph_set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
		  &is_virtual);
	graph_finalize(g, d);
	return d;
}

/* A tensor in memory. */
static desc graph_real(struct conv_graph *g, enum conv_tensor t)
{
	const struct conv_shape *s = g->shape;
	int64_t id = conv_tensor_id(t);

	g->uses |= 1u << t;
	switch (t) {
	case CONV_X:
	case CONV_NORM_X:
		return graph_tensor(g, id, false, g->type, s->n, s->c, s->h,
				    s->w);
	case CONV_W:
		return graph_tensor(g, id, false, g->type, s->k, s->c,
				    s->kernel, s->kernel);
	case CONV_Y:
		return graph_tensor(g, id, false, g->type, s->n, s->k,
				    s->out_h, s->out_w);
	case CONV_SCALE:
	case CONV_BIAS:
		return graph_tensor(g, id, false, g->type, 1, s->c, 1, 1);
	case CONV_SUM:
	case CONV_SQUARES:
		return graph_tensor(g, id, false, CUDNN_DATA_FLOAT, 1, s->k, 1,
				    1);
	default:
		return graph_tensor(g, id, false, CUDNN_DATA_FLOAT, 1, s->c, 1,
				    1);
	}
}

/* A tensor of x's shape between two operations, which is never in memory. */
static desc graph_inner(struct conv_graph *g, cudnnDataType_t type)
{
	const struct conv_shape *s = g->shape;

	return graph_tensor(g, CONV_TENSORS + 1 + g->inner++, true, type, s->n,
			    s->c, s->h, s->w);
}

/* ---- Operations ---- */

static desc graph_window(struct conv_graph *g)
{
	const struct conv_shape *s = g->shape;
	int64_t pad[] = {s->pad, s->pad}, dilation[] = {1, 1};
	int64_t stride[] = {s->stride, s->stride};
	cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
	desc d = graph_part(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);

	graph_set_int(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
	graph_set_f32(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
	graph_set(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
		  CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
	graph_set(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64,
		  2, pad);
	graph_set(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64,
		  2, pad);
	graph_set(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2,
		  dilation);
	graph_set(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
		  CUDNN_TYPE_INT64, 2, stride);
	graph_finalize(g, d);
	return d;
}

/* cuDNN's names for the same tensor in each pass. */
struct pass_names {
	cudnnBackendDescriptorType_t type;
	cudnnBackendAttributeName_t alpha, beta, conv, x, w, y;
};

#define PASS(operation, name, x, w, y)                                        \
	{                                                                     \
		CUDNN_BACKEND_OPERATION_CONVOLUTION_##operation##_DESCRIPTOR, \
		CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_ALPHA,              \
		CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_BETA,               \
		CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_CONV_DESC,          \
		CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_##x,                \
		CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_##w,                \
		CUDNN_ATTR_OPERATION_CONVOLUTION_##name##_##y                 \
	}

static const struct pass_names pass_names[CONV_PASSES] = {
	[CONV_FORWARD] = PASS(FORWARD, FORWARD, X, W, Y),
	[CONV_BY_X] = PASS(BACKWARD_DATA, BWD_DATA, DX, W, DY),
	[CONV_BY_WEIGHT] = PASS(BACKWARD_FILTER, BWD_FILTER, X, DW, DY),
};

/* Adds one of the three passes; x may be a tensor in between. Returns y. */
static desc graph_conv(struct conv_graph *g, enum conv_pass pass, desc x)
{
	const struct pass_names *names = &pass_names[pass];
	desc w = graph_real(g, CONV_W), y = graph_real(g, CONV_Y);
	desc window = graph_window(g), op = graph_part(g, names->type);
	float one = 1, zero = 0;

	graph_set_desc(g, op, names->conv, window);
	graph_set_desc(g, op, names->x, x);
	graph_set_desc(g, op, names->w, w);
	graph_set_desc(g, op, names->y, y);
	graph_set(g, op, names->alpha, CUDNN_TYPE_FLOAT, 1, &one);
	graph_set(g, op, names->beta, CUDNN_TYPE_FLOAT, 1, &zero);
	graph_add(g, op);
	return y;
}

static desc graph_pointwise(struct conv_graph *g, cudnnPointwiseMode_t mode)
{
	desc how = graph_part(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), op;

	graph_set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE,
		  1, &mode);
	graph_set_f32(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC);
	graph_finalize(g, how);
	op = graph_part(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
		       how);
	return op;
}

/* mode(x, b); b NULL: mode(x). */
static desc graph_apply(struct conv_graph *g, cudnnPointwiseMode_t mode, desc x,
			desc b, cudnnDataType_t type)
{
	desc op = graph_pointwise(g, mode), y = graph_inner(g, type);

	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
	if (b)
		graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
	graph_add(g, op);
	return y;
}

/* relu(x * scale + bias). */
static desc graph_norm(struct conv_graph *g, cudnnDataType_t type)
{
	desc x = graph_real(g, CONV_X), scale = graph_real(g, CONV_SCALE);
	desc bias = graph_real(g, CONV_BIAS);

	x = graph_apply(g, CUDNN_POINTWISE_MUL, x, scale, type);
	x = graph_apply(g, CUDNN_POINTWISE_ADD, x, bias, type);
	return graph_apply(g, CUDNN_POINTWISE_RELU_FWD, x, NULL, type);
}

static void graph_sums(struct conv_graph *g, desc y)
{
	desc sum = graph_real(g, CONV_SUM);
	desc squares = graph_real(g, CONV_SQUARES);
	cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
	desc op = graph_part(g, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);

	graph_set(g, op, CUDNN_ATTR_OPERATION_GENSTATS_MODE,
		  CUDNN_TYPE_GENSTATS_MODE, 1, &mode);
	graph_set_f32(g, op, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares);
	graph_add(g, op);
}

/* The gradient where the ReLU was open, into memory. */
static desc graph_relu_back(struct conv_graph *g, desc dx, desc z)
{
	desc op = graph_pointwise(g, CUDNN_POINTWISE_RELU_BWD);
	desc dz = graph_real(g, CONV_X);

	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, dx);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, z);
	graph_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dz);
	graph_add(g, op);
	return dz;
}

#define NORM_BACK(name) CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_##name

static void graph_norm_gradients(struct conv_graph *g, desc dz, desc x,
				 desc mean, desc inv, desc weight)
{
	static const struct {
		cudnnBackendAttributeName_t name;
		enum conv_tensor tensor;
	} results[] = {
		{NORM_BACK(DBN_SCALE_DESC), CONV_D_WEIGHT},
		{NORM_BACK(DBN_BIAS_DESC), CONV_D_BIAS},
		{NORM_BACK(EQ_DY_SCALE_DESC), CONV_BY_DZ},
		{NORM_BACK(EQ_X_SCALE_DESC), CONV_BY_NORM_X},
		{NORM_BACK(EQ_BIAS), CONV_SHIFT},
	};
	desc op = graph_part(g,
			     CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR);

	graph_set_f32(g, op, NORM_BACK(MATH_PREC));
	graph_set_desc(g, op, NORM_BACK(MEAN_DESC), mean);
	graph_set_desc(g, op, NORM_BACK(INVSTD_DESC), inv);
	graph_set_desc(g, op, NORM_BACK(BN_SCALE_DESC), weight);
	graph_set_desc(g, op, NORM_BACK(X_DESC), x);
	graph_set_desc(g, op, NORM_BACK(DY_DESC), dz);
	for (size_t i = 0; i < sizeof(results) / sizeof(*results); i++)
		graph_set_desc(g, op, results[i].name,
			       graph_real(g, results[i].tensor));
	graph_add(g, op);
}

/* ---- The graphs ---- */

static void graph_by_x_norm(struct conv_graph *g)
{
	cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
	desc dx = graph_inner(g, f32), x = graph_real(g, CONV_NORM_X);
	desc mean = graph_real(g, CONV_MEAN), inv = graph_real(g, CONV_INV);
	desc weight = graph_real(g, CONV_NORM_WEIGHT);
	desc bias = graph_real(g, CONV_NORM_BIAS), z;

	graph_conv(g, CONV_BY_X, dx);
	z = graph_apply(g, CUDNN_POINTWISE_SUB, x, mean, f32);
	z = graph_apply(g, CUDNN_POINTWISE_MUL, z, inv, f32);
	z = graph_apply(g, CUDNN_POINTWISE_MUL, z, weight, f32);
	z = graph_apply(g, CUDNN_POINTWISE_ADD, z, bias, f32);
	graph_norm_gradients(g, graph_relu_back(g, dx, z), x, mean, inv,
			     weight);
}

static void graph_build(struct conv_graph *g, enum conv_pass pass)
{
	switch (pass) {
	case CONV_STATS:
		graph_sums(g, graph_conv(g, CONV_FORWARD,
					 graph_real(g, CONV_X)));
		break;
	case CONV_NORM_STATS:
		graph_sums(g, graph_conv(g, CONV_FORWARD,
					 graph_norm(g, CUDNN_DATA_FLOAT)));
		break;
	case CONV_NORM_BY_WEIGHT:
		/* cuDNN has engines only for factors that are 16 bits */
		graph_conv(g, CONV_BY_WEIGHT, graph_norm(g, g->type));
		break;
	case CONV_BY_X_NORM:
		graph_by_x_norm(g);
		break;
	default:
		graph_conv(g, pass, graph_real(g, CONV_X));
	}
}

cudnnStatus_t conv_graph_init(struct conv_graph *g, cudnnHandle_t handle,
			      const struct conv_shape *s, enum conv_pass pass)
{
	desc d;

	memset(g, 0, sizeof(*g));
	g->shape = s;
	g->type = s->fp16   ? CUDNN_DATA_HALF :
		  s->bf16   ? CUDNN_DATA_BFLOAT16 :
			      CUDNN_DATA_FLOAT;
	graph_build(g, pass);
	d = graph_part(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	graph_set(g, d, CUDNN_ATTR_OPERATIONGRAPH_OPS,
		  CUDNN_TYPE_BACKEND_DESCRIPTOR, g->ops, g->op);
	if (handle)
		graph_set(g, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
			  CUDNN_TYPE_HANDLE, 1, &handle);
	graph_finalize(g, d);
	g->graph = d;
	return g->rc;
}

void conv_graph_release(struct conv_graph *g)
{
	while (g->parts > 0)
		cudnnBackendDestroyDescriptor(g->part[--g->parts]);
}
