/* cpu_onednn3.c: oneDNN 3, where a layout is opaque and a primitive is
 * described at once. */
#include "trainers/ops/cpu_onednn.h"

#if DNNL_VERSION_MAJOR == 3

#include <string.h>

dnnl_status_t cpu_md_create(cpu_md *md, const dnnl_dims_t dims,
			    dnnl_data_type_t type, dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t new = NULL;
	dnnl_status_t s;

	s = dnnl_memory_desc_create_with_tag(&new, 4, dims, type, tag);
	*md = new;
	return s;
}

dnnl_status_t cpu_md_clone(cpu_md *md, cpu_md from)
{
	dnnl_memory_desc_t new = NULL;
	dnnl_status_t s = dnnl_memory_desc_clone(&new, from);

	*md = new;
	return s;
}

void cpu_md_destroy(cpu_md md)
{
	dnnl_memory_desc_destroy((dnnl_memory_desc_t)md);
}

static void cpu_md_query(cpu_md md, dnnl_query_t what, dnnl_dims_t answer)
{
	dnnl_dims_t *dims = NULL;

	dnnl_memory_desc_query(md, what, &dims);
	if (dims)
		memcpy(answer, *dims, 4 * sizeof(**dims));
}

void cpu_md_parts(cpu_md md, struct cpu_md_parts *p)
{
	dnnl_format_kind_t kind = dnnl_format_kind_undef;
	dnnl_dims_t blocks = {0};
	int inner = 0;

	memset(p, 0, sizeof(*p));
	cpu_md_query(md, dnnl_query_dims, p->dims);
	dnnl_memory_desc_query(md, dnnl_query_data_type, &p->type);
	dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind);
	p->blocked = kind == dnnl_blocked;
	p->block = 1;
	if (!p->blocked)
		return;
	cpu_md_query(md, dnnl_query_strides, p->strides);
	dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &inner);
	if (!inner)
		return;
	cpu_md_query(md, dnnl_query_inner_blks, blocks);
	p->block = blocks[0];
}

dnnl_status_t cpu_convolution(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
			      enum cpu_pass pass, dnnl_alg_kind_t algorithm,
			      const struct cpu_window *w,
			      const_dnnl_primitive_desc_t hint,
			      const_dnnl_primitive_attr_t attr)
{
	dnnl_dims_t dilation = {0, 0};

	switch (pass) {
	case CPU_FORWARD:
		return dnnl_convolution_forward_primitive_desc_create(
			pd, engine, dnnl_forward_training, algorithm, w->in,
			w->weight, NULL, w->out, w->strides, dilation,
			w->padding, w->padding, attr);
	case CPU_BACKWARD_DATA:
		return dnnl_convolution_backward_data_primitive_desc_create(
			pd, engine, algorithm, w->in, w->weight, w->out,
			w->strides, dilation, w->padding, w->padding, hint,
			attr);
	default:
		return dnnl_convolution_backward_weights_primitive_desc_create(
			pd, engine, algorithm, w->in, w->weight, NULL, w->out,
			w->strides, dilation, w->padding, w->padding, hint,
			attr);
	}
}

dnnl_status_t cpu_pooling(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
			  enum cpu_pass pass, int training,
			  const struct cpu_window *w,
			  const_dnnl_primitive_desc_t hint,
			  const_dnnl_primitive_attr_t attr)
{
	dnnl_dims_t dilation = {0, 0};

	if (pass == CPU_FORWARD)
		return dnnl_pooling_forward_primitive_desc_create(
			pd, engine, training ? dnnl_forward_training :
					       dnnl_forward_inference,
			dnnl_pooling_max, w->in, w->out, w->strides, w->kernel,
			dilation, w->padding, w->padding, attr);
	return dnnl_pooling_backward_primitive_desc_create(
		pd, engine, dnnl_pooling_max, w->in, w->out, w->strides,
		w->kernel, dilation, w->padding, w->padding, hint, attr);
}

#endif
