/* conv_shapes.h: the shapes of the convolutions of ResNet-18 to 152, for images
 * of 32 and 224, and what else programs need that plan them. Defines static
 * functions. */
#ifndef TESTS_GPU_CONV_SHAPES_H
#define TESTS_GPU_CONV_SHAPES_H

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/cuda/conv_plan.h"
#include "trainers/cuda/layout.h"
#include "trainers/models/resnet_layers.h"

enum { SHAPES_MAX = 256 };

static const char *const archs[] = {"resnet18", "resnet34", "resnet50",
				    "resnet101", "resnet152"};
static const struct net {
	const char *stem;
	int side, batch; /* the batch unless one is given */
} nets[] = {{"cifar", 32, 128}, {"torchvision", 224, 256}};

/* The shapes to plan, each once. */
struct list {
	struct conv_shape shape[SHAPES_MAX];
	int first[SHAPES_MAX]; /* of its network: needs no gradient by x */
	int count;
};

static void list_add(struct list *l, const struct conv_shape *s, int first)
{
	for (int i = 0; i < l->count; i++)
		if (!memcmp(&l->shape[i], s, sizeof(*s))) {
			l->first[i] &= first;
			return;
		}
	if (l->count == SHAPES_MAX) {
		fprintf(stderr, "more than %d shapes\n", SHAPES_MAX);
		exit(2);
	}
	l->first[l->count] = first;
	l->shape[l->count++] = *s;
}

/* The size of a layer's output. */
struct size {
	int c, side;
};

static struct size size_of_layer(const struct layer *layer, struct size in)
{
	const struct op_spec *op = &layer->op;

	switch (op->kind) {
	case OP_CONV:
		return (struct size){op->out,
				     layout_windows(in.side, op->kernel,
						    op->stride, op->pad)};
	case OP_MAX_POOL:
		return (struct size){in.c,
				     layout_windows(in.side, op->kernel,
						    op->stride, op->pad)};
	case OP_AVERAGE_POOL:
		return (struct size){in.c, 1};
	case OP_LINEAR:
		return (struct size){op->out, 1};
	default:
		return in;
	}
}

static struct conv_shape shape_of(const struct op_spec *op, struct size in,
				  struct size out, int n,
				  enum precision precision)
{
	int bf16 = precision == PRECISION_BF16;
	int fp16 = precision == PRECISION_FP16;
	enum tensor_type type = bf16   ? TENSOR_BF16
				: fp16 ? TENSOR_F16
				       : TENSOR_F32;

	return (struct conv_shape){
		.n = n, .c = layout_channels(in.c, type), .h = in.side,
		.w = in.side, .k = layout_channels(out.c, type),
		.kernel = op->kernel, .stride = op->stride, .pad = op->pad,
		.out_h = out.side, .out_w = out.side, .bf16 = bf16,
		.fp16 = fp16,
		.tf32 = precision == PRECISION_TF32};
}

static void list_add_net(struct list *l, const char *arch,
			 const struct net *net, enum precision precision,
			 int batch)
{
	struct image_shape input = {3, net->side, net->side, 10, {0},
				    {1, 1, 1, 1}};
	struct err e = ERR_INIT;
	struct size *size;
	struct resnet r;

	if (resnet_init(&r, arch, net->stem, &input, &e) < 0) {
		fprintf(stderr, "%s\n", e.text);
		exit(2);
	}
	size = calloc((size_t)r.spec.layer_count + 1, sizeof(*size));
	if (!size)
		exit(2);
	size[0] = (struct size){3, net->side};
	for (int i = 0; i < r.spec.layer_count; i++) {
		const struct layer *layer = &r.spec.layers[i];
		/* layers are numbered from 1; from is 0 for the one before */
		struct size in = size[layer->from ? layer->from : i];
		struct conv_shape s;

		size[i + 1] = size_of_layer(layer, in);
		if (layer->op.kind != OP_CONV)
			continue;
		s = shape_of(&layer->op, in, size[i + 1],
			     batch ? batch : net->batch, precision);
		list_add(l, &s, i == 0);
	}
	free(size);
	resnet_release(&r);
}

/* Adds the shapes of all networks. batch 0: each network's own. */
static void list_add_all(struct list *l, enum precision precision, int batch)
{
	for (size_t i = 0; i < sizeof(archs) / sizeof(*archs); i++)
		for (size_t k = 0; k < sizeof(nets) / sizeof(*nets); k++)
			list_add_net(l, archs[i], &nets[k], precision, batch);
}

/* Without a driver, cuDNN loads and unloads the compiler for each plan, which
 * takes four fifths of the time unless something else keeps it loaded. */
static void keep_compiler(void)
{
	char name[32];

	snprintf(name, sizeof(name), "libnvrtc.so.%d", CUDART_VERSION / 1000);
	dlopen(name, RTLD_NOW);
}

static int is_device(const char *word)
{
	const char *dot = strrchr(word, '.');

	return dot && strcmp(dot, ".json") == 0;
}

#endif
