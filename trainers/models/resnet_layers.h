/* resnet_layers.h: ResNet-18 to 152 (He et al., 2015) as lists of layers, as in
 * torchvision (v1.5: a bottleneck's stride is in its 3x3). Pure. */
#ifndef TRAINERS_RESNET_LAYERS_H
#define TRAINERS_RESNET_LAYERS_H

#include "trainers/models/layer.h"

enum resnet_stem {
	RESNET_STEM_IMAGENET, /* 7x7 stride 2, then max-pool 3x3 stride 2 */
	RESNET_STEM_CIFAR     /* 3x3 stride 1, no pool */
};

struct resnet {
	struct model_spec spec;
	struct layer *layers; /* spec.layers */
};

/* Fills in r for images of this shape and number of classes. arch: "resnet18",
 * 34, 50, 101 or 152; stem: "torchvision" or "cifar". ERR_USAGE: the text lists
 * the choices, or the image is too small for the stem. The caller frees with
 * resnet_release. */
int resnet_init(struct resnet *r, const char *arch, const char *stem,
		const struct image_shape *input, struct err *e);
void resnet_release(struct resnet *r);

#endif
