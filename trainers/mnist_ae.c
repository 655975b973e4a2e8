/* mnist_ae.c: an auto-encoder of MNIST's digits, 784-128-128-128-784. */
#include "trainers/train.h"

static const struct layer layers[] = {
	{LAYER_LINEAR, .out = 128, .relu = 1},
	{LAYER_LINEAR, .out = 128, .relu = 1},
	{LAYER_LINEAR, .out = 128, .relu = 1},
	{LAYER_LINEAR, .out = 784, .relu = 1},
};

static const struct trainer mnist_ae = {
	.about = "Trains an auto-encoder of handwritten digits, "
		 "784-128-128-128-784 with ReLU after\nevery layer, mean "
		 "squared error, Adam.",
	.model = {
		.name = "mnist_ae",
		.inputs = 28 * 28,
		.loss = LOSS_MSE,
		.layer_count = sizeof layers / sizeof *layers,
		.layers = layers,
	},
	.epochs = 5,
	.batch = 128,
	.lr = 1e-3,
};

int main(int argc, char **argv)
{
	return train_main(&mnist_ae, argc, argv);
}
