/* resnet.c: ResNet-18 to 152 on small images. */
#include "trainers/models/resnet_layers.h"
#include "trainers/train/train.h"

static struct resnet network; /* what this program trains */

static int resnet_make_model(struct model_spec *out,
			     const struct trainer_options *o,
			     const struct image_shape *input, struct err *e)
{
	int rc = resnet_init(&network, o->arch, o->stem, input, e);

	*out = network.spec;
	return rc;
}

static void resnet_release_model(struct model_spec *spec)
{
	resnet_release(&network);
}

static const struct trainer resnet = {
	.name = "resnet",
	.about = "Trains a ResNet (He et al., 2015) on CIFAR-10, on a packed "
		 "data set or on synthetic images.",
	.make_model = resnet_make_model,
	.release_model = resnet_release_model,
	.features = TRAINER_ARCH | TRAINER_SYNTHETIC | TRAINER_BATCH_NORM |
		    TRAINER_CLASSES | TRAINER_AUGMENT | TRAINER_RECIPES,
	.data = DATA_CIFAR10,
	.epochs = 30,
	.batch = 128,
	.recipes = recipe_resnet,
};

int main(int argc, char **argv)
{
	return train_main(&resnet, argc, argv);
}
