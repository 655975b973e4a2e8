/* cpu_onednn2.c: oneDNN 2, where a layout is a struct and a primitive is first
 * described without an engine. */
#include "trainers/ops/cpu_onednn.h"

#if DNNL_VERSION_MAJOR == 2

#include <stdlib.h>
#include <string.h>

dnnl_status_t cpu_md_create(cpu_md *md, const dnnl_dims_t dims,
			    dnnl_data_type_t type, dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t *new = malloc(sizeof(*new));
	dnnl_status_t s;

	if (!new)
		return dnnl_out_of_memory;
	s = dnnl_memory_desc_init_by_tag(new, 4, dims, type, tag);
	if (s == dnnl_success)
		*md = new;
	else
		free(new);
	return s;
}

dnnl_status_t cpu_md_clone(cpu_md *md, cpu_md from)
{
	dnnl_memory_desc_t *new = malloc(sizeof(*new));

	if (!new)
		return dnnl_out_of_memory;
	*new = *from;
	*md = new;
	return dnnl_success;
}

void cpu_md_destroy(cpu_md md)
{
	free((void *)md);
}

void cpu_md_parts(cpu_md md, struct cpu_md_parts *p)
{
	const dnnl_blocking_desc_t *b = &md->format_desc.blocking;

	memset(p, 0, sizeof(*p));
	memcpy(p->dims, md->dims, sizeof(p->dims));
	p->type = md->data_type;
	p->blocked = md->format_kind == dnnl_blocked;
	p->block = p->blocked && b->inner_nblks ? b->inner_blks[0] : 1;
	if (p->blocked)
		memcpy(p->strides, b->strides, sizeof(p->strides));
}

dnnl_status_t cpu_convolution(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
			      enum cpu_pass pass, dnnl_alg_kind_t algorithm,
			      const struct cpu_window *w,
			      const_dnnl_primitive_desc_t hint,
			      const_dnnl_primitive_attr_t attr)
{
	dnnl_convolution_desc_t desc;
	dnnl_status_t s;

	switch (pass) {
	case CPU_FORWARD:
		s = dnnl_convolution_forward_desc_init(
			&desc, dnnl_forward_training, algorithm, w->in,
			w->weight, NULL, w->out, w->strides, w->padding,
			w->padding);
		break;
	case CPU_BACKWARD_DATA:
		s = dnnl_convolution_backward_data_desc_init(
			&desc, algorithm, w->in, w->weight, w->out, w->strides,
			w->padding, w->padding);
		break;
	default:
		s = dnnl_convolution_backward_weights_desc_init(
			&desc, algorithm, w->in, w->weight, NULL, w->out,
			w->strides, w->padding, w->padding);
	}
	return s == dnnl_success ? dnnl_primitive_desc_create(
			pd, &desc, attr, engine, hint) : s;
}

dnnl_status_t cpu_pooling(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
			  enum cpu_pass pass, int training,
			  const struct cpu_window *w,
			  const_dnnl_primitive_desc_t hint,
			  const_dnnl_primitive_attr_t attr)
{
	dnnl_dims_t dilation = {0, 0};
	dnnl_pooling_v2_desc_t desc;
	dnnl_status_t s;

	if (pass == CPU_FORWARD)
		s = dnnl_pooling_v2_forward_desc_init(
			&desc, training ? dnnl_forward_training :
					  dnnl_forward_inference,
			dnnl_pooling_max, w->in, w->out, w->strides, w->kernel,
			dilation, w->padding, w->padding);
	else
		s = dnnl_pooling_v2_backward_desc_init(
			&desc, dnnl_pooling_max, w->in, w->out, w->strides,
			w->kernel, dilation, w->padding, w->padding);
	return s == dnnl_success ? dnnl_primitive_desc_create(
			pd, &desc, attr, engine, hint) : s;
}

#endif
