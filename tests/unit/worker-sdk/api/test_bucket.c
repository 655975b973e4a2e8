/* test_bucket.c: where gradients are cut into buckets, and in which order
 * buckets start. */
#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/api/bucket.h"

static struct ddp__buckets b;

/* Bucket i has parameters [first, end), elements [at, at + count). */
static void is(int i, int first, int end, size_t at, size_t count)
{
	ck_assert_int_lt(i, b.count);
	ck_assert_int_eq(b.list[i].first, first);
	ck_assert_int_eq(b.list[i].end, end);
	ck_assert_uint_eq(b.list[i].at, at);
	ck_assert_uint_eq(b.list[i].count, count);
	for (int p = first; p < end; p++)
		ck_assert_int_eq(b.of[p], i);
}

START_TEST(cut_from_the_end_the_first_one_small)
{
	static const size_t counts[] = {100, 10, 50, 5, 5, 4};

	ck_assert_int_eq(ddp__buckets_init(&b, counts, 6, 10, 60, SIZE_MAX), 0);
	ck_assert_int_eq(b.count, 4);
	is(0, 4, 6, 165, 9);
	is(1, 2, 4, 110, 55);
	is(2, 1, 2, 100, 10);
	is(3, 0, 1, 0, 100); /* larger than a bucket */
	ddp__buckets_release(&b);
}
END_TEST

START_TEST(exactly_full_is_full)
{
	static const size_t counts[] = {1, 30, 30, 5, 5};

	ck_assert_int_eq(ddp__buckets_init(&b, counts, 5, 10, 60, SIZE_MAX), 0);
	ck_assert_int_eq(b.count, 3);
	is(0, 3, 5, 61, 10);
	is(1, 1, 3, 1, 60);
	is(2, 0, 1, 0, 1);
	ddp__buckets_release(&b);
}
END_TEST

START_TEST(a_large_one_among_small_ones)
{
	static const size_t counts[] = {3, 3, 1000, 3, 3};

	ck_assert_int_eq(ddp__buckets_init(&b, counts, 5, 100, 100, SIZE_MAX),
			 0);
	ck_assert_int_eq(b.count, 3);
	is(0, 3, 5, 1006, 6);
	is(1, 2, 3, 6, 1000);
	is(2, 0, 2, 0, 6);
	ddp__buckets_release(&b);
}
END_TEST

START_TEST(nothing_and_parameters_of_nothing)
{
	static const size_t counts[] = {0, 7, 0, 0};
	static const size_t huge[] = {SIZE_MAX / 2, SIZE_MAX / 2};

	ck_assert_int_eq(ddp__buckets_init(&b, NULL, 0, 10, 60, SIZE_MAX), 0);
	ck_assert_int_eq(b.count, 0);
	ck_assert_int_eq(ddp__buckets_take(&b), -1);
	ddp__buckets_release(&b);
	ck_assert_int_eq(ddp__buckets_init(&b, counts, 4, 7, 7, SIZE_MAX), 0);
	ck_assert_int_eq(b.count, 1);
	is(0, 0, 4, 0, 7);
	ddp__buckets_release(&b);
	ck_assert_int_eq(ddp__buckets_init(&b, huge, 2, 7, 7, SIZE_MAX),
			 -EOVERFLOW);
}
END_TEST

/* Spans that are not worth copying get buckets of their own. The others share
 * buckets of up to 22 elements, even across large spans. */
START_TEST(large_spans_go_alone_and_small_ones_together)
{
	static const size_t counts[] = {3, 20, 3, 0, 19, 20, 1};
	static const int of[] = {3, 2, 3, 1, 1, 0, 1};

	ck_assert_int_eq(ddp__buckets_init(&b, counts, 7, 22, 100, 20), 0);
	ck_assert_int_eq(b.count, 4);
	ck_assert_mem_eq(b.of, of, sizeof(of));
	ck_assert_uint_eq(b.list[0].count, 20);
	ck_assert_uint_eq(b.list[1].count, 20);
	ck_assert_int_eq(b.list[1].members, 3);
	ck_assert_int_eq(b.list[1].missing, 3);
	ck_assert_uint_eq(b.list[1].from, 20);
	ck_assert_uint_eq(b.list[3].count, 6);
	ck_assert_uint_eq(b.list[3].from, 60);
	/* the small ones begin when the last of them is ready */
	ddp__buckets_ready(&b, 6);
	ddp__buckets_ready(&b, 4);
	ck_assert_int_eq(ddp__buckets_take(&b), -1);
	ddp__buckets_ready(&b, 5);
	ck_assert_int_eq(ddp__buckets_take(&b), 0);
	ck_assert_int_eq(ddp__buckets_take(&b), -1);
	ddp__buckets_ready(&b, 3);
	ck_assert_int_eq(ddp__buckets_take(&b), 1);
	ddp__buckets_release(&b);
}
END_TEST

START_TEST(buckets_go_in_one_order_whatever_is_ready_first)
{
	static const size_t counts[] = {10, 10, 10, 10, 10, 10, 10, 10};
	int order[8], taken;

	ck_assert_int_eq(ddp__buckets_init(&b, counts, 8, 20, 30, SIZE_MAX), 0);
	ck_assert_int_eq(b.count, 3);
	srand(7);
	for (int round = 0; round < 500; round++) {
		for (int i = 0; i < 8; i++)
			order[i] = i;
		for (int i = 7; i > 0; i--) {
			int j = rand() % (i + 1), t = order[i];

			order[i] = order[j];
			order[j] = t;
		}
		ddp__buckets_reset(&b);
		taken = 0;
		for (int i = 0; i < 8; i++) {
			int k;

			ck_assert_int_eq(ddp__buckets_ready(&b, order[i]), 1);
			ck_assert_int_eq(ddp__buckets_ready(&b, order[i]), 0);
			while ((k = ddp__buckets_take(&b)) >= 0) {
				ck_assert_int_eq(k, taken++);
				for (int p = b.list[k].first;
				     p < b.list[k].end; p++)
					ck_assert(b.ready[p]);
			}
		}
		ck_assert_int_eq(taken, 3);
	}
	ddp__buckets_release(&b);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("bucket");

	tcase_add_test(tc, cut_from_the_end_the_first_one_small);
	tcase_add_test(tc, exactly_full_is_full);
	tcase_add_test(tc, a_large_one_among_small_ones);
	tcase_add_test(tc, nothing_and_parameters_of_nothing);
	tcase_add_test(tc, large_spans_go_alone_and_small_ones_together);
	tcase_add_test(tc, buckets_go_in_one_order_whatever_is_ready_first);
	return run_case(tc);
}
