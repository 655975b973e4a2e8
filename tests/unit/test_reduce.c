/* test_reduce.c: every kernel of every instruction set against plain C. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/reduce.h"

enum { MANY = 1037, PAD = 64 };

/* The i-th value of array k, and the reduction of two, in long double or, for
 * integers, modulo 2^64: written so that it shares nothing with reduce.c. */
static int64_t value(int i, int k)
{
	uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u + (uint64_t)k * 77u;

	return (int64_t)(x ^ x >> 29);
}

static void put(void *at, enum ddp_type type, int64_t v)
{
	float f = (float)(v % 100000) / 64;
	double d = (double)(v % 100000000) / 64;
	int32_t w = (int32_t)v;

	memcpy(at,
	       type == DDP_F32	 ? (void *)&f
	       : type == DDP_F64 ? (void *)&d
	       : type == DDP_I32 ? (void *)&w
				 : (void *)&v,
	       ddp_type_size(type));
}

static int64_t as_int(const void *at, enum ddp_type type)
{
	int32_t w;
	int64_t v;

	memcpy(&w, at, sizeof(w));
	memcpy(&v, at, ddp_type_size(type));
	return type == DDP_I32 ? w : v;
}

static void expect(const char *got, const char *a, const char *b,
		   enum ddp_type type, enum ddp_op op)
{
	char want[8];
	float fa, fb, f;
	double da, db, d;
	int64_t ia = as_int(a, type), ib = as_int(b, type), v;
	int32_t w;

	memcpy(&fa, a, 4);
	memcpy(&fb, b, 4);
	memcpy(&da, a, ddp_type_size(type));
	memcpy(&db, b, ddp_type_size(type));
	if (op == DDP_MIN) {
		f = fminf(fa, fb);
		d = fmin(da, db);
		v = ia < ib ? ia : ib;
	} else if (op == DDP_MAX) {
		f = fmaxf(fa, fb);
		d = fmax(da, db);
		v = ia > ib ? ia : ib;
	} else {
		f = fa + fb;
		d = da + db;
		v = (int64_t)((uint64_t)ia + (uint64_t)ib);
	}
	w = (int32_t)v;
	memcpy(want,
	       type == DDP_F32	 ? (void *)&f
	       : type == DDP_F64 ? (void *)&d
	       : type == DDP_I32 ? (void *)&w
				 : (void *)&v,
	       ddp_type_size(type));
	ck_assert_mem_eq(got, want, ddp_type_size(type));
}

static void check_kernel(const struct ddp__kernels *k, enum ddp_type type,
			 enum ddp_op op, int n, int shift, int in_place)
{
	size_t elem = ddp_type_size(type), size = (size_t)n * elem;
	static char ab[3][MANY * 8 + 2 * PAD], keep[MANY * 8];
	char *a = ab[0] + shift, *b = ab[1] + 2 * shift + 1;
	char *dst = in_place == 1 ? a : in_place == 2 ? b : ab[2] + PAD;
	const char *pa = in_place == 1 ? keep : a;
	const char *pb = in_place == 2 ? keep : b;

	for (int i = 0; i < n; i++) {
		put(a + (size_t)i * elem, type, value(i, 1));
		put(b + (size_t)i * elem, type, value(i, 2));
	}
	memcpy(keep, in_place == 2 ? b : a, size);
	memset(ab[2], 0x5a, sizeof(ab[2]));
	k->combine[type][op](dst, a, b, (size_t)n);
	for (int i = 0; i < n; i++)
		expect(dst + (size_t)i * elem, pa + (size_t)i * elem,
		       pb + (size_t)i * elem, type, op);
	if (!in_place)
		ck_assert_int_eq(dst[size], 0x5a);
}

START_TEST(kernels_agree_with_plain_c)
{
	const struct ddp__kernels *set[3];
	static const int counts[] = {0, 1, 3, 16, 17, 63, MANY};
	int n = ddp__kernels_usable(set);

	ck_assert_int_ge(n, 1);
	ck_assert_str_eq(set[n - 1]->isa, "base");
	ck_assert_ptr_eq(ddp__kernels(), set[0]);
	for (int k = 0; k < n; k++)
		for (int type = 0; type < DDP_TYPES; type++)
			for (int op = 0; op < DDP_OPS; op++)
				for (int c = 0; c < 7; c++)
					for (int p = 0; p < 6; p++)
						check_kernel(set[k], type, op,
							     counts[c], p % 2,
							     p / 2);
}
END_TEST

START_TEST(nan_wins)
{
	const struct ddp__kernels *set[3];
	int n = ddp__kernels_usable(set);

	for (int k = 0; k < n; k++) {
		for (int op = DDP_MIN; op <= DDP_MAX; op++) {
			float a[40], b[40];

			for (int i = 0; i < 40; i++) {
				a[i] = i % 3 == 0 ? NAN : 1;
				b[i] = i % 3 == 1 ? NAN : 2;
			}
			set[k]->combine[DDP_F32][op](a, a, b, 40);
			for (int i = 0; i < 40; i++)
				ck_assert_int_eq(i % 3 != 2, isnan(a[i]));
		}
	}
}
END_TEST

START_TEST(averages)
{
	int32_t i32[3][4] = {{-7, 7, INT32_MAX, 0}, {0, 0, 1, 1}, {0, 0, 0, 1}};
	int64_t i64[2][2] = {{-3, INT64_MIN}, {0, INT64_MAX}};
	double f64[2][2] = {{1, -1}, {2, 0}};
	float f32[3][1] = {{1}, {2}, {4}};
	const void *three[] = {i32[0], i32[1], i32[2]};
	const void *two[] = {i64[0], i64[1]}, *dtwo[] = {f64[0], f64[1]};
	const void *fthree[] = {f32[0], f32[1], f32[2]};

	ddp__reduce(i32[0], three, 3, 4, DDP_I32, DDP_AVG, 3);
	ck_assert_int_eq(i32[0][0], -2); /* -7/3, towards zero */
	ck_assert_int_eq(i32[0][1], 2);
	ck_assert_int_eq(i32[0][2], INT32_MIN / 3); /* the sum wrapped */
	ck_assert_int_eq(i32[0][3], 0);
	ddp__reduce(i64[1], two, 2, 2, DDP_I64, DDP_AVG, 2);
	ck_assert_int_eq(i64[1][0], -1);
	ck_assert_int_eq(i64[1][1], 0);
	ddp__reduce(f64[0], dtwo, 2, 2, DDP_F64, DDP_AVG, 2);
	ck_assert(f64[0][0] == 1.5 && f64[0][1] == -0.5);
	ddp__reduce(f32[1], fthree, 3, 1, DDP_F32, DDP_AVG, 3);
	ck_assert(f32[1][0] == 7.0f / 3.0f);
}
END_TEST

/* Floating-point addition does not associate: the order is the sources'. */
START_TEST(sources_are_taken_in_order)
{
	enum { N = 5, COUNT = 5000 };
	static float src[N][COUNT], got[COUNT];
	const void *p[N];

	for (int k = 0; k < N; k++) {
		p[k] = src[k];
		for (int i = 0; i < COUNT; i++)
			src[k][i] = (float)value(i, k) * 1e-12f;
	}
	ddp__reduce(got, p, N, COUNT, DDP_F32, DDP_SUM, 1);
	for (int i = 0; i < COUNT; i++) {
		float want = src[0][i];

		for (int k = 1; k < N; k++)
			want += src[k][i];
		ck_assert(got[i] == want);
	}
	/* one source is a copy; in place with it, nothing */
	ddp__reduce(got, p, 1, COUNT, DDP_F32, DDP_SUM, 1);
	ck_assert_mem_eq(got, src[0], sizeof(got));
	ddp__reduce(src[0], p, 1, COUNT, DDP_F32, DDP_SUM, 1);
	ck_assert_mem_eq(got, src[0], sizeof(got));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("reduce");
	TCase *tc = tcase_create("reduce");
	SRunner *runner = srunner_create(suite);
	int failed;

	suite_add_tcase(suite, tc);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, kernels_agree_with_plain_c);
	tcase_add_test(tc, nan_wins);
	tcase_add_test(tc, averages);
	tcase_add_test(tc, sources_are_taken_in_order);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed;
}
