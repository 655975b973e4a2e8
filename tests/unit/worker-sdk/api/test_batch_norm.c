/* test_batch_norm.c: combining the moments of parts gives those of the whole,
 * however it was cut. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/api/api_internal.h"

enum { N = 3000 };

static double values[N];

static void moments(int from, int to, double *mean, double *var)
{
	*mean = *var = 0;
	for (int i = from; i < to; i++)
		*mean += values[i] / (to - from);
	for (int i = from; i < to; i++)
		*var += pow(values[i] - *mean, 2) / (to - from);
}

START_TEST(parts_make_the_whole)
{
	double mean, var, whole_mean, whole_var;

	srand(5);
	for (int i = 0; i < N; i++)
		values[i] = 1e6 + rand() / (double)RAND_MAX;
	moments(0, N, &whole_mean, &whole_var);
	for (int round = 0; round < 100; round++) {
		uint64_t n = 0;

		mean = var = NAN;
		while (n < N) {
			int part = rand() % 500;
			double m = NAN, v = NAN; /* moments of no values */

			if (n + (uint64_t)part > N)
				part = (int)(N - n);
			if (part)
				moments((int)n, (int)n + part, &m, &v);
			ddp__moments_add(&mean, &var, n, m, v, (uint64_t)part);
			n += (uint64_t)part;
		}
		ck_assert_double_eq_tol(mean, whole_mean, 1e-6);
		ck_assert_double_eq_tol(var, whole_var, 1e-6 * whole_var);
	}
}
END_TEST

START_TEST(very_many_and_one)
{
	double mean = 2, var = 3;

	ddp__moments_add(&mean, &var, UINT64_MAX / 2, 2, 3, UINT64_MAX / 2);
	ck_assert_double_eq_tol(mean, 2, 1e-12);
	ck_assert_double_eq_tol(var, 3, 1e-12);
	ddp__moments_add(&mean, &var, 0, 7, 0, 1);
	ck_assert_double_eq(mean, 7);
	ck_assert_double_eq(var, 0);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("batch_norm");

	tcase_add_test(tc, parts_make_the_whole);
	tcase_add_test(tc, very_many_and_one);
	return run_case(tc);
}
