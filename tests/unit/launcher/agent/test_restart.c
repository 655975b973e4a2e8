/* test_restart.c: the wait before a restart, and the line that says how long a
 * restart took. */
#include <check.h>
#include <string.h>

#include "launcher/agent/restart.h"
#include "tests/unit/run_case.h"

START_TEST(without_backoff_a_restart_is_immediate)
{
	struct restart_backoff b;

	restart_backoff_init(&b, 0);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(restart_backoff_next(&b, 0), 0);
}
END_TEST

START_TEST(waits_double_up_to_five_minutes)
{
	static const uint64_t want[] = {40000, 80000, 160000, 300000, 300000};
	struct restart_backoff b;

	restart_backoff_init(&b, 40);
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++)
		ck_assert_uint_eq(restart_backoff_next(&b, 1000), want[i]);
}
END_TEST

START_TEST(a_first_wait_above_the_limit_stays)
{
	struct restart_backoff b;

	restart_backoff_init(&b, 1e9);
	ck_assert_uint_eq(restart_backoff_next(&b, 0), 1000000000000);
	ck_assert_uint_eq(restart_backoff_next(&b, 0), 1000000000000);
}
END_TEST

START_TEST(after_ten_good_minutes_the_waits_begin_anew)
{
	struct restart_backoff b;

	restart_backoff_init(&b, 0.5);
	ck_assert_uint_eq(restart_backoff_next(&b, 600000), 500);
	ck_assert_uint_eq(restart_backoff_next(&b, 599999), 1000);
	ck_assert_uint_eq(restart_backoff_next(&b, 10), 2000);
	ck_assert_uint_eq(restart_backoff_next(&b, 600000), 500);
	ck_assert_uint_eq(restart_backoff_next(&b, 0), 1000);
}
END_TEST

START_TEST(a_restart_time_names_each_part_and_the_whole)
{
	const struct restart_time t = {.ended = 1000000000,
				       .empty = 1003000000,
				       .joined = 1003000000,
				       .start = 1004250000};
	char text[RESTART_TIME_TEXT_MAX];

	ck_assert_str_eq(restart_time_text(&t, 0, 1012300000, text),
			 "running again after 12.3 ms (stop 3.0, rendezvous "
			 "1.2, start 8.1)");
}
END_TEST

START_TEST(a_restart_time_names_the_backoff)
{
	const struct restart_time t = {.ended = 1000000000,
				       .empty = 1003000000,
				       .joined = 3004000000,
				       .start = 3005000000};
	char text[RESTART_TIME_TEXT_MAX];

	ck_assert_str_eq(restart_time_text(&t, 1, 3007000000, text),
			 "running again after 2007.0 ms (stop 3.0, backoff "
			 "2001.0, rendezvous 1.0, start 2.0)");
}
END_TEST

START_TEST(a_restart_time_of_centuries_fits)
{
	const struct restart_time t = {.ended = 1, .empty = 1, .joined = 1,
				       .start = 1};
	char text[RESTART_TIME_TEXT_MAX];

	ck_assert_str_eq(restart_time_text(&t, 0, UINT64_MAX, text),
			 "running again after 18446744073709.6 ms (stop 0.0, "
			 "rendezvous 0.0, start 18446744073709.6)");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("restart");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, without_backoff_a_restart_is_immediate);
	tcase_add_test(c, waits_double_up_to_five_minutes);
	tcase_add_test(c, a_first_wait_above_the_limit_stays);
	tcase_add_test(c, after_ten_good_minutes_the_waits_begin_anew);
	tcase_add_test(c, a_restart_time_names_each_part_and_the_whole);
	tcase_add_test(c, a_restart_time_names_the_backoff);
	tcase_add_test(c, a_restart_time_of_centuries_fits);
	return run_case(c);
}
