/* device.c: opens a GPU, turns its libraries' errors into texts, and has the
 * table of its operations. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/cuda/cuda.h"

struct cuda_device *cuda_of(struct device *d)
{
	return (struct cuda_device *)d;
}

/* ---- Errors ---- */

static int device_error_code(cudaError_t rc)
{
	return rc == cudaErrorMemoryAllocation ? -ENOMEM : ERR_SYSTEM;
}

int cuda_status(cudaError_t rc, const char *what, struct err *e)
{
	if (rc == cudaSuccess)
		return 0;
	return err_set(e, device_error_code(rc), "%s: CUDA: %s", what,
		       cudaGetErrorString(rc));
}

int cuda_dnn_status(cudnnStatus_t rc, const char *what, const char *name,
		    struct err *e)
{
	if (rc == CUDNN_STATUS_SUCCESS)
		return 0;
	return err_set(e, ERR_SYSTEM, "%s: %s: cuDNN %zu: %s", name, what,
		       cudnnGetVersion(), cudnnGetErrorString(rc));
}

int cuda_blas_status(cublasStatus_t rc, const char *what, const char *name,
		     struct err *e)
{
	if (rc == CUBLAS_STATUS_SUCCESS)
		return 0;
	return err_set(e, ERR_SYSTEM, "%s: %s: cuBLASLt: %s", name, what,
		       cublasLtGetStatusString(rc));
}

static void device_set_error(struct cuda_device *d, int code, const char *what,
			     const char *library, const char *text)
{
	if (d->base.error)
		return;
	d->base.error = code;
	snprintf(d->error, sizeof(d->error), "%s: %s: %s", what, library, text);
}

void cuda_note(struct cuda_device *d, int rc, const char *what)
{
	cudaError_t error = (cudaError_t)rc;

	if (error != cudaSuccess)
		device_set_error(d, device_error_code(error), what, "CUDA",
				 cudaGetErrorString(error));
}

void cuda_note_dnn(struct cuda_device *d, cudnnStatus_t rc, const char *what)
{
	if (rc != CUDNN_STATUS_SUCCESS)
		device_set_error(d, ERR_SYSTEM, what, "cuDNN",
				 cudnnGetErrorString(rc));
}

void cuda_note_blas(struct cuda_device *d, cublasStatus_t rc, const char *what)
{
	if (rc != CUBLAS_STATUS_SUCCESS)
		device_set_error(d, ERR_SYSTEM, what, "cuBLASLt",
				 cublasLtGetStatusString(rc));
}

/* ---- Libraries ---- */

static const char *library_path(const void *function)
{
	Dl_info info;

	return dladdr(function, &info) && info.dli_fname ? info.dli_fname :
							   "a library";
}

/* Both number their versions major * 10000 + minor * 100 + patch. A program may
 * use a newer minor version than it was built with, not an older one. */
static int library_check(const char *name, size_t version, size_t built,
			 const void *function, struct err *e)
{
	if (version / 10000 == built / 10000 && version / 100 >= built / 100)
		return 0;
	return err_set(e, ERR_SYSTEM, "%s %zu.%zu was loaded from %.300s, and "
		       "this was built with %zu.%zu; put the folder of a "
		       "%zu.%zu or newer first in LD_LIBRARY_PATH ('%.200s'), "
		       "or use --device cpu", name, version / 10000,
		       version / 100 % 100, library_path(function),
		       built / 10000, built / 100 % 100, built / 10000,
		       built / 100 % 100,
		       getenv("LD_LIBRARY_PATH") ? getenv("LD_LIBRARY_PATH") :
						   "");
}

int cuda_check_libraries(struct err *e)
{
	int r = library_check("cuDNN", cudnnGetVersion(), CUDNN_VERSION,
			      (const void *)(uintptr_t)cudnnGetVersion, e);

	if (r < 0)
		return r;
	return library_check("cuBLASLt", cublasLtGetVersion(), CUBLAS_VERSION,
			     (const void *)(uintptr_t)cublasLtGetVersion, e);
}

/* ---- Devices ---- */

int cuda_count(struct err *e)
{
	int n = 0;
	cudaError_t rc = cudaGetDeviceCount(&n);

	if (rc == cudaSuccess && n > 0)
		return n;
	cudaGetLastError(); /* clear the error: CUDA would return it again */
	if (rc == cudaErrorInsufficientDriver)
		return err_set(e, ERR_USAGE, "no GPU: this host has no NVIDIA "
			       "driver, or it is too old for CUDA %d.%d; "
			       "use --device cpu", CUDART_VERSION / 1000,
			       CUDART_VERSION % 1000 / 10);
	if (rc == cudaSuccess || rc == cudaErrorNoDevice)
		return err_set(e, ERR_USAGE, "no GPU: the driver shows none to "
			       "this process (CUDA_VISIBLE_DEVICES=%s); use "
			       "--device cpu",
			       getenv("CUDA_VISIBLE_DEVICES") ?
			       getenv("CUDA_VISIBLE_DEVICES") : "");
	return err_set(e, ERR_USAGE, "no GPU: CUDA: %s; use --device cpu",
		       cudaGetErrorString(rc));
}

static int device_check_index(const struct device_options *o,
			      struct cudaDeviceProp *p, struct err *e)
{
	int n = cuda_count(e), r;

	if (n < 0)
		return n;
	if (o->index < 0 || o->index >= n)
		return err_set(e, ERR_USAGE,
			       "there is no GPU %d: this process can see %d, "
			       "numbered from 0",
			       o->index, n);
	r = cuda_status(cudaGetDeviceProperties(p, o->index),
			"the GPU's properties", e);
	if (r < 0)
		return r;
	if (o->precision != PRECISION_FP32 && p->major < 8)
		return err_set(e, ERR_USAGE,
			       "--precision %s: %s does not support it "
			       "(compute capability %d.%d; it needs 8.0); "
			       "use --precision fp32",
			       precision_name(o->precision), p->name, p->major,
			       p->minor);
	return 0;
}

static int device_start(struct cuda_device *d, struct err *e)
{
	void *state;
	int r = cuda_status(cudaSetDevice(d->index), "choosing the GPU", e);

	if (r == 0)
		r = cuda_status(cudaStreamCreateWithFlags(
					&d->stream, cudaStreamNonBlocking),
				"a stream", e);
	if (r == 0)
		r = cuda_dnn_status(cudnnCreate(&d->cudnn), "its start",
				    d->base.name, e);
	if (r == 0)
		r = cuda_dnn_status(cudnnSetStream(d->cudnn, d->stream),
				    "its stream", d->base.name, e);
	d->target.handle = d->cudnn;
	if (r == 0)
		r = cuda_blas_status(cublasLtCreate(&d->blas), "its start",
				     d->base.name, e);
	if (r == 0)
		r = cuda_alloc(&d->base, sizeof(*d->state), &state, e);
	if (r == 0)
		d->state = state;
	if (r == 0)
		r = cuda_room(d, KERNEL_LOSS_ROOM * sizeof(double), e);
	return r;
}

static enum conv_search device_search(void)
{
	const char *search = getenv("DDP_CUDNN_SEARCH");

	if (search && !strcmp(search, "0"))
		return CONV_FIRST;
	return search && !strcmp(search, "1") ? CONV_SEARCH : CONV_REMEMBER;
}

static int device_open_plans(struct cuda_device *d,
			     const struct device_options *o,
			     const struct cudaDeviceProp *p, struct err *e)
{
	char name[192];

	snprintf(name, sizeof(name), "%.100s sm_%d%d, %d SMs", p->name,
		 p->major, p->minor, p->multiProcessorCount);
	d->note = o->note;
	d->plans = plan_cache_new(o->cache, name, cudnnGetVersion(), o->note);
	d->measured = plan_cache_new(NULL, name, 0, NULL);
	return d->plans && d->measured ? 0 :
	       err_no_memory(e, "the convolutions' plans");
}

int cuda_open(const struct device_options *o, struct device **out,
	      struct err *e)
{
	struct cudaDeviceProp p;
	struct cuda_device *d;
	int r = device_check_index(o, &p, e);

	if (r == 0)
		r = cuda_check_libraries(e);
	if (r < 0)
		return r;
	d = calloc(1, sizeof(*d));
	if (!d)
		return err_no_memory(e, "a device");
	d->base.ops = ddp_cuda_ops(OPS_VERSION);
	d->base.type = o->precision == PRECISION_BF16   ? TENSOR_BF16 :
		       o->precision == PRECISION_FP16 ? TENSOR_F16 :
							TENSOR_F32;
	d->tf32 = o->precision == PRECISION_TF32;
	d->deterministic = o->deterministic;
	d->fuse = o->fuse && d->base.type == TENSOR_F16;
	d->index = o->index;
	d->search = device_search();
	snprintf(d->base.name, sizeof(d->base.name), "%.100s%s%s%s", p.name,
		 o->precision != PRECISION_FP32 ? ", " : "",
		 o->precision != PRECISION_FP32 ? precision_name(o->precision)
						: "",
		 d->fuse ? ", fused" : "");
	r = device_open_plans(d, o, &p, e);
	if (r == 0)
		r = device_start(d, e);
	if (r < 0)
		cuda_close(&d->base);
	else
		*out = &d->base;
	return r;
}

void cuda_close(struct device *base)
{
	struct cuda_device *d = cuda_of(base);

	if (!d)
		return;
	cudaSetDevice(d->index);
	if (d->stream)
		cudaStreamSynchronize(d->stream);
	cuda_free(base, d->state);
	for (struct cuda_room *r = d->rooms, *next; r; r = next) {
		next = r->next;
		cudaFree(r->data);
		free(r);
	}
	plan_cache_free(d->plans);
	plan_cache_free(d->measured);
	if (d->blas)
		cublasLtDestroy(d->blas);
	if (d->cudnn)
		cudnnDestroy(d->cudnn);
	if (d->event)
		cudaEventDestroy(d->event);
	for (int i = 0; i < 2; i++)
		if (d->step_end[i])
			cudaEventDestroy(d->step_end[i]);
	if (d->stream)
		cudaStreamDestroy(d->stream);
	free(d);
}

void cuda_enter(struct device *d)
{
	cuda_note(cuda_of(d), cudaSetDevice(cuda_of(d)->index),
		  "choosing the GPU");
}

/* ---- the table ---- */

static const struct cuda_kind *const kinds[] = {
	[OP_LINEAR] = &cuda_linear,
	[OP_CONV] = &cuda_conv,
	[OP_BATCH_NORM] = &cuda_batch_norm,
	[OP_MAX_POOL] = &cuda_max_pool,
	[OP_AVERAGE_POOL] = &cuda_average_pool,
};
_Static_assert(sizeof(kinds) / sizeof(*kinds) == OP_KINDS, "a kind is missing");

static void cuda_op_free(struct device *d, struct op *base)
{
	struct cuda_op *op = cuda_op_of(base);

	if (!op)
		return;
	if (op->kind->release)
		op->kind->release(cuda_of(d), op);
	free(op);
}

static int cuda_op_new(struct device *d, const struct op_site *s,
		       struct op **out, struct err *e)
{
	const struct cuda_kind *kind = kinds[s->spec.kind];
	struct cuda_op *op = calloc(1, kind->size);
	int r;

	if (!op)
		return err_no_memory(e, "layer %s", s->name);
	op->base.spec = s->spec;
	op->kind = kind;
	op->training = s->training;
	op->in = *s->in;
	snprintf(op->name, sizeof(op->name), "layer %s", s->name);
	r = kind->make(cuda_of(d), op, s, e);
	if (r < 0)
		cuda_op_free(d, &op->base);
	else
		*out = &op->base;
	return r;
}

static int cuda_op_bind(struct device *d, struct op *base,
			const struct op_memory *m, struct err *e)
{
	struct cuda_op *op = cuda_op_of(base);

	op->memory = *m;
	return op->kind->bind ? op->kind->bind(cuda_of(d), op, e) : 0;
}

static void cuda_op_forward(struct device *d, struct op *op,
			    const struct loader *f)
{
	cuda_op_of(op)->kind->forward(cuda_of(d), cuda_op_of(op));
}

static void cuda_op_backward(struct device *d, struct op *op,
			     const struct loader *f)
{
	cuda_op_of(op)->kind->backward(cuda_of(d), cuda_op_of(op));
}

static const struct ops table = {
	.version = OPS_VERSION,
	.kind = "cuda",
	.count = cuda_count,
	.open = cuda_open,
	.close = cuda_close,
	.enter = cuda_enter,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.zero = cuda_zero,
	.put = cuda_put,
	.get = cuda_get,
	.copy = cuda_copy,
	.tensor_put = cuda_tensor_put,
	.tensor_get = cuda_tensor_get,
	.wait = cuda_wait,
	.stream = cuda_stream,
	.capture_begin = cuda_capture_begin,
	.capture_end = cuda_capture_end,
	.graph_launch = cuda_graph_launch,
	.graph_free = cuda_graph_free,
	.set_step = cuda_set_step,
	.loader_new = cuda_loader_new,
	.loader_free = cuda_loader_free,
	.loader_order = cuda_loader_order,
	.load_batch = cuda_load_batch,
	.op_new = cuda_op_new,
	.op_free = cuda_op_free,
	.op_bind = cuda_op_bind,
	.op_forward = cuda_op_forward,
	.op_backward = cuda_op_backward,
	.param_put = cuda_param_put,
	.param_get = cuda_param_get,
	.params_changed = cuda_params_changed,
	.cross_entropy = cuda_cross_entropy,
	.mse = cuda_mse,
	.add = cuda_add,
	.scale = cuda_scale,
	.update = cuda_update,
	.halted = cuda_halted,
	.tensor_finite = cuda_tensor_finite,
	.finite = cuda_finite,
};

const struct ops *ddp_cuda_ops(int version)
{
	return version == OPS_VERSION ? &table : NULL;
}
