/* cpu.c: the CPU twin: its device and its table. Convolutions and products are
 * oneDNN's, all else is in loops that gcc vectorises, compiled once per level
 * of x86-64 and picked at load time. Sums over many values are taken in parts,
 * in a fixed order. */
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

static struct cpu_device *as_cpu(struct device *d)
{
	return (struct cpu_device *)d;
}

/* ---- The device ---- */

/* One: its cores are counted as threads. */
static int count(struct err *e)
{
	return 1;
}

/* Each level has the bits of those that it includes. */
static int has(dnnl_cpu_isa_t isa, dnnl_cpu_isa_t level)
{
	return (isa & level) == level;
}

/* What oneDNN multiplies bf16 with here; NULL: nothing. */
static const char *bf16_by(void)
{
#ifdef __x86_64__
	dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();

	if (has(isa, dnnl_cpu_isa_avx512_core_amx))
		return "amx_bf16";
	if (has(isa, dnnl_cpu_isa_avx512_core_bf16))
		return "avx512_bf16";
#endif
	return NULL;
}

static int start_onednn(struct cpu_device *d, int bf16, struct err *e)
{
	const char *by = bf16_by();
	dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
	int wide = has(isa, dnnl_cpu_isa_avx512_core);
	int r;

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
	/* What oneDNN's fastest kernels want: blocks of 16 channels, but for
	 * AMX. */
	if (wide && !(bf16 && has(isa, dnnl_cpu_isa_avx512_core_amx))) {
		d->tag = dnnl_nChw16c;
		d->block = LANES;
	} else {
		d->tag = dnnl_nhwc;
	}
	d->base.type = bf16 ? TENSOR_BF16 : TENSOR_F32;
	snprintf(d->base.name, sizeof d->base.name, "cpu, %d thread%s%s%s%s",
		 d->threads, d->threads == 1 ? "" : "s",
		 bf16 ? ", bf16 by " : "", bf16 ? by : "",
		 d->direct ? ", direct convolutions" : "");
	if (d->core >= 0)
		snprintf(d->base.name + strlen(d->base.name), 24, ", core %d",
			 d->core);
	return r;
}

static void close_device(struct device *device)
{
	struct cpu_device *d = as_cpu(device);

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

static int open_device(const struct device_options *o, struct device **out,
		       struct err *e)
{
	struct cpu_device *d = calloc(1, sizeof *d);
	int r;

	if (!d)
		return err_set(e, -ENOMEM, "no memory for a device");
	d->base.ops = &ops_cpu;
	d->threads = o->threads > 0 ? o->threads : 1;
	d->core = o->core;
	d->direct = o->direct;
	d->generation = 1;
	r = start_onednn(d, o->bf16, e);
	if (r < 0)
		close_device(&d->base);
	else
		*out = &d->base;
	return r;
}

static void enter(struct device *device)
{
	struct cpu_device *d = as_cpu(device);

#ifdef __SSE2__
	/* Adam's moments of a pixel that is hardly ever inked fade into numbers
	 * too small to be normal, which cost some processors a hundred cycles
	 * each. They are taken as zero. */
	_mm_setcsr(_mm_getcsr() | 0x8040);
#endif
	omp_set_num_threads(d->threads);
	if (d->core >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET((size_t)d->core, &set);
		sched_setaffinity(0, sizeof set, &set);
	}
}

/* ---- Memory ---- */

static int alloc(struct device *d, size_t bytes, void **out, struct err *e)
{
	size_t rounded = (bytes + 63) & ~(size_t)63;

	*out = aligned_alloc(64, rounded ? rounded : 64);
	if (!*out)
		return err_set(e, -ENOMEM, "no memory for %zu bytes at once; "
			       "use a smaller --batch-size", bytes);
	memset(*out, 0, rounded);
	return 0;
}

static void free_memory(struct device *d, void *p)
{
	free(p);
}

static void zero(struct device *d, void *p, size_t bytes)
{
	memset(p, 0, bytes);
}

static void move(struct device *d, void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

static void copy(struct device *to, void *dst, struct device *from,
		 const void *src, size_t bytes)
{
	memcpy(dst, src, bytes);
}

/* Between a tensor and plain f32. */
static void turn_tensor(struct cpu_device *d, const struct tensor *t,
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

static void tensor_put(struct device *d, const struct tensor *t,
		       const float *values)
{
	turn_tensor(as_cpu(d), t, (float *)values, 1);
}

static void tensor_get(struct device *d, const struct tensor *t, float *values)
{
	turn_tensor(as_cpu(d), t, values, 0);
}

/* ---- The queue: all is done at once ---- */

static int wait(struct device *d, struct err *e)
{
	int r = d->error;

	d->error = 0;
	if (r == -ENOMEM)
		return err_set(e, r, "oneDNN had no memory to work in; use a "
			       "smaller --batch-size");
	return r < 0 ? err_set(e, r, "an operation failed on %s: %s", d->name,
			       err_name(r)) : 0;
}

static void *stream(struct device *d)
{
	return NULL;
}

static int record_begin(struct device *d, struct err *e)
{
	return 0;
}

static int record_end(struct device *d, struct graph **g, struct err *e)
{
	*g = NULL;
	return 0;
}

static void no_graph(struct device *d, struct graph *g)
{
}

static void numbers(struct device *d, const struct step_numbers *n)
{
	as_cpu(d)->numbers = *n;
}

/* ---- Operations ---- */

static const struct cpu_kind *const kinds[] = {
	[OP_LINEAR] = &cpu_linear,
	[OP_CONV] = &cpu_conv,
	[OP_BATCH_NORM] = &cpu_batch_norm,
	[OP_MAX_POOL] = &cpu_max_pool,
	[OP_AVERAGE_POOL] = &cpu_average_pool,
};
_Static_assert(sizeof kinds / sizeof *kinds == OP_KINDS, "a kind is missing");

static struct cpu_op *as_op(const struct op *op)
{
	return (struct cpu_op *)op;
}

static void op_free(struct device *d, struct op *base)
{
	struct cpu_op *op = as_op(base);

	if (!op)
		return;
	if (op->kind->release)
		op->kind->release(op);
	free(op);
}

static int op_new(struct device *d, const struct op_site *s, struct op **out,
		  struct err *e)
{
	const struct cpu_kind *kind = kinds[s->spec.kind];
	struct cpu_op *op = calloc(1, kind->size);
	int r;

	if (!op)
		return err_set(e, -ENOMEM, "layer %s: no memory", s->name);
	op->base.spec = s->spec;
	op->kind = kind;
	op->name = s->name;
	op->training = s->training;
	op->first = s->first;
	r = cpu_desc(as_cpu(d), s->in, &op->in, s->name, e);
	if (r == 0)
		r = kind->make(as_cpu(d), op, s, e);
	if (r < 0)
		op_free(d, &op->base);
	else
		*out = &op->base;
	return r;
}

static int op_bind(struct device *d, struct op *base,
		   const struct op_memory *m, struct err *e)
{
	struct cpu_op *op = as_op(base);

	op->memory = *m;
	return op->kind->bind ? op->kind->bind(as_cpu(d), op, e) : 0;
}

static void op_forward(struct device *d, struct op *op, const struct feed *f)
{
	as_op(op)->kind->forward(as_cpu(d), as_op(op), f);
}

static void op_backward(struct device *d, struct op *op, const struct feed *f)
{
	as_op(op)->kind->backward(as_cpu(d), as_op(op), f);
}

static void param_put(struct device *d, const struct op *op, int i,
		      float *arena, const float *values)
{
	const struct cpu_kind *k = as_op(op)->kind;

	if (k->put)
		k->put(as_cpu(d), as_op(op), i, arena, values);
	else
		memcpy(arena, values, op->param[i].count * sizeof *values);
}

static void param_get(struct device *d, const struct op *op, int i,
		      const float *arena, float *values)
{
	const struct cpu_kind *k = as_op(op)->kind;

	if (k->get)
		k->get(as_cpu(d), as_op(op), i, arena, values);
	else
		memcpy(values, arena, op->param[i].count * sizeof *values);
}

static void params_changed(struct device *d)
{
	as_cpu(d)->generation++;
}

/* ---- Arithmetic ---- */

static void add(struct device *d, size_t n, const float *x, float *y)
{
	cpu_vector_add(n, x, y);
}

static void scale(struct device *d, size_t n, float by, float *y)
{
	cpu_vector_scale(n, by, y);
}

static uint64_t halted(struct device *d)
{
	return as_cpu(d)->halted;
}

static int finite(struct device *d, size_t n, const float *x)
{
	return cpu_vector_finite(n, x);
}

static int tensor_finite(struct device *d, const struct tensor *t)
{
	size_t n = (size_t)t->n * (size_t)t->c * (size_t)t->h * (size_t)t->w;
	float *values;
	int r;

	if (t->type == TENSOR_F32)
		return cpu_vector_finite(t->bytes / sizeof(float), t->data);
	values = malloc(n * sizeof *values);
	if (!values)
		return 1;
	tensor_get(d, t, values);
	r = cpu_vector_finite(n, values);
	free(values);
	return r;
}

const struct ops ops_cpu = {
	.version = OPS_VERSION,
	.kind = "cpu",
	.count = count,
	.open = open_device,
	.close = close_device,
	.enter = enter,
	.alloc = alloc,
	.free = free_memory,
	.zero = zero,
	.put = move,
	.get = move,
	.copy = copy,
	.tensor_put = tensor_put,
	.tensor_get = tensor_get,
	.wait = wait,
	.stream = stream,
	.record_begin = record_begin,
	.record_end = record_end,
	.graph_run = no_graph,
	.graph_free = no_graph,
	.numbers = numbers,
	.feed_new = cpu_feed_new,
	.feed_free = cpu_feed_free,
	.feed_order = cpu_feed_order,
	.take = cpu_take,
	.op_new = op_new,
	.op_free = op_free,
	.op_bind = op_bind,
	.op_forward = op_forward,
	.op_backward = op_backward,
	.param_put = param_put,
	.param_get = param_get,
	.params_changed = params_changed,
	.cross_entropy = cpu_cross_entropy,
	.mse = cpu_mse,
	.add = add,
	.scale = scale,
	.update = cpu_update,
	.halted = halted,
	.tensor_finite = tensor_finite,
	.finite = finite,
};
