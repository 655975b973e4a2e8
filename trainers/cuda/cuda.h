/* cuda.h: shared by the files of the CUDA operations. All work goes into one
 * stream per device; its errors are kept, and wait returns them. */
#ifndef TRAINERS_CUDA_H
#define TRAINERS_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "trainers/cuda/conv_plan.h"
#include "trainers/cuda/kernels.h"
#include "trainers/cuda/layout.h"
#include "trainers/cuda/plan_cache.h"
#include "trainers/ops/ops.h"

/* Memory from alloc. With bf16 or fp16 an arena of parameters has a copy in
 * that type, value by value, which convolutions read. */
struct cuda_block {
	char *data;
	size_t bytes;
	uint16_t *narrow; /* NULL: none needed */
	struct cuda_block *next;
};

/* Scratch memory that all operations share. It only grows, and smaller blocks
 * are kept: captured steps may point to them. */
struct cuda_room {
	void *data;
	struct cuda_room *next;
};

struct cuda_device {
	struct device base;
	int index;
	int search; /* enum conv_search */
	int tf32, deterministic, fuse;  /* device_options' */
	unsigned unfused; /* bit g: graph g had no plan, and the note said so */
	void (*note)(const char *line); /* NULL: nobody reads them */
	struct conv_target target;      /* this GPU */
	/* The fastest plans, from the host's file and from this process. */
	struct plan_cache *plans, *measured;
	cudaStream_t stream;
	cudnnHandle_t cudnn;
	cublasLtHandle_t blas;
	struct kernel_state *state; /* on the device */
	struct cuda_block *blocks;
	struct cuda_room *rooms;
	void *room; /* the newest */
	size_t room_size;
	cudaEvent_t event; /* for cuda_await, made by its first call */
	uint64_t first;    /* that the last set_step set */
	int is_capturing;
	/* The load of the step that is being captured; a graph keeps it. */
	struct cuda_load {
		struct loader *loader; /* whose batches are uploaded; NULL */
		int n;
	} load;
	/* The ends of the last two steps, for base.wait_event; NULL: none. */
	cudaEvent_t step_end[2];
	int step; /* the older one's index */
	char error[1024]; /* text of base.error */
};

struct cuda_op;
struct cuda_kind {
	size_t size; /* size of the struct that begins with struct cuda_op */
	int (*make)(struct cuda_device *d, struct cuda_op *op,
		    const struct op_site *s, struct err *e);
	int (*bind)(struct cuda_device *d, struct cuda_op *op, struct err *e);
	void (*forward)(struct cuda_device *d, struct cuda_op *op);
	void (*backward)(struct cuda_device *d, struct cuda_op *op);
	void (*release)(struct cuda_device *d, struct cuda_op *op);
};

/* What a batch normalization shares with the convolutions before and after it,
 * for device_options.fuse. The memory is the norm's; all arrays have a value of
 * each channel. The convolutions say in op_bind what they compute. */
struct cuda_join {
	/* The convolution before: sum and squares, of its y. */
	int has_sums;
	float *sum, *squares;
	/* The convolution after: the norm and its ReLU, whenever it reads x, so
	 * that the norm's output is never written. */
	int is_applied;
	const void *x;		/* the norm's input */
	uint16_t *scale, *bias; /* y = relu(x * scale + bias) */
	/* The convolution after: the gradient of the ReLU's input, in place of
	 * that of its output, and those of the norm's weight and bias. */
	int has_slopes;
	const float *mean, *inv, *norm_weight, *norm_bias;
	float *d_weight, *d_bias, *unused[3];
};

/* An operation: struct op, then its kind's own fields. */
struct cuda_op {
	struct op base;
	const struct cuda_kind *kind;
	char name[64];
	int training;
	struct tensor in; /* all but data */
	struct op_memory memory;
	struct layout_filter filter; /* conv */
	/* conv: what it shares with the batch normalizations before and after
	 * it. batch_norm: its own, if a convolution can compute it. NULL: not
	 * fused. */
	struct cuda_join *before, *after, *join;
};
static inline struct cuda_op *cuda_op_of(struct op *op)
{
	return (struct cuda_op *)op;
}

extern const struct cuda_kind cuda_linear, cuda_conv, cuda_batch_norm,
	cuda_max_pool, cuda_average_pool;

/* ---- device.c ---- */

struct cuda_device *cuda_of(struct device *d);
/* 0 if rc is 0, else an error with a text. */
int cuda_status(cudaError_t rc, const char *what, struct err *e);
int cuda_dnn_status(cudnnStatus_t rc, const char *what, const char *name,
		    struct err *e);
/* ERR_SYSTEM: cuDNN or cuBLASLt is older than what this was built with, or of
 * another major version; the text says which file was loaded. */
int cuda_check_libraries(struct err *e);
int cuda_blas_status(cublasStatus_t rc, const char *what, const char *name,
		     struct err *e);
/* As cuda_status, where no error can be returned: keeps the first one. */
void cuda_note(struct cuda_device *d, int rc, const char *what);
void cuda_note_dnn(struct cuda_device *d, cudnnStatus_t rc, const char *what);
void cuda_note_blas(struct cuda_device *d, cublasStatus_t rc,
		    const char *what);

int cuda_count(struct err *e);
int cuda_open(const struct device_options *o, struct device **out,
	      struct err *e);
void cuda_close(struct device *d);
void cuda_enter(struct device *d);

/* ---- memory.c ---- */

int cuda_alloc(struct device *d, size_t bytes, void **out, struct err *e);
void cuda_free(struct device *d, void *p);
void cuda_zero(struct device *d, void *p, size_t bytes);
void cuda_put(struct device *d, void *to, const void *from, size_t bytes);
void cuda_get(struct device *d, void *to, const void *from, size_t bytes);
void cuda_copy(struct device *to, void *dst, struct device *from,
	       const void *src, size_t bytes);
void cuda_tensor_put(struct device *d, const struct tensor *t,
		     const float *values);
void cuda_tensor_get(struct device *d, const struct tensor *t, float *values);
void cuda_param_put(struct device *d, const struct op *op, int i, float *arena,
		    const float *values);
void cuda_param_get(struct device *d, const struct op *op, int i,
		    const float *arena, float *values);
/* Makes d->room at least this large. */
int cuda_room(struct cuda_device *d, size_t bytes, struct err *e);
/* The 16-bit copy of the parameters at param; made if missing. */
int cuda_narrow(struct cuda_device *d, const float *param, uint16_t **out,
		struct err *e);
/* As cuda_narrow, but NULL if there is no copy. */
uint16_t *cuda_narrow_of(const struct cuda_device *d, const float *param);
void cuda_params_changed(struct device *d);

/* ---- queue.c ---- */

int cuda_wait(struct device *d, struct err *e);
/* Waits until the stream is empty; notes an error as that of `what`. */
void cuda_await(struct cuda_device *d, const char *what);
/* The same for an event. */
void cuda_await_event(struct cuda_device *d, cudaEvent_t event,
		      const char *what);
void *cuda_stream(struct device *d);
int cuda_capture_begin(struct device *d, struct err *e);
int cuda_capture_end(struct device *d, struct graph **g, struct err *e);
void cuda_graph_launch(struct device *d, struct graph *g);
void cuda_graph_free(struct device *d, struct graph *g);
void cuda_set_step(struct device *d, const struct step_args *n);

/* ---- loader.c ---- */

int cuda_loader_new(struct device *d, const struct loader_spec *s,
		    struct loader **f, struct err *e);
void cuda_loader_free(struct device *d, struct loader *f);
int cuda_loader_order(struct loader *f, const uint32_t *order, size_t count,
		      uint64_t epoch, struct err *e);
void cuda_load_batch(struct loader *f, int n, struct tensor *in);
/* Before and after a captured step with this load is launched. */
void cuda_loader_begin(const struct cuda_load *l);
void cuda_loader_end(const struct cuda_load *l);

/* ---- arithmetic.c ---- */

enum kernel_type cuda_kernel_type(enum tensor_type type);
void cuda_cross_entropy(struct device *d, const struct loss_spec *s,
			const struct tensor *y, const uint32_t *labels,
			float *loss, struct tally *t, struct tensor *dy);
void cuda_mse(struct device *d, const struct loss_spec *s,
	      const struct tensor *y, const struct tensor *target, float *loss,
	      struct tally *t, struct tensor *dy);
void cuda_add(struct device *d, size_t count, const float *x, float *y);
void cuda_scale(struct device *d, size_t count, float by, float *y);
void cuda_update(struct device *d, const struct update *u);
uint64_t cuda_halted(struct device *d);
int cuda_tensor_finite(struct device *d, const struct tensor *t);
int cuda_finite(struct device *d, size_t count, const float *x);

/* The library's entry point (ops.h), and its only exported symbol. */
__attribute__((visibility("default")))
const struct ops *ddp_cuda_ops(int version);

/* ---- upload.c ----
 *
 * The batches of a data set that stays in host memory. Each batch is gathered
 * into pinned memory and copied by a stream of its own, while the step before
 * it computes; there are two buffers of each kind. Knows samples and streams;
 * neither labels nor shapes. */

struct upload;

/* For batches of up to `batch` samples of s, which is borrowed. -ENOMEM: the
 * text names the memory. The caller frees with upload_free, which waits. */
int upload_new(struct cuda_device *d, const struct samples *s, int batch,
	       struct upload **out, struct err *e);
void upload_free(struct upload *u);

/* Copies the order of an epoch. */
int upload_order(struct upload *u, const uint32_t *order, size_t count,
		 struct err *e);

/* *out is the device memory with samples order[first, first + n), for all work
 * that is queued until upload_end. Waits only until the batch before the last
 * has been copied. Never call it while a step is captured. */
void upload_begin(struct upload *u, uint64_t first, int n,
		  const uint8_t **out);
/* All kernels that read the batch are queued. */
void upload_end(struct upload *u);

/* ---- conv_tune.c ----
 *
 * Chooses the plan of a pass of a convolution: the plan that was the fastest on
 * this kind of GPU, or if that is unknown, the fastest of those measured
 * now. */

/* DDP_CUDNN_SEARCH */
enum conv_search {
	CONV_FIRST,   /* 0: cuDNN's first choice, unmeasured */
	CONV_REMEMBER, /* unset: measured once per shape, then from the file */
	CONV_SEARCH   /* 1: measured in each run */
};

/* Returns the plan, which the caller closes; its workspace is not yet part of
 * d->room. NULL: the graph API has none, so the legacy calls are to be used.
 * m is the memory of the pass, all but its workspace; measuring overwrites the
 * pass's result. Waits for the device's queue. */
struct conv_plan *conv_tune(struct cuda_device *d, const struct conv_shape *s,
			    enum conv_pass pass, struct conv_memory m);

/* Workspaces larger than this are not considered. */
extern const size_t conv_room_max;

#endif
