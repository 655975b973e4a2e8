/* resnet_layers.c: builds a network from a table: each depth is a row of block
 * counts. */
#include "trainers/models/resnet_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGES = 4 };

static const struct depth {
	const char *name;
	int bottleneck; /* 1x1, 3x3, 1x1 with four times the width */
	int blocks[STAGES];
} depths[] = {
	{"resnet18", 0, {2, 2, 2, 2}},   {"resnet34", 0, {3, 4, 6, 3}},
	{"resnet50", 1, {3, 4, 6, 3}},   {"resnet101", 1, {3, 4, 23, 3}},
	{"resnet152", 1, {3, 8, 36, 3}},
};
enum { DEPTHS = sizeof(depths) / sizeof(*depths) };

/* The list being written. */
struct writer {
	struct layer *layers;
	int count; /* also the number of the last layer, from 1 */
	char block[LAYER_NAME_MAX]; /* "layer1.0." */
};

static struct layer *resnet_add_layer(struct writer *w, const char *name,
				      int order, struct op_spec op)
{
	struct layer *l = &w->layers[w->count++];

	memset(l, 0, sizeof(*l));
	l->op = op;
	l->order = order;
	snprintf(l->name, sizeof(l->name), "%.15s%.15s", w->block, name);
	return l;
}

static struct layer *resnet_conv(struct writer *w, const char *name, int order,
				 int out, int kernel, int stride)
{
	return resnet_add_layer(w, name, order, (struct op_spec){
		.kind = OP_CONV, .out = out, .kernel = kernel,
		.stride = stride, .pad = kernel / 2});
}

static struct layer *resnet_norm(struct writer *w, const char *name, int order,
				 int relu)
{
	return resnet_add_layer(
		w, name, order,
		(struct op_spec){.kind = OP_BATCH_NORM, .relu = relu});
}

/* Adds a block: convolutions, each with its batch normalisation, the last of
 * which adds the shortcut. PyTorch lists the shortcut's layers after that one,
 * hence `order`. */
static void resnet_block(struct writer *w, int bottleneck, int width,
			 int stride, int project)
{
	static const char *const conv_names[] = {"conv1", "conv2", "conv3"};
	static const char *const norm_names[] = {"bn1", "bn2", "bn3"};
	int in = w->count, order = w->count, count = bottleneck ? 3 : 2;
	int last, shortcut = in;
	struct layer *l;

	for (int i = 0; i < count; i++) {
		int wide = bottleneck && i == 2 ? 4 * width : width;
		int kernel = bottleneck && i != 1 ? 1 : 3;
		int strides = i == (bottleneck ? 1 : 0) ? stride : 1;

		resnet_conv(w, conv_names[i], order + 2 * i, wide, kernel,
			    strides);
		if (i < count - 1)
			resnet_norm(w, norm_names[i], order + 2 * i + 1, 1);
	}
	last = w->count;
	if (project) {
		l = resnet_conv(w, "downsample.0", order + 2 * count,
				bottleneck ? 4 * width : width, 1, stride);
		l->from = in;
		resnet_norm(w, "downsample.1", order + 2 * count + 1, 0);
		shortcut = w->count;
	}
	l = resnet_norm(w, norm_names[count - 1], order + 2 * count - 1, 1);
	l->from = last;
	l->add = shortcut;
}

static void resnet_write_layers(struct writer *w, const struct depth *d,
				int cifar, int classes)
{
	int width = 64;

	resnet_conv(w, "conv1", 0, 64, cifar ? 3 : 7, cifar ? 1 : 2);
	resnet_norm(w, "bn1", 1, 1);
	if (!cifar)
		resnet_add_layer(w, "maxpool", 2, (struct op_spec){
			.kind = OP_MAX_POOL, .kernel = 3, .stride = 2,
			.pad = 1});
	for (int s = 0; s < STAGES; s++, width *= 2)
		for (int i = 0; i < d->blocks[s]; i++) {
			int stride = i == 0 && s > 0 ? 2 : 1;
			int project = i == 0 && (s > 0 || d->bottleneck);

			snprintf(w->block, sizeof(w->block), "layer%d.%d.",
				 s + 1, i);
			resnet_block(w, d->bottleneck, width, stride, project);
		}
	w->block[0] = '\0';
	resnet_add_layer(w, "avgpool", w->count,
			 (struct op_spec){.kind = OP_AVERAGE_POOL});
	resnet_add_layer(w, "fc", w->count, (struct op_spec){.kind = OP_LINEAR,
							     .out = classes});
}

static const struct depth *resnet_find_depth(const char *arch)
{
	for (int i = 0; i < DEPTHS; i++)
		if (!strcmp(depths[i].name, arch))
			return &depths[i];
	return NULL;
}

static int resnet_count_layers(const struct depth *d)
{
	int n = 5;

	for (int s = 0; s < STAGES; s++)
		n += d->blocks[s] * (d->bottleneck ? 6 : 4) + 2;
	return n;
}

int resnet_init(struct resnet *r, const char *arch, const char *stem,
		const struct image_shape *input, struct err *e)
{
	const struct depth *d = resnet_find_depth(arch);
	int cifar = !strcmp(stem, "cifar");
	struct writer w = {NULL, 0, ""};

	memset(r, 0, sizeof(*r));
	if (!d)
		return err_set(e, ERR_USAGE, "--arch %s: no such network; "
			       "choose among resnet18, resnet34, resnet50, "
			       "resnet101 and resnet152", arch);
	if (!cifar && strcmp(stem, "torchvision"))
		return err_set(e, ERR_USAGE, "--stem %s: no such stem; use "
			       "torchvision (7x7, stride 2, and max-pool) or "
			       "cifar (3x3)", stem);
	w.layers = calloc((size_t)resnet_count_layers(d), sizeof(*w.layers));
	if (!w.layers)
		return err_no_memory(e, "the layers of %s", arch);
	resnet_write_layers(&w, d, cifar, input->classes);
	r->layers = w.layers;
	r->spec = (struct model_spec){
		.name = d->name, .input = *input, .loss = LOSS_CROSS_ENTROPY,
		.init = INIT_RESNET, .layer_count = w.count,
		.layers = w.layers,
	};
	snprintf(r->spec.kind, sizeof(r->spec.kind), "%s %s stem, %d classes",
		 d->name, stem, input->classes);
	return 0;
}

void resnet_release(struct resnet *r)
{
	free(r->layers);
	memset(r, 0, sizeof(*r));
}
