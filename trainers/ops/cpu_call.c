/* cpu_call.c: makes, calls and releases oneDNN's primitives, which share one
 * scratchpad. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/ops/cpu.h"

/* ---- Layouts ---- */

/* Takes over md, or uses an equal one if there is one. */
static int cpu_layout_add(struct cpu_device *d, cpu_md *md, const char *name,
			  struct err *e)
{
	cpu_md *more;

	for (size_t i = 0; i < d->md_count; i++) {
		if (!dnnl_memory_desc_equal(d->mds[i], *md))
			continue;
		cpu_md_destroy(*md);
		*md = d->mds[i];
		return 0;
	}
	more = realloc(d->mds, (d->md_count + 1) * sizeof(*more));
	if (!more) {
		cpu_md_destroy(*md);
		return err_no_memory(e, "layer %s", name);
	}
	d->mds = more;
	d->mds[d->md_count++] = *md;
	return 0;
}

int cpu_layout(struct cpu_device *d, const dnnl_dims_t dims,
	       dnnl_data_type_t type, dnnl_format_tag_t tag, cpu_md *md,
	       const char *name, struct err *e)
{
	int r = cpu_status(cpu_md_create(md, dims, type, tag), "a layout", name,
			   e);

	return r < 0 ? r : cpu_layout_add(d, md, name, e);
}

int cpu_layout_keep(struct cpu_device *d, cpu_md from, cpu_md *md,
		    const char *name, struct err *e)
{
	int r = cpu_status(cpu_md_clone(md, from), "a layout", name, e);

	return r < 0 ? r : cpu_layout_add(d, md, name, e);
}

void cpu_layouts_free(struct cpu_device *d)
{
	for (size_t i = 0; i < d->md_count; i++)
		cpu_md_destroy(d->mds[i]);
	free(d->mds);
}

dnnl_data_type_t cpu_type(enum tensor_type type)
{
	return type == TENSOR_BF16 ? dnnl_bf16 : dnnl_f32;
}

int cpu_desc(struct cpu_device *d, const struct tensor *t, cpu_md *md,
	     const char *name, struct err *e)
{
	dnnl_dims_t dims = {t->n, t->c, t->h, t->w};

	if (!t->layout)
		return cpu_layout(d, dims, cpu_type(t->type), dnnl_nchw, md,
				  name, e);
	*md = t->layout;
	return 0;
}

int cpu_tensor(struct cpu_device *d, struct tensor *t, int n, int c, int h,
	       int w, cpu_md *md, const char *name, struct err *e)
{
	int whole = d->block && c % d->block == 0;
	dnnl_dims_t dims = {n, c, h, w};
	int r = cpu_layout(d, dims, cpu_type(d->base.type),
			   whole ? d->tag : dnnl_nhwc, md, name, e);

	if (r < 0)
		return r;
	*t = (struct tensor){.n = n, .c = c, .h = h, .w = w,
			     .type = d->base.type, .layout = *md,
			     .bytes = dnnl_memory_desc_get_size(*md)};
	return 0;
}

/* ---- Calls ---- */

int cpu_status(dnnl_status_t status, const char *what, const char *name,
	       struct err *e)
{
	if (status == dnnl_success)
		return 0;
	if (status == dnnl_out_of_memory)
		return err_no_memory(e, "layer %s: %s", name, what);
	return err_set(e, ERR_USAGE, "layer %s: oneDNN cannot do %s of this "
		       "shape (status %d)", name, what, (int)status);
}

static int cpu_scratch_grow(struct cpu_device *d, size_t bytes,
			    const char *name, struct err *e)
{
	void *p;

	if (bytes <= d->scratch_size)
		return 0;
	p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	if (!p)
		return err_set(e, -ENOMEM,
			       "layer %s: out of memory for scratch space (%zu "
			       "bytes); use a smaller --batch-size",
			       name, bytes);
	free(d->scratch);
	d->scratch = p;
	d->scratch_size = bytes;
	return 0;
}

cpu_md cpu_call_desc(const struct cpu_call *c, dnnl_query_t what)
{
	return dnnl_primitive_desc_query_md(c->desc, what, 0);
}

static int cpu_call_finish(struct cpu_device *d, struct cpu_call *c,
			   const char *name, struct err *e)
{
	cpu_md md;
	int r = cpu_status(dnnl_primitive_create(&c->primitive, c->desc),
			   "the arithmetic", name, e);

	if (r < 0)
		return r;
	md = cpu_call_desc(c, dnnl_query_scratchpad_md);
	if (!md || !dnnl_memory_desc_get_size(md))
		return 0;
	r = cpu_scratch_grow(d, dnnl_memory_desc_get_size(md), name, e);
	if (r == 0)
		r = cpu_call_arg(d, c, DNNL_ARG_SCRATCHPAD, md, d->scratch,
				 name, e);
	if (r == 0)
		c->scratch = c->arg[c->args - 1].memory;
	return r;
}

static dnnl_primitive_attr_t cpu_call_own_scratch(void)
{
	dnnl_primitive_attr_t attr = NULL;

	if (dnnl_primitive_attr_create(&attr) == dnnl_success)
		dnnl_primitive_attr_set_scratchpad_mode(
			attr, dnnl_scratchpad_mode_user);
	return attr;
}

/* s: the result of making the description. */
static int cpu_call_new(struct cpu_device *d, struct cpu_call *c,
			dnnl_status_t s, const char *what, const char *name,
			struct err *e)
{
	int r = cpu_status(s, what, name, e);

	return r < 0 ? r : cpu_call_finish(d, c, name, e);
}

int cpu_convolution_new(struct cpu_device *d, struct cpu_call *c,
			enum cpu_pass pass, dnnl_alg_kind_t algorithm,
			const struct cpu_window *w,
			const struct cpu_call *hint, const char *name,
			struct err *e)
{
	dnnl_primitive_attr_t attr = cpu_call_own_scratch();
	dnnl_status_t s;

	memset(c, 0, sizeof(*c));
	s = cpu_convolution(&c->desc, d->engine, pass, algorithm, w,
			    hint ? hint->desc : NULL, attr);
	dnnl_primitive_attr_destroy(attr);
	return cpu_call_new(d, c, s, pass == CPU_FORWARD ? "a convolution" :
			    "a convolution's gradient", name, e);
}

int cpu_pooling_new(struct cpu_device *d, struct cpu_call *c,
		    enum cpu_pass pass, int training,
		    const struct cpu_window *w, const struct cpu_call *hint,
		    const char *name, struct err *e)
{
	dnnl_primitive_attr_t attr = cpu_call_own_scratch();
	dnnl_status_t s;

	memset(c, 0, sizeof(*c));
	s = cpu_pooling(&c->desc, d->engine, pass, training, w,
			hint ? hint->desc : NULL, attr);
	dnnl_primitive_attr_destroy(attr);
	return cpu_call_new(d, c, s, pass == CPU_FORWARD ? "max-pooling" :
			    "max-pooling's gradient", name, e);
}

int cpu_reorder_new(struct cpu_device *d, struct cpu_call *c, cpu_md from,
		    cpu_md to, const char *name, struct err *e)
{
	dnnl_primitive_attr_t attr = cpu_call_own_scratch();
	dnnl_status_t s;

	memset(c, 0, sizeof(*c));
	s = dnnl_reorder_primitive_desc_create(&c->desc, from, d->engine, to,
					       d->engine, attr);
	dnnl_primitive_attr_destroy(attr);
	return cpu_call_new(d, c, s, "a change of layout", name, e);
}

int cpu_call_arg(struct cpu_device *d, struct cpu_call *c, int arg, cpu_md md,
		 void *data, const char *name, struct err *e)
{
	dnnl_memory_t m;
	int r = cpu_status(dnnl_memory_create(&m, md, d->engine, data),
			   "an argument", name, e);

	if (r < 0)
		return r;
	c->arg[c->args++] = (dnnl_exec_arg_t){arg, m};
	return 0;
}

void cpu_call_run(struct cpu_device *d, struct cpu_call *c)
{
	dnnl_status_t s;

	/* The scratchpad may have grown, and moved, for a later call. */
	if (c->scratch)
		dnnl_memory_set_data_handle(c->scratch, d->scratch);
	s = dnnl_primitive_execute(c->primitive, d->stream, c->args, c->arg);
	if (s == dnnl_success)
		s = dnnl_stream_wait(d->stream);
	if (s != dnnl_success && !d->base.error)
		d->base.error = s == dnnl_out_of_memory ? -ENOMEM :
							  ERR_INTERNAL;
}

void cpu_call_release(struct cpu_call *c)
{
	for (int i = 0; i < c->args; i++)
		dnnl_memory_destroy(c->arg[i].memory);
	if (c->primitive)
		dnnl_primitive_destroy(c->primitive);
	if (c->desc)
		dnnl_primitive_desc_destroy(c->desc);
	memset(c, 0, sizeof(*c));
}
