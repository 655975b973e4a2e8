/* test_reduce.c: every type, operation, number of sources, alignment and
 * instruction set against plain C, one element at a time. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/math/copy.h"
#include "worker-sdk/math/half.h"
#include "worker-sdk/math/kernels.h"
#include "worker-sdk/math/reduce.h"

enum { MOST = 5, SMALL = 200, LARGE = 9001, PAD = 128 };

static int is_float(enum ddp_type t)
{
	return t == DDP_F32 || t == DDP_F64 || t == DDP_F16 || t == DDP_BF16;
}

static int is_signed(enum ddp_type t)
{
	return t != DDP_U8;
}

/* The i-th value of source k: fractions of both signs, in range of f16. */
static double float_value(size_t i, int k)
{
	uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u + (uint64_t)k * 77u;

	x ^= x >> 29;
	return ((double)(x % 4001) - 2000) / 64;
}

static uint64_t int_value(size_t i, int k)
{
	uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u + (uint64_t)k * 77u;

	return x ^ x >> 29;
}

static void put_float(void *at, enum ddp_type type, double v)
{
	float f = (float)v;
	uint16_t half = type == DDP_F16 ? ddp__f32_to_f16(f)
					: ddp__f32_to_bf16(f);

	if (type == DDP_F64)
		memcpy(at, &v, 8);
	else if (type == DDP_F32)
		memcpy(at, &f, 4);
	else
		memcpy(at, &half, 2);
}

static double get_float(const void *at, enum ddp_type type)
{
	double v;
	float f;
	uint16_t half;

	memcpy(&half, at, 2);
	if (type == DDP_F16)
		return ddp__f16_to_f32(half);
	if (type == DDP_BF16)
		return ddp__bf16_to_f32(half);
	memcpy(&f, at, 4);
	if (type == DDP_F32)
		return f;
	memcpy(&v, at, 8);
	return v;
}

/* Little-endian: the low bytes are the number modulo the type's size. */
static void put_int(void *at, enum ddp_type type, uint64_t v)
{
	memcpy(at, &v, ddp_type_size(type));
}

static int64_t get_int(const void *at, enum ddp_type type)
{
	size_t unused = 64 - 8 * ddp_type_size(type);
	uint64_t v = 0;

	memcpy(&v, at, ddp_type_size(type));
	v <<= unused;
	return is_signed(type) ? (int64_t)v >> unused : (int64_t)(v >> unused);
}

static double float_op(enum ddp_type type, enum ddp_op op, double x, double y)
{
	double z = op == DDP_MIN    ? fmin(x, y)
		   : op == DDP_MAX  ? fmax(x, y)
		   : op == DDP_PROD ? x * y
				    : x + y;

	return type == DDP_F64 ? z : (float)z;
}

static int64_t int_op(enum ddp_op op, int64_t x, int64_t y)
{
	uint64_t a = (uint64_t)x, b = (uint64_t)y;

	switch (op) {
	case DDP_MIN:
		return x < y ? x : y;
	case DDP_MAX:
		return x > y ? x : y;
	case DDP_PROD:
		return (int64_t)(a * b);
	case DDP_BAND:
		return (int64_t)(a & b);
	case DDP_BOR:
		return (int64_t)(a | b);
	default:
		return (int64_t)(a + b);
	}
}

static void reference(char *out, char *const *src, int n, size_t count,
		      enum ddp_type type, enum ddp_op op)
{
	size_t elem = ddp_type_size(type);

	for (size_t i = 0; i < count; i++) {
		char *at = out + i * elem;
		double x = get_float(src[0] + i * elem, type);
		int64_t v = get_int(src[0] + i * elem, type);

		for (int k = 1; k < n; k++) {
			const char *next = src[k] + i * elem;

			x = float_op(type, op, x, get_float(next, type));
			/* wraps as the type does */
			put_int(at, type,
				(uint64_t)int_op(op, v, get_int(next, type)));
			v = get_int(at, type);
		}
		if (op == DDP_AVG) {
			x = type == DDP_F64 ? x / n : (float)x / (float)n;
			v /= n;
		}
		if (is_float(type))
			put_float(at, type, x);
		else
			put_int(at, type, (uint64_t)v);
	}
}

/* The sources, the expected result, and working memory. */
static char source[MOST][LARGE * 8 + PAD], wanted[LARGE * 8];
static char work[MOST + 1][LARGE * 8 + 2 * PAD];

static void make(enum ddp_type type, enum ddp_op op, int n, size_t count)
{
	size_t elem = ddp_type_size(type);
	char *src[MOST];

	for (int k = 0; k < n; k++) {
		src[k] = source[k];
		for (size_t i = 0; i < count; i++)
			if (is_float(type))
				put_float(src[k] + i * elem, type,
					  float_value(i, k));
			else
				put_int(src[k] + i * elem, type,
					int_value(i, k));
	}
	reference(wanted, src, n, count, type, op);
}

/* With shift 0 to 7 all buffers are unaligned by that many bytes, and each by
 * some more. */
static void try(enum ddp_type type, enum ddp_op op, int n, size_t count,
		int shift, int stream, int in_place)
{
	size_t size = count * ddp_type_size(type);
	const void *src[MOST];
	char *dst = work[MOST] + PAD + shift;

	for (int k = 0; k < n; k++) {
		char *at = work[k] + PAD + (shift * (k + 2) + k) % 8;

		memcpy(at, source[k], size);
		src[k] = at;
		if (in_place == k + 1)
			dst = at;
	}
	dst[-1] = dst[size] = 0x5a;
	ddp__reduce_stream(dst, src, n, count, type, op, n, stream);
	if (memcmp(dst, wanted, size) != 0)
		ck_abort_msg("%s: type %d op %d of %d x %zu, shift %d%s%s",
			     ddp__kernels()->isa, (int)type, (int)op, n, count,
			     shift, stream ? ", streaming" : "",
			     in_place ? ", in place" : "");
	ck_assert_int_eq(dst[-1], 0x5a);
	ck_assert_int_eq(dst[size], 0x5a);
}

/* Whether ddp.h allows this type and operation. */
static int is_legal(enum ddp_type type, enum ddp_op op)
{
	return !is_float(type) || (op != DDP_BAND && op != DDP_BOR);
}

/* _i selects the instruction set and type. */
static int choose(int i, enum ddp_type *type)
{
	const struct ddp__kernels *set[3];
	int n = ddp__kernels_usable(set);

	*type = (enum ddp_type)(i % DDP_TYPES);
	ck_assert_str_eq(set[n - 1]->isa, "base");
	ck_assert_ptr_eq(ddp__kernels(), set[0]);
	if (i / DDP_TYPES >= n)
		return -1;
	ddp__kernels_choose(set[i / DDP_TYPES]);
	return 0;
}

START_TEST(small_ones_agree_with_plain_c)
{
	enum ddp_type type;

	if (choose(_i, &type) < 0)
		return; /* this CPU has no such set */
	for (int op = 0; op < DDP_OPS; op++)
		for (int n = 1; n <= MOST && is_legal(type, op); n++) {
			make(type, op, n, SMALL);
			for (size_t count = 0; count <= SMALL; count++) {
				int how = (int)count + n;

				try(type, op, n, count, how % 8, 0, 0);
				try(type, op, n, count, how * 5 % 8, 1, 0);
				try(type, op, n, count, how * 3 % 8,
				    how / 2 % 2, how % 2 + 1);
			}
		}
}
END_TEST

START_TEST(large_ones_agree_with_plain_c)
{
	static const size_t counts[] = {511, 512, 513,	1024,
					2049, 4096, 8195, LARGE};
	enum ddp_type type;

	if (choose(_i, &type) < 0)
		return;
	for (int op = 0; op < DDP_OPS; op++)
		for (int n = 1; n <= MOST && is_legal(type, op); n++) {
			make(type, op, n, LARGE);
			for (int how = 0; how < 16; how++)
				try(type, op, n, counts[how / 2],
				    (how * 3 + n) % 8, how % 2, how % 3);
		}
}
END_TEST

/* One such value at each place, in the first or a later source, for each
 * operation. */
START_TEST(nan_and_infinity_come_through)
{
	enum { COUNT = 150 };
	enum ddp_type type;
	char buf[3][COUNT * 8], got[COUNT * 8];
	const void *src[] = {buf[0], buf[1], buf[2]};

	if (choose(_i, &type) < 0 || !is_float(type))
		return;
	for (int op = 0; op <= DDP_PROD; op++)
		for (int bad = 0; bad < 6; bad++) {
			size_t elem = ddp_type_size(type);

			for (size_t i = 0; i < COUNT * 3; i++)
				put_float(buf[i / COUNT] + i % COUNT * elem,
					  type, (double)(i % 7 + 1));
			for (size_t i = 0; i < COUNT; i += 2)
				put_float(buf[bad / 2] + i * elem, type,
					  bad % 2 ? NAN : INFINITY);
			ddp__reduce(got, src, 3, COUNT, type, op, 3);
			for (size_t i = 0; i < COUNT; i++) {
				double x = get_float(got + i * elem, type);

				if (i % 2 || (op == DDP_MIN && bad % 2 == 0))
					ck_assert(isfinite(x));
				else
					ck_assert(bad % 2 ? isnan(x)
							  : isinf(x));
			}
		}
}
END_TEST

/* A quiet NaN, different for each n up to 60. */
static void put_nan(char *p, enum ddp_type type, unsigned n)
{
	uint64_t bits = type == DDP_F64	   ? UINT64_C(0x7ff8) << 48
			: type == DDP_F32  ? 0x7fc00000
			: type == DDP_BF16 ? 0x7fc0
					   : 0x7e00;

	bits += n;
	memcpy(p, &bits, ddp_type_size(type)); /* little-endian: the lowest
						* bytes come first */
}

/* So all ranks get the same bits, however their buffers are aligned, and
 * whether an element is in a vector or in the rest. */
START_TEST(the_first_of_several_nans_is_the_result)
{
	enum { COUNT = 75, PLACES = 8 };
	enum ddp_type type;
	char buf[4][COUNT * 8], got[COUNT * 8 + PLACES];
	const void *src[] = {buf[0], buf[1], buf[2], buf[3]};

	if (choose(_i, &type) < 0 || !is_float(type))
		return;
	for (unsigned i = 0; i < COUNT; i++)
		for (unsigned k = 0; k < 4; k++)
			put_nan(buf[k] + i * ddp_type_size(type), type,
				k * 16 + i % 15);
	for (int op = 0; op <= DDP_PROD; op++)
		for (int n = 2; n <= 4; n++)
			for (int place = 0; place < PLACES; place++)
				for (size_t count = 1; count <= COUNT;
				     count++) {
					ddp__reduce(got + place, src, n, count,
						    type, op, n);
					ck_assert_mem_eq(
						got + place, buf[0],
						count * ddp_type_size(type));
				}
}
END_TEST

/* 2048 + 1 is no f16; f32 keeps it until the end. bf16 likewise with 256. */
START_TEST(halves_are_rounded_once)
{
	static const double in[2][5] = {{2048, 1, 1, 1, 1}, {256, 1, 1, 1, 1}};

	for (int t = 0; t < 2; t++) {
		enum ddp_type type = t ? DDP_BF16 : DDP_F16;
		uint16_t buf[5], got;
		const void *src[5];

		for (int k = 0; k < 5; k++) {
			put_float(&buf[k], type, in[t][k]);
			src[k] = &buf[k];
		}
		ddp__reduce(&got, src, 5, 1, type, DDP_SUM, 1);
		ck_assert(get_float(&got, type) == in[t][0] + 4);
	}
}
END_TEST

/* 3 hosts of 3, 1 and 2 ranks, all with the greatest f16: the sums are divided
 * by 4, 1 and 2, then by 4 again, and none overflows. */
START_TEST(scaled_sums_fit_where_their_terms_do)
{
	enum { N = 1000 };
	static uint16_t part[3][N], got[N];
	const void *first[] = {part[0], part[1]}, *then[] = {got, part[2]};
	const void *all[] = {part[0], part[1], part[2]};
	const struct ddp__kernels *sets[3];
	const int three[] = {3, 1, 2}, two[] = {4, 2};
	int n = ddp__kernels_usable(sets);

	ck_assert_int_eq(ddp__scale_of(1), 1);
	ck_assert_int_eq(ddp__scale_of(3), 4);
	ck_assert_int_eq(ddp__scale_of(4), 4);
	ck_assert_int_eq(ddp__scale_of(5), 8);
	ck_assert(ddp__is_scaled(DDP_BF16, DDP_AVG));
	ck_assert(!ddp__is_scaled(DDP_F16, DDP_SUM));
	ck_assert(!ddp__is_scaled(DDP_F32, DDP_AVG));
	for (int i = 0; i < N; i++) {
		double v = i % 2 ? 65504 : i; /* small values are exact */

		put_float(&part[0][i], DDP_F16, v * 3 / 4);
		put_float(&part[1][i], DDP_F16, v);
		put_float(&part[2][i], DDP_F16, v);
	}
	for (int k = 0; k < n; k++) {
		ddp__kernels_choose(sets[k]);
		ddp__add_scaled(got, first, three, 2, N, DDP_F16, 1);
		for (int i = 0; i < N; i += 2)
			ck_assert(get_float(&got[i], DDP_F16) == i);
		ddp__add_scaled(got, then, two, 2, N, DDP_F16, 6);
		for (int i = 0; i < N; i++)
			ck_assert(fabs(get_float(&got[i], DDP_F16) -
				       (i % 2 ? 65504 : i)) <= i % 2 * 32);
		ddp__add_scaled(got, all, three, 3, N, DDP_F16, 6);
		for (int i = 0; i < N; i += 2)
			ck_assert(get_float(&got[i], DDP_F16) == i);
	}
	ddp__kernels_choose(NULL);
}
END_TEST

START_TEST(averages)
{
	int32_t i32[3][4] = {{-7, 7, INT32_MAX, 0}, {0, 0, 1, 1}, {0, 0, 0, 1}};
	int64_t i64[2][2] = {{-3, INT64_MIN}, {0, INT64_MAX}};
	int8_t i8[2][3] = {{100, -3, -128}, {100, 0, 1}};
	double f64[2][2] = {{1, -1}, {2, 0}};
	float f32[3][1] = {{1}, {2}, {4}};
	const void *three[] = {i32[0], i32[1], i32[2]};
	const void *two[] = {i64[0], i64[1]}, *dtwo[] = {f64[0], f64[1]};
	const void *fthree[] = {f32[0], f32[1], f32[2]};
	const void *btwo[] = {i8[0], i8[1]};

	ddp__reduce(i32[0], three, 3, 4, DDP_I32, DDP_AVG, 3);
	ck_assert_int_eq(i32[0][0], -2); /* -7/3, towards zero */
	ck_assert_int_eq(i32[0][1], 2);
	ck_assert_int_eq(i32[0][2], INT32_MIN / 3); /* the sum wrapped */
	ck_assert_int_eq(i32[0][3], 0);
	ddp__reduce(i64[1], two, 2, 2, DDP_I64, DDP_AVG, 2);
	ck_assert_int_eq(i64[1][0], -1);
	ck_assert_int_eq(i64[1][1], 0);
	ddp__reduce(i8[0], btwo, 2, 3, DDP_I8, DDP_AVG, 2);
	ck_assert_int_eq(i8[0][0], -28); /* 200 wraps to -56 */
	ck_assert_int_eq(i8[0][1], -1);
	ck_assert_int_eq(i8[0][2], -63);
	ddp__reduce(f64[0], dtwo, 2, 2, DDP_F64, DDP_AVG, 2);
	ck_assert(f64[0][0] == 1.5 && f64[0][1] == -0.5);
	ddp__reduce(f32[1], fthree, 3, 1, DDP_F32, DDP_AVG, 3);
	ck_assert(f32[1][0] == 7.0f / 3.0f);
}
END_TEST

/* The last step of an average that was summed before: any divisor. */
START_TEST(divides_like_plain_c)
{
	static const int by[] = {1, 2, 3, 7, 64, 1000, 65536, 16777217,
				 INT32_MAX};
	enum ddp_type type;
	size_t elem;

	if (choose(_i, &type) < 0)
		return;
	elem = ddp_type_size(type);
	make(type, DDP_SUM, 1, SMALL);
	for (size_t d = 0; d < sizeof(by) / sizeof(*by); d++) {
		memcpy(work[0], source[0], SMALL * elem);
		if (!is_float(type))
			put_int(work[0], type, UINT64_C(1)
						       << (8 * elem - 1));
		memcpy(work[1], work[0], SMALL * elem);
		ddp__reduce(work[0], (const void *[]){work[0]}, 1, SMALL, type,
			    DDP_AVG, by[d]);
		for (size_t i = 0; i < SMALL; i++) {
			char *at = work[1] + i * elem;
			double x = get_float(at, type);

			x = type == DDP_F64 ? x / by[d]
					    : (float)x / (float)by[d];
			if (is_float(type))
				put_float(at, type, x);
			else
				put_int(at, type,
					(uint64_t)(get_int(at, type) / by[d]));
		}
		ck_assert_mem_eq(work[0], work[1], SMALL * elem);
	}
}
END_TEST

/* Several hosts divide by more ranks than there are sources. */
START_TEST(an_average_is_the_sum_divided)
{
	static const int by[] = {2, 3, 8, 1 << 20, 1 << 30};
	const void *src[MOST], *sum = work[0];
	enum ddp_type type;
	size_t elem;

	if (choose(_i, &type) < 0)
		return;
	elem = ddp_type_size(type);
	for (int k = 0; k < MOST; k++)
		src[k] = source[k];
	make(type, DDP_SUM, MOST, SMALL);
	for (size_t d = 0; elem >= 4 && d < sizeof(by) / sizeof(*by); d++)
		for (int n = 2; n <= MOST; n++) {
			ddp__reduce(work[0], src, n, SMALL, type, DDP_SUM, 1);
			ddp__reduce(work[0], &sum, 1, SMALL, type, DDP_AVG,
				    by[d]);
			ddp__reduce(work[1], src, n, SMALL, type, DDP_AVG,
				    by[d]);
			ck_assert_mem_eq(work[0], work[1], SMALL * elem);
		}
}
END_TEST

/* A send buffer's bits reach the receiver unchanged, even a signalling
 * NaN's. */
START_TEST(one_source_is_a_copy)
{
	uint16_t from[] = {0x7c01, 0xfc01, 0x7f81, 1, 0x8000}, to[5];
	const void *src = from;

	ddp__reduce(to, &src, 1, 5, DDP_F16, DDP_SUM, 1);
	ck_assert_mem_eq(from, to, sizeof(to));
	ddp__reduce(from, &src, 1, 5, DDP_BF16, DDP_MAX, 5);
	ck_assert_mem_eq(from, to, sizeof(to));
}
END_TEST

START_TEST(copies_of_any_size_and_alignment)
{
	enum { SIZE = 700 };
	static char from[SIZE + 64], to[SIZE + 192];

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (char)(i * 7 + i / 64);
	for (size_t size = 0; size <= SIZE; size++)
		for (size_t shift = 0; shift < 64; shift += size % 3 + 1) {
			memset(to, 0x5a, sizeof(to));
			ddp__copy(to + 64 + shift, from + (shift * 5) % 64,
				  size, 1);
			ck_assert_mem_eq(to + 64 + shift,
					 from + (shift * 5) % 64, size);
			ck_assert_int_eq(to[63 + shift], 0x5a);
			ck_assert_int_eq(to[64 + shift + size], 0x5a);
		}
	ddp__copy(to, from, SIZE, 0);
	ck_assert_mem_eq(to, from, SIZE);
	ddp__copy(NULL, NULL, 0, 0);
	ddp__copy(NULL, NULL, 0, 1);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("reduce");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, small_ones_agree_with_plain_c, 0,
			    3 * DDP_TYPES);
	tcase_add_loop_test(tc, large_ones_agree_with_plain_c, 0,
			    3 * DDP_TYPES);
	tcase_add_loop_test(tc, nan_and_infinity_come_through, 0,
			    3 * DDP_TYPES);
	tcase_add_loop_test(tc, the_first_of_several_nans_is_the_result, 0,
			    3 * DDP_TYPES);
	tcase_add_loop_test(tc, divides_like_plain_c, 0, 3 * DDP_TYPES);
	tcase_add_loop_test(tc, an_average_is_the_sum_divided, 0,
			    3 * DDP_TYPES);
	tcase_add_test(tc, halves_are_rounded_once);
	tcase_add_test(tc, scaled_sums_fit_where_their_terms_do);
	tcase_add_test(tc, averages);
	tcase_add_test(tc, one_source_is_a_copy);
	tcase_add_test(tc, copies_of_any_size_and_alignment);
	return run_case(tc);
}
