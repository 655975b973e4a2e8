/* test_log_limiter.c: which of many refusals are logged, and which only
 * counted. */
#include <check.h>
#include <stdio.h>

#include "rendezvous/net/log_limiter.h"
#include "tests/unit/run_case.h"

static struct log_limiter r;
static unsigned more;

static void begin(void)
{
	r = (struct log_limiter){.lines = 0};
	more = 0;
}

static int say(const char *address, uint64_t now)
{
	return log_limiter_check(&r, address, now, &more);
}

START_TEST(one_address_has_a_line_a_minute)
{
	ck_assert_int_eq(say("10.0.0.1", 5), 1);
	ck_assert_uint_eq(more, 0);
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(say("10.0.0.1", 6 + (uint64_t)i), 0);
	ck_assert_int_eq(say("10.0.0.2", 1500), 1);
	ck_assert_uint_eq(more, 0);
	ck_assert_int_eq(say("10.0.0.1", 4 + LOG_LIMITER_AGAIN_MS), 0);
	ck_assert_int_eq(say("10.0.0.1", 5 + LOG_LIMITER_AGAIN_MS), 1);
	ck_assert_uint_eq(more, 1001);
	ck_assert_int_eq(say("10.0.0.1", 5 + 2 * LOG_LIMITER_AGAIN_MS), 1);
	ck_assert_uint_eq(more, 0);
}
END_TEST

/* A scanner with any number of IPv6 addresses cannot fill the disk. */
START_TEST(all_addresses_together_have_some_lines_a_minute)
{
	unsigned said = 0, counted = 0;
	char address[32];

	for (unsigned i = 0; i < 100000; i++) {
		snprintf(address, sizeof(address), "fd77::%x", i);
		said += (unsigned)say(address, 1000 + i / 10);
	}
	ck_assert_uint_eq(said, LOG_LIMITER_LINES);
	ck_assert_int_eq(say("fd77::1:2:3", 1000 + LOG_LIMITER_AGAIN_MS), 1);
	counted = more;
	ck_assert_uint_eq(counted, 100000 - LOG_LIMITER_LINES);
}
END_TEST

START_TEST(an_address_that_was_forgotten_begins_anew)
{
	char address[32];

	ck_assert_int_eq(say("10.0.0.1", 1), 1);
	ck_assert_int_eq(say("10.0.0.1", 2), 0);
	for (int i = 0; i < LOG_LIMITER_KEPT; i++) {
		snprintf(address, sizeof(address), "10.0.1.%d", i);
		ck_assert_int_eq(say(address, 10 + (uint64_t)i), 1);
	}
	ck_assert_int_eq(say("10.0.0.1", 50), 1);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("refusals");

	tcase_add_checked_fixture(tc, begin, NULL);
	tcase_add_test(tc, one_address_has_a_line_a_minute);
	tcase_add_test(tc, all_addresses_together_have_some_lines_a_minute);
	tcase_add_test(tc, an_address_that_was_forgotten_begins_anew);
	return run_case(tc);
}
