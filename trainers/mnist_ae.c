/* mnist_ae.c: an auto-encoder of MNIST's digits, 784-128-128-128-784. */
#include "trainers/train/train.h"

static const struct layer layers[] = {
	{{OP_LINEAR, .out = 128, .relu = 1}},
	{{OP_LINEAR, .out = 128, .relu = 1}},
	{{OP_LINEAR, .out = 128, .relu = 1}},
	{{OP_LINEAR, .out = 784, .relu = 1}},
};

static const struct recipe recipes[] = {
	RECIPE_ADAM(1e-3),
	{.name = NULL},
};

static const struct trainer mnist_ae = {
	.name = "mnist_ae",
	.about = "Trains an auto-encoder of handwritten digits, "
		 "784-128-128-128-784 with ReLU after\nevery layer, mean "
		 "squared error, Adam.",
	.model = {
		.name = "mnist_ae",
		.input = {1, 28, 28, 10, {0}, {1}},
		.loss = LOSS_MSE,
		.layer_count = sizeof(layers) / sizeof(*layers),
		.layers = layers,
	},
	.features = TRAINER_IMAGES_OUT,
	.data = DATA_MNIST,
	.epochs = 5,
	.batch = 128,
	.recipes = recipes,
};

int main(int argc, char **argv)
{
	return train_main(&mnist_ae, argc, argv);
}
