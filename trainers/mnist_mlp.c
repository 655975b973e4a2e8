/* mnist_mlp.c: a classifier of MNIST's digits, 784-50-10. */
#include "trainers/train/train.h"

static const struct layer layers[] = {
	{{OP_LINEAR, .out = 50, .relu = 1}},
	{{OP_LINEAR, .out = 10, .relu = 0}},
};

static const struct recipe recipes[] = {
	RECIPE_ADAM(1e-3),
	{.name = NULL},
};

static const struct trainer mnist_mlp = {
	.name = "mnist_mlp",
	.about = "Trains a classifier of handwritten digits, 784-50-10 with "
		 "ReLU, cross-entropy,\nAdam. Reaches about 96.4 % on MNIST's "
		 "test set.",
	.model = {
		.name = "mnist_mlp",
		.input = {1, 28, 28, 10, {0}, {1}},
		.loss = LOSS_CROSS_ENTROPY,
		.layer_count = sizeof(layers) / sizeof(*layers),
		.layers = layers,
	},
	.features = TRAINER_CLASSES,
	.data = DATA_MNIST,
	.epochs = 5,
	.batch = 64,
	.recipes = recipes,
};

int main(int argc, char **argv)
{
	return train_main(&mnist_mlp, argc, argv);
}
