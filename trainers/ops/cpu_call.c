/* cpu_call.c: oneDNN's primitives, made, called and released, with one
 * scratchpad for all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/ops/cpu.h"

static dnnl_data_type_t data_type(enum tensor_type type)
{
	return type == TENSOR_BF16 ? dnnl_bf16 : dnnl_f32;
}

static void describe(dnnl_memory_desc_t *md, int n, int c, int h, int w,
		     enum tensor_type type, dnnl_format_tag_t tag)
{
	dnnl_dims_t dims = {n, c, h, w};

	dnnl_memory_desc_init_by_tag(md, 4, dims, data_type(type), tag);
}

dnnl_memory_desc_t cpu_desc(const struct tensor *t)
{
	dnnl_memory_desc_t md;

	if (t->layout)
		return *(const dnnl_memory_desc_t *)t->layout;
	describe(&md, t->n, t->c, t->h, t->w, t->type, dnnl_nchw);
	return md;
}

void cpu_tensor(struct cpu_device *d, struct tensor *t, int n, int c, int h,
		int w, dnnl_memory_desc_t *md)
{
	int whole = d->block && c % d->block == 0;

	*t = (struct tensor){.n = n, .c = c, .h = h, .w = w,
			     .type = d->base.type, .layout = md};
	describe(md, n, c, h, w, t->type, whole ? d->tag : dnnl_nhwc);
	t->bytes = dnnl_memory_desc_get_size(md);
}

int cpu_status(dnnl_status_t status, const char *what, const char *name,
	       struct err *e)
{
	if (status == dnnl_success)
		return 0;
	if (status == dnnl_out_of_memory)
		return err_set(e, -ENOMEM, "layer %s: no memory for %s", name,
			       what);
	return err_set(e, ERR_USAGE, "layer %s: oneDNN cannot do %s of this "
		       "shape (status %d)", name, what, (int)status);
}

static int need_scratch(struct cpu_device *d, size_t bytes, const char *name,
			struct err *e)
{
	void *p;

	if (bytes <= d->scratch_size)
		return 0;
	p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	if (!p)
		return err_set(e, -ENOMEM, "layer %s: no memory to work in "
			       "(%zu bytes); use a smaller --batch-size", name,
			       bytes);
	free(d->scratch);
	d->scratch = p;
	d->scratch_size = bytes;
	return 0;
}

const dnnl_memory_desc_t *cpu_call_desc(const struct cpu_call *c,
					dnnl_query_t what)
{
	return dnnl_primitive_desc_query_md(c->desc, what, 0);
}

static int finish_call(struct cpu_device *d, struct cpu_call *c,
		       const char *name, struct err *e)
{
	const dnnl_memory_desc_t *md;
	int r = cpu_status(dnnl_primitive_create(&c->primitive, c->desc),
			   "the arithmetic", name, e);

	if (r < 0)
		return r;
	md = cpu_call_desc(c, dnnl_query_scratchpad_md);
	if (!md || !dnnl_memory_desc_get_size(md))
		return 0;
	r = need_scratch(d, dnnl_memory_desc_get_size(md), name, e);
	if (r == 0)
		r = cpu_call_arg(d, c, DNNL_ARG_SCRATCHPAD, md, d->scratch,
				 name, e);
	if (r == 0)
		c->scratch = c->arg[c->args - 1].memory;
	return r;
}

static dnnl_primitive_attr_t own_scratch(void)
{
	dnnl_primitive_attr_t attr = NULL;

	if (dnnl_primitive_attr_create(&attr) == dnnl_success)
		dnnl_primitive_attr_set_scratchpad_mode(
			attr, dnnl_scratchpad_mode_user);
	return attr;
}

int cpu_call_new(struct cpu_device *d, struct cpu_call *c,
		 const_dnnl_op_desc_t desc, const_dnnl_primitive_desc_t hint,
		 const char *name, struct err *e)
{
	dnnl_primitive_attr_t attr = own_scratch();
	int r;

	memset(c, 0, sizeof *c);
	r = cpu_status(dnnl_primitive_desc_create(&c->desc, desc, attr,
						  d->engine, hint),
		       "an operation", name, e);
	dnnl_primitive_attr_destroy(attr);
	return r < 0 ? r : finish_call(d, c, name, e);
}

int cpu_reorder_new(struct cpu_device *d, struct cpu_call *c,
		    const dnnl_memory_desc_t *from,
		    const dnnl_memory_desc_t *to, const char *name,
		    struct err *e)
{
	dnnl_primitive_attr_t attr = own_scratch();
	int r;

	memset(c, 0, sizeof *c);
	r = cpu_status(dnnl_reorder_primitive_desc_create(
			       &c->desc, from, d->engine, to, d->engine, attr),
		       "a change of layout", name, e);
	dnnl_primitive_attr_destroy(attr);
	return r < 0 ? r : finish_call(d, c, name, e);
}

int cpu_call_arg(struct cpu_device *d, struct cpu_call *c, int arg,
		 const dnnl_memory_desc_t *md, void *data, const char *name,
		 struct err *e)
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

	/* It may have grown, and moved, for a call that was made later. */
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
	memset(c, 0, sizeof *c);
}
