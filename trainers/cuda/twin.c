/* twin.c: the CUDA device's table, and its operations by kind. */
#include "trainers/cuda/twin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "trainers/cuda/cuda.h"

static const struct cuda_kind *const kinds[] = {
	[OP_LINEAR] = &cuda_linear,
	[OP_CONV] = &cuda_conv,
	[OP_BATCH_NORM] = &cuda_batch_norm,
	[OP_MAX_POOL] = &cuda_max_pool,
	[OP_AVERAGE_POOL] = &cuda_average_pool,
};
_Static_assert(sizeof(kinds) / sizeof(*kinds) == OP_KINDS, "a kind is missing");

static struct cuda_op *cuda_op_of(struct op *op)
{
	return (struct cuda_op *)op;
}

static void cuda_op_free(struct device *d, struct op *base)
{
	struct cuda_op *op = cuda_op_of(base);

	if (!op)
		return;
	if (op->kind->release)
		op->kind->release(cuda_of(d), op);
	free(op);
}

static int cuda_op_new(struct device *d, const struct op_site *s,
		       struct op **out, struct err *e)
{
	const struct cuda_kind *kind = kinds[s->spec.kind];
	struct cuda_op *op = calloc(1, kind->size);
	int r;

	if (!op)
		return err_no_memory(e, "layer %s", s->name);
	op->base.spec = s->spec;
	op->kind = kind;
	op->training = s->training;
	op->in = *s->in;
	snprintf(op->name, sizeof(op->name), "layer %s", s->name);
	r = kind->make(cuda_of(d), op, s, e);
	if (r < 0)
		cuda_op_free(d, &op->base);
	else
		*out = &op->base;
	return r;
}

static int cuda_op_bind(struct device *d, struct op *base,
			const struct op_memory *m, struct err *e)
{
	struct cuda_op *op = cuda_op_of(base);

	op->memory = *m;
	return op->kind->bind ? op->kind->bind(cuda_of(d), op, e) : 0;
}

static void cuda_op_forward(struct device *d, struct op *op,
			    const struct loader *f)
{
	cuda_op_of(op)->kind->forward(cuda_of(d), cuda_op_of(op));
}

static void cuda_op_backward(struct device *d, struct op *op,
			     const struct loader *f)
{
	cuda_op_of(op)->kind->backward(cuda_of(d), cuda_op_of(op));
}

static const struct ops table = {
	.version = OPS_VERSION,
	.kind = "cuda",
	.count = cuda_count,
	.open = cuda_open,
	.close = cuda_close,
	.enter = cuda_enter,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.zero = cuda_zero,
	.put = cuda_put,
	.get = cuda_get,
	.copy = cuda_copy,
	.tensor_put = cuda_tensor_put,
	.tensor_get = cuda_tensor_get,
	.wait = cuda_wait,
	.stream = cuda_stream,
	.capture_begin = cuda_capture_begin,
	.capture_end = cuda_capture_end,
	.graph_launch = cuda_graph_launch,
	.graph_free = cuda_graph_free,
	.set_step = cuda_set_step,
	.loader_new = cuda_loader_new,
	.loader_free = cuda_loader_free,
	.loader_order = cuda_loader_order,
	.load_batch = cuda_load_batch,
	.op_new = cuda_op_new,
	.op_free = cuda_op_free,
	.op_bind = cuda_op_bind,
	.op_forward = cuda_op_forward,
	.op_backward = cuda_op_backward,
	.param_put = cuda_param_put,
	.param_get = cuda_param_get,
	.params_changed = cuda_params_changed,
	.cross_entropy = cuda_cross_entropy,
	.mse = cuda_mse,
	.add = cuda_add,
	.scale = cuda_scale,
	.update = cuda_update,
	.halted = cuda_halted,
	.tensor_finite = cuda_tensor_finite,
	.finite = cuda_finite,
};

const struct ops *ddp_cuda_ops(int version)
{
	return version == OPS_VERSION ? &table : NULL;
}
