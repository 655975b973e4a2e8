/* upload.h: the batches of a data set that stays in host memory. Each batch is
 * gathered into pinned memory and copied by a stream of its own, while the step
 * before it computes; there are two buffers of each kind. Knows samples and
 * streams; neither labels nor shapes. */
#ifndef TRAINERS_CUDA_UPLOAD_H
#define TRAINERS_CUDA_UPLOAD_H

#include "trainers/cuda/cuda.h"

struct upload;

/* For batches of up to `batch` samples of s, which is borrowed. -ENOMEM: the
 * text says of which memory. The caller frees with upload_free, which waits. */
int upload_new(struct cuda_device *d, const struct samples *s, int batch,
	       struct upload **out, struct err *e);
void upload_free(struct upload *u);

/* Copies the order of an epoch. */
int upload_order(struct upload *u, const uint32_t *order, size_t count,
		 struct err *e);

/* Samples order[first, first + n) are in *out, on the device, for what is
 * queued from now on until upload_end. Waits only for the batch before the last
 * one to be copied. Never while a step is captured. */
void upload_begin(struct upload *u, uint64_t first, int n,
		  const uint8_t **out);
/* The kernels that read the batch are queued. */
void upload_end(struct upload *u);

#endif
