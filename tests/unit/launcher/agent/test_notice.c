/* test_notice.c: what a signal or the end of the time says, how long there is,
 * and which ends of workers are what was asked for. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "launcher/agent/notice.h"
#include "launcher/agent/stopping.h"
#include "tests/unit/run_case.h"

static const uint64_t now = 1800000000;

static struct signal_set set(int number)
{
	return (struct signal_set){UINT64_C(1) << (number - 1)};
}

static struct config config(void)
{
	struct config c = {.grace_s = 30, .stop_before_s = 30};

	c.ending = set(SIGTERM);
	c.warning = set(SIGUSR1);
	return c;
}

START_TEST(a_signal_that_ends_gives_the_shutdown_timeout)
{
	const struct config c = config();
	struct notice n = notice_of_signal(&c, SIGTERM, now);

	ck_assert_int_eq(n.level, WIRE_STOPPED);
	ck_assert_int_eq(n.signal, SIGTERM);
	ck_assert_uint_eq(n.grace_ms, 30000);
	ck_assert_int_eq(n.exit_code, 143);
}
END_TEST

START_TEST(a_warning_leaves_the_time_to_slurm_or_what_a_requeue_leaves)
{
	struct config c = config();
	struct notice n = notice_of_signal(&c, SIGUSR1, now);

	ck_assert_int_eq(n.level, WIRE_WARNED);
	ck_assert_int_eq(n.exit_code, 138);
	ck_assert_uint_eq(n.grace_ms, STOPPING_NO_LIMIT);
	c.slurm.end_time = now + 120;
	n = notice_of_signal(&c, SIGUSR1, now);
	ck_assert_uint_eq(n.grace_ms, STOPPING_NO_LIMIT);
	c.requeue = CONFIG_ON_TIMEOUT;
	n = notice_of_signal(&c, SIGUSR1, now);
	ck_assert_uint_eq(n.grace_ms, 115000);
	/* it came late */
	c.slurm.end_time = now + 3;
	n = notice_of_signal(&c, SIGUSR1, now);
	ck_assert_uint_eq(n.grace_ms, 5000);
	c.slurm.end_time = now - 3;
	n = notice_of_signal(&c, SIGUSR1, now);
	ck_assert_uint_eq(n.grace_ms, 5000);
	/* a year: what a job without a limit has */
	c.slurm.end_time = now + 365 * 86400;
	n = notice_of_signal(&c, SIGUSR1, now);
	ck_assert_uint_eq(n.grace_ms, STOPPING_NO_LIMIT - 1);
}
END_TEST

START_TEST(the_end_of_the_time_is_due_so_long_before_it)
{
	struct config c = config();

	ck_assert_uint_eq(notice_due_ms(&c, now), 0);
	c.slurm.end_time = now + 100;
	ck_assert_uint_eq(notice_due_ms(&c, now), 70000);
	c.slurm.end_time = now + 20;
	ck_assert_uint_eq(notice_due_ms(&c, now), 1);
	c.slurm.end_time = now - 20;
	ck_assert_uint_eq(notice_due_ms(&c, now), 1);
	c.stop_before_s = 0;
	ck_assert_uint_eq(notice_due_ms(&c, now), 0);
}
END_TEST

START_TEST(who_does_not_ask_is_left_to_slurm_unless_it_was_said)
{
	struct config c = config();
	struct notice n = notice_of_limit(&c, now);

	ck_assert_int_eq(n.level, WIRE_WARNED);
	ck_assert_int_eq(n.cause, WIRE_BY_LIMIT);
	ck_assert_int_eq(n.signal, 0);
	ck_assert_int_eq(n.exit_code, 143);
	c.stop_before_given = 1;
	ck_assert_int_eq(notice_of_limit(&c, now).signal, SIGTERM);
	c.stop_before_given = 0;
	c.requeue = CONFIG_ON_PREEMPT;
	ck_assert_int_eq(notice_of_limit(&c, now).signal, 0);
	c.requeue = CONFIG_ON_TIMEOUT;
	ck_assert_int_eq(notice_of_limit(&c, now).signal, SIGTERM);
}
END_TEST

START_TEST(only_what_says_more_is_news_and_the_first_is_the_cause)
{
	const struct config c = config();
	const struct notice limit = notice_of_limit(&c, now);
	const struct notice warn = notice_of_signal(&c, SIGUSR1, now);
	const struct notice term = notice_of_signal(&c, SIGTERM, now);
	struct notice n = {0};

	ck_assert_int_eq(notice_add(&n, &warn), 1);
	ck_assert_int_eq(notice_add(&n, &limit), 0);
	ck_assert_int_eq(n.cause, WIRE_BY_SIGNAL);
	ck_assert_int_eq(notice_add(&n, &term), 1);
	ck_assert_int_eq(notice_add(&n, &term), 0);
	ck_assert_int_eq(n.signal, SIGTERM);
	ck_assert_uint_eq(n.grace_ms, 30000);
	ck_assert_int_eq(n.exit_code, 138);
	ck_assert(signal_set_has(&n.signals, SIGUSR1));
	ck_assert(signal_set_has(&n.signals, SIGTERM));
}
END_TEST

START_TEST(which_ends_are_what_was_asked_for)
{
	static const struct {
		int number, code, signal, killed, told, obeyed;
	} rows[] = {
		{SIGTERM, 0, 0, 0, 1, 1},
		/* it had finished by itself */
		{SIGTERM, 0, 0, 0, 0, 0},
		{SIGTERM, 143, 0, 0, 1, 1},
		{SIGTERM, 0, SIGTERM, 0, 1, 1},
		/* Slurm told it, and not we */
		{SIGTERM, 0, SIGTERM, 0, 0, 1},
		{SIGTERM, 143, 0, 0, 0, 1},
		{SIGTERM, 1, 0, 0, 1, 0},
		{SIGTERM, 0, SIGSEGV, 0, 1, 0},
		/* ours, and the kernel's */
		{SIGTERM, 0, SIGKILL, 1, 1, 1},
		{SIGTERM, 0, SIGKILL, 0, 1, 0},
		{SIGUSR1, 138, 0, 0, 1, 1},
		{SIGUSR1, 0, SIGUSR1, 0, 1, 1},
		{SIGUSR1, 143, 0, 0, 1, 1},
		{SIGTERM, 138, 0, 0, 1, 0},
		/* Ctrl-C: an interpreter's 1 is no news to who pressed it */
		{SIGINT, 1, 0, 0, 1, 1},
		{SIGINT, 1, 0, 0, 0, 0},
		{SIGINT, 0, SIGABRT, 0, 1, 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct config c = config();
		const struct notice n = notice_of_signal(&c, rows[i].number,
							 now);
		const struct worker w = {.code = rows[i].code,
					 .signal = rows[i].signal,
					 .killed = rows[i].killed};

		ck_assert_msg(notice_is_obeyed(&n, &w, rows[i].told) ==
			      rows[i].obeyed, "row %zu", i);
	}
}
END_TEST

START_TEST(a_death_of_a_signal_that_may_come_to_us_waits_for_it)
{
	const struct config c = config();
	const struct {
		int code, signal, waits;
	} rows[] = {
		{0, SIGTERM, 1}, {143, 0, 1}, {0, SIGUSR1, 1}, {0, 0, 0},
		{1, 0, 0}, {0, SIGKILL, 0}, {0, SIGSEGV, 0}, {255, 0, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct worker w = {.code = rows[i].code,
					 .signal = rows[i].signal};

		ck_assert_msg(notice_may_come(&c, &w) == rows[i].waits,
			      "row %zu", i);
	}
}
END_TEST

START_TEST(what_the_server_passes_on_is_the_same)
{
	const struct wire_stop m = {.level = WIRE_STOPPED, .signal = SIGUSR2,
				    .grace_ms = 7, .cause = WIRE_BY_SIGNAL};
	const struct wire_stop limit = {.level = WIRE_WARNED,
					.cause = WIRE_BY_LIMIT};
	const struct wire_stop bad = {.level = WIRE_STOPPED, .signal = 1000};
	struct notice n = notice_of_wire(&m);

	ck_assert_int_eq(n.level, WIRE_STOPPED);
	ck_assert_uint_eq(n.grace_ms, 7);
	ck_assert_int_eq(n.exit_code, 128 + SIGUSR2);
	ck_assert(signal_set_has(&n.signals, SIGUSR2));
	n = notice_of_wire(&limit);
	ck_assert_int_eq(n.signal, 0);
	ck_assert_int_eq(n.exit_code, 143);
	ck_assert_int_eq(notice_of_wire(&bad).signal, 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("notice");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, a_signal_that_ends_gives_the_shutdown_timeout);
	tcase_add_test(c,
		a_warning_leaves_the_time_to_slurm_or_what_a_requeue_leaves);
	tcase_add_test(c, the_end_of_the_time_is_due_so_long_before_it);
	tcase_add_test(c, who_does_not_ask_is_left_to_slurm_unless_it_was_said);
	tcase_add_test(c,
		only_what_says_more_is_news_and_the_first_is_the_cause);
	tcase_add_test(c, which_ends_are_what_was_asked_for);
	tcase_add_test(c, a_death_of_a_signal_that_may_come_to_us_waits_for_it);
	tcase_add_test(c, what_the_server_passes_on_is_the_same);
	return run_case(c);
}
