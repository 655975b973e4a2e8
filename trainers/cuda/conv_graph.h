/* conv_graph.h: cuDNN's operation graph of a pass of a convolution, alone or
 * fused with the batch normalizations around it. Knows shapes and cuDNN;
 * neither engines (conv_plan.h), nor operations, nor memory.
 *
 * Tensors are nhwc, filters krsc, all aligned to 16 bytes; f32 throughout, f32
 * whose factors may be rounded to TF32, bf16 or fp16; sums are f32. */
#ifndef TRAINERS_CUDA_CONV_GRAPH_H
#define TRAINERS_CUDA_CONV_GRAPH_H

#include <cudnn.h>

/* The fused ones save passes over memory. cuDNN 9.19 has them for fp16 only.
 * "The norm" is the batch normalization whose output is the convolution's x,
 * after its ReLU. */
enum conv_pass {
	CONV_FORWARD,
	CONV_BY_X,
	CONV_BY_WEIGHT,
	CONV_PASSES,
	/* Forward; also the sums of y and of its squares over each channel. */
	CONV_STATS = CONV_PASSES,
	/* The same, of relu(x * scale + bias): x is the norm's input. */
	CONV_NORM_STATS,
	/* By weight, of relu(x * scale + bias). */
	CONV_NORM_BY_WEIGHT,
	/* By x, zero where the norm's ReLU was closed; also the gradients of
	 * the norm's weight and bias. */
	CONV_BY_X_NORM,
	CONV_GRAPHS
};
extern const char *const conv_pass_names[CONV_GRAPHS]; /* "forward", ... */

struct conv_shape {
	int n, c, h, w;         /* x; channels with their padding, as below */
	int k, kernel;          /* filters */
	int stride, pad;
	int out_h, out_w;       /* y: [n][out_h][out_w][k] */
	int bf16, fp16, tf32;	/* at most one of them */
};

/* The tensors of all graphs. All but the first five are f32. */
enum conv_tensor {
	CONV_X, /* in CONV_BY_X_NORM the gradient after the mask */
	CONV_W,
	CONV_Y,
	CONV_SCALE, CONV_BIAS,  /* [c], with the type of x */
	CONV_NORM_X, /* the norm's input, with x's shape and type */
	CONV_SUM, CONV_SQUARES, /* [k] */
	/* The norm's [c]: the input's mean and 1 / its standard deviation;
	 * weight and bias; and their gradients. */
	CONV_MEAN, CONV_INV, CONV_NORM_WEIGHT, CONV_NORM_BIAS,
	CONV_D_WEIGHT, CONV_D_BIAS,
	/* [c]: factors that cuDNN computes as well; not used. */
	CONV_BY_DZ, CONV_BY_NORM_X, CONV_SHIFT,
	CONV_TENSORS
};
/* The unique id of a tensor in a graph. */
static inline long long conv_tensor_id(enum conv_tensor t)
{
	return t + 1;
}

enum { CONV_PARTS_MAX = 48, CONV_OPS_MAX = 8 };

/* The graph and the descriptors that it consists of. */
struct conv_graph {
	const struct conv_shape *shape;
	cudnnDataType_t type; /* x, w and y have it */
	cudnnBackendDescriptor_t part[CONV_PARTS_MAX], op[CONV_OPS_MAX];
	int parts, ops, inner;
	unsigned uses; /* bit t: tensor t is part of it */
	cudnnBackendDescriptor_t graph;
	cudnnStatus_t rc; /* the first error; later calls do nothing */
};

/* Builds and finalizes the graph; handle NULL: for a GPU that is described
 * elsewhere. s has to outlive it. The caller releases g, also after an
 * error. */
cudnnStatus_t conv_graph_init(struct conv_graph *g, cudnnHandle_t handle,
			      const struct conv_shape *s, enum conv_pass pass);
void conv_graph_release(struct conv_graph *g);

#endif
