/* cpu.h: what the files of the CPU twin share among themselves. */
#ifndef TRAINERS_CPU_H
#define TRAINERS_CPU_H

#include "trainers/ops/cpu_onednn.h"
#include "trainers/ops/ops.h"

/* A loop compiled once per level of x86-64, picked at load time. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MULTIVERSION                                                           \
	__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3",       \
				     "default")))
#else
#define MULTIVERSION
#endif

/* In such a loop a * b + c may be rounded once, where the level can. */
#if defined(__GNUC__) && !defined(__clang__)
#define FUSED __attribute__((optimize("fp-contract=fast")))
#else
#define FUSED
#endif

/* Sixteen floats anywhere in memory; gcc makes of it what the level has. */
typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
enum { LANES = 16 };

struct cpu_device {
	struct device base;
	int threads, core, direct;
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	dnnl_format_tag_t tag; /* of activations whose channels allow it */
	int block;             /* its channels: 16, 8, or 0 for nhwc */
	cpu_md *mds; /* the layouts in use, each once */
	size_t md_count;
	/* Room that one operation after another works in. */
	void *scratch;
	size_t scratch_size;
	struct step_args args;
	uint64_t halted;
	/* Grows when parameters change: copies know by it that they are old. */
	uint64_t generation;
};

/* One of oneDNN's primitives with what it is called with. */
enum { CPU_ARGS = 6 };
struct cpu_call {
	dnnl_primitive_t primitive;
	dnnl_primitive_desc_t desc;
	dnnl_exec_arg_t arg[CPU_ARGS];
	int args;
	dnnl_memory_t scratch;
};

/* One operation: struct op, then what its kind needs. */
struct cpu_op {
	struct op base;
	const struct cpu_kind *kind;
	const char *name;
	int training, first;
	struct op_memory memory;
	cpu_md in, out; /* of the tensors */
};

struct cpu_kind {
	size_t size; /* of the struct that begins with struct cpu_op */
	int (*make)(struct cpu_device *d, struct cpu_op *op,
		    const struct op_site *s, struct err *e);
	int (*bind)(struct cpu_device *d, struct cpu_op *op, struct err *e);
	void (*forward)(struct cpu_device *d, struct cpu_op *op,
			const struct loader *f);
	void (*backward)(struct cpu_device *d, struct cpu_op *op,
			 const struct loader *f);
	void (*release)(struct cpu_op *op);
	/* NULL: as PyTorch has them */
	void (*put)(struct cpu_device *d, const struct cpu_op *op, int i,
		    float *arena, const float *values);
	void (*get)(struct cpu_device *d, const struct cpu_op *op, int i,
		    const float *arena, float *values);
};

extern const struct cpu_kind cpu_linear, cpu_conv, cpu_batch_norm,
	cpu_max_pool, cpu_average_pool;

/* ---- cpu_call.c ---- */

/* A layout in *md, which the device keeps until it is closed. */
int cpu_layout(struct cpu_device *d, const dnnl_dims_t dims,
	       dnnl_data_type_t type, dnnl_format_tag_t tag, cpu_md *md,
	       const char *name, struct err *e);
/* One like `from`, which a call may own. */
int cpu_layout_keep(struct cpu_device *d, cpu_md from, cpu_md *md,
		    const char *name, struct err *e);
void cpu_layouts_free(struct cpu_device *d);
dnnl_data_type_t cpu_type(enum tensor_type type);
/* How t lies, for oneDNN. */
int cpu_desc(struct cpu_device *d, const struct tensor *t, cpu_md *md,
	     const char *name, struct err *e);
/* Sets all of t but data: activations of this device. *md is t->layout. */
int cpu_tensor(struct cpu_device *d, struct tensor *t, int n, int c, int h,
	       int w, cpu_md *md, const char *name, struct err *e);
/* What oneDNN refused, in words; status 0 is 0. */
int cpu_status(dnnl_status_t status, const char *what, const char *name,
	       struct err *e);
/* Calls of these primitives, with a scratchpad of the device's. hint is the
 * forward call where this is a gradient. */
int cpu_convolution_new(struct cpu_device *d, struct cpu_call *c,
			enum cpu_pass pass, dnnl_alg_kind_t algorithm,
			const struct cpu_window *w,
			const struct cpu_call *hint, const char *name,
			struct err *e);
int cpu_pooling_new(struct cpu_device *d, struct cpu_call *c,
		    enum cpu_pass pass, int training,
		    const struct cpu_window *w, const struct cpu_call *hint,
		    const char *name, struct err *e);
/* One that copies from one layout or type to another. */
int cpu_reorder_new(struct cpu_device *d, struct cpu_call *c, cpu_md from,
		    cpu_md to, const char *name, struct err *e);
/* Gives it one more argument, in this memory. */
int cpu_call_arg(struct cpu_device *d, struct cpu_call *c, int arg, cpu_md md,
		 void *data, const char *name, struct err *e);
void cpu_call_run(struct cpu_device *d, struct cpu_call *c);
void cpu_call_release(struct cpu_call *c);
/* The primitive's own idea of an argument; what: dnnl_query_src_md, ... */
cpu_md cpu_call_desc(const struct cpu_call *c, dnnl_query_t what);

/* ---- cpu_linear.c ---- */

/* y += bias, then ReLU. */
void cpu_bias_relu(int n, int out, int relu, const float *restrict bias,
		   float *restrict y);
/* dy *= (y > 0) where there is a ReLU, and the sums of dy's columns. */
void cpu_mask_and_sum(int n, int out, int relu, const float *restrict y,
		      float *restrict dy, float *restrict sum);

/* ---- cpu_sparse.c: a first linear layer by lists ---- */

enum { SPARSE_SAMPLES_MAX = 4096, SPARSE_OUTPUTS_MIN = 16 };
struct cpu_dense {
	int in, out, relu;
	const float *weight, *bias;    /* [in][out], [out] */
	float *weight_grad, *bias_grad;
};
/* n <= SPARSE_SAMPLES_MAX and at least SPARSE_OUTPUTS_MIN outputs. room has
 * sparse_room bytes, zeroed at first, which nobody else uses. */
size_t cpu_sparse_room(int n, size_t size);
void cpu_sparse_forward(const struct cpu_dense *l, int n,
			const struct samples *s, const uint32_t *index,
			void *room, float *y);
void cpu_sparse_backward(const struct cpu_dense *l, int n,
			 const struct samples *s, const uint32_t *index,
			 void *room, const float *y, float *dy);

/* ---- cpu_vector.c ---- */

void cpu_vector_add(size_t count, const float *x, float *y);
void cpu_vector_scale(size_t count, float by, float *y);
/* a += b, both of md's layout and type. */
void cpu_tensor_add(struct tensor *a, const struct tensor *b);
int cpu_vector_finite(size_t count, const float *x);

/* ---- the entries of struct ops, by file ---- */

int cpu_loader_new(struct device *d, const struct loader_spec *s,
		   struct loader **f, struct err *e);
void cpu_loader_free(struct device *d, struct loader *f);
int cpu_loader_order(struct loader *f, const uint32_t *order, size_t count,
		     uint64_t epoch, struct err *e);
void cpu_load_batch(struct loader *f, int n, struct tensor *in);

void cpu_cross_entropy(struct device *d, const struct loss_spec *s,
		       const struct tensor *y, const uint8_t *labels,
		       float *loss, struct tally *t, struct tensor *dy);
void cpu_mse(struct device *d, const struct loss_spec *s,
	     const struct tensor *y, const struct tensor *target, float *loss,
	     struct tally *t, struct tensor *dy);

void cpu_update(struct device *d, const struct update *u);

#endif
