/* cpu.c: the CPU device and its table. oneDNN computes convolutions and
 * products; all other operations are loops that gcc vectorises, compiled for
 * each level of x86-64. Sums over many values are computed in parts, in a fixed
 * order. */
#include "trainers/ops/cpu.h"

#include <errno.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

static struct cpu_device *cpu_of(struct device *d)
{
	return (struct cpu_device *)d;
}

/* ---- The device ---- */

/* There is one device; its threads use the cores. */
static int cpu_count(struct err *e)
{
	return 1;
}

/* A level's bits include those of lower levels. */
static int cpu_has_isa(dnnl_cpu_isa_t isa, dnnl_cpu_isa_t level)
{
	return (isa & level) == level;
}

/* The instructions with which oneDNN multiplies bf16 on this CPU; NULL:
 * none. */
static const char *cpu_bf16_isa(void)
{
#ifdef __x86_64__
	dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();

	if (cpu_has_isa(isa, dnnl_cpu_isa_avx512_core_amx))
		return "amx_bf16";
	if (cpu_has_isa(isa, dnnl_cpu_isa_avx512_core_bf16))
		return "avx512_bf16";
#endif
	return NULL;
}

static int cpu_start_onednn(struct cpu_device *d, enum precision precision,
			    struct err *e)
{
	int bf16 = precision == PRECISION_BF16;
	const char *by = cpu_bf16_isa();
	dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
	int wide = cpu_has_isa(isa, dnnl_cpu_isa_avx512_core);
	int r;

	if (precision == PRECISION_TF32)
		return err_set(e, ERR_USAGE,
			       "--precision tf32: only GPUs have "
			       "it; on a CPU use --precision fp32, which is "
			       "exact");
	if (bf16 && !by)
		return err_set(e, ERR_USAGE, "--precision bf16: this processor "
			       "has neither avx512_bf16 nor amx_bf16, and "
			       "without them it would be slower than fp32; use "
			       "--precision fp32");
	r = cpu_status(dnnl_engine_create(&d->engine, dnnl_cpu, 0),
		       "its start", "-", e);
	if (r == 0)
		r = cpu_status(dnnl_stream_create(&d->stream, d->engine,
						  dnnl_stream_default_flags),
			       "its start", "-", e);
	/* oneDNN's fastest kernels need blocks of 16 channels, except with
	 * AMX. */
	if (wide && !(bf16 && cpu_has_isa(isa, dnnl_cpu_isa_avx512_core_amx))) {
		d->tag = dnnl_nChw16c;
		d->block = LANES;
	} else {
		d->tag = dnnl_nhwc;
	}
	d->base.type = bf16 ? TENSOR_BF16 : TENSOR_F32;
	d->half = precision == PRECISION_FP16;
	snprintf(d->base.name, sizeof(d->base.name),
		 "cpu, %d thread%s%s%s%s%s%s", d->threads,
		 d->threads == 1 ? "" : "s",
		 bf16 ? ", bf16 by " : "", bf16 ? by : "",
		 d->half ? ", fp32 rounded to fp16" : "",
		 d->fuse ? " as by --fuse" : "",
		 d->direct ? ", direct convolutions" : "");
	if (d->core >= 0)
		snprintf(d->base.name + strlen(d->base.name), 24, ", core %d",
			 d->core);
	return r;
}

static void cpu_close(struct device *device)
{
	struct cpu_device *d = cpu_of(device);

	if (!d)
		return;
	if (d->stream)
		dnnl_stream_destroy(d->stream);
	if (d->engine)
		dnnl_engine_destroy(d->engine);
	cpu_layouts_free(d);
	free(d->scratch);
	free(d);
}

static int cpu_open(const struct device_options *o, struct device **out,
		    struct err *e)
{
	struct cpu_device *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return err_no_memory(e, "a device");
	d->base.ops = &ops_cpu;
	d->threads = o->threads > 0 ? o->threads : 1;
	d->core = o->core;
	d->direct = o->direct;
	d->fuse = o->fuse && o->precision == PRECISION_FP16;
	d->generation = 1;
	r = cpu_start_onednn(d, o->precision, e);
	if (r < 0)
		cpu_close(&d->base);
	else
		*out = &d->base;
	return r;
}

static void cpu_enter(struct device *device)
{
	struct cpu_device *d = cpu_of(device);

#ifdef __SSE2__
	/* Flush denormals to zero: Adam's moments of pixels that are rarely
	 * nonzero decay into them, and some processors take a hundred cycles
	 * for each. */
	_mm_setcsr(_mm_getcsr() | 0x8040);
#endif
	omp_set_num_threads(d->threads);
	if (d->core >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET((size_t)d->core, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
}

/* ---- Memory ---- */

static int cpu_alloc(struct device *d, size_t bytes, void **out, struct err *e)
{
	size_t rounded = (bytes + 63) & ~(size_t)63;

	*out = aligned_alloc(64, rounded ? rounded : 64);
	if (!*out)
		return err_set(e, -ENOMEM,
			       "cannot allocate %zu bytes at once; use a "
			       "smaller --batch-size",
			       bytes);
	memset(*out, 0, rounded);
	return 0;
}

static void cpu_free(struct device *d, void *p)
{
	free(p);
}

static void cpu_zero(struct device *d, void *p, size_t bytes)
{
	memset(p, 0, bytes);
}

static void cpu_move(struct device *d, void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

static void cpu_copy(struct device *to, void *dst, struct device *from,
		     const void *src, size_t bytes)
{
	memcpy(dst, src, bytes);
}

/* Copies between a tensor and plain f32. */
static void cpu_tensor_convert(struct cpu_device *d, const struct tensor *t,
			       void *values, int into)
{
	struct tensor plain = {.n = t->n, .c = t->c, .h = t->h, .w = t->w};
	struct cpu_call call = {.desc = NULL};
	cpu_md a, b;
	int r = cpu_desc(d, t, &a, "-", NULL);

	if (r == 0)
		r = cpu_desc(d, &plain, &b, "-", NULL);
	if (r == 0)
		r = cpu_reorder_new(d, &call, into ? b : a, into ? a : b, "-",
				    NULL);
	if (r == 0)
		r = cpu_call_arg(d, &call, into ? DNNL_ARG_TO : DNNL_ARG_FROM,
				 a, t->data, "-", NULL);
	if (r == 0)
		r = cpu_call_arg(d, &call, into ? DNNL_ARG_FROM : DNNL_ARG_TO,
				 b, values, "-", NULL);
	if (r == 0)
		cpu_call_run(d, &call);
	else if (!d->base.error)
		d->base.error = r;
	cpu_call_release(&call);
}

static void cpu_tensor_put(struct device *d, const struct tensor *t,
			   const float *values)
{
	cpu_tensor_convert(cpu_of(d), t, (float *)values, 1);
	cpu_half_store(cpu_of(d), t);
}

static void cpu_tensor_get(struct device *d, const struct tensor *t,
			   float *values)
{
	cpu_tensor_convert(cpu_of(d), t, values, 0);
}

/* ---- The queue: calls run at once ---- */

static int cpu_wait(struct device *d, struct err *e)
{
	int r = d->error;

	d->error = 0;
	if (r == -ENOMEM)
		return err_set(
			e, r,
			"oneDNN ran out of memory; use a smaller --batch-size");
	return r < 0 ? err_set(e, r, "an operation failed on %s: %s", d->name,
			       err_name(r)) : 0;
}

static void *cpu_stream(struct device *d)
{
	return NULL;
}

static int cpu_capture_begin(struct device *d, struct err *e)
{
	return 0;
}

static int cpu_capture_end(struct device *d, struct graph **g, struct err *e)
{
	*g = NULL;
	return 0;
}

static void cpu_no_graph(struct device *d, struct graph *g)
{
}

static void cpu_set_step(struct device *d, const struct step_args *n)
{
	cpu_of(d)->args = *n;
}

/* ---- Operations ---- */

static const struct cpu_kind *const kinds[] = {
	[OP_LINEAR] = &cpu_linear,
	[OP_CONV] = &cpu_conv,
	[OP_BATCH_NORM] = &cpu_batch_norm,
	[OP_MAX_POOL] = &cpu_max_pool,
	[OP_AVERAGE_POOL] = &cpu_average_pool,
};
_Static_assert(sizeof(kinds) / sizeof(*kinds) == OP_KINDS, "a kind is missing");

static struct cpu_op *cpu_op_of(const struct op *op)
{
	return (struct cpu_op *)op;
}

static void cpu_op_free(struct device *d, struct op *base)
{
	struct cpu_op *op = cpu_op_of(base);

	if (!op)
		return;
	if (op->kind->release)
		op->kind->release(op);
	free(op);
}

static int cpu_op_new(struct device *d, const struct op_site *s,
		      struct op **out, struct err *e)
{
	const struct cpu_kind *kind = kinds[s->spec.kind];
	struct cpu_op *op = calloc(1, kind->size);
	int r;

	if (!op)
		return err_no_memory(e, "layer %s", s->name);
	op->base.spec = s->spec;
	op->kind = kind;
	op->name = s->name;
	op->training = s->training;
	op->first = s->first;
	r = cpu_desc(cpu_of(d), s->in, &op->in, s->name, e);
	if (r == 0)
		r = kind->make(cpu_of(d), op, s, e);
	if (r < 0)
		cpu_op_free(d, &op->base);
	else
		*out = &op->base;
	return r;
}

static int cpu_op_bind(struct device *d, struct op *base,
		       const struct op_memory *m, struct err *e)
{
	struct cpu_op *op = cpu_op_of(base);

	op->memory = *m;
	return op->kind->bind ? op->kind->bind(cpu_of(d), op, e) : 0;
}

static void cpu_op_forward(struct device *d, struct op *op,
			   const struct loader *f)
{
	cpu_op_of(op)->kind->forward(cpu_of(d), cpu_op_of(op), f);
	cpu_half_store(cpu_of(d), cpu_op_of(op)->memory.out);
}

static void cpu_op_backward(struct device *d, struct op *op,
			    const struct loader *f)
{
	cpu_op_of(op)->kind->backward(cpu_of(d), cpu_op_of(op), f);
	cpu_half_store(cpu_of(d), cpu_op_of(op)->memory.dx);
}

static void cpu_param_put(struct device *d, const struct op *op, int i,
			  float *arena, const float *values)
{
	const struct cpu_kind *k = cpu_op_of(op)->kind;

	if (k->put)
		k->put(cpu_of(d), cpu_op_of(op), i, arena, values);
	else
		memcpy(arena, values, op->param[i].count * sizeof(*values));
}

static void cpu_param_get(struct device *d, const struct op *op, int i,
			  const float *arena, float *values)
{
	const struct cpu_kind *k = cpu_op_of(op)->kind;

	if (k->get)
		k->get(cpu_of(d), cpu_op_of(op), i, arena, values);
	else
		memcpy(values, arena, op->param[i].count * sizeof(*values));
}

static void cpu_params_changed(struct device *d)
{
	cpu_of(d)->generation++;
}

/* ---- Arithmetic ---- */

static void cpu_add(struct device *d, size_t n, const float *x, float *y)
{
	cpu_vector_add(n, x, y);
}

static void cpu_scale(struct device *d, size_t n, float by, float *y)
{
	cpu_vector_scale(n, by, y);
}

static uint64_t cpu_halted(struct device *d)
{
	return cpu_of(d)->halted;
}

static int cpu_finite(struct device *d, size_t n, const float *x)
{
	return cpu_vector_finite(n, x);
}

static int cpu_tensor_finite(struct device *d, const struct tensor *t)
{
	size_t n = (size_t)t->n * (size_t)t->c * (size_t)t->h * (size_t)t->w;
	float *values;
	int r;

	if (t->type == TENSOR_F32)
		return cpu_vector_finite(t->bytes / sizeof(float), t->data);
	values = malloc(n * sizeof(*values));
	if (!values)
		return 1;
	cpu_tensor_get(d, t, values);
	r = cpu_vector_finite(n, values);
	free(values);
	return r;
}

const struct ops ops_cpu = {
	.version = OPS_VERSION,
	.kind = "cpu",
	.count = cpu_count,
	.open = cpu_open,
	.close = cpu_close,
	.enter = cpu_enter,
	.alloc = cpu_alloc,
	.free = cpu_free,
	.zero = cpu_zero,
	.put = cpu_move,
	.get = cpu_move,
	.copy = cpu_copy,
	.tensor_put = cpu_tensor_put,
	.tensor_get = cpu_tensor_get,
	.wait = cpu_wait,
	.stream = cpu_stream,
	.capture_begin = cpu_capture_begin,
	.capture_end = cpu_capture_end,
	.graph_launch = cpu_no_graph,
	.graph_free = cpu_no_graph,
	.set_step = cpu_set_step,
	.loader_new = cpu_loader_new,
	.loader_free = cpu_loader_free,
	.loader_order = cpu_loader_order,
	.load_batch = cpu_load_batch,
	.op_new = cpu_op_new,
	.op_free = cpu_op_free,
	.op_bind = cpu_op_bind,
	.op_forward = cpu_op_forward,
	.op_backward = cpu_op_backward,
	.param_put = cpu_param_put,
	.param_get = cpu_param_get,
	.params_changed = cpu_params_changed,
	.cross_entropy = cpu_cross_entropy,
	.mse = cpu_mse,
	.add = cpu_add,
	.scale = cpu_scale,
	.update = cpu_update,
	.halted = cpu_halted,
	.tensor_finite = cpu_tensor_finite,
	.finite = cpu_finite,
};
