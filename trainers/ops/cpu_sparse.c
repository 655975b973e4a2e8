/* cpu_sparse.c: the first layer's products from lists of the nonzero pixels.
 * For MNIST that is a fifth of the multiplications. */
#include <string.h>

#include "trainers/ops/cpu.h"

/* Outputs are computed in tiles, whose sums stay in registers. The wide tile
 * reads the lists half as often, on CPUs with 32 registers for it. */
enum { NARROW = 4, WIDE = 8 };

/* Rows of the weight that stay in the first-level cache while all samples of
 * the batch pass over them. */
enum { BLOCK_BYTES = 24 * 1024 };

/* A pixel in the lists by column: the number of its sample in the batch, and
 * its value. One store writes both. */
struct pixel {
	uint32_t sample;
	float value;
};

/* The contents of `room`. */
struct room {
	float value[256];  /* for each byte: byte / 255 */
	uint32_t *cursor;  /* [n]: the position reached in each sample's list */
	uint32_t *first;   /* [size + 1]: the start of each column's list */
	struct pixel *pixel; /* the lists by column */
};

static size_t sparse_align(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

size_t cpu_sparse_room(int n, size_t size)
{
	size_t entries = (size_t)n * size;

	return sparse_align(sizeof(struct room)) + sparse_align((size_t)n * 4) +
	       sparse_align((size + 2) * 4) +
	       sparse_align(entries * sizeof(struct pixel));
}

static struct room *sparse_lay_out(void *memory, int n, size_t size)
{
	struct room *r = memory;
	char *p = (char *)memory + sparse_align(sizeof(*r));

	r->cursor = (uint32_t *)(void *)p;
	p += sparse_align((size_t)n * 4);
	r->first = (uint32_t *)(void *)p;
	p += sparse_align((size + 2) * 4);
	r->pixel = (struct pixel *)(void *)p;
	if (r->value[255] != 1.0f)
		for (int i = 0; i < 256; i++)
			r->value[i] = (float)i / 255.0f;
	return r;
}

static int sparse_tile_width(int out)
{
#ifdef __x86_64__
	if (out >= WIDE * LANES && __builtin_cpu_supports("avx512f"))
		return WIDE;
#endif
	return NARROW;
}

/* The places where the vectors of a tile of outputs begin. The last vectors may
 * overlap: values computed twice are equal. */
static void sparse_tile_set(int vectors, int at, int out, int *o)
{
	for (int k = 0; k < vectors; k++)
		o[k] = at + k * LANES < out - LANES ? at + k * LANES :
						      out - LANES;
}

#define V(p) (*(v16 *)(void *)(p))
#define CV(p) (*(const v16 *)(const void *)(p))

/* y of one sample's tile += its pixels of the columns before `end`; returns the
 * position at which its list continues. */
static inline __attribute__((always_inline)) uint32_t
forward_tile(int vectors, const struct samples *s, const float *value,
	     uint32_t from, uint32_t to, uint32_t end, const float *w,
	     size_t out, const int *o, float *y)
{
	v16 sum[WIDE];

	for (int k = 0; k < vectors; k++)
		sum[k] = CV(y + o[k]);
	for (; from < to && s->column[from] < end; from++) {
		const float *row = w + s->column[from] * out;
		float v = value[s->value[from]];

		for (int k = 0; k < vectors; k++)
			sum[k] += v * CV(row + o[k]);
	}
	for (int k = 0; k < vectors; k++)
		V(y + o[k]) = sum[k];
	return from;
}

/* A batch's lists may lie anywhere in a map that is larger than the caches. */
static void sparse_prefetch(int n, const struct samples *s,
			    const uint32_t *index)
{
	for (int i = 0; i < n; i++) {
		uint32_t from = s->start[index[i]], to = s->start[index[i] + 1];

		for (uint32_t k = from; k < to; k += 32)
			__builtin_prefetch(s->column + k);
		for (uint32_t k = from; k < to; k += 64)
			__builtin_prefetch(s->value + k);
	}
}

static inline __attribute__((always_inline)) void
forward_tiles(int vectors, int n, const struct samples *s,
	      const uint32_t *index, struct room *r, int out, const float *w,
	      float *y)
{
	int width = out < vectors * LANES ? out : vectors * LANES;
	uint32_t size = (uint32_t)s->size;
	uint32_t block = BLOCK_BYTES / ((uint32_t)width * 4);
	int o[WIDE];

	for (int at = 0; at < out; at += vectors * LANES) {
		sparse_tile_set(vectors, at, out, o);
		for (int i = 0; i < n; i++) {
			float *p = y + (size_t)i * (size_t)out;

			r->cursor[i] = s->start[index[i]];
			for (int k = 0; k < vectors; k++)
				V(p + o[k]) = (v16){0};
		}
		for (uint32_t k = 0; k < size; k += block)
			for (int i = 0; i < n; i++)
				r->cursor[i] = forward_tile(
					vectors, s, r->value, r->cursor[i],
					s->start[index[i] + 1], k + block, w,
					(size_t)out, o,
					y + (size_t)i * (size_t)out);
	}
}

MULTIVERSION FUSED static void sparse_forward(int n, const struct samples *s,
					      const uint32_t *index,
					      struct room *r, int out,
					      const float *w, float *y)
{
	if (sparse_tile_width(out) == WIDE)
		forward_tiles(WIDE, n, s, index, r, out, w, y);
	else
		forward_tiles(NARROW, n, s, index, r, out, w, y);
}

/* Sorts the batch's lists by column. */
static void sparse_transpose_lists(int n, const struct samples *s,
				   const uint32_t *index, struct room *r)
{
	uint32_t *first = r->first + 1;

	memset(r->first, 0, (s->size + 2) * sizeof(*r->first));
	for (int i = 0; i < n; i++)
		for (uint32_t k = s->start[index[i]];
		     k < s->start[index[i] + 1]; k++)
			first[s->column[k] + 1]++;
	for (size_t k = 1; k <= s->size; k++)
		first[k] += first[k - 1];
	/* Each column's number advances to the start of the next column, so
	 * that afterwards r->first holds what first held. */
	for (int i = 0; i < n; i++)
		for (uint32_t k = s->start[index[i]];
		     k < s->start[index[i] + 1]; k++) {
			r->pixel[first[s->column[k]]++] = (struct pixel){
				(uint32_t)i, r->value[s->value[k]]};
		}
}

/* One row's tile of the weight's gradient. */
static inline __attribute__((always_inline)) void
backward_tile(int vectors, const struct room *r, uint32_t from, uint32_t to,
	      size_t out, const int *o, const float *dy, float *row)
{
	v16 sum[WIDE];

	for (int k = 0; k < vectors; k++)
		sum[k] = (v16){0};
	for (; from < to; from++) {
		const float *g = dy + r->pixel[from].sample * out;
		float v = r->pixel[from].value;

		for (int k = 0; k < vectors; k++)
			sum[k] += v * CV(g + o[k]);
	}
	for (int k = 0; k < vectors; k++)
		V(row + o[k]) = sum[k];
}

static inline __attribute__((always_inline)) void
backward_tiles(int vectors, size_t size, const struct room *r, int out,
	       const float *dy, float *dw)
{
	int o[WIDE];

	for (int at = 0; at < out; at += vectors * LANES) {
		sparse_tile_set(vectors, at, out, o);
		for (size_t k = 0; k < size; k++)
			backward_tile(vectors, r, r->first[k], r->first[k + 1],
				      (size_t)out, o, dy,
				      dw + k * (size_t)out);
	}
}

MULTIVERSION FUSED
static void sparse_backward(size_t size, const struct room *r, int out,
			    const float *dy, float *dw)
{
	if (sparse_tile_width(out) == WIDE)
		backward_tiles(WIDE, size, r, out, dy, dw);
	else
		backward_tiles(NARROW, size, r, out, dy, dw);
}

void cpu_sparse_forward(const struct cpu_dense *l, int n,
			    const struct samples *s, const uint32_t *index,
			    void *room, float *y)
{
	sparse_prefetch(n, s, index);
	sparse_forward(n, s, index, sparse_lay_out(room, n, s->size), l->out,
		       l->weight, y);
	cpu_bias_relu(n, l->out, l->relu, l->bias, y);
}

void cpu_sparse_backward(const struct cpu_dense *l, int n,
			     const struct samples *s, const uint32_t *index,
			     void *room, const float *y, float *dy)
{
	struct room *r = sparse_lay_out(room, n, s->size);

	cpu_mask_and_sum(n, l->out, l->relu, y, dy, l->bias_grad);
	sparse_transpose_lists(n, s, index, r);
	sparse_backward(s->size, r, l->out, dy, l->weight_grad);
}
