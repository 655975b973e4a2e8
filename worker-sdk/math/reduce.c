/* reduce.c: completes the kernels: types that are reduced as other types, more
 * sources than a kernel takes, averages, and stores that bypass the caches. */
#include "worker-sdk/math/reduce.h"

#include <stdint.h>

#include "worker-sdk/math/copy.h"
#include "worker-sdk/math/kernels.h"

enum {
	/* Elements of f16 and bf16 that are held in f32 at a time. */
	HALF_BLOCK = 512,
	/* Bytes of a result that needs several kernels: they stay in L1 beside
	 * those of DDP__FAN sources. */
	BLOCK = 4096
};

struct reduction {
	const struct ddp__kernels *k;
	enum ddp_type type;
	enum ddp_op op;
	enum ddp__lane lane;
	size_t elem;
	int n;
	int divisor; /* at most 1: no division */
	int half;    /* f16 or bf16 */
};

static enum ddp__lane reduce_lane(enum ddp_type type)
{
	switch (type) {
	case DDP_F64:
		return DDP__LANE_F64;
	case DDP_I32:
		return DDP__LANE_I32;
	case DDP_I64:
		return DDP__LANE_I64;
	case DDP_I8:
		return DDP__LANE_I8;
	case DDP_U8:
		return DDP__LANE_U8;
	default:
		return DDP__LANE_F32;
	}
}

size_t ddp_type_size(enum ddp_type type)
{
	switch (type) {
	case DDP_F32:
	case DDP_I32:
		return 4;
	case DDP_F64:
	case DDP_I64:
		return 8;
	case DDP_F16:
	case DDP_BF16:
		return 2;
	case DDP_I8:
	case DDP_U8:
		return 1;
	default:
		return 0;
	}
}

static void reduce_widen(const struct reduction *r, float *to, const void *from,
			 size_t count)
{
	if (r->type == DDP_F16)
		r->k->from_f16(to, from, count);
	else
		r->k->from_bf16(to, from, count);
}

static void reduce_narrow(const struct reduction *r, void *to,
			  const float *from, size_t count)
{
	if (r->type == DDP_F16)
		r->k->to_f16(to, from, count);
	else
		r->k->to_bf16(to, from, count);
}

/* 1 if one kernel does all of it, and writes the result once. */
static int reduce_is_one_pass(const struct reduction *r)
{
	int by = r->divisor;

	return !r->half && r->n > 1 && r->n <= DDP__FAN &&
	       (by <= 1 || ((by & (by - 1)) == 0 && r->k->average[r->lane]));
}

/* Reduces count elements of each source, `at` bytes into it. */
static void reduce_fold(const struct reduction *r, char *dst,
			const void *const *src, size_t at, size_t count)
{
	int bits = r->op == DDP_BAND || r->op == DDP_BOR, done = 0;
	enum ddp__lane lane = bits ? DDP__LANE_U8 : r->lane;
	size_t lanes = bits ? count * r->elem : count;
	const void *from[DDP__FAN];

	if (r->n == 1 && dst != (const char *)src[0] + at)
		ddp__copy_plain(dst, (const char *)src[0] + at,
				count * r->elem);
	if (r->divisor > 1 && reduce_is_one_pass(r)) {
		for (int i = 0; i < r->n; i++)
			from[i] = (const char *)src[i] + at;
		r->k->average[r->lane](dst, from, r->n, count, r->divisor);
		return;
	}
	while (r->n > 1 && done < r->n) {
		int m = 0;

		if (done)
			from[m++] = dst;
		while (m < DDP__FAN && done < r->n)
			from[m++] = (const char *)src[done++] + at;
		r->k->reduce[lane](dst, from, m, lanes, r->op);
	}
	if (r->divisor > 1)
		r->k->divide[lane](dst, count, r->divisor);
}

/* As reduce_fold, for at most HALF_BLOCK elements of f16 or bf16. */
static void reduce_fold_half(const struct reduction *r, char *dst,
			     const void *const *src, size_t at, size_t count)
{
	float wide[DDP__FAN][HALF_BLOCK];
	const void *from[DDP__FAN];
	int done = 0;

	for (int i = 0; i < DDP__FAN; i++)
		from[i] = wide[i];
	do {
		int m = done ? 1 : 0; /* after the first pass, source 0 is the
				       * result so far */

		for (; m < DDP__FAN && done < r->n; m++)
			reduce_widen(r, wide[m], (const char *)src[done++] + at,
				     count);
		if (m > 1)
			r->k->reduce[DDP__LANE_F32](wide[0], from, m, count,
						    r->op);
	} while (done < r->n);
	if (r->divisor > 1)
		r->k->divide[DDP__LANE_F32](wide[0], count, r->divisor);
	reduce_narrow(r, dst, wide[0], count);
}

static void reduce_fold_block(const struct reduction *r, char *dst,
			      const void *const *src, size_t at, size_t count)
{
	(r->half ? reduce_fold_half : reduce_fold)(r, dst, src, at, count);
}

/* Computes in L1, then stores past the caches, in blocks that begin at a cache
 * line of dst, if an element begins there. */
static void reduce_fold_stream(const struct reduction *r, char *dst,
			       const void *const *src, size_t count)
{
	_Alignas(64) char bounce[BLOCK];
	size_t most = (r->half ? HALF_BLOCK * 2 : BLOCK) / r->elem;
	size_t first = -(uintptr_t)dst % 64 / r->elem, at = 0, len;

	for (; at < count; at += len) {
		len = at || !first ? most : first;
		if (len > count - at)
			len = count - at;
		reduce_fold_block(r, bounce, src, at * r->elem, len);
		ddp__copy_stream(dst + at * r->elem, bounce, len * r->elem);
	}
	ddp__copy_done();
}

void ddp__reduce_stream(void *dst, const void *const *src, int n, size_t count,
			enum ddp_type type, enum ddp_op op, int divisor,
			int stream)
{
	struct reduction r = {.k = ddp__kernels(),
			      .type = type,
			      .op = op,
			      .lane = reduce_lane(type),
			      .elem = ddp_type_size(type),
			      .n = n,
			      .divisor = op == DDP_AVG ? divisor : 1,
			      .half = type == DDP_F16 || type == DDP_BF16};
	size_t block;

	if (!r.elem) /* no such type: callers refuse it long before */
		return;
	block = r.half ? HALF_BLOCK : BLOCK / r.elem;
	if (n == 1 && r.divisor <= 1) {
		if (dst != src[0])
			ddp__copy(dst, src[0], count * r.elem, stream);
		return;
	}
	if (stream) {
		reduce_fold_stream(&r, dst, src, count);
		return;
	}
	if (reduce_is_one_pass(&r))
		block = count;
	for (size_t at = 0; at < count; at += block)
		reduce_fold_block(&r, (char *)dst + at * r.elem, src,
				  at * r.elem,
				  count - at < block ? count - at : block);
}

void ddp__reduce(void *dst, const void *const *src, int n, size_t count,
		 enum ddp_type type, enum ddp_op op, int divisor)
{
	ddp__reduce_stream(dst, src, n, count, type, op, divisor, 0);
}

void ddp__add_scaled(void *dst, const void *const *src, const int *ranks,
		     int n, size_t count, enum ddp_type type, int divisor)
{
	struct reduction r = {.k = ddp__kernels(), .type = type};
	float sum[HALF_BLOCK], next[HALF_BLOCK], scale = 1;
	size_t len;
	int all = 0;

	for (int i = 0; i < n; i++)
		all += ranks[i];
	if (divisor <= 1)
		scale = (float)ddp__scale_of(all);
	for (size_t at = 0; at < count; at += len) {
		len = count - at < HALF_BLOCK ? count - at : HALF_BLOCK;
		reduce_widen(&r, sum, (const char *)src[0] + 2 * at, len);
		for (int i = 1; i < n; i++) {
			float x = (float)ddp__scale_of(ranks[0]) / scale;
			float y = (float)ddp__scale_of(ranks[i]) / scale;

			reduce_widen(&r, next, (const char *)src[i] + 2 * at,
				     len);
			r.k->mix(sum, sum, i > 1 ? 1 : x, next, y, len);
		}
		if (divisor > 1)
			r.k->divide[DDP__LANE_F32](sum, len, divisor);
		reduce_narrow(&r, (char *)dst + 2 * at, sum, len);
	}
}
