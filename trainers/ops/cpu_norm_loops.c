/* cpu_norm_loops.c: the passes of batch normalisation over a tile. Each is
 * written once and inlined for whole vectors of either type; the remaining
 * channels are handled one by one. */
#include "trainers/ops/cpu_norm.h"
#include "trainers/ops/cpu_vector.h"

INLINED void norm_store1(float x, void *p, size_t i, int bf16)
{
	union {
		float f;
		uint32_t u;
	} v = {x};

	if (!bf16)
		((float *)p)[i] = x;
	else if (x == x)
		((uint16_t *)p)[i] = (uint16_t)(
			(v.u + 0x7fff + ((v.u >> 16) & 1)) >> 16);
	else
		((uint16_t *)p)[i] = (uint16_t)(v.u >> 16 | 0x40);
}

/* Loads a vector, or only its lanes that have channels. */
INLINED void norm_load(v16 *out, const void *p, size_t i, int bf16, int lanes)
{
	if (lanes == LANES) {
		load16(out, p, i, bf16);
		return;
	}
	*out = (v16){0};
	for (int k = 0; k < lanes; k++)
		(*out)[k] = load1(p, i + (size_t)k, bf16);
}

INLINED void norm_store(const v16 *v, void *p, size_t i, int bf16, int lanes)
{
	if (lanes == LANES) {
		store16(v, p, i, bf16);
		return;
	}
	for (int k = 0; k < lanes; k++)
		norm_store1((*v)[k], p, i + (size_t)k, bf16);
}

INLINED void norm_load_f32(v16 *out, const float *p, int lanes)
{
	norm_load(out, p, 0, 0, lanes);
}

/* Calls body for the tile with the type and the lanes as constants. */
#define SPECIALISED(body, t, bf16, ...)                                        \
	do {                                                                   \
		if ((t)->lanes != LANES)                                       \
			body(t, bf16, (t)->lanes, __VA_ARGS__);                \
		else if (bf16)                                                 \
			body(t, 1, LANES, __VA_ARGS__);                        \
		else                                                           \
			body(t, 0, LANES, __VA_ARGS__);                        \
	} while (0)

/* Two passes: the tile is in the cache for the second. Four independent sums,
 * so that no addition waits for the one before. */
INLINED void norm_moments(const struct norm_tile *t, int bf16, int lanes,
			  const void *x, struct norm_sums *out)
{
	v16 sum[4] = {{0}}, mean, far, v;
	float part = 1.0f / (float)t->places;
	size_t i = 0;

	for (; i + 4 <= t->places; i += 4)
		for (size_t k = 0; k < 4; k++) {
			norm_load(&v, x, t->at + (i + k) * t->stride, bf16,
				  lanes);
			sum[k] += v;
		}
	for (; i < t->places; i++) {
		norm_load(&v, x, t->at + i * t->stride, bf16, lanes);
		sum[0] += v;
	}
	mean = ((sum[0] + sum[1]) + (sum[2] + sum[3])) * part;
	norm_store(&mean, out->a, 0, 0, lanes);
	sum[0] = sum[1] = sum[2] = sum[3] = (v16){0};
	for (i = 0; i + 4 <= t->places; i += 4)
		for (size_t k = 0; k < 4; k++) {
			norm_load(&v, x, t->at + (i + k) * t->stride, bf16,
				  lanes);
			far = v - mean;
			sum[k] += far * far;
		}
	for (; i < t->places; i++) {
		norm_load(&v, x, t->at + i * t->stride, bf16, lanes);
		far = v - mean;
		sum[0] += far * far;
	}
	v = (sum[0] + sum[1]) + (sum[2] + sum[3]);
	norm_store(&v, out->b, 0, 0, lanes);
}

MULTIVERSION FUSED
void cpu_norm_moments(const struct norm_tile *t, int bf16, const void *x,
		      struct norm_sums *out)
{
	SPECIALISED(norm_moments, t, bf16, x, out);
}

/* This form of the comparison lets NaN through, as PyTorch's does. */
INLINED void norm_apply(const struct norm_tile *t, int bf16, int lanes,
			const struct norm_apply *a)
{
	v16 mul, add1, v, other;
	s16x32 keep;

	norm_load_f32(&mul, a->mul + t->channel, lanes);
	norm_load_f32(&add1, a->add1 + t->channel, lanes);
	for (size_t i = 0; i < t->places; i++) {
		size_t at = t->at + i * t->stride;

		norm_load(&v, a->x, at, bf16, lanes);
		v = v * mul + add1;
		if (a->other) {
			norm_load(&other, a->other, at, bf16, lanes);
			v += other;
		}
		if (a->relu) {
			keep = ~(v < 0.0f);
			keep16(&v, &keep);
		}
		norm_store(&v, a->y, at, bf16, lanes);
	}
}

MULTIVERSION FUSED
void cpu_norm_apply(const struct norm_tile *t, const struct norm_apply *a)
{
	SPECIALISED(norm_apply, t, a->bf16, a);
}

/* How ReLU's mask is found, as a constant. */
enum mask { MASK_NONE, MASK_OF_Y, MASK_OF_X };

INLINED void norm_slope_with(const struct norm_tile *t, int bf16, int lanes,
			     const struct norm_slope *s, enum mask how,
			     struct norm_sums *out)
{
	v16 mul, add1, mean, x, y, dz, dy, sum = {0}, product = {0};
	s16x32 keep;

	norm_load_f32(&mul, s->mul + t->channel, lanes);
	norm_load_f32(&add1, s->add1 + t->channel, lanes);
	norm_load_f32(&mean, s->mean + t->channel, lanes);
	for (size_t i = 0; i < t->places; i++) {
		size_t at = t->at + i * t->stride;

		norm_load(&x, s->x, at, bf16, lanes);
		norm_load(&dz, s->dy[0], at, bf16, lanes);
		if (s->dy[1]) {
			norm_load(&dy, s->dy[1], at, bf16, lanes);
			dz += dy;
		}
		if (how == MASK_OF_Y)
			norm_load(&y, s->y, at, bf16, lanes);
		else if (how == MASK_OF_X)
			y = x * mul + add1;
		if (how != MASK_NONE) {
			keep = ~(y <= 0.0f);
			keep16(&dz, &keep);
		}
		if (s->dz)
			norm_store(&dz, s->dz, at, bf16, lanes);
		sum += dz;
		product += dz * (x - mean);
	}
	norm_store(&sum, out->a, 0, 0, lanes);
	norm_store(&product, out->b, 0, 0, lanes);
}

INLINED void norm_slope(const struct norm_tile *t, int bf16, int lanes,
			const struct norm_slope *s, struct norm_sums *out)
{
	if (!s->relu)
		norm_slope_with(t, bf16, lanes, s, MASK_NONE, out);
	else if (s->y)
		norm_slope_with(t, bf16, lanes, s, MASK_OF_Y, out);
	else
		norm_slope_with(t, bf16, lanes, s, MASK_OF_X, out);
}

MULTIVERSION FUSED
void cpu_norm_slope(const struct norm_tile *t, const struct norm_slope *s,
		    struct norm_sums *out)
{
	SPECIALISED(norm_slope, t, s->bf16, s, out);
}

INLINED void norm_back_with(const struct norm_tile *t, int bf16, int lanes,
			    const struct norm_back *b, int masked)
{
	v16 mul, by_x, add1, relu_mul, relu_add, x, v;
	s16x32 keep;

	norm_load_f32(&mul, b->mul + t->channel, lanes);
	norm_load_f32(&by_x, b->by_x + t->channel, lanes);
	norm_load_f32(&add1, b->add1 + t->channel, lanes);
	norm_load_f32(&relu_mul, b->relu_mul + t->channel, lanes);
	norm_load_f32(&relu_add, b->relu_add + t->channel, lanes);
	for (size_t i = 0; i < t->places; i++) {
		size_t at = t->at + i * t->stride;

		norm_load(&x, b->x, at, bf16, lanes);
		norm_load(&v, b->dy, at, bf16, lanes);
		if (masked) {
			keep = ~(x * relu_mul + relu_add <= 0.0f);
			keep16(&v, &keep);
		}
		v = v * mul + (x * by_x + add1);
		norm_store(&v, b->dx, at, bf16, lanes);
	}
}

INLINED void norm_back(const struct norm_tile *t, int bf16, int lanes,
		       const struct norm_back *b)
{
	if (b->masked)
		norm_back_with(t, bf16, lanes, b, 1);
	else
		norm_back_with(t, bf16, lanes, b, 0);
}

MULTIVERSION FUSED
void cpu_norm_back(const struct norm_tile *t, const struct norm_back *b)
{
	SPECIALISED(norm_back, t, b->bf16, b);
}
