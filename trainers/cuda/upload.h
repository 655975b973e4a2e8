/* upload.h: the batches of a data set that stays in host memory. Each batch is
 * gathered into pinned memory and copied by a stream of its own, while the step
 * before it computes; there are two buffers of each kind. Knows samples and
 * streams; neither labels nor shapes. */
#ifndef TRAINERS_CUDA_UPLOAD_H
#define TRAINERS_CUDA_UPLOAD_H

#include "trainers/cuda/cuda.h"

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

#endif
