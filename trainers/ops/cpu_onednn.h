/* cpu_onednn.h: the calls that differ between oneDNN 2 and 3, in one form:
 * cpu_onednn2.c implements them for 2, cpu_onednn3.c for 3, whichever headers
 * the compiler finds. */
#ifndef TRAINERS_CPU_ONEDNN_H
#define TRAINERS_CPU_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

#if DNNL_VERSION_MAJOR < 2 || DNNL_VERSION_MAJOR > 3
#error "the trainers need oneDNN 2 or 3"
#endif

/* The layout of a tensor of four dimensions. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t cpu_md;
#else
typedef const dnnl_memory_desc_t *cpu_md;
#endif

/* The caller frees with cpu_md_destroy. */
dnnl_status_t cpu_md_create(cpu_md *md, const dnnl_dims_t dims,
			    dnnl_data_type_t type, dnnl_format_tag_t tag);
dnnl_status_t cpu_md_clone(cpu_md *md, cpu_md from);
void cpu_md_destroy(cpu_md md);

struct cpu_md_parts {
	dnnl_dims_t dims, strides; /* strides: in values; 0 if not blocked */
	dnnl_data_type_t type;
	int blocked;      /* 0: a private format of oneDNN */
	dnnl_dim_t block; /* number of adjacent channels; 1: each channel has
			   * its stride */
};
void cpu_md_parts(cpu_md md, struct cpu_md_parts *p);

/* A window that moves over images: a convolution's, whose size is in weight, or
 * a pool's, whose size is in kernel. In a backward pass in, weight and out are
 * the gradients that it reads or writes. */
struct cpu_window {
	cpu_md in, weight, out;
	dnnl_dims_t strides, kernel, padding;
};
enum cpu_pass { CPU_FORWARD, CPU_BACKWARD_DATA, CPU_BACKWARD_WEIGHTS };

/* The caller frees *pd with dnnl_primitive_desc_destroy. hint: the forward
 * pass's, for backward passes. */
dnnl_status_t cpu_convolution(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
			      enum cpu_pass pass, dnnl_alg_kind_t algorithm,
			      const struct cpu_window *w,
			      const_dnnl_primitive_desc_t hint,
			      const_dnnl_primitive_attr_t attr);
/* Max-pooling. training 0: no gradient will be needed. */
dnnl_status_t cpu_pooling(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
			  enum cpu_pass pass, int training,
			  const struct cpu_window *w,
			  const_dnnl_primitive_desc_t hint,
			  const_dnnl_primitive_attr_t attr);

#endif
