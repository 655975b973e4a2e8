/* cpu.h: shared by the files of the CPU operations; private to this room. */
#ifndef TRAINERS_CPU_H
#define TRAINERS_CPU_H

#include "base/multiversion.h"
#include "trainers/ops/cpu_onednn.h"
#include "trainers/ops/ops.h"

/* In such a loop a * b + c is rounded once, if the level can. */
#if defined(__GNUC__) && !defined(__clang__)
#define FUSED __attribute__((optimize("fp-contract=fast")))
#else
#define FUSED
#endif

/* Sixteen floats at any address; gcc maps them to the level's vectors. */
typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
enum { LANES = 16 };

struct cpu_device {
	struct device base;
	int threads, core, direct;
	int half; /* --precision fp16: see cpu_vector.c */
	int fuse; /* device_options.fuse, with half */
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	dnnl_format_tag_t tag; /* activations', if the channels allow it */
	int block;             /* channels in its block: 16, 8, or 0 for nhwc */
	cpu_md *mds; /* the layouts in use, each once */
	size_t md_count;
	/* Scratch memory that all operations share. */
	void *scratch;
	size_t scratch_size;
	struct step_args args;
	uint64_t halted;
	/* Incremented when parameters change: cached copies compare it. */
	uint64_t generation;
};

/* ---- cpu_crop.c ---- */

/* Memory for images of shape s that become height x width; NULL: no memory. */
struct cpu_crop;
struct crop;
struct cpu_crop *cpu_crop_new(const struct image_shape *s, int height,
			      int width);
void cpu_crop_free(struct cpu_crop *c);
/* Scales a part of the image to to[channels][height][width]. */
void cpu_crop_run(struct cpu_crop *c, const struct image_shape *s,
		  const struct crop *part, const uint8_t *from, uint8_t *to);

/* A oneDNN primitive and its arguments. */
enum { CPU_ARGS = 6 };
struct cpu_call {
	dnnl_primitive_t primitive;
	dnnl_primitive_desc_t desc;
	dnnl_exec_arg_t arg[CPU_ARGS];
	int args;
	dnnl_memory_t scratch;
};

/* An operation: struct op, then its kind's own fields. */
struct cpu_op {
	struct op base;
	const struct cpu_kind *kind;
	const char *name;
	int training, first;
	struct op_memory memory;
	cpu_md in, out; /* layouts of the tensors */
};

struct cpu_kind {
	size_t size; /* size of the struct that begins with struct cpu_op */
	int (*make)(struct cpu_device *d, struct cpu_op *op,
		    const struct op_site *s, struct err *e);
	int (*bind)(struct cpu_device *d, struct cpu_op *op, struct err *e);
	void (*forward)(struct cpu_device *d, struct cpu_op *op,
			const struct loader *f);
	void (*backward)(struct cpu_device *d, struct cpu_op *op,
			 const struct loader *f);
	void (*release)(struct cpu_op *op);
	/* NULL: parameters are in PyTorch's layout */
	void (*put)(struct cpu_device *d, const struct cpu_op *op, int i,
		    float *arena, const float *values);
	void (*get)(struct cpu_device *d, const struct cpu_op *op, int i,
		    const float *arena, float *values);
};

extern const struct cpu_kind cpu_linear, cpu_conv, cpu_batch_norm,
	cpu_max_pool, cpu_average_pool;

/* ---- cpu_call.c ---- */

/* Sets *md to a layout, which the device keeps until it is closed. */
int cpu_layout(struct cpu_device *d, const dnnl_dims_t dims,
	       dnnl_data_type_t type, dnnl_format_tag_t tag, cpu_md *md,
	       const char *name, struct err *e);
/* As cpu_layout, for a copy of `from`, which a call may own. */
int cpu_layout_keep(struct cpu_device *d, cpu_md from, cpu_md *md,
		    const char *name, struct err *e);
void cpu_layouts_free(struct cpu_device *d);
dnnl_data_type_t cpu_type(enum tensor_type type);
/* The layout of t, for oneDNN. */
int cpu_desc(struct cpu_device *d, const struct tensor *t, cpu_md *md,
	     const char *name, struct err *e);
/* Sets t (an activation) except data; *md is its t->layout. */
int cpu_tensor(struct cpu_device *d, struct tensor *t, int n, int c, int h,
	       int w, cpu_md *md, const char *name, struct err *e);
/* 0 if status is 0, else an error with a text. */
int cpu_status(dnnl_status_t status, const char *what, const char *name,
	       struct err *e);
/* Make calls of these primitives, with the device's scratch memory. hint: the
 * forward call, for a gradient. */
int cpu_convolution_new(struct cpu_device *d, struct cpu_call *c,
			enum cpu_pass pass, dnnl_alg_kind_t algorithm,
			const struct cpu_window *w,
			const struct cpu_call *hint, const char *name,
			struct err *e);
int cpu_pooling_new(struct cpu_device *d, struct cpu_call *c,
		    enum cpu_pass pass, int training,
		    const struct cpu_window *w, const struct cpu_call *hint,
		    const char *name, struct err *e);
/* A call that copies between layouts or types. */
int cpu_reorder_new(struct cpu_device *d, struct cpu_call *c, cpu_md from,
		    cpu_md to, const char *name, struct err *e);
/* Adds an argument, in this memory. */
int cpu_call_arg(struct cpu_device *d, struct cpu_call *c, int arg, cpu_md md,
		 void *data, const char *name, struct err *e);
void cpu_call_run(struct cpu_device *d, struct cpu_call *c);
void cpu_call_release(struct cpu_call *c);
/* The layout that the primitive prefers; what: dnnl_query_src_md, ... */
cpu_md cpu_call_desc(const struct cpu_call *c, dnnl_query_t what);

/* ---- cpu_linear.c ---- */

/* y += bias, then ReLU. */
void cpu_bias_relu(int n, int out, int relu, const float *restrict bias,
		   float *restrict y);
/* dy *= (y > 0) if relu; sum[out] = sums of dy's columns. */
void cpu_mask_and_sum(int n, int out, int relu, const float *restrict y,
		      float *restrict dy, float *restrict sum);

/* ---- cpu_sparse.c: a first linear layer on lists ---- */

enum { SPARSE_SAMPLES_MAX = 4096, SPARSE_OUTPUTS_MIN = 16 };
struct cpu_dense {
	int in, out, relu;
	const float *weight, *bias;    /* [in][out], [out] */
	float *weight_grad, *bias_grad;
};
/* n <= SPARSE_SAMPLES_MAX, and at least SPARSE_OUTPUTS_MIN outputs. room has
 * sparse_room bytes, initially zero, for these calls alone. */
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
/* a += b, of the same layout and type. */
void cpu_tensor_add(struct tensor *a, const struct tensor *b);
int cpu_vector_finite(size_t count, const float *x);

/* Rounds each value to the nearest of fp16. */
void cpu_half_round(size_t count, float *x);
/* The same where a GPU would store t as fp16: if d computes in fp16, and t is
 * an activation or its gradient. t may be NULL. */
void cpu_half_store(const struct cpu_device *d, const struct tensor *t);

/* ---- entries of struct ops, by file ---- */

int cpu_loader_new(struct device *d, const struct loader_spec *s,
		   struct loader **f, struct err *e);
void cpu_loader_free(struct device *d, struct loader *f);
int cpu_loader_order(struct loader *f, const uint32_t *order, size_t count,
		     uint64_t epoch, struct err *e);
void cpu_load_batch(struct loader *f, int n, struct tensor *in);

void cpu_cross_entropy(struct device *d, const struct loss_spec *s,
		       const struct tensor *y, const uint32_t *labels,
		       float *loss, struct tally *t, struct tensor *dy);
void cpu_mse(struct device *d, const struct loss_spec *s,
	     const struct tensor *y, const struct tensor *target, float *loss,
	     struct tally *t, struct tensor *dy);

void cpu_update(struct device *d, const struct update *u);

#endif
