/* model.h: a model as data: a list of layers over the operations, with all its
 * parameters in one arena and all their gradients in another. Knows neither
 * ranks nor files nor epochs. */
#ifndef TRAINERS_MODEL_H
#define TRAINERS_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trainers/ops.h"

enum layer_kind { LAYER_LINEAR };
enum loss_kind {
	LOSS_CROSS_ENTROPY, /* of the outputs against the sample's label */
	LOSS_MSE            /* of the outputs against the sample itself */
};

struct layer {
	enum layer_kind kind;
	int out;  /* values a sample; the layer before gives what comes in */
	int relu; /* 1: ReLU follows */
};

struct model_spec {
	const char *name; /* "mnist_mlp" */
	int inputs;       /* values a sample */
	enum loss_kind loss;
	int layer_count;
	const struct layer *layers;
};

enum { MODEL_KIND_MAX = 256 };

struct model {
	const struct model_spec *spec;
	const struct ops *ops;
	int capacity; /* samples a batch at most */

	/* One arena each: layer by layer weight [in][out], then bias [out].
	 * The gradients have one value more at their end, the loss, so that one
	 * all_reduce averages both. */
	size_t parameter_count;
	float *parameters;
	float *gradients;

	struct linear *linear; /* one a layer, slices of the arenas */
	float **values;        /* [layer_count + 1]: inputs, then each output */
	float *delta[2];       /* gradients of values, in turn */

	/* the batch */
	int n;
	const struct samples *samples;
	const uint32_t *index;
	int sparse; /* the first layer goes by the samples' lists */
	void *room; /* for that; NULL: it never does */

	/* The caller's, or NULL: model_step calls it for the loss, as layer
	 * layer_count, and then for each layer, from the last to the first, as
	 * soon as its gradients are complete. */
	void (*on_ready)(void *arg, int layer);
	void *arg;
};

/* Allocates everything for batches of up to capacity samples; parameters are
 * zero. ops has been started. The caller frees with model_release, also after
 * an error. */
int model_init(struct model *m, const struct model_spec *spec,
	       const struct ops *ops, int capacity, struct err *e);
void model_release(struct model *m);

/* "mnist_mlp 784-50-10" into out[MODEL_KIND_MAX]; returns out. Two models with
 * the same text have the same arena. */
char *model_kind(const struct model_spec *spec, char *out);
size_t model_parameter_count(const struct model_spec *spec);

/* The parameters that PyTorch draws after torch.manual_seed(seed) for the same
 * layers made in the same order. */
void model_draw(struct model *m, uint64_t seed);

/* Reads path, raw little-endian float32 as PyTorch's parameters lie in memory
 * (layer by layer weight [out][in], then bias), into the parameters. Errors
 * name the file; a wrong size is ERR_DATA. */
int model_load_raw(struct model *m, const char *path, struct err *e);

/* Takes samples index[n] of s as the batch; both stay the caller's and must
 * last until the batch is done with. */
void model_take(struct model *m, int n, const struct samples *s,
		const uint32_t *index);

/* The values that the last layer gave: [n][its out]. */
const float *model_output(const struct model *m);
/* Where the batch's mean loss is: the last value of the gradient arena. */
float *model_loss(struct model *m);

/* Both work on the batch that was taken; labels[n] is for cross-entropy.
 * Forward sets outputs and loss. model_step does forward, then gradients. */
void model_forward(struct model *m, const uint8_t *labels);
void model_step(struct model *m, const uint8_t *labels);

#endif
