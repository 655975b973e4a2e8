/* reducer_memory.c: the memory of a reducer's buckets: gradients in place,
 * copied together, or as bf16. */
#include <errno.h>
#include <stdlib.h>

#include "worker-sdk/api/reducer.h"
#include "worker-sdk/core/last_error.h"
#include "worker-sdk/math/copy.h"
#include "worker-sdk/math/kernels.h"
#include "worker-sdk/nccl/nccl_backend.h"

static size_t bucket_grad_count(const struct ddp_reducer *r, int i)
{
	return r->b.at[i + 1] - r->b.at[i];
}

/* The first member of bucket k at or after i; b->end: none. */
static int bucket_next_member(const struct ddp_reducer *r, int k, int i)
{
	while (i < r->b.list[k].end && r->b.of[i] != k)
		i++;
	return i;
}

/* The first gradient of a bucket that has elements; NULL: none. */
static char *bucket_first_data(const struct ddp_reducer *r, int k)
{
	const struct ddp__bucket *b = &r->b.list[k];

	for (int i = bucket_next_member(r, k, b->first); i < b->end;
	     i = bucket_next_member(r, k, i + 1))
		if (bucket_grad_count(r, i))
			return r->data[i];
	return NULL;
}

/* 1 if the bucket's gradients are contiguous. */
static int bucket_is_contiguous(const struct ddp_reducer *r, int k)
{
	const struct ddp__bucket *b = &r->b.list[k];
	const char *next = bucket_first_data(r, k);

	for (int i = bucket_next_member(r, k, b->first); i < b->end;
	     i = bucket_next_member(r, k, i + 1)) {
		if (!bucket_grad_count(r, i))
			continue;
		if (r->data[i] != next)
			return 0;
		next += bucket_grad_count(r, i) * r->element;
	}
	return 1;
}

int ddp__reducer_memory_init(struct ddp_reducer *r)
{
	size_t buckets = (size_t)r->b.count + 1, total = r->b.at[r->b.n];

	if (!r->apart) {
		r->data = calloc((size_t)r->b.n + 1, sizeof(*r->data));
		for (int i = 0; r->data && i < r->b.n; i++)
			r->data[i] = r->grads + r->b.at[i] * r->element;
	}
	r->room = calloc(buckets, sizeof(*r->room));
	r->on_gpu = !r->apart && ddp__nccl_has_buffer(r->c, r->grads);
	if (r->o.bf16 && !r->on_gpu)
		r->wire = malloc((total + 1) * sizeof(*r->wire));
	if (!r->data || !r->room || (r->o.bf16 && !r->on_gpu && !r->wire))
		return -ENOMEM;
	for (int k = 0; k < r->b.count && !r->o.bf16; k++) {
		if (bucket_is_contiguous(r, k))
			continue;
		r->room[k] = malloc(r->b.list[k].count * r->element);
		if (!r->room[k])
			return -ENOMEM;
	}
	return 0;
}

static int reducer_make_gpu_wire(struct ddp_reducer *r, struct err *e)
{
	int rc = ddp__nccl_bf16_new(r->c, &r->converts, e);
	void *wire;

	if (rc)
		return rc;
	rc = ddp_nccl_alloc(r->c, r->b.at[r->b.n] * sizeof(*r->wire), &wire);
	if (rc)
		*e = *ddp__last_error();
	else
		r->wire = wire;
	return rc;
}

int ddp__reducer_use_gpu(struct ddp_reducer *r, struct err *e)
{
	size_t total = r->b.at[r->b.n];
	int rc = 0;

	if (!r->on_gpu || !total)
		return 0;
	if (r->o.bf16 && !r->alone)
		rc = reducer_make_gpu_wire(r, e);
	if (!rc && r->wire)
		r->registration = ddp__nccl_register(
			r->c, r->wire, total * sizeof(*r->wire));
	else if (!rc)
		r->registration = ddp__nccl_register(r->c, r->grads,
						     total * r->element);
	return rc;
}

void ddp__reducer_memory_release(struct ddp_reducer *r)
{
	for (int k = 0; r->room && k < r->b.count; k++)
		free(r->room[k]);
	free(r->room);
	free(r->data);
	if (r->on_gpu)
		ddp_nccl_free(r->c, r->wire);
	else
		free(r->wire);
	ddp__nccl_bf16_free(r->converts);
}

void *ddp__reducer_load(struct ddp_reducer *r, int k, enum ddp_type *type)
{
	const struct ddp__bucket *b = &r->b.list[k];
	size_t at = 0;

	*type = r->wire ? DDP_BF16 : r->type;
	if (!ddp__reducer_is_copied(r, k))
		return bucket_first_data(r, k);
	if (r->converts)
		return ddp__nccl_to_bf16(r->converts, r->wire + b->from,
					 bucket_first_data(r, k), b->count,
					 ddp__last_error())
			       ? NULL : r->wire + b->from;
	for (int i = bucket_next_member(r, k, b->first); i < b->end;
	     i = bucket_next_member(r, k, i + 1)) {
		size_t n = bucket_grad_count(r, i);

		if (r->wire)
			ddp__kernels()->to_bf16(r->wire + b->from + at,
						(void *)r->data[i], n);
		else
			ddp__copy_plain(r->room[k] + at * r->element,
					r->data[i], n * r->element);
		at += n;
	}
	return r->wire ? (void *)(r->wire + b->from) : r->room[k];
}

int ddp__reducer_is_copied(const struct ddp_reducer *r, int k)
{
	return r->wire || r->room[k];
}

int ddp__reducer_land(struct ddp_reducer *r, int k)
{
	const struct ddp__bucket *b = &r->b.list[k];
	size_t at = 0;

	if (r->alone || !b->count || !ddp__reducer_is_copied(r, k))
		return 0;
	if (r->converts)
		return ddp__nccl_from_bf16(r->converts,
					   bucket_first_data(r, k),
					   r->wire + b->from, b->count,
					   ddp__last_error());
	for (int i = bucket_next_member(r, k, b->first); i < b->end;
	     i = bucket_next_member(r, k, i + 1)) {
		size_t n = bucket_grad_count(r, i);

		if (r->wire)
			ddp__kernels()->from_bf16((void *)r->data[i],
						  r->wire + b->from + at, n);
		else
			ddp__copy_plain(r->data[i],
					r->room[k] + at * r->element,
					n * r->element);
		at += n;
	}
	return 0;
}
