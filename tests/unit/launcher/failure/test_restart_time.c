/* test_restart_time.c: the line that says how long a restart took. */
#include <check.h>
#include <stdlib.h>

#include "launcher/failure/restart_time.h"
#include "tests/unit/run_case.h"

START_TEST(each_part_and_the_whole)
{
	const struct restart_time t = {.ended = 1000000000,
				       .empty = 1003000000,
				       .start = 1004250000};
	char text[RESTART_TIME_TEXT_MAX];

	ck_assert_str_eq(restart_time_text(&t, 1012300000, text),
			 "running again after 12.3 ms (stop 3.0, rendezvous "
			 "1.2, start 8.1)");
}
END_TEST

START_TEST(centuries_fit)
{
	const struct restart_time t = {.ended = 1, .empty = 1, .start = 1};
	char text[RESTART_TIME_TEXT_MAX];

	ck_assert_str_eq(restart_time_text(&t, UINT64_MAX, text),
			 "running again after 18446744073709.6 ms (stop 0.0, "
			 "rendezvous 0.0, start 18446744073709.6)");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("restart_time");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, each_part_and_the_whole);
	tcase_add_test(c, centuries_fit);
	return run_case(c);
}
