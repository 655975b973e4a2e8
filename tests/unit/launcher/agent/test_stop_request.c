/* test_stop_request.c: requests from signals and time limits, grace periods,
 * and which ways for a worker to end comply. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "launcher/agent/stop_request.h"
#include "launcher/agent/worker_shutdown.h"
#include "tests/unit/run_case.h"

static const uint64_t now = 1800000000;

static struct signal_set set(int number)
{
	return (struct signal_set){UINT64_C(1) << (number - 1)};
}

static struct stop_options options(void)
{
	struct stop_options o = {.shutdown_timeout_s = 30, .stop_before_s = 30};

	o.ending = set(SIGTERM);
	o.warning = set(SIGUSR1);
	return o;
}

START_TEST(a_stop_signal_grants_the_shutdown_timeout)
{
	const struct stop_options o = options();
	struct stop_request n = stop_request_of_signal(&o, SIGTERM, now);

	ck_assert_int_eq(n.level, WIRE_STOPPED);
	ck_assert_int_eq(n.signal, SIGTERM);
	ck_assert_uint_eq(n.grace_ms, 30000);
	ck_assert_int_eq(n.exit_code, 143);
}
END_TEST

START_TEST(a_warning_grants_the_time_until_slurms_limit_or_the_requeue)
{
	struct stop_options o = options();
	struct stop_request n = stop_request_of_signal(&o, SIGUSR1, now);

	ck_assert_int_eq(n.level, WIRE_WARNED);
	ck_assert_int_eq(n.exit_code, 138);
	ck_assert_uint_eq(n.grace_ms, SHUTDOWN_NO_LIMIT);
	o.end_time = now + 120;
	n = stop_request_of_signal(&o, SIGUSR1, now);
	ck_assert_uint_eq(n.grace_ms, SHUTDOWN_NO_LIMIT);
	o.requeues = 1;
	n = stop_request_of_signal(&o, SIGUSR1, now);
	ck_assert_uint_eq(n.grace_ms, 115000);
	/* the warning came late */
	o.end_time = now + 3;
	n = stop_request_of_signal(&o, SIGUSR1, now);
	ck_assert_uint_eq(n.grace_ms, 5000);
	o.end_time = now - 3;
	n = stop_request_of_signal(&o, SIGUSR1, now);
	ck_assert_uint_eq(n.grace_ms, 5000);
	/* Slurm gives a job without a limit one year */
	o.end_time = now + 365 * 86400;
	n = stop_request_of_signal(&o, SIGUSR1, now);
	ck_assert_uint_eq(n.grace_ms, SHUTDOWN_NO_LIMIT - 1);
}
END_TEST

START_TEST(the_time_limit_is_due_some_seconds_before_it)
{
	struct stop_options o = options();

	ck_assert_uint_eq(stop_request_due_ms(&o, now), 0);
	o.end_time = now + 100;
	ck_assert_uint_eq(stop_request_due_ms(&o, now), 70000);
	o.end_time = now + 20;
	ck_assert_uint_eq(stop_request_due_ms(&o, now), 1);
	o.end_time = now - 20;
	ck_assert_uint_eq(stop_request_due_ms(&o, now), 1);
	o.stop_before_s = 0;
	ck_assert_uint_eq(stop_request_due_ms(&o, now), 0);
}
END_TEST

START_TEST(workers_that_do_not_poll_are_left_to_slurm_by_default)
{
	struct stop_options o = options();
	struct stop_request n = stop_request_of_limit(&o, now);

	ck_assert_int_eq(n.level, WIRE_WARNED);
	ck_assert_int_eq(n.cause, WIRE_BY_LIMIT);
	ck_assert_int_eq(n.signal, 0);
	ck_assert_int_eq(n.exit_code, 143);
	o.stop_before_given = 1;
	ck_assert_int_eq(stop_request_of_limit(&o, now).signal, SIGTERM);
	o.stop_before_given = 0;
	o.requeues = 1;
	ck_assert_int_eq(stop_request_of_limit(&o, now).signal, SIGTERM);
}
END_TEST

START_TEST(only_a_stronger_request_counts_and_the_first_is_the_cause)
{
	const struct stop_options o = options();
	const struct stop_request limit = stop_request_of_limit(&o, now);
	const struct stop_request warn =
		stop_request_of_signal(&o, SIGUSR1, now);
	const struct stop_request term =
		stop_request_of_signal(&o, SIGTERM, now);
	struct stop_request n = {0};

	ck_assert_int_eq(stop_request_merge(&n, &warn), 1);
	ck_assert_int_eq(stop_request_merge(&n, &limit), 0);
	ck_assert_int_eq(n.cause, WIRE_BY_SIGNAL);
	ck_assert_int_eq(stop_request_merge(&n, &term), 1);
	ck_assert_int_eq(stop_request_merge(&n, &term), 0);
	ck_assert_int_eq(n.signal, SIGTERM);
	ck_assert_uint_eq(n.grace_ms, 30000);
	ck_assert_int_eq(n.exit_code, 138);
	ck_assert(signal_set_has(&n.signals, SIGUSR1));
	ck_assert(signal_set_has(&n.signals, SIGTERM));
}
END_TEST

START_TEST(which_ways_to_end_comply)
{
	static const struct {
		int number, code, signal, killed, notified, obeyed;
	} rows[] = {
		{SIGTERM, 0, 0, 0, 1, 1},
		/* it had finished before it was notified */
		{SIGTERM, 0, 0, 0, 0, 0},
		{SIGTERM, 143, 0, 0, 1, 1},
		{SIGTERM, 0, SIGTERM, 0, 1, 1},
		/* Slurm notified it, not we */
		{SIGTERM, 0, SIGTERM, 0, 0, 1},
		{SIGTERM, 143, 0, 0, 0, 1},
		{SIGTERM, 1, 0, 0, 1, 0},
		{SIGTERM, 0, SIGSEGV, 0, 1, 0},
		/* our SIGKILL, then the kernel's */
		{SIGTERM, 0, SIGKILL, 1, 1, 1},
		{SIGTERM, 0, SIGKILL, 0, 1, 0},
		{SIGUSR1, 138, 0, 0, 1, 1},
		{SIGUSR1, 0, SIGUSR1, 0, 1, 1},
		{SIGUSR1, 143, 0, 0, 1, 1},
		{SIGTERM, 138, 0, 0, 1, 0},
		/* Ctrl-C: an interpreter that exits with 1 has not failed */
		{SIGINT, 1, 0, 0, 1, 1},
		{SIGINT, 1, 0, 0, 0, 0},
		{SIGINT, 0, SIGABRT, 0, 1, 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct stop_options o = options();
		const struct stop_request n =
			stop_request_of_signal(&o, rows[i].number, now);
		const struct worker w = {.code = rows[i].code,
					 .signal = rows[i].signal,
					 .killed = rows[i].killed};

		ck_assert_msg(
			stop_request_is_obeyed(&n, &w, rows[i].notified) ==
				rows[i].obeyed,
			"row %zu", i);
	}
}
END_TEST

START_TEST(a_death_by_a_signal_that_may_reach_us_is_held)
{
	const struct stop_options o = options();
	const struct {
		int code, signal, waits;
	} rows[] = {
		{0, SIGTERM, 1}, {143, 0, 1}, {0, SIGUSR1, 1}, {0, 0, 0},
		{1, 0, 0}, {0, SIGKILL, 0}, {0, SIGSEGV, 0}, {255, 0, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct worker w = {.code = rows[i].code,
					 .signal = rows[i].signal};

		ck_assert_msg(stop_request_may_follow(&o, &w) == rows[i].waits,
			      "row %zu", i);
	}
}
END_TEST

START_TEST(a_request_from_the_server_is_the_same)
{
	const struct wire_stop m = {.level = WIRE_STOPPED, .signal = SIGUSR2,
				    .grace_ms = 7, .cause = WIRE_BY_SIGNAL};
	const struct wire_stop limit = {.level = WIRE_WARNED,
					.cause = WIRE_BY_LIMIT};
	const struct wire_stop bad = {.level = WIRE_STOPPED, .signal = 1000};
	struct stop_request n = stop_request_of_wire(&m);

	ck_assert_int_eq(n.level, WIRE_STOPPED);
	ck_assert_uint_eq(n.grace_ms, 7);
	ck_assert_int_eq(n.exit_code, 128 + SIGUSR2);
	ck_assert(signal_set_has(&n.signals, SIGUSR2));
	n = stop_request_of_wire(&limit);
	ck_assert_int_eq(n.signal, 0);
	ck_assert_int_eq(n.exit_code, 143);
	ck_assert_int_eq(stop_request_of_wire(&bad).signal, 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("stop_request");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, a_stop_signal_grants_the_shutdown_timeout);
	tcase_add_test(c,
		a_warning_grants_the_time_until_slurms_limit_or_the_requeue);
	tcase_add_test(c, the_time_limit_is_due_some_seconds_before_it);
	tcase_add_test(c,
		       workers_that_do_not_poll_are_left_to_slurm_by_default);
	tcase_add_test(c,
		only_a_stronger_request_counts_and_the_first_is_the_cause);
	tcase_add_test(c, which_ways_to_end_comply);
	tcase_add_test(c, a_death_by_a_signal_that_may_reach_us_is_held);
	tcase_add_test(c, a_request_from_the_server_is_the_same);
	return run_case(c);
}
