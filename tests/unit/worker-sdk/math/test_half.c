/* test_half.c: converts f16 and bf16 to f32 and back, with every instruction
 * set, and compares with the definition: sign, exponent, fraction. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/math/half.h"
#include "worker-sdk/math/kernels.h"

enum { ALL = 1 << 16 };

/* A format, given by its bits of exponent and fraction. */
struct format {
	int exponent, fraction;
};
static const struct format F16 = {5, 10}, BF16 = {8, 7};

static double decode(struct format f, unsigned half)
{
	int bias = (1 << (f.exponent - 1)) - 1;
	int e = (int)(half >> f.fraction) & ((1 << f.exponent) - 1);
	double m = half & ((1u << f.fraction) - 1);
	double sign = half & 0x8000 ? -1 : 1;

	if (e == (1 << f.exponent) - 1)
		return m != 0 ? NAN : sign * INFINITY;
	if (e == 0)
		return sign * ldexp(m, 1 - bias - f.fraction);
	return sign * ldexp(m + ldexp(1, f.fraction), e - bias - f.fraction);
}

/* For any x but NaN. rint rounds to nearest even. */
static unsigned encode(struct format f, double x)
{
	int bias = (1 << (f.exponent - 1)) - 1, e;
	unsigned sign = signbit(x) ? 0x8000 : 0;
	unsigned infinite = ((1u << f.exponent) - 1) << f.fraction;
	double m;

	x = fabs(x);
	if (x == 0)
		return sign;
	if (isinf(x))
		return sign | infinite;
	frexp(x, &e); /* x < 2^e */
	if (e < 2 - bias)
		e = 2 - bias; /* subnormal */
	m = rint(ldexp(x, f.fraction + 1 - e));
	/* a fraction that reached the next power carries into the exponent */
	m += ldexp(e + bias - 2, f.fraction);
	return sign | (m < infinite ? (unsigned)m : infinite);
}

START_TEST(every_half_has_its_value)
{
	static uint16_t half[ALL];
	static float got[ALL];
	const struct ddp__kernels *set[3];
	int n = ddp__kernels_usable(set), wrong = 0;

	for (unsigned i = 0; i < ALL; i++)
		half[i] = (uint16_t)i;
	for (int k = 0; k < 2 * n; k++) {
		(k % 2 ? set[k / 2]->from_f16
		       : set[k / 2]->from_bf16)(got, half, ALL);
		for (unsigned i = 0; i < ALL; i++) {
			double want = decode(k % 2 ? F16 : BF16, i);

			wrong += isnan(want) ? !isnan(got[i]) : got[i] != want;
			wrong += !signbit(got[i]) == !!(i & 0x8000);
		}
	}
	ck_assert_int_eq(wrong, 0);
}
END_TEST

/* Around every half value there are f32s that round up, down and to even. */
START_TEST(rounds_to_nearest_even)
{
	static const double beside[] = {0, 0.25, 0.5, 0.75, 0.5001, 0.4999};
	static float from[ALL];
	static uint16_t got[ALL];
	const struct ddp__kernels *set[3];
	int n = ddp__kernels_usable(set), wrong = 0;

	for (int k = 0; k < 2 * n; k++) {
		struct format f = k % 2 ? F16 : BF16;
		unsigned infinite = ((1u << f.exponent) - 1) << f.fraction;

		for (int b = 0; b < 6; b++) {
			unsigned m = 0;

			for (unsigned i = 0; i < infinite; i++) {
				double x = decode(f, i), y = decode(f, i + 1);

				/* the value after the largest, if there were
				 * one */
				if (isinf(y))
					y = x + x - decode(f, i - 1);
				x += (y - x) * beside[b];
				from[m++] = (float)(i % 2 ? -x : x);
			}
			(k % 2 ? set[k / 2]->to_f16
			       : set[k / 2]->to_bf16)(got, from, m);
			for (unsigned i = 0; i < m; i++)
				wrong += got[i] != encode(f, from[i]);
		}
	}
	ck_assert_int_eq(wrong, 0);
}
END_TEST

START_TEST(ends_of_the_range)
{
	static const float from[] = {
		0,	  -0.0f,    INFINITY, -INFINITY, 65504,	  65519.996f,
		65520,	  -70000,   1e30f,    -3e38f,	 6e-8f,	  2.9802322e-8f,
		2.99e-8f, 1e-10f,   1e-40f,   -1e-45f,	 6.1e-5f, 3.4028235e38f,
		1,	  65536,    131072,   3.3961e38f};
	enum { N = sizeof(from) / sizeof(*from) };
	const struct ddp__kernels *set[3];
	int n = ddp__kernels_usable(set);
	uint16_t got[N];

	for (int k = 0; k < n; k++) {
		set[k]->to_f16(got, from, N);
		for (int i = 0; i < N; i++)
			ck_assert_uint_eq(got[i], encode(F16, from[i]));
		set[k]->to_bf16(got, from, N);
		for (int i = 0; i < N; i++)
			ck_assert_uint_eq(got[i], encode(BF16, from[i]));
	}
}
END_TEST

/* Also a NaN whose fraction lies only in the bits that are cut off. */
START_TEST(nan_stays_nan)
{
	static const uint32_t nan[] = {0x7fc00000, 0xffc00000, 0x7f800001,
				       0xff80ffff, 0x7fffffff, 0x7fa00000};
	const struct ddp__kernels *set[3];
	int n = ddp__kernels_usable(set);

	for (int k = 0; k < n; k++) {
		for (int i = 0; i < 6; i++) {
			float from[17];
			uint16_t f16[17], bf16[17];

			for (int j = 0; j < 17; j++)
				memcpy(&from[j], &nan[i], 4);
			set[k]->to_f16(f16, from, 17);
			set[k]->to_bf16(bf16, from, 17);
			for (int j = 0; j < 17; j++) {
				ck_assert(isnan(decode(F16, f16[j])));
				ck_assert(isnan(decode(BF16, bf16[j])));
				/* vector lanes and the remaining elements
				 * agree */
				ck_assert_uint_eq(f16[j], f16[16]);
				ck_assert_uint_eq(bf16[j], bf16[16]);
				ck_assert_uint_eq(f16[j] >> 15, nan[i] >> 31);
			}
		}
	}
}
END_TEST

#ifdef __x86_64__
/* Another set would be slow, or use illegal instructions on older
 * processors. */
START_TEST(the_instruction_sets_match_this_processor)
{
	const struct ddp__kernels *set[3];
	int n = ddp__kernels_usable(set), avx2 = 0, avx512 = 0;

	for (int k = 0; k < n; k++) {
		avx2 += set[k] == &ddp__kernels_avx2;
		avx512 += set[k] == &ddp__kernels_avx512;
	}
	ck_assert_int_eq(avx2, !!__builtin_cpu_supports("avx2"));
	ck_assert_int_eq(avx512, avx2 && __builtin_cpu_supports("avx512f") &&
				 __builtin_cpu_supports("avx512vl") &&
				 __builtin_cpu_supports("avx512bw") &&
				 __builtin_cpu_supports("avx512dq"));
	ck_assert_ptr_eq(set[n - 1], &ddp__kernels_base);
}
END_TEST
#endif

int main(void)
{
	TCase *tc = tcase_create("half");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, every_half_has_its_value);
	tcase_add_test(tc, rounds_to_nearest_even);
	tcase_add_test(tc, ends_of_the_range);
	tcase_add_test(tc, nan_stays_nan);
#ifdef __x86_64__
	tcase_add_test(tc, the_instruction_sets_match_this_processor);
#endif
	return run_case(tc);
}
