/* ops.h: the operations that models are made of, as one table of functions per
 * kind of device, and how to come by such a table. They know tensors and
 * shapes; neither models, ranks, files nor epochs.
 *
 * The cpu's table is in this program. The cuda one is in a library beside the
 * program, libddp_cuda_ops.so, which is loaded when it is asked for: one build
 * runs on hosts with and without GPUs. Both compute the same up to the rounding
 * of their sums. CUDA compiles this header as C++.
 *
 * A device is one queue of work: calls are done in their order, and on a GPU
 * they return before the work is done, but for those that say that they wait.
 * What a GPU cannot do is noticed later: ops->wait returns it. */
#ifndef TRAINERS_OPS_H
#define TRAINERS_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trainers/data/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with anything in here: a library of another number is refused. */
enum { OPS_VERSION = 2 };

/* ---- Tensors ---- */

enum tensor_type { TENSOR_F32, TENSOR_BF16 };

/* n samples of c x h x w values in the device's memory. How they lie there is
 * the twin's own choice, unless `plain` is set: then it is [n][c][h][w], which
 * is what goes in and comes out of a model. */
struct tensor {
	int n, c, h, w; /* h = w = 1: c values a sample */
	enum tensor_type type;
	int plain;
	size_t bytes;
	const void *layout; /* the twin's, as long as the op that made it */
	void *data;         /* aligned to 64 bytes */
};

/* ---- Operations ---- */

enum op_kind {
	OP_LINEAR,       /* bias, ReLU where set; its input is flattened */
	OP_CONV,         /* no bias; square kernels */
	OP_BATCH_NORM,   /* then + add where there is one, ReLU where set */
	OP_MAX_POOL,     /* padding never is the greatest */
	OP_AVERAGE_POOL, /* over all of h x w, which become 1 x 1 */
	OP_KINDS
};

struct op_spec {
	enum op_kind kind;
	int out;                 /* linear: values; conv: channels */
	int kernel, stride, pad; /* conv, max_pool */
	int relu;                /* linear, batch_norm */
};

/* A parameter or a buffer of an operation, as PyTorch knows it. In an arena it
 * takes `size` values, at least `count`: twins may pad, with zeros that stay
 * zeros. */
struct op_param {
	const char *name; /* "weight", "bias", "running_mean", "running_var" */
	int shape[4];     /* [out][in][h][w], with ones at the end */
	size_t count;     /* of PyTorch's values */
	size_t size;      /* of ours */
};
enum { OP_PARAMS_MAX = 2 };

/* Where an operation stands: what it is made with, by ops->op_new. */
struct op_site {
	struct op_spec spec;
	const char *name; /* for errors */
	/* Made before: shape and layout count, not data. add may be NULL. */
	const struct tensor *in, *add;
	enum tensor_type out_type; /* linear only: the model's last is F32 */
	int training; /* 0: forward only, batch_norm by running statistics */
	int first;    /* its input is the batch: no gradient goes further */
	/* The same layer for another number of samples or another mode: its
	 * parameters lie in the same way. NULL: this is the first one. */
	const struct op *like;
};

/* What op_new found; the twin's struct op begins with it. */
struct op {
	struct op_spec spec;
	struct tensor out; /* all but data */
	int param_count;   /* trained: weight, then bias */
	struct op_param param[OP_PARAMS_MAX];
	int buffer_count; /* batch_norm: running_mean, running_var */
	struct op_param buffer[OP_PARAMS_MAX];
	int takes_lists; /* a first linear: forward may get a loader's lists,
			    and then does not look at in */
};

/* All the memory that an op works on, in the device; given once, before the
 * first run. Tensors have data. Gradients of activations have the layout of
 * the activation. */
struct op_memory {
	const struct tensor *in, *add;
	struct tensor *out; /* not training: batch_norm's may be in's memory */
	float *param[OP_PARAMS_MAX];  /* f32 always: the master weights */
	float *grad[OP_PARAMS_MAX];   /* overwritten by backward */
	float *buffer[OP_PARAMS_MAX];
	/* The gradient of out is the sum of dy[0] and, where an output goes two
	 * ways, dy[1], else NULL. Backward may overwrite both. */
	struct tensor *dy[2];
	struct tensor *dx;    /* NULL: not wanted. May be dy[0]'s memory for
				 batch_norm without add */
	struct tensor *d_add; /* may be dy[0]'s memory */
};

/* ---- What goes in ---- */

/* A part of a data set, in the order of an epoch, as batches on the device. On
 * a GPU the samples are there from loader_new on. */
struct loader_spec {
	const struct dataset_part *part; /* borrowed, in the host's memory */
	struct image_shape shape;        /* of a sample, and how to scale it */
	/* Each time a sample is taken: 4 pixels of padding, a random crop of
	 * the old size, and a flip by chance: augment.h draws both. */
	int augment;
	uint64_t seed;
	int batch; /* samples that are taken at once, at most */
	/* Another type than F32 or a layout: that of the first op's input. */
	enum tensor_type type;
};
struct loader {
	struct loader_spec spec;
	struct tensor in; /* what to make the first op with: all but n, data */
	const uint8_t *labels; /* on the device: of the batch last taken */
	const struct samples *lists; /* of the batch last taken: where a first
					linear may go by them; else NULL */
	const uint32_t *index;       /* for the lists: of the batch */
};

/* The numbers of a step. They change while the work of a step, as a graph,
 * stays the same; so they go to the device before it. */
struct step_args {
	uint64_t step;  /* of the update, from 1 */
	uint64_t first; /* sample of the loader's order that the batch begins
			   with */
	double lr;
};

/* ---- Optimizers ---- */

enum optimizer_kind { OPTIMIZER_ADAM, OPTIMIZER_SGD };

/* As torch.optim.Adam and torch.optim.SGD compute it; weight_decay is L2, of
 * all parameters. */
struct optimizer {
	enum optimizer_kind kind;
	double beta1, beta2, eps;          /* adam */
	double momentum;                   /* sgd */
	int nesterov;
	double weight_decay;
};
/* Arenas of `count` values. A gradient is taken times `scale`. */
struct update {
	struct optimizer how;
	size_t count;
	const float *grad;
	float scale;
	float *param;
	float *moment[2]; /* adam: m, v. sgd: the momentum buffer, NULL */
	/* Where this value is not finite, nothing is updated, now and later:
	 * ops->halted tells the step. */
	const float *loss;
};

/* ---- Losses ---- */

enum loss_kind {
	LOSS_CROSS_ENTROPY, /* of the outputs against the sample's label */
	LOSS_MSE            /* of the outputs against the sample itself */
};
struct loss_spec {
	enum loss_kind kind;
	float smoothing; /* cross-entropy: label smoothing as PyTorch's */
	/* 1; where gradients are accumulated, 1 / micro-batches: their losses
	 * and gradients are then to be summed. */
	float scale;
};
/* What was seen since it was set to zero, on the device. */
struct tally {
	double loss; /* sum over samples */
	uint64_t correct, count;
};

/* ---- Devices ---- */

struct device_options {
	int index;    /* the cuda device among those that are visible */
	int threads;  /* cpu: how many cores may be used */
	int core;     /* cpu: -1, or the only core that is used (toy_mp) */
	int bf16;     /* activations and what is multiplied are bf16 */
	int direct;   /* cpu: convolutions by their definition alone, which
			 rounds less than Winograd's and is slower */
};
/* The twin's struct begins with it. */
struct device {
	const struct ops *ops;
	char name[128]; /* "cpu, 2 threads, bf16 by avx512_bf16" */
	enum tensor_type type; /* of activations */
	/* Synchronised batch normalisation, where the caller sets it before
	 * op_new: both are collective and work on the device's memory, in its
	 * order. From this rank's mean, biased var[channels] and count of
	 * values to those of all ranks; the sum of all ranks' values[n]. The
	 * cuda twin has the mean and var by sync_sum, too, for which the host
	 * need not wait. */
	int (*sync_moments)(void *arg, float *mean, float *var,
			    size_t channels, uint64_t *count);
	int (*sync_sum)(void *arg, float *values, size_t n);
	void *sync_arg;
	int error; /* the first that a call without a result met, from the
		      functions above: wait returns it */
};

struct graph; /* a recorded step, the twin's own */

struct ops {
	int version; /* OPS_VERSION */
	const char *kind; /* "cpu", "cuda" */

	/* How many such devices this process can see; < 0 with a text that
	 * says why none. */
	int (*count)(struct err *e);
	/* ERR_USAGE for what this host cannot do (an index that is not there;
	 * bf16 without instructions for it). */
	int (*open)(const struct device_options *o, struct device **d,
		    struct err *e);
	void (*close)(struct device *d);
	/* Each thread that uses d says so once, before all else. */
	void (*enter)(struct device *d);

	/* -- memory -- */
	/* Zeroed, aligned to 64 bytes. -ENOMEM with a text that says what was
	 * asked for and what is free. Not in the queue: waits. */
	int (*alloc)(struct device *d, size_t bytes, void **out, struct err *e);
	void (*free)(struct device *d, void *p);
	void (*zero)(struct device *d, void *p, size_t bytes);
	/* Host memory to the device's and back. Both wait. */
	void (*put)(struct device *d, void *to, const void *from, size_t bytes);
	void (*get)(struct device *d, void *to, const void *from, size_t bytes);
	/* Between two devices of a kind, or in one; in the queue of `to`, after
	 * what is queued on `from` now. */
	void (*copy)(struct device *to, void *dst, struct device *from,
		     const void *src, size_t bytes);
	/* A tensor to and from plain f32 in the host's memory; both wait. */
	void (*tensor_put)(struct device *d, const struct tensor *t,
			   const float *values);
	void (*tensor_get)(struct device *d, const struct tensor *t,
			   float *values);

	/* -- the queue -- */
	/* Waits until all is done. 0, or the first error since the last call.
	 */
	int (*wait)(struct device *d, struct err *e);
	/* cuda: the cudaStream_t, for ddp_set_stream. cpu: NULL. */
	void *(*stream)(struct device *d);
	/* Between begin and end calls are recorded, not done; *g can then be
	 * run over and over. Only op_forward, op_backward, losses, take,
	 * update, add, scale and zero, and NCCL's calls on the stream, may be
	 * recorded. So may libddp's calls that block, where they got this
	 * stream by ddp_set_stream; not a ddp_reducer's step, which asks events
	 * whether they have come, and CUDA forbids that here. *g NULL after
	 * end: this twin (cpu), or this step, has no graphs: everything was
	 * done at once, and is done so each time. */
	int (*capture_begin)(struct device *d, struct err *e);
	int (*capture_end)(struct device *d, struct graph **g, struct err *e);
	void (*graph_launch)(struct device *d, struct graph *g);
	void (*graph_free)(struct device *d, struct graph *g);
	/* Before each step, never recorded. */
	void (*set_step)(struct device *d, const struct step_args *n);

	/* -- what goes in -- */
	int (*loader_new)(struct device *d, const struct loader_spec *s,
			  struct loader **f, struct err *e);
	void (*loader_free)(struct device *d, struct loader *f);
	/* order[count]: samples of this rank in this epoch; copied. */
	int (*loader_order)(struct loader *f, const uint32_t *order,
			    size_t count, uint64_t epoch, struct err *e);
	/* n samples from args.first on into `in`, augmented and scaled, and
	 * their labels into f->labels. in NULL: labels and lists only. */
	void (*load_batch)(struct loader *f, int n, struct tensor *in);

	/* -- layers -- */
	/* ERR_USAGE for a shape that cannot be. May take a while: this is where
	 * algorithms are chosen. */
	int (*op_new)(struct device *d, const struct op_site *s,
		      struct op **out, struct err *e);
	void (*op_free)(struct device *d, struct op *op);
	int (*op_bind)(struct device *d, struct op *op,
		       const struct op_memory *m, struct err *e);
	/* f: the batch's, where this op is the first and takes lists. */
	void (*op_forward)(struct device *d, struct op *op,
			   const struct loader *f);
	/* After forward. What it gives: struct op_memory. */
	void (*op_backward)(struct device *d, struct op *op,
			    const struct loader *f);
	/* Parameter i of op between PyTorch's layout, on the host, and its
	 * place in an arena (parameters, gradients, moments); both wait. */
	void (*param_put)(struct device *d, const struct op *op, int i,
			  float *arena, const float *values);
	void (*param_get)(struct device *d, const struct op *op, int i,
			  const float *arena, float *values);
	/* After parameters were written by other calls than update: what a twin
	 * keeps of them (bf16 copies) is out of date. */
	void (*params_changed)(struct device *d);

	/* -- losses: of y[n][c], plain f32 -- */
	/* *loss = the mean times scale; dy (NULL: not wanted) its gradient; the
	 * batch is added to tally, if that is not NULL. target is mse's. */
	void (*cross_entropy)(struct device *d, const struct loss_spec *s,
			      const struct tensor *y, const uint8_t *labels,
			      float *loss, struct tally *t, struct tensor *dy);
	void (*mse)(struct device *d, const struct loss_spec *s,
		    const struct tensor *y, const struct tensor *target,
		    float *loss, struct tally *t, struct tensor *dy);

	/* -- arithmetic over arenas -- */
	void (*add)(struct device *d, size_t count, const float *x, float *y);
	void (*scale)(struct device *d, size_t count, float by, float *y);
	/* By the lr and the step of args. */
	void (*update)(struct device *d, const struct update *u);
	/* The step whose loss was not finite; 0: none. Waits. */
	uint64_t (*halted)(struct device *d);
	/* 1 if all of t's values, or of x[count], are finite; wait. */
	int (*tensor_finite)(struct device *d, const struct tensor *t);
	int (*finite)(struct device *d, size_t count, const float *x);
};

extern const struct ops ops_cpu;

/* The operations for --device: "cpu"; "cuda"; "auto", which is cuda where its
 * library can be loaded and sees a device, else cpu. NULL and a text for what
 * this build or this host has not. A library stays loaded. It is
 * $DDP_CUDA_OPS, else libddp_cuda_ops.so beside this program, else wherever
 * the loader finds it. */
const struct ops *ops_find(const char *device, struct err *e);

/* What libddp_cuda_ops.so has: returns its table; NULL if version is not its
 * own. */
#define OPS_CUDA_ENTRY "ddp_cuda_ops"
typedef const struct ops *(*ops_entry_fn)(int version);

#ifdef __cplusplus
}
#endif
#endif
