/* values.c: what ranks send, and an independent reference for what they must
 * receive. Integers and copies are exact. Within a host floats are exact too:
 * they are reduced in the order of ranks, halves in f32 and rounded once.
 * Between hosts libddp chooses the order, so the result only has a bound. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/fuzz_sdk/fuzz.h"

int is_float(enum ddp_type type)
{
	return type == DDP_F32 || type == DDP_F64 || type == DDP_F16 ||
	       type == DDP_BF16;
}

/* ---- halves, by their definition ---- */

struct half {
	int bits; /* the significand, with the hidden bit */
	int least; /* exponent of the smallest normal number */
	uint16_t infinity;
};

static struct half half_of(enum ddp_type type)
{
	return type == DDP_F16 ? (struct half){11, -14, 0x7c00}
			       : (struct half){8, -126, 0x7f80};
}

static float widen(const struct half *h, uint16_t half)
{
	unsigned code = half & 0x7fff, most = 1u << (h->bits - 1);
	int e = (int)(code / most), sign = half & 0x8000 ? -1 : 1;
	double value;

	if (code > h->infinity)
		return NAN;
	if (code == h->infinity)
		return (float)sign * INFINITY;
	value = e ? ldexp(code % most + most, h->least + e - h->bits)
		  : ldexp(code, h->least - h->bits + 1);
	return (float)(sign * value);
}

float half_widen(enum ddp_type type, uint16_t half)
{
	static float known[2][65536];
	static int filled[2];
	struct half h = half_of(type);
	int which = type == DDP_F16;

	for (unsigned i = 0; !filled[which] && i < 65536; i++)
		known[which][i] = widen(&h, (uint16_t)i);
	filled[which] = 1;
	return known[which][half];
}

uint16_t half_narrow(enum ddp_type type, float f)
{
	struct half h = half_of(type);
	uint16_t sign = signbit(f) ? 0x8000 : 0;
	double x = fabs((double)f);
	unsigned code;
	int e;

	if (isnan(x))
		return (uint16_t)(sign | h.infinity | 1);
	if (isinf(x) || x == 0)
		return (uint16_t)(sign | (x == 0 ? 0 : h.infinity));
	e = ilogb(x) > h.least ? ilogb(x) : h.least;
	code = ((unsigned)(e - h.least) << (h.bits - 1)) +
	       (unsigned)rint(ldexp(x, h.bits - 1 - e));
	return (uint16_t)(sign | (code < h.infinity ? code : h.infinity));
}

/* ---- what is sent ---- */

struct layout {
	int mantissa, exponent; /* bits */
	int bias;
};

static struct layout layout_of(enum ddp_type type)
{
	switch (type) {
	case DDP_F32:
		return (struct layout){23, 8, 127};
	case DDP_F64:
		return (struct layout){52, 11, 1023};
	case DDP_F16:
		return (struct layout){10, 5, 15};
	default:
		return (struct layout){7, 8, 127};
	}
}

static uint64_t float_bits(const struct layout *l, uint64_t sign, int e,
			   uint64_t mantissa)
{
	return sign << (l->mantissa + l->exponent) |
	       (uint64_t)(e + l->bias) << l->mantissa |
	       (mantissa & ((UINT64_C(1) << l->mantissa) - 1));
}

/* Their sums stay far below the type's maximum, and their products between both
 * limits. */
static uint64_t ordinary(const struct layout *l, const struct call *c,
			 uint64_t x)
{
	int e = c->op == DDP_PROD ? -(int)(x & 1) : (int)(x & 15) - 4;

	if (c->large)
		return float_bits(l, 0, 14, x >> 4);
	return float_bits(l, x >> 63, e, x >> 4);
}

/* In each element all ranks have the same kind of value, or most sums would be
 * NaN. The result does not depend on the order: nothing overflows on the way,
 * and no product underflows before it meets an infinity. */
static uint64_t special(const struct layout *l, const struct call *c,
			uint64_t element, uint64_t x)
{
	uint64_t sign = x >> 63;
	int least = -l->bias, most = l->bias + 1;

	if (x % 3 == 0)
		return ordinary(l, c, x);
	switch (element % 4) {
	case 0:
		return float_bits(l, sign, least, 0);
	case 1:
		if (c->op != DDP_PROD)
			return float_bits(l, sign, least, x >> 4);
		return float_bits(l, sign, 0, 0);
	case 2:
		return float_bits(l, x % 5 ? element >> 8 & 1 : sign, most, 0);
	default:
		return x % 4 ? float_bits(l, sign, least, 0)
			     : float_bits(l, sign, most, x >> 4 | 1);
	}
}

/* Must be cheap: a large call has millions of values. */
static inline uint64_t scramble(uint64_t x)
{
	x *= 0x9e3779b97f4a7c15u;
	x ^= x >> 32;
	x *= 0xbf58476d1ce4e5b9u;
	return x ^ x >> 29;
}

static inline uint64_t value(const struct call *c, const struct layout *l,
			     uint64_t key, size_t i)
{
	uint64_t x = scramble(key + i);

	return c->special ? special(l, c, scramble(c->key ^ i << 8), x)
			  : ordinary(l, c, x);
}

/* Eight bytes at a time. */
static void fill_integers(uint64_t key, size_t first, size_t bytes, char *to)
{
	uint64_t x;

	for (size_t at = first, end = first + bytes; at < end;) {
		size_t skip = at % 8, n = 8 - skip;

		n = n < end - at ? n : end - at;
		x = scramble(key + at / 8) >> 8 * skip;
		memcpy(to, &x, n);
		at += n;
		to += n;
	}
}

#define FILL(type)                                                            \
	for (size_t i = 0; i < n; i++) {                                      \
		type v = (type)value(c, &l, key, first + i);                  \
		memcpy(to + i * sizeof(v), &v, sizeof(v));                    \
	}

void values_fill(const struct call *c, int r, size_t first, size_t n, char *to)
{
	uint64_t key = mix(c->key + (uint64_t)r);
	struct layout l = layout_of(c->type);

	switch (c->type) {
	case DDP_F16:
	case DDP_BF16:
		FILL(uint16_t)
		break;
	case DDP_F32:
		FILL(uint32_t)
		break;
	case DDP_F64:
		FILL(uint64_t)
		break;
	default:
		fill_integers(key, first * ddp_type_size(c->type),
			      n * ddp_type_size(c->type), to);
	}
}

/* ---- the reference: a block of elements at a time ---- */

#define LOAD(type)                                                            \
	for (size_t i = 0; i < n; i++) {                                      \
		type v;                                                       \
		memcpy(&v, from + i * sizeof(v), sizeof(v));                  \
		to[i] = v;                                                    \
	}
#define LOAD_HALVES                                                           \
	for (size_t i = 0; i < n; i++) {                                      \
		uint16_t v;                                                   \
		memcpy(&v, from + i * sizeof(v), sizeof(v));                  \
		to[i] = half_widen(t, v);                                     \
	}
#define FOLD(each)                                                            \
	for (size_t i = 0; i < n; i++) {                                      \
		each;                                                         \
	}                                                                     \
	break
#define IS_NAN(x) __builtin_isnan(x)
#define NEVER(x) 0
#define FOLDS(is_nan, unsigned_type)                                          \
	case DDP_MIN:                                                         \
		FOLD(a[i] = a[i] < x[i] || is_nan(a[i]) ? a[i] : x[i]);       \
	case DDP_MAX:                                                         \
		FOLD(a[i] = a[i] > x[i] || is_nan(a[i]) ? a[i] : x[i]);       \
	case DDP_PROD:                                                        \
		FOLD(a[i] = (unsigned_type)a[i] * (unsigned_type)x[i]);       \
	case DDP_SUM:                                                         \
	case DDP_AVG:                                                         \
		FOLD(a[i] = (unsigned_type)a[i] + (unsigned_type)x[i])

static void load_integers(enum ddp_type t, const char *from, size_t n,
			  int64_t *to)
{
	switch (t) {
	case DDP_I32:
		LOAD(int32_t)
		break;
	case DDP_I64:
		LOAD(int64_t)
		break;
	case DDP_I8:
		LOAD(int8_t)
		break;
	default:
		LOAD(uint8_t)
	}
}

static int64_t wrapped(enum ddp_type type, int64_t v)
{
	switch (type) {
	case DDP_I32:
		return (int32_t)(uint32_t)(uint64_t)v;
	case DDP_I8:
		return (int8_t)(uint8_t)(uint64_t)v;
	case DDP_U8:
		return (uint8_t)(uint64_t)v;
	default:
		return v;
	}
}

typedef char sent_by[RANKS_MAX][VALUES_BLOCK * 8];

static void integers(const struct call *c, sent_by sent, size_t n, char *want)
{
	size_t size = ddp_type_size(c->type);
	int64_t a[VALUES_BLOCK], x[VALUES_BLOCK];

	load_integers(c->type, sent[0], n, a);
	for (int r = 1; r < c->group.n; r++) {
		load_integers(c->type, sent[r], n, x);
		switch (c->op) {
		FOLDS(NEVER, uint64_t);
		case DDP_BAND:
			FOLD(a[i] &= x[i]);
		default:
			FOLD(a[i] |= x[i]);
		}
	}
	for (size_t i = 0; i < n; i++) {
		int64_t v = wrapped(c->type, a[i]);

		if (c->op == DDP_AVG)
			v /= c->group.n;
		memcpy(want + i * size, &v, size);
	}
}

static void load_floats(enum ddp_type t, const char *from, size_t n, float *to)
{
	if (t == DDP_F32)
		LOAD(float)
	else
		LOAD_HALVES
}

/* In the order of ranks; a half is rounded once. */
static void floats(const struct call *c, sent_by sent, size_t n, char *want)
{
	float a[VALUES_BLOCK], x[VALUES_BLOCK];

	load_floats(c->type, sent[0], n, a);
	for (int r = 1; r < c->group.n; r++) {
		load_floats(c->type, sent[r], n, x);
		switch (c->op) {
		FOLDS(IS_NAN, float);
		default:
			break;
		}
	}
	for (size_t i = 0; i < n; i++) {
		float v = c->op == DDP_AVG ? a[i] / (float)c->group.n : a[i];
		uint16_t half = 0;

		if (c->type == DDP_F32) {
			memcpy(want + i * sizeof(v), &v, sizeof(v));
			continue;
		}
		half = half_narrow(c->type, v);
		memcpy(want + i * sizeof(half), &half, sizeof(half));
	}
}

static void doubles(const struct call *c, sent_by sent, size_t n, char *want)
{
	double a[VALUES_BLOCK], x[VALUES_BLOCK];

	memcpy(a, sent[0], n * sizeof(*a));
	for (int r = 1; r < c->group.n; r++) {
		memcpy(x, sent[r], n * sizeof(*x));
		switch (c->op) {
		FOLDS(IS_NAN, double);
		default:
			break;
		}
	}
	for (size_t i = 0; i < n && c->op == DDP_AVG; i++)
		a[i] /= c->group.n;
	memcpy(want, a, n * sizeof(*a));
}

static void load_wide(enum ddp_type t, const char *from, size_t n,
		      long double *to)
{
	if (t == DDP_F64)
		LOAD(double)
	else if (t == DDP_F32)
		LOAD(float)
	else
		LOAD_HALVES
}

/* Half a unit in the last place, of a number from 1 to 2 and of the smallest
 * numbers. */
static void units(enum ddp_type type, long double *relative,
		  long double *absolute)
{
	struct layout l = layout_of(type);

	*relative = ldexpl(1, -1 - l.mantissa);
	*absolute = ldexpl(1, -l.bias - l.mantissa);
}

/* The most that the roundings can change, relative to the sum of the terms'
 * sizes and absolutely. */
static void bounds_of(const struct call *c, long double *relative,
		      long double *absolute)
{
	int roundings = c->group.n + 3;
	long double unit, least;

	*relative = *absolute = 0;
	if (c->op == DDP_MIN || c->op == DDP_MAX)
		return;
	units(DDP_F32, &unit, &least);
	if (c->type == DDP_F16 || c->type == DDP_BF16) {
		/* f32, except the sum of each host, the additions between hosts
		 * and the division */
		*relative = unit * (long double)roundings;
		roundings = 2 * c->group.hosts + 3;
	}
	units(c->type, &unit, &least);
	*relative += unit * (long double)roundings;
	*absolute = least * (long double)roundings;
}

/* In any order: a is nearly the exact value, and the result is off by at most
 * bound. */
static void bounded(const struct call *c, sent_by sent, size_t n,
		    long double *a, long double *bound)
{
	long double x[VALUES_BLOCK], relative, absolute;
	int parts = c->op == DDP_AVG ? c->group.n : 1;

	bounds_of(c, &relative, &absolute);
	load_wide(c->type, sent[0], n, a);
	for (size_t i = 0; i < n; i++)
		bound[i] = fabsl(a[i]);
	for (int r = 1; r < c->group.n; r++) {
		load_wide(c->type, sent[r], n, x);
		for (size_t i = 0; i < n; i++)
			bound[i] += fabsl(x[i]);
		switch (c->op) {
		FOLDS(IS_NAN, long double);
		default:
			break;
		}
	}
	for (size_t i = 0; i < n; i++) {
		a[i] /= parts;
		bound[i] = (c->op == DDP_PROD ? fabsl(a[i])
					      : bound[i] / parts) * relative +
			   absolute;
	}
}

/* ---- comparing ---- */

static long double float_at(enum ddp_type type, const char *at)
{
	long double v;

	load_wide(type, at, 1, &v);
	return v;
}

static const char *bits_text(enum ddp_type type, const void *at, char *out)
{
	size_t size = ddp_type_size(type);
	uint64_t bits = 0;
	int64_t v = 0;

	memcpy(&bits, at, size);
	if (is_float(type)) {
		sprintf(out, "%.17Lg (0x%0*llx)", float_at(type, at),
			(int)size * 2, (unsigned long long)bits);
	} else {
		load_integers(type, at, 1, &v);
		sprintf(out, "%lld (0x%0*llx)", (long long)v, (int)size * 2,
			(unsigned long long)bits);
	}
	return out;
}

static char how[300];

static const char *differs_exactly(const struct call *c, sent_by sent,
				   size_t n, const char *got, size_t *where)
{
	size_t size = ddp_type_size(c->type);
	char want[VALUES_BLOCK * 8], is[100], wanted[100];

	if (!is_float(c->type))
		integers(c, sent, n, want);
	else if (c->type == DDP_F64)
		doubles(c, sent, n, want);
	else
		floats(c, sent, n, want);
	if (!memcmp(got, want, n * size))
		return NULL;
	for (size_t i = 0; i < n; i++) {
		const char *a = got + i * size, *b = want + i * size;

		if (!memcmp(a, b, size) ||
		    (is_float(c->type) && isnan(float_at(c->type, a)) &&
		     isnan(float_at(c->type, b))))
			continue;
		*where = i;
		snprintf(how, sizeof(how), "is %s, not %s",
			 bits_text(c->type, a, is),
			 bits_text(c->type, b, wanted));
		return how;
	}
	return NULL;
}

static const char *differs_by_more(const struct call *c, sent_by sent,
				   size_t n, const char *got, size_t *where)
{
	long double want[VALUES_BLOCK], bound[VALUES_BLOCK], is[VALUES_BLOCK];

	bounded(c, sent, n, want, bound);
	load_wide(c->type, got, n, is);
	for (size_t i = 0; i < n; i++) {
		if (is[i] == want[i] || (isnan(is[i]) && isnan(want[i])) ||
		    fabsl(is[i] - want[i]) <= bound[i])
			continue;
		*where = i;
		snprintf(how, sizeof(how), "is %.17Lg, not %.17Lg within %.3Lg",
			 is[i], want[i], bound[i]);
		return how;
	}
	return NULL;
}

const char *values_differ(const struct call *c, sent_by sent, size_t n,
			  const char *got, size_t *where)
{
	return is_float(c->type) && c->group.hosts > 1
		       ? differs_by_more(c, sent, n, got, where)
		       : differs_exactly(c, sent, n, got, where);
}

enum { MANY = 8 << 10 };

void values_check_reduced(const struct call *c, size_t first, size_t n,
			  const char *got)
{
	size_t size = ddp_type_size(c->type), ranks = (size_t)c->group.n;
	size_t where, len;
	sent_by sent;

	for (size_t i = 0; i < n; i += len) {
		const char *text;

		len = n - i < VALUES_BLOCK ? n - i : VALUES_BLOCK;
		/* all ranks get the same: each checks a part, and they compare
		 * hashes */
		if (c->kind == ALL_REDUCE && n > MANY && i && i + len < n &&
		    (i / VALUES_BLOCK + (size_t)c->group.rank) % ranks)
			continue;
		for (size_t k = 0; k < ranks; k++)
			values_fill(c, (int)k, first + i, len, sent[k]);
		text = values_differ(c, sent, len, got + i * size, &where);
		if (text)
			fail(c, "element %zu of %zu %s", i + where, n, text);
	}
}

void values_check_copied(const struct call *c, int r, size_t first, size_t n,
			 const char *got, size_t position)
{
	size_t size = ddp_type_size(c->type), len;
	char want[VALUES_BLOCK * 8], is[100], wanted[100];

	for (size_t i = 0; i < n; i += len, got += len * size) {
		size_t k = 0;

		len = n - i < VALUES_BLOCK ? n - i : VALUES_BLOCK;
		values_fill(c, r, first + i, len, want);
		if (!memcmp(got, want, len * size))
			continue;
		while (!memcmp(got + k * size, want + k * size, size))
			k++;
		fail(c, "element %zu, from rank %d, is %s, not %s",
		     position + i + k, r,
		     bits_text(c->type, got + k * size, is),
		     bits_text(c->type, want + k * size, wanted));
	}
}

uint64_t values_hash(const void *data, size_t size)
{
	uint64_t hash = size, word;
	const char *p = data;

	for (size_t i = 0; i < size; i += 8) {
		word = 0;
		memcpy(&word, p + i, size - i < 8 ? size - i : 8);
		hash = mix(hash ^ word);
	}
	return hash;
}
