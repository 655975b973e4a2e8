/* net.h: a model on a device: one arena with all parameters, one with all
 * gradients, one with the running statistics; and plans, which run the model on
 * a given number of samples. Knows neither ranks, files nor epochs. */
#ifndef TRAINERS_NET_H
#define TRAINERS_NET_H

#include "trainers/models/layer.h"

/* A parameter or a buffer, in PyTorch's order. */
struct net_param {
	char name[LAYER_NAME_MAX + 16]; /* "layer1.0.bn1.running_mean" */
	int layer;                      /* from 0 */
	int which;                      /* index within its op */
	size_t at, size;                /* offset and size in an arena, in
					 * values */
	size_t count;                   /* values in PyTorch */
	const int *shape;               /* [4] */
};

/* The position of a micro-batch in its step; see net_accumulate. */
enum net_part { NET_WHOLE, NET_FIRST, NET_MIDDLE, NET_LAST };

enum net_mode {
	NET_TRAIN,   /* forward and backward; batch statistics */
	NET_EVALUATE /* forward; running statistics */
};

/* The model for n samples in one mode: its operations and the memory of its
 * activations. Several plans of a net may be between forward and backward at
 * once (micro-batches of a pipeline). */
struct plan {
	struct net *net;
	int n;
	enum net_mode mode;
	struct op **op;        /* [layer_count] */
	struct tensor *in;     /* the model's input */
	struct tensor *out;    /* the last layer's output: plain f32 */
	struct tensor *d_out;  /* gradient of out, written by the loss; NULL
				* when evaluating */
	struct tensor *d_in;   /* gradient of in, if net->wants_d_in */
	struct loader *from;     /* source of the batch; NULL: the caller */
	struct tensor **value; /* [layer_count]: outputs */
	struct plan_memory *memory; /* private to plan.c */
	struct plan *next;
};

/* Memory on the device that collectives reach faster than ops->alloc's. */
struct net_memory {
	int (*alloc)(void *arg, size_t bytes, void **out, struct err *e);
	void (*free)(void *arg, void *p);
	void *arg;
};

struct net {
	const struct model_spec *spec;
	const struct ops *ops;
	struct device *device;
	struct loader *loader; /* source of batches; NULL: the caller fills in
				* plan->in */
	const uint32_t *labels; /* on the device, the caller's: labels for
				* net_loss if the batch does not come from a
				* loader */
	int wants_d_in;    /* set it before net_init */
	struct net_memory memory; /* likewise: for the gradients; alloc NULL:
				   * ops->alloc */

	/* Made with the first plan. In an arena layers follow one another, each
	 * at a multiple of 16 values; gaps are zero. The gradients' arena has
	 * 16 more values, of which the first is the loss, so that one
	 * all_reduce averages both. */
	size_t arena;        /* values in an arena, without the loss */
	float *parameters, *gradients;
	size_t buffer_arena; /* values */
	float *buffers;
	float *loss;         /* gradients + arena */
	struct tally *tally; /* on the device; the losses add to it */
	float *kept; /* sum of the gradients and losses of earlier
		      * micro-batches; NULL: none yet */
	enum net_part part; /* the current micro-batch's position */

	char (*names)[LAYER_NAME_MAX]; /* [layer_count] */
	int param_count;  /* named_parameters */
	struct net_param *param;
	int buffer_count; /* running_mean and running_var of named_buffers */
	struct net_param *buffer;
	size_t parameter_count; /* their total number of values in PyTorch */

	/* Set by the caller, or NULL. net_backward calls it with layer_count
	 * when the loss is there, then for each layer with parameters, from
	 * last to first, when its gradients are complete (on a GPU: queued). */
	void (*on_ready)(void *arg, int layer);
	void *arg;

	struct plan *plans;
};

/* The tensor type that a loader must give this model: a model that starts with
 * a linear layer takes f32 at any precision. */
enum tensor_type net_input_type(const struct model_spec *spec,
				const struct device *device);

/* The layer's parameters are values [*at, *at + *count) of an arena; *count is
 * 0 if it has none. For layer == layer_count: the loss, at the arena's end, 16
 * values. These slices in order make up the gradients' arena: the counts for
 * ddp_reducer_new. */
void net_slice(const struct net *net, int layer, size_t *at, size_t *count);
enum { NET_LOSS_VALUES = 16 };

/* Makes the net and its first plan, for n samples. spec and device are
 * borrowed. The caller frees with net_release, also after an error. -ENOMEM:
 * the text gives the memory needed and free, and advises a lower
 * --batch-size. */
int net_init(struct net *net, const struct model_spec *spec,
	     struct device *device, struct loader *loader, int n,
	     enum net_mode mode, struct err *e);
void net_release(struct net *net);

/* The plan for n samples, made by the first call with these arguments. The net
 * owns the plan of net_plan; net_plan_new makes a further one, which the caller
 * frees with net_plan_free. */
int net_plan(struct net *net, int n, enum net_mode mode, struct plan **p,
	     struct err *e);
int net_plan_new(struct net *net, int n, enum net_mode mode, struct plan **p,
		 struct err *e);
void net_plan_free(struct plan *p);

/* ---- A step; all of these can be captured ---- */

/* The parts of a step. load_batch: the samples. forward: outputs. loss: and
 * in NET_TRAIN d_out. backward: from d_out, which the caller may also have
 * filled in. */
void net_load_batch(struct plan *p);
/* Loads the batch and its labels from another loader of the same shape and
 * type. */
void net_load_batch_from(struct plan *p, struct loader *loader);
void net_forward(struct plan *p);
void net_loss(struct plan *p, const struct loss_spec *loss);
void net_backward(struct plan *p);

/* Gradient accumulation: call it before each micro-batch. Gradients
 * are summed up until the last micro-batch, whose backward pass adds the sum,
 * layer by layer, before on_ready; on_ready is not called for the others. */
int net_accumulate(struct net *net, enum net_part part, struct err *e);

/* ---- State, in PyTorch's layout and order, in the host's memory ---- */

/* Writes "mnist_mlp 784-50-10" to out[MODEL_KIND_MAX]; returns out. */
char *model_kind(const struct model_spec *spec, char *out);

/* Copies values[parameter_count] to or from an arena of this net: parameters,
 * gradients, or an optimizer's moments. */
void net_put(struct net *net, float *arena, const float *values);
void net_get(const struct net *net, const float *arena, float *values);
/* The running statistics: net_buffer_count values. */
size_t net_buffer_count(const struct net *net);
void net_put_buffers(struct net *net, const float *values);
void net_get_buffers(const struct net *net, float *values);

/* Sets the parameters to those of the same model in PyTorch after
 * torch.manual_seed(seed) (INIT_RESNET: up to the rounding of logarithms), and
 * the running statistics to 0 and 1. */
int net_init_weights(struct net *net, uint64_t seed, struct err *e);
/* Reads the parameters from path: raw little-endian float32 in PyTorch's order
 * and layout. Errors name the file; a wrong size is ERR_DATA. */
int net_load_raw(struct net *net, const char *path, struct err *e);

/* "layer1.0.bn1", or the layer's number in a torch.nn.Sequential. Valid as long
 * as the net. */
const char *net_layer_name(const struct net *net, int layer);

/* After a step whose loss is not finite: the name of the first layer whose
 * parameters or output are not all finite; NULL: only the input or the loss is
 * not. */
const char *net_first_not_finite(struct plan *p);

/* ---- plan.c ----
 *
 * Makes a net's plans: first the operations, then, once the arenas exist, the
 * memory. Only net.c calls this. */

/* Makes the operations. `like` is an earlier plan with the same parameters, or
 * NULL. */
int plan_make(struct plan *p, struct net *net, const struct plan *like, int n,
	      enum net_mode mode, struct err *e);
/* Allocates activations and their gradients, and binds the operations to all
 * memory. */
int plan_bind(struct plan *p, struct err *e);
/* Frees everything but p, also after an error. */
void plan_release(struct plan *p);

#endif
