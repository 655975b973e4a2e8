/* test_wait_share.c: ticks in, the share of a minute out. */
#include <check.h>
#include <string.h>

#include "launcher/watch/wait_share.h"
#include "tests/unit/run_case.h"

#define TICK UINT64_C(1000000000)

static struct wait_share w;
static struct delays counts;
static uint64_t now, waited;

static void begin(void)
{
	w = (struct wait_share){0};
	counts = (struct delays){0};
	now = 100 * TICK;
	waited = 0;
	ck_assert(!wait_share_add(&w, now, waited, TICK));
}

/* n ticks, each after took, in which the worker has waited for that long. */
static void ticks(int n, uint64_t took, uint64_t waited_ns)
{
	for (int i = 0; i < n; i++) {
		now += took;
		waited += waited_ns;
		if (wait_share_add(&w, now, waited, TICK))
			wait_share_end_slice(&w, &counts);
	}
}

START_TEST(a_share_is_known_after_a_minute)
{
	char cause[DELAYS_WORDS_MAX];

	ticks(64, TICK, TICK / 4);
	ck_assert_int_eq(wait_share_permille(&w), -1);
	ck_assert_str_eq(wait_share_cause(&w, cause), "");
	ticks(1, TICK, TICK / 4);
	ck_assert_int_eq(wait_share_permille(&w), 250);
	ck_assert_str_ne(wait_share_cause(&w, cause), "");
}
END_TEST

START_TEST(only_the_last_minute_counts)
{
	ticks(1000, TICK, TICK);
	ck_assert_int_eq(wait_share_permille(&w), 1000);
	ticks(30, TICK, 0);
	ck_assert_int_eq(wait_share_permille(&w), 500);
	ticks(30, TICK, 0);
	ck_assert_int_eq(wait_share_permille(&w), 0);
}
END_TEST

START_TEST(one_long_wait_counts_little)
{
	ticks(65, TICK, 0);
	ticks(1, TICK, 60 * TICK); /* for a checkpoint, say */
	ticks(4, TICK, 0);
	ck_assert_int_eq(wait_share_permille(&w), 50);
}
END_TEST

START_TEST(waits_of_more_than_a_tick_are_credited_when_they_end)
{
	for (int i = 0; i < 20; i++) {
		ticks(3, TICK, 0);
		ticks(1, TICK, 2 * TICK);
	}
	ck_assert_int_eq(wait_share_permille(&w), 500);
}
END_TEST

START_TEST(late_ticks_count_as_they_are)
{
	ticks(65, 7 * TICK, 5 * TICK);
	ck_assert_int_eq(wait_share_permille(&w), 714);
}
END_TEST

START_TEST(a_count_that_shrinks_is_no_wait)
{
	ticks(65, TICK, TICK / 2);
	waited = 0;
	ticks(60, TICK, 0);
	ck_assert_int_eq(wait_share_permille(&w), 0);
	waited = UINT64_MAX; /* garbage */
	ticks(5, TICK, 0);
	ck_assert_int_eq(wait_share_permille(&w), 50);
}
END_TEST

START_TEST(the_cause_is_of_the_same_minute)
{
	char cause[DELAYS_WORDS_MAX];

	counts.throttled_us = 50000000; /* before it */
	ticks(5, TICK, 0);
	counts.throttled_us += 21000000;
	ticks(60, TICK, 0);
	ck_assert_str_eq(wait_share_cause(&w, cause),
			 "its cgroup was throttled for 21 s of the last 60 s");
	ticks(60, TICK, 0);
	ck_assert_ptr_null(strstr(wait_share_cause(&w, cause), "throttled"));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("wait_share");

	tcase_add_checked_fixture(c, begin, NULL);
	tcase_add_test(c, a_share_is_known_after_a_minute);
	tcase_add_test(c, only_the_last_minute_counts);
	tcase_add_test(c, one_long_wait_counts_little);
	tcase_add_test(c, waits_of_more_than_a_tick_are_credited_when_they_end);
	tcase_add_test(c, late_ticks_count_as_they_are);
	tcase_add_test(c, a_count_that_shrinks_is_no_wait);
	tcase_add_test(c, the_cause_is_of_the_same_minute);
	return run_case(c);
}
