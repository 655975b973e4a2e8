/* ops.h: the operations that models are made of, as one table of functions per
 * kind of device, and how to get such a table. Operations know tensors and
 * shapes; neither models, ranks, files nor epochs.
 *
 * The cpu table is in the program. The cuda table is in libddp_cuda_ops.so,
 * which is loaded on request: one build runs on hosts with and without GPUs.
 * Both compute the same results, up to the rounding of sums. CUDA compiles this
 * header as C++.
 *
 * A device is one queue of work: calls run in order, and on a GPU they return
 * before the work is done, except those that wait. Errors of queued work are
 * returned by ops->wait. */
#ifndef TRAINERS_OPS_H
#define TRAINERS_OPS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "trainers/data/augment.h"
#include "trainers/data/dataset.h"
#include "trainers/ops/loss_scaler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Increment with each change of this header: a library with another number is
 * rejected. */
enum { OPS_VERSION = 9 };

/* ---- Tensors ---- */

enum tensor_type { TENSOR_F32, TENSOR_BF16, TENSOR_F16 };

/* [n][c][h][w] values in device memory. The layout is the device's choice,
 * unless `plain` is set: then it is [n][c][h][w], the layout of a model's input
 * and output. */
struct tensor {
	int n, c, h, w; /* h = w = 1: c values per sample */
	enum tensor_type type;
	int plain;
	size_t bytes;
	const void *layout; /* the device's; valid as long as the op that made
			     * it */
	void *data;         /* aligned to 64 bytes */
};

/* ---- Operations ---- */

enum op_kind {
	OP_LINEAR,       /* y[n][out] = x[n][c*h*w] * w + bias, then ReLU if
			  * set */
	OP_CONV,         /* no bias; square kernels */
	OP_BATCH_NORM,   /* then + add if there is one, then ReLU if set */
	OP_MAX_POOL,     /* padding is never the maximum */
	OP_AVERAGE_POOL, /* over h x w: y is [n][c][1][1] */
	OP_KINDS
};

struct op_spec {
	enum op_kind kind;
	int out;                 /* linear: values; conv: channels */
	int kernel, stride, pad; /* conv, max_pool */
	int relu;                /* linear, batch_norm */
};

/* A parameter or a buffer of an operation, as in PyTorch. In an arena it takes
 * `size` values, at least `count`: a device may pad it with zeros, which stay
 * zero. */
struct op_param {
	const char *name; /* "weight", "bias", "running_mean", "running_var" */
	int shape[4];     /* [out][in][h][w], trailing ones */
	size_t count;     /* values in PyTorch */
	size_t size;      /* values in an arena */
};
enum { OP_PARAMS_MAX = 2 };

/* The arguments from which ops->op_new makes an operation. */
struct op_site {
	struct op_spec spec;
	const char *name; /* for errors */
	/* Shape and layout are used, data is not. add may be NULL. */
	const struct tensor *in, *add;
	enum tensor_type out_type; /* linear only: F32 for the model's last
				    * layer */
	int training; /* 0: forward only, batch_norm with running statistics */
	int first;    /* its input is the batch, so dx is not needed */
	/* The operation that computes `in`, if nothing else reads `in`. NULL:
	 * something does, or `in` is the batch. */
	struct op *source;
	/* The specification of the operation that will read the output. NULL:
	 * there are several, or none. */
	const struct op_spec *reader;
	/* The same layer for another number of samples or mode; both have the
	 * same parameter layout. NULL: this is the first. */
	const struct op *like;
};

/* An operation; the device's own struct begins with it. */
struct op {
	struct op_spec spec;
	struct tensor out; /* everything but data */
	int param_count;   /* trained: weight, then bias */
	struct op_param param[OP_PARAMS_MAX];
	int buffer_count; /* batch_norm: running_mean, running_var */
	struct op_param buffer[OP_PARAMS_MAX];
	int is_hidden; /* from op_bind of its reader on: the reader computes
			* `out` itself, which is never written */
	int takes_lists; /* a first linear layer: forward may use a loader's
			  * lists instead of `in` */
};

/* The device memory that an op uses; set once, before its first run. Tensors
 * have data. A gradient has the layout of its activation. */
struct op_memory {
	const struct tensor *in, *add;
	struct tensor *out; /* if not training, batch_norm's may share in's
			     * memory */
	float *param[OP_PARAMS_MAX];  /* always f32: the master weights */
	float *grad[OP_PARAMS_MAX];   /* overwritten, not added to */
	float *buffer[OP_PARAMS_MAX];
	/* The gradient of out is dy[0], plus dy[1] if two layers read out (else
	 * NULL). Backward may overwrite both. */
	struct tensor *dy[2];
	struct tensor *dx;    /* NULL: not needed. May share dy[0]'s memory for
			       * batch_norm without add */
	struct tensor *d_add; /* may share dy[0]'s memory */
};

/* ---- Input ---- */

/* Loads batches of a data set, in the order of an epoch. On a GPU all samples
 * are in its memory from loader_new on. */
struct loader_spec {
	const struct dataset_part *part; /* borrowed, in host memory */
	struct image_shape shape;        /* shape of a sample, and its scale */
	enum augment_kind augment; /* what each load draws for a sample */
	/* Height and width of the result, from 8 on; 0: the sample's. Samples
	 * are resized to it, without AUGMENT_RESIZE after a centre crop; not
	 * for AUGMENT_SHIFT. */
	int side;
	uint64_t seed;
	int batch; /* most samples in a batch */
	/* Type of the batch, as the first op needs it. */
	enum tensor_type type;
};
static inline int loader_height(const struct loader_spec *s)
{
	return s->side ? s->side : s->shape.height;
}
static inline int loader_width(const struct loader_spec *s)
{
	return s->side ? s->side : s->shape.width;
}
/* 1: samples are scaled (crop.h). */
static inline int loader_resizes(const struct loader_spec *s)
{
	return s->augment == AUGMENT_RESIZE ||
	       loader_height(s) != s->shape.height ||
	       loader_width(s) != s->shape.width;
}

struct loader {
	struct loader_spec spec;
	struct tensor in; /* [n][c][h][w] of a batch, without n and data: the
			   * first op's input */
	const uint32_t *labels; /* [n], on the device: labels of the last
				 * batch */
	const struct samples *lists; /* lists of the last batch, for a first
				      * linear layer; NULL: none */
	const uint32_t *index;       /* [n]: the last batch's samples in the
				      * lists */
};

/* The arguments of a step, which change while its captured graph stays the
 * same, so they are copied to the device first. */
struct step_args {
	uint64_t step;  /* number of the update, from 1 */
	uint64_t first; /* the batch's first sample in the loader's order */
	double lr;
};

/* ---- Optimizers ---- */

enum optimizer_kind { OPTIMIZER_ADAM, OPTIMIZER_SGD };

/* As torch.optim.Adam and torch.optim.SGD. weight_decay is an L2 penalty on all
 * parameters. */
struct optimizer {
	enum optimizer_kind kind;
	double beta1, beta2, eps;          /* adam */
	double momentum;                   /* sgd */
	int nesterov;
	double weight_decay;
};
/* Arenas of `count` values. Gradients are multiplied by `scale`. */
struct update {
	struct optimizer how;
	size_t count;
	const float *grad;
	float scale;
	float *param;
	float *moment[2]; /* adam: m, v. sgd: momentum, NULL */
	/* If this value is not finite, nothing is updated, now or later;
	 * ops->halted returns the step. */
	const float *loss;
	/* Device memory; NULL: none. Gradients are also divided by its scale.
	 * If one of them, or the loss, is not finite, this step updates nothing
	 * and the scale is halved; the device halts only when the scale is too
	 * small. */
	struct loss_scaler *scaler;
};

/* ---- Losses ---- */

enum loss_kind {
	LOSS_CROSS_ENTROPY, /* from the outputs and the label */
	LOSS_MSE            /* from the outputs and the sample itself */
};
struct loss_spec {
	enum loss_kind kind;
	float smoothing; /* cross-entropy: label smoothing, as in PyTorch */
	/* Factor of loss and gradient: 1, or the micro-batch's share of the
	 * batch, so that micro-batches sum up to the mean. */
	float scale;
	/* Device memory; NULL: none. Its scale is a further factor of the
	 * gradient, not of the loss. */
	const struct loss_scaler *scaler;
};
/* Sums over the samples since the last zero; on the device. */
struct tally {
	double loss; /* sum of the losses */
	uint64_t correct, count;
};

/* ---- Devices ---- */

/* Numbers are part of checkpoints. */
enum precision {
	PRECISION_FP32, /* f32 throughout */
	PRECISION_BF16, /* activations and factors are bf16 */
	PRECISION_TF32, /* cuda: f32, which convolutions round to TF32, 10 bits
			 * of mantissa, before they multiply; PyTorch's default.
			 * Linear layers stay f32 */
	PRECISION_FP16, /* as bf16, but fp16; the caller scales the loss */
	PRECISIONS
};

/* "fp32", "bf16", "tf32", "fp16"; "unknown" for a number of a later version. */
static inline const char *precision_name(int64_t p)
{
	static const char *const names[PRECISIONS] = {"fp32", "bf16", "tf32",
						 "fp16"};

	return p >= 0 && p < PRECISIONS ? names[p] : "unknown";
}

/* An enum precision; -1: no precision has that name. */
static inline int precision_parse(const char *name)
{
	int p = PRECISIONS - 1;

	while (p >= 0 && strcmp(name, precision_name(p)) != 0)
		p--;
	return p;
}

struct device_options {
	int index;    /* cuda: index among the visible devices */
	int threads;  /* cpu: threads to use */
	int core;     /* cpu: the only core to run on; -1: any */
	enum precision precision;
	int deterministic; /* cuda: ERR_SYSTEM from op_bind where an operation
			    * can only be computed in an order that varies;
			    * 0: note gets a line. CPUs always are */
	/* PRECISION_FP16, training: convolutions do what they can of the batch
	 * normalizations around them. cuda: where cuDNN has a plan for that;
	 * note gets a line where not. cpu: rounds as cuda then does */
	int fuse;
	int direct;   /* cpu: no Winograd convolutions: less rounding, slower */
	const char *cache; /* cuda: the folder of the plans that were measured;
			    * NULL: they are forgotten. Not kept */
	void (*note)(const char *line); /* cuda: gets what the user should
					 * know; NULL: nobody */
};
/* A device; each kind's struct begins with this one. */
struct device {
	const struct ops *ops;
	char name[128]; /* "cpu, 2 threads, bf16 by avx512_bf16" */
	enum tensor_type type; /* that of activations */
	/* Synchronised batch normalisation; set by the caller before op_new.
	 * Both are collective, and work on device memory in queue order.
	 * sync_moments: replaces mean[channels], biased var[channels] and count
	 * by those over all ranks. sync_sum: sums values[n] over the ranks. The
	 * cuda device only uses sync_sum, for which the host need not wait. */
	int (*sync_moments)(void *arg, float *mean, float *var,
			    size_t channels, uint64_t *count);
	int (*sync_sum)(void *arg, float *values, size_t n);
	void *sync_arg;
	/* cuda, or NULL: waits for a cudaEvent_t in place of CUDA, which waits
	 * for ever if another rank hangs; set by the caller. With it the queue
	 * holds at most three steps. */
	int (*wait_event)(void *arg, void *event, struct err *e);
	void *wait_arg;
	int error; /* the first error of a call that returns nothing; ops->wait
		    * returns it */
};

struct graph; /* a captured step; the device's */

struct ops {
	int version; /* OPS_VERSION */
	const char *kind; /* "cpu", "cuda" */

	/* Number of visible devices of this kind; < 0: none, the text says
	 * why. */
	int (*count)(struct err *e);
	/* ERR_USAGE: the host does not support it (no such index; a precision
	 * without instructions for it). */
	int (*open)(const struct device_options *o, struct device **d,
		    struct err *e);
	void (*close)(struct device *d);
	/* Each thread calls it once, before it uses d. */
	void (*enter)(struct device *d);

	/* -- memory -- */
	/* Zeroed memory, aligned to 64 bytes. -ENOMEM: the text says how much
	 * was asked for and is free. Waits. */
	int (*alloc)(struct device *d, size_t bytes, void **out, struct err *e);
	void (*free)(struct device *d, void *p);
	void (*zero)(struct device *d, void *p, size_t bytes);
	/* Host memory to the device, and back. Both wait. */
	void (*put)(struct device *d, void *to, const void *from, size_t bytes);
	void (*get)(struct device *d, void *to, const void *from, size_t bytes);
	/* Between devices of one kind, or within one; in the queue of `to`,
	 * after what is now queued on `from`. */
	void (*copy)(struct device *to, void *dst, struct device *from,
		     const void *src, size_t bytes);
	/* A tensor from or to plain f32 [n][c][h][w] in host memory; both
	 * wait. */
	void (*tensor_put)(struct device *d, const struct tensor *t,
			   const float *values);
	void (*tensor_get)(struct device *d, const struct tensor *t,
			   float *values);

	/* -- the queue -- */
	/* Waits until the queue is empty. Returns 0, or the first error since
	 * the last call. */
	int (*wait)(struct device *d, struct err *e);
	/* cuda: the cudaStream_t, for ddp_set_stream. cpu: NULL. */
	void *(*stream)(struct device *d);
	/* Calls between begin and end are captured, not run; *g can then be
	 * launched repeatedly. Allowed are op_forward, op_backward, losses,
	 * load_batch, update, add, scale, zero, and NCCL's calls on the stream;
	 * also libddp's blocking calls, if ddp_set_stream gave them this
	 * stream, but not a ddp_reducer's step, which queries events, as CUDA
	 * forbids here. *g NULL after end: the device (cpu), or this step,
	 * cannot be captured; the calls have run at once. */
	int (*capture_begin)(struct device *d, struct err *e);
	int (*capture_end)(struct device *d, struct graph **g, struct err *e);
	void (*graph_launch)(struct device *d, struct graph *g);
	void (*graph_free)(struct device *d, struct graph *g);
	/* Call it before each step; never captured. */
	void (*set_step)(struct device *d, const struct step_args *n);

	/* -- input -- */
	int (*loader_new)(struct device *d, const struct loader_spec *s,
			  struct loader **f, struct err *e);
	void (*loader_free)(struct device *d, struct loader *f);
	/* Sets this rank's samples of an epoch, order[count]; copied. */
	int (*loader_order)(struct loader *f, const uint32_t *order,
			    size_t count, uint64_t epoch, struct err *e);
	/* Loads n samples, from args.first on, augmented and scaled, into `in`,
	 * and their labels into f->labels. in NULL: labels and lists only. */
	void (*load_batch)(struct loader *f, int n, struct tensor *in);

	/* -- layers -- */
	/* ERR_USAGE: an impossible shape. May take a while: it chooses
	 * algorithms. */
	int (*op_new)(struct device *d, const struct op_site *s,
		      struct op **out, struct err *e);
	void (*op_free)(struct device *d, struct op *op);
	int (*op_bind)(struct device *d, struct op *op,
		       const struct op_memory *m, struct err *e);
	/* f: the batch's loader, if this op is the first and takes lists. */
	void (*op_forward)(struct device *d, struct op *op,
			   const struct loader *f);
	/* After forward. Its results: see struct op_memory. */
	void (*op_backward)(struct device *d, struct op *op,
			    const struct loader *f);
	/* Copies parameter i of op between PyTorch's layout, on the host, and
	 * its place in an arena (parameters, gradients, moments); both wait. */
	void (*param_put)(struct device *d, const struct op *op, int i,
			  float *arena, const float *values);
	void (*param_get)(struct device *d, const struct op *op, int i,
			  const float *arena, float *values);
	/* Call it after parameters were written other than by update: cached
	 * copies (bf16) are stale. */
	void (*params_changed)(struct device *d);

	/* -- losses of y[n][c], plain f32 -- */
	/* *loss = mean * scale; dy (NULL: not needed) its gradient; the batch
	 * is added to tally, unless NULL. target is for mse. */
	void (*cross_entropy)(struct device *d, const struct loss_spec *s,
			      const struct tensor *y, const uint32_t *labels,
			      float *loss, struct tally *t, struct tensor *dy);
	void (*mse)(struct device *d, const struct loss_spec *s,
		    const struct tensor *y, const struct tensor *target,
		    float *loss, struct tally *t, struct tensor *dy);

	/* -- arithmetic over arenas -- */
	void (*add)(struct device *d, size_t count, const float *x, float *y);
	void (*scale)(struct device *d, size_t count, float by, float *y);
	/* With lr and step of the last set_step. */
	void (*update)(struct device *d, const struct update *u);
	/* The step after which updates ended: its loss was not finite, or the
	 * scaler's scale became too small; 0: none. Waits. */
	uint64_t (*halted)(struct device *d);
	/* 1 if all values of t, or of x[count], are finite. Both wait. */
	int (*tensor_finite)(struct device *d, const struct tensor *t);
	int (*finite)(struct device *d, size_t count, const float *x);
};

extern const struct ops ops_cpu;

/* The table for --device: "cpu", "cuda", or "auto": cuda if there is a
 * driver and its library can be loaded and sees a device, else cpu. NULL: not
 * available, the text says why.
 * The library is $DDP_CUDA_OPS, else libddp_cuda_ops.so beside this program,
 * else the loader's choice; it stays loaded. */
const struct ops *ops_find(const char *device, struct err *e);

/* Exported by libddp_cuda_ops.so: returns its table, or NULL if its version
 * differs. */
#define OPS_CUDA_ENTRY "ddp_cuda_ops"
typedef const struct ops *(*ops_entry_fn)(int version);

#ifdef __cplusplus
}
#endif
#endif
