/* layer.h: a model as data: a list of layers, each an operation, where its
 * input comes from, and what PyTorch calls it. Pure. */
#ifndef TRAINERS_LAYER_H
#define TRAINERS_LAYER_H

#include "trainers/ops/ops.h"

enum { LAYER_NAME_MAX = 32, MODEL_KIND_MAX = 128 };

struct layer {
	struct op_spec op;
	/* Layers are numbered from 1 here. from: whose output comes in; 0: the
	 * layer before (the first one's: the model's input). add: batch_norm's
	 * second input; 0: none. An output may go two ways, not more. */
	int from, add;
	/* "layer1.0.conv1": its parameters are NAME.weight and NAME.bias.
	 * "": as torch.nn.Sequential counts, "0", "2" with ReLUs between. */
	char name[LAYER_NAME_MAX];
	/* Its place in PyTorch's named_parameters, where that is not the order
	 * of the list: a shortcut's layers come after the layer that adds them.
	 * Any numbers that ascend; all 0: the list's order. */
	int order;
};

/* How first weights are drawn. */
enum init_kind {
	INIT_TORCH, /* nn.Linear's and nn.Conv2d's own */
	INIT_RESNET /* torchvision.models.resnet's */
};

struct model_spec {
	const char *name; /* "mnist_mlp" */
	/* "resnet18 cifar 3x32x32-10". Two models with the same text have the
	 * same parameters; "": made of name and the layers' outputs. */
	char kind[MODEL_KIND_MAX];
	struct image_shape input;
	enum loss_kind loss;
	enum init_kind init;
	int layer_count;
	const struct layer *layers;
};

#endif
