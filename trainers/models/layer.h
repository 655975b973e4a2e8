/* layer.h: a model as data: a list of layers, each with its operation, the
 * layer that its input comes from, and its name in PyTorch. Pure. */
#ifndef TRAINERS_LAYER_H
#define TRAINERS_LAYER_H

#include "trainers/ops/ops.h"

enum { LAYER_NAME_MAX = 32, MODEL_KIND_MAX = 128 };

struct layer {
	struct op_spec op;
	/* Layers are numbered from 1. from: the layer whose output is the
	 * input; 0: the previous one (for the first layer: the model's input).
	 * add: batch_norm's second input; 0: none. At most two layers may read
	 * an output. */
	int from, add;
	/* "layer1.0.conv1": its parameters are NAME.weight and NAME.bias. "":
	 * its number in a torch.nn.Sequential, which counts ReLUs: "0", "2". */
	char name[LAYER_NAME_MAX];
	/* Its position in PyTorch's named_parameters, if that differs from the
	 * list: a shortcut's layers come after the layer that adds them. Any
	 * ascending numbers; all 0: the order of the list. */
	int order;
};

/* The distribution of the initial weights. */
enum init_kind {
	INIT_TORCH, /* nn.Linear's and nn.Conv2d's defaults */
	INIT_RESNET /* torchvision.models.resnet's */
};

struct model_spec {
	const char *name; /* "mnist_mlp" */
	/* "resnet18 cifar stem, 10 classes": models with equal text have equal
	 * parameters. "": made of the name and the layers' outputs. */
	char kind[MODEL_KIND_MAX];
	struct image_shape input;
	enum loss_kind loss;
	enum init_kind init;
	int layer_count;
	const struct layer *layers;
};

#endif
