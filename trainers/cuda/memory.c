/* memory.c: the device's memory: arenas with their copies in 16 bits, scratch
 * memory, and copies between host and device. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/cuda/cuda.h"

enum { MIB = 1 << 20 };

static int memory_allocate(size_t bytes, void **out, struct err *e)
{
	size_t unused = 0, all = 0;
	cudaError_t rc = cudaMalloc(out, bytes ? bytes : 64);

	if (rc == cudaSuccess)
		return 0;
	cudaGetLastError();
	*out = NULL;
	if (rc != cudaErrorMemoryAllocation)
		return cuda_status(rc, "memory on the GPU", e);
	if (cudaMemGetInfo(&unused, &all) != cudaSuccess)
		unused = all = 0;
	return err_set(e, -ENOMEM, "the GPU has no memory for %zu MiB more: "
		       "%zu of its %zu MiB are free; use a smaller "
		       "--batch-size", bytes / MIB + 1, unused / MIB,
		       all / MIB);
}

int cuda_alloc(struct device *base, size_t bytes, void **out, struct err *e)
{
	struct cuda_device *d = cuda_of(base);
	struct cuda_block *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return err_no_memory(e, "a note of memory");
	r = memory_allocate(bytes, out, e);
	if (r < 0) {
		free(b);
		return r;
	}
	b->data = *out;
	b->bytes = bytes;
	b->next = d->blocks;
	d->blocks = b;
	r = cuda_status(cudaMemsetAsync(b->data, 0, bytes, d->stream),
			"zeros on the GPU", e);
	if (r == 0)
		r = cuda_status(cudaStreamSynchronize(d->stream),
				"zeros on the GPU", e);
	if (r < 0) {
		cuda_free(base, *out);
		*out = NULL;
	}
	return r;
}

/* cudaFree waits for the device, so no queued work loses its memory. */
void cuda_free(struct device *base, void *p)
{
	struct cuda_device *d = cuda_of(base);
	struct cuda_block **at = &d->blocks, *b;

	if (!p)
		return;
	while (*at && (*at)->data != (char *)p)
		at = &(*at)->next;
	b = *at;
	if (!b)
		return;
	*at = b->next;
	cuda_note(d, cudaFree(b->data), "freeing memory");
	cuda_note(d, cudaFree(b->narrow), "freeing memory");
	free(b);
}

int cuda_room(struct cuda_device *d, size_t bytes, struct err *e)
{
	struct cuda_room *room;
	size_t size = MIB;
	int r;

	if (bytes <= d->room_size)
		return 0;
	/* doubling it each time keeps the smaller blocks' total below the one
	 * in use */
	while (size < bytes)
		size *= 2;
	room = calloc(1, sizeof(*room));
	if (!room)
		return err_no_memory(e, "a note of memory");
	r = memory_allocate(size, &room->data, e);
	if (r < 0) {
		free(room);
		return r;
	}
	room->next = d->rooms;
	d->rooms = room;
	d->room = room->data;
	d->room_size = size;
	return 0;
}

/* ---- Copies in bf16 or fp16 ---- */

static struct cuda_block *memory_find_block(const struct cuda_device *d,
					    const float *param)
{
	const char *p = (const char *)param;
	struct cuda_block *b = d->blocks;

	while (b && (p < b->data || p >= b->data + b->bytes))
		b = b->next;
	return b;
}

static void memory_refresh_narrow(struct cuda_device *d, struct cuda_block *b)
{
	if (b->narrow)
		cuda_note(d, kernel_narrow(d->stream,
					   cuda_kernel_type(d->base.type),
					   b->bytes / sizeof(float),
					   (const float *)b->data, b->narrow),
			  "parameters in 16 bits");
}

uint16_t *cuda_narrow_of(const struct cuda_device *d, const float *param)
{
	const struct cuda_block *b = memory_find_block(d, param);

	return b && b->narrow ?
	       b->narrow + (param - (const float *)b->data) : NULL;
}

int cuda_narrow(struct cuda_device *d, const float *param, uint16_t **out,
		struct err *e)
{
	struct cuda_block *b = memory_find_block(d, param);
	void *p;
	int r;

	if (!b)
		return err_set(
			e, ERR_ARGUMENT,
			"the parameters are not in this device's memory");
	if (!b->narrow) {
		r = memory_allocate(b->bytes / sizeof(float) * sizeof(uint16_t),
				    &p, e);
		if (r < 0)
			return r;
		b->narrow = p;
		memory_refresh_narrow(d, b);
	}
	*out = cuda_narrow_of(d, param);
	return 0;
}

void cuda_params_changed(struct device *base)
{
	struct cuda_device *d = cuda_of(base);

	for (struct cuda_block *b = d->blocks; b; b = b->next)
		memory_refresh_narrow(d, b);
}

/* ---- Between host and device ---- */

void cuda_zero(struct device *d, void *p, size_t bytes)
{
	cuda_note(cuda_of(d), cudaMemsetAsync(p, 0, bytes, cuda_of(d)->stream),
		  "zeros");
}

static void memory_copy(struct cuda_device *d, void *to, const void *from,
			size_t bytes, enum cudaMemcpyKind kind)
{
	/* what is queued may wait for another rank */
	if (d->base.wait_event)
		cuda_await(d, "a copy");
	if (d->base.wait_event && d->base.error)
		return;
	cuda_note(d, cudaMemcpyAsync(to, from, bytes, kind, d->stream),
		  "a copy");
	cuda_note(d, cudaStreamSynchronize(d->stream), "a copy");
}

void cuda_put(struct device *d, void *to, const void *from, size_t bytes)
{
	memory_copy(cuda_of(d), to, from, bytes, cudaMemcpyHostToDevice);
}

void cuda_get(struct device *d, void *to, const void *from, size_t bytes)
{
	memory_copy(cuda_of(d), to, from, bytes, cudaMemcpyDeviceToHost);
}

/* An event belongs to the device that is current when the event is made. CUDA
 * frees a destroyed event only after it has completed. */
void cuda_copy(struct device *to, void *dst, struct device *from,
	       const void *src, size_t bytes)
{
	struct cuda_device *t = cuda_of(to), *f = cuda_of(from);
	cudaEvent_t ready;
	int before = t->index;
	cudaError_t rc;

	if (t != f) {
		cudaGetDevice(&before);
		rc = cudaSetDevice(f->index);
		if (rc == cudaSuccess)
			rc = cudaEventCreateWithFlags(&ready,
						      cudaEventDisableTiming);
		if (rc == cudaSuccess) {
			rc = cudaEventRecord(ready, f->stream);
			if (rc == cudaSuccess)
				rc = cudaStreamWaitEvent(t->stream, ready, 0);
			cudaEventDestroy(ready);
		}
		cuda_note(t, rc, "waiting for another GPU");
		cudaSetDevice(before);
	}
	cuda_note(t, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault,
				     t->stream),
		  "a copy between GPUs");
}

/* Zeroed memory of the host for a copy. NULL: noted as the device's error. */
static void *memory_staging(struct device *d, size_t bytes, const char *what)
{
	void *raw = calloc(1, bytes ? bytes : 1);

	if (!raw)
		cuda_note(cuda_of(d), cudaErrorMemoryAllocation, what);
	return raw;
}

void cuda_tensor_put(struct device *d, const struct tensor *t,
		     const float *values)
{
	void *raw = memory_staging(d, t->bytes, "a tensor");

	if (!raw)
		return;
	layout_pack(t, values, raw);
	cuda_put(d, t->data, raw, t->bytes);
	free(raw);
}

void cuda_tensor_get(struct device *d, const struct tensor *t, float *values)
{
	void *raw = memory_staging(d, t->bytes, "a tensor");

	if (!raw)
		return;
	cuda_get(d, raw, t->data, t->bytes);
	layout_unpack(t, raw, values);
	free(raw);
}

/* Filters are transposed; all other parameters have PyTorch's layout, with
 * padding at the end. */
static int memory_is_filter(const struct cuda_op *op, int i)
{
	return op->base.spec.kind == OP_CONV && i == 0;
}

void cuda_param_put(struct device *d, const struct op *base, int i,
		    float *arena, const float *values)
{
	const struct cuda_op *op = (const struct cuda_op *)base;
	const struct op_param *p = &base->param[i];
	float *raw = memory_staging(d, p->size * sizeof(*raw), p->name);

	if (!raw)
		return;
	if (memory_is_filter(op, i))
		layout_filter_pack(&op->filter, values, raw);
	else
		memcpy(raw, values, p->count * sizeof(*raw));
	cuda_put(d, arena, raw, p->size * sizeof(*raw));
	free(raw);
}

void cuda_param_get(struct device *d, const struct op *base, int i,
		    const float *arena, float *values)
{
	const struct cuda_op *op = (const struct cuda_op *)base;
	const struct op_param *p = &base->param[i];
	float *raw = memory_staging(d, p->size * sizeof(*raw), p->name);

	if (!raw)
		return;
	cuda_get(d, raw, arena, p->size * sizeof(*raw));
	if (memory_is_filter(op, i))
		layout_filter_unpack(&op->filter, raw, values);
	else
		memcpy(values, raw, p->count * sizeof(*raw));
	free(raw);
}
