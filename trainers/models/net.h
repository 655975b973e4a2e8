/* net.h: a model on a device: all its parameters in one arena, all their
 * gradients in another, batch normalisation's statistics in a third; and plans,
 * which run it on a given number of samples. Knows neither ranks nor files nor
 * epochs. */
#ifndef TRAINERS_NET_H
#define TRAINERS_NET_H

#include "trainers/models/layer.h"

/* A parameter or a buffer, in PyTorch's order. */
struct net_param {
	char name[LAYER_NAME_MAX + 16]; /* "layer1.0.bn1.running_mean" */
	int layer;                      /* from 0 */
	int which;                      /* of its op */
	size_t at, size;                /* its slice of an arena, values */
	size_t count;                   /* PyTorch's values */
	const int *shape;               /* [4] */
};

/* Which micro-batch of a step comes; net_accumulate. */
enum net_part { NET_WHOLE, NET_FIRST, NET_MIDDLE, NET_LAST };

enum net_mode {
	NET_TRAIN,   /* forward and backward; batch statistics */
	NET_EVALUATE /* forward; running statistics */
};

/* The model for n samples in one mode: its operations and the memory of its
 * activations. Several of a net may be between forward and backward at once
 * (micro-batches of a pipeline). */
struct plan {
	struct net *net;
	int n;
	enum net_mode mode;
	struct op **op;        /* [layer_count] */
	struct tensor *in;     /* the model's input */
	struct tensor *out;    /* the last layer's output: plain f32 */
	struct tensor *d_out;  /* where the loss puts its gradient; NULL when
				  evaluating */
	struct tensor *d_in;   /* gradient of in, where the net wants it */
	struct loader *from;     /* whose batch was taken; NULL: the caller's */
	struct tensor **value; /* [layer_count]: outputs */
	struct plan_memory *memory; /* net's own */
	struct plan *next;
};

struct net {
	const struct model_spec *spec;
	const struct ops *ops;
	struct device *device;
	struct loader *loader; /* whose batches come in; NULL: the caller fills
			      plan->in */
	const uint8_t *labels; /* on the device, for net_loss where the batch
				  was not taken from a loader: the caller's */
	int wants_d_in;    /* set before net_init */

	/* Made with the first plan. In an arena layers follow one another,
	 * each at a multiple of 16 values, so it has gaps, which are zero. The
	 * gradients have one value more at their end (of 16): the loss, so that
	 * one all_reduce averages both. */
	size_t arena;        /* values of an arena, without the loss */
	float *parameters, *gradients;
	size_t buffer_arena; /* values */
	float *buffers;
	float *loss;         /* gradients + arena */
	struct tally *tally; /* on the device; losses add to it */
	float *kept; /* gradients of the micro-batches before, with the loss;
			NULL: none so far */
	enum net_part part; /* net_accumulate's */

	char (*names)[LAYER_NAME_MAX]; /* [layer_count] */
	int param_count;  /* named_parameters */
	struct net_param *param;
	int buffer_count; /* running_mean and running_var of named_buffers */
	struct net_param *buffer;
	size_t parameter_count; /* PyTorch's number of them */

	/* The caller's, or NULL: net_backward calls it with layer_count for the
	 * loss, then for each layer that has parameters, from the last to the
	 * first, as soon as its gradients are complete (on a GPU: queued). */
	void (*on_ready)(void *arg, int layer);
	void *arg;

	struct plan *plans;
};

/* What a loader for this model is to give: a model that begins with a linear
 * layer wants f32 whatever the precision. */
enum tensor_type net_input_type(const struct model_spec *spec,
				const struct device *device);

/* The layer's parameters are arena values [*at, *at + *count); a layer without
 * has *count 0. With the loss (layer == layer_count, at == arena, 16 values)
 * the slices make up the whole gradients' arena, in order: what ddp_reducer_new
 * wants as counts. */
void net_slice(const struct net *net, int layer, size_t *at, size_t *count);
enum { NET_LOSS_VALUES = 16 };

/* spec and device stay the caller's and must last. Makes the first plan, for n
 * samples. The caller frees with net_release, also after an error: -ENOMEM's
 * text says what was asked for, what was free and to lower --batch-size. */
int net_init(struct net *net, const struct model_spec *spec,
	     struct device *device, struct loader *loader, int n,
	     enum net_mode mode, struct err *e);
void net_release(struct net *net);

/* The plan for n samples, made at the first call with these. net_plan keeps it;
 * net_plan_new's is one more and the caller's, freed by net_plan_free. */
int net_plan(struct net *net, int n, enum net_mode mode, struct plan **p,
	     struct err *e);
int net_plan_new(struct net *net, int n, enum net_mode mode, struct plan **p,
		 struct err *e);
void net_plan_free(struct plan *p);

/* ---- A step; all of these can be recorded ---- */

/* The loader's next n samples (those at args.first), forward, loss (*net->loss
 * and the tally) and gradients. */
void net_step(struct plan *p, const struct loss_spec *loss);
/* The same in pieces. take: the batch. forward: outputs. loss: and d_out in
 * NET_TRAIN. backward: from d_out, which the caller may have filled. */
void net_load_batch(struct plan *p);
/* From another loader than the net's, of the same shape and type: its labels
 * are then those of the batch. */
void net_load_batch_from(struct plan *p, struct loader *loader);
void net_forward(struct plan *p);
void net_loss(struct plan *p, const struct loss_spec *loss);
void net_backward(struct plan *p);

/* Gradient accumulation: said before each micro-batch's net_step. Gradients of
 * those that are not the last are kept (net->on_ready is not called for them),
 * and the last one's get them added, layer by layer, before on_ready. */
int net_accumulate(struct net *net, enum net_part part, struct err *e);

/* ---- State, in PyTorch's layout and order, in the host's memory ---- */

/* "mnist_mlp 784-50-10" into out[MODEL_KIND_MAX]; returns out. */
char *model_kind(const struct model_spec *spec, char *out);

/* values[parameter_count] to and from an arena of this net: the parameters, the
 * gradients, or moments of an optimizer. */
void net_put(struct net *net, float *arena, const float *values);
void net_get(const struct net *net, const float *arena, float *values);
/* The running statistics: as many values as net_buffer_count. */
size_t net_buffer_count(const struct net *net);
void net_put_buffers(struct net *net, const float *values);
void net_get_buffers(const struct net *net, float *values);

/* The parameters that PyTorch draws after torch.manual_seed(seed) for the same
 * model (INIT_RESNET: up to the rounding of logarithms); running statistics
 * become 0 and 1. */
int net_init_weights(struct net *net, uint64_t seed, struct err *e);
/* Reads path, raw little-endian float32 in PyTorch's order and layout, into the
 * parameters. Errors name the file; a wrong size is ERR_DATA. */
int net_load_raw(struct net *net, const char *path, struct err *e);

/* "layer1.0.bn1", or torch.nn.Sequential's number. Valid with the net. */
const char *net_layer_name(const struct net *net, int layer);

/* After a step whose loss is not finite: the name of the first layer that has a
 * value which is none in its parameters or its output; NULL: the input or the
 * loss alone. */
const char *net_first_not_finite(struct plan *p);

#endif
