/* mnist_ae.c: an auto-encoder of MNIST's digits, 784-128-128-128-784. */
#include "trainers/train.h"

static const struct layer layers[] = {
	{{OP_LINEAR, .out = 128, .relu = 1}},
	{{OP_LINEAR, .out = 128, .relu = 1}},
	{{OP_LINEAR, .out = 128, .relu = 1}},
	{{OP_LINEAR, .out = 784, .relu = 1}},
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
		.layer_count = sizeof layers / sizeof *layers,
		.layers = layers,
	},
	.data = DATA_MNIST,
	.epochs = 5,
	.batch = 128,
	.optimizer = {OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999,
		      .eps = 1e-8},
	.lr = 1e-3,
};

int main(int argc, char **argv)
{
	return train_main(&mnist_ae, argc, argv);
}
