/* test_job_stop.c: a job that is asked to stop: which nodes are notified, what
 * its workers' exits mean then, and what it no longer does. */
#include "tests/unit/rendezvous/round/rounds.h"
#include "tests/unit/run_case.h"

enum { TERM = 15, KILL = 9, USR1 = 10 };

static int stops; /* STOPs since the last event */

static void say(int i, struct wire_stop m)
{
	const struct job_action *a;

	if (!m.text.len)
		m.text = SLICE_STR("the time is over");
	job_request_stop(j, node[i], &m);
	stops = ends = starts = 0;
	while ((a = job_next_action(j))) {
		stops += a->kind == JOB_TELL_STOP;
		ends += a->kind == JOB_TELL_END;
		starts += a->kind == JOB_TELL_START;
	}
}

static void told(int i, int level, int signal)
{
	say(i, (struct wire_stop){.level = (uint8_t)level, .whole = 1,
				  .signal = signal, .grace_ms = 30000});
}

/* A worker that was asked to stop ends like this. */
static void stopped(int i, uint32_t rank, int code, int signal)
{
	struct wire_exited m = {.round = job_round(j), .rank = rank,
				.code = code, .signal = signal, .stopped = 1};

	ck_assert_int_eq(job_exited(j, node[i], &m, &e), 0);
	drain();
}

static void two_nodes(void)
{
	join(1, 2, (struct how){.hosts_server = 1, .restarts = 3});
	join(2, 2, (struct how){.restarts = 3});
	ck_assert_int_eq(job_state(j), JOB_RUNNING);
}

START_TEST(all_get_each_level_once)
{
	struct wire_stop m;

	two_nodes();
	told(2, WIRE_WARNED, USR1);
	ck_assert_int_eq(stops, 1);
	ck_assert_int_eq(job_stop_for(j, node[1], &m), 1);
	ck_assert_int_eq(m.level, WIRE_WARNED);
	ck_assert_int_eq(m.signal, USR1);
	ck_assert_uint_eq(m.grace_ms, 30000);
	ck_assert_int_eq(memcmp(m.text.data, "node 1 (h2) received "
				"SIGUSR1", m.text.len), 0);
	/* Slurm notified all nodes: the same again */
	told(1, WIRE_WARNED, USR1);
	ck_assert_int_eq(stops, 0);
	told(1, WIRE_STOPPED, TERM);
	ck_assert_int_eq(stops, 1);
	told(2, WIRE_STOPPED, TERM);
	ck_assert_int_eq(stops, 0);
	told(2, WIRE_CUT, KILL);
	ck_assert_int_eq(stops, 1);
	ck_assert_int_eq(job_state(j), JOB_RUNNING);
	/* the first request determines its end */
	stopped(1, 0, 0, KILL);
	ck_assert_int_eq(ends, 0);
	stopped(2, 1, 0, KILL);
	ended(WIRE_ENDED, 138, "node 1 (h2) received SIGUSR1");
	ck_assert_int_eq(job_state(j), JOB_OVER);
}
END_TEST

START_TEST(exits_on_request_are_not_failures)
{
	two_nodes();
	told(1, WIRE_STOPPED, TERM);
	stopped(1, 0, 143, 0);
	stopped(2, 1, 0, 0);
	ended(WIRE_ENDED, 143, "node 0 (h1) received SIGTERM");
}
END_TEST

START_TEST(the_time_limit_gives_143_and_its_own_text)
{
	two_nodes();
	say(1, (struct wire_stop){.level = WIRE_WARNED, .whole = 1,
				  .cause = WIRE_BY_LIMIT});
	stopped(1, 0, 0, 0);
	stopped(2, 1, 143, 0);
	ended(WIRE_ENDED, 143, "the time is over");
}
END_TEST

START_TEST(a_worker_that_finished_before_the_stop_succeeded)
{
	two_nodes();
	told(1, WIRE_STOPPED, TERM);
	exited(1, 0, 0, 0);
	exited(2, 1, 0, 0);
	ended(WIRE_SUCCESS, 0, "all 2 workers exited with code 0");
}
END_TEST

START_TEST(a_crash_is_a_failure_and_not_restarted)
{
	two_nodes();
	told(1, WIRE_STOPPED, TERM);
	stopped(1, 0, 143, 0);
	exited(2, 1, 0, 11);
	ended(WIRE_FAILURE, 139, "rank 1 (local rank 1) on h2, pid 4711, was "
				 "killed by signal 11 (SIGSEGV)");
	ck_assert_int_eq(job_state(j), JOB_OVER);
}
END_TEST

START_TEST(a_failure_after_a_killed_peer_is_its_victim)
{
	two_nodes();
	told(1, WIRE_STOPPED, TERM);
	stopped(2, 1, 0, TERM);
	exited(1, 0, 1, 0);
	ended(WIRE_ENDED, 143, "node 0 (h1) received SIGTERM");
}
END_TEST

START_TEST(an_elastic_node_leaves_alone_unless_all_must)
{
	join(1, 3, (struct how){.min = 1, .hosts_server = 1});
	join(2, 3, (struct how){.min = 1});
	last_call();
	ck_assert_int_eq(job_state(j), JOB_RUNNING);
	say(2, (struct wire_stop){.level = WIRE_STOPPED, .signal = TERM});
	ck_assert_int_eq(stops, 0);
	ended(WIRE_REGROUP, 143, "node 1 (h2) received SIGTERM");
	lost(2, "its connection closed");
	join(1, 3, (struct how){.min = 1, .hosts_server = 1});
	ck_assert_int_eq(job_state(j), JOB_RUNNING);
	/* without the server's node no other continues */
	say(1, (struct wire_stop){.level = WIRE_STOPPED, .signal = TERM});
	ck_assert_int_eq(stops, 1);
}
END_TEST

START_TEST(a_node_whose_ssh_ended_left_for_that_and_for_no_signal)
{
	const struct slice why = SLICE_STR("the ssh that started it has ended");

	two_nodes();
	say(2, (struct wire_stop){.level = WIRE_STOPPED, .signal = TERM,
				  .whole = 1, .cause = WIRE_BY_SSH,
				  .text = why});
	stopped(2, 1, 0, TERM);
	stopped(1, 0, 0, TERM);
	ended(WIRE_ENDED, 143,
	      "node 1 (h2) left: the ssh that started it has ended");
}
END_TEST

START_TEST(a_node_whose_ssh_ended_leaves_an_elastic_job)
{
	const struct slice why = SLICE_STR("the ssh that started it has ended");

	join(1, 3, (struct how){.min = 1, .hosts_server = 1});
	join(2, 3, (struct how){.min = 1});
	last_call();
	say(2, (struct wire_stop){.level = WIRE_STOPPED, .signal = TERM,
				  .cause = WIRE_BY_SSH, .text = why});
	ended(WIRE_REGROUP, 69,
	      "node 1 (h2) left: the ssh that started it has ended");
}
END_TEST

START_TEST(a_spare_takes_the_place_of_a_node_whose_ssh_ended)
{
	const struct slice why = SLICE_STR("the ssh that started it has ended");

	two_nodes();
	join(3, 2, (struct how){.restarts = 3});
	ck_assert(is_spare(3));
	say(2, (struct wire_stop){.level = WIRE_STOPPED, .signal = TERM,
				  .cause = WIRE_BY_SSH, .text = why});
	ended(WIRE_REGROUP, 69,
	      "node 1 (h2) left: the ssh that started it has ended");
	ck_assert(!is_spare(3));
}
END_TEST

START_TEST(a_signal_to_one_node_with_a_spare_is_for_the_job)
{
	two_nodes();
	join(3, 2, (struct how){.restarts = 3});
	say(2, (struct wire_stop){.level = WIRE_STOPPED, .signal = TERM});
	ck_assert_int_eq(stops, 1);
	ck_assert(is_spare(3));
}
END_TEST

START_TEST(spares_get_and_send_stops_and_take_no_place)
{
	struct wire_stop m;

	two_nodes();
	join(3, 2, (struct how){.restarts = 3});
	ck_assert(is_spare(3));
	told(3, WIRE_STOPPED, TERM);
	ck_assert_int_eq(stops, 1);
	ck_assert_int_eq(job_stop_for(j, node[3], &m), 1);
	lost(2, "its connection closed");
	ended(WIRE_FAILURE, 69, "node 1 (h2) was lost: its connection closed");
}
END_TEST

START_TEST(once_it_is_cut_short_a_lost_node_is_its_end)
{
	two_nodes();
	told(1, WIRE_STOPPED, TERM);
	told(1, WIRE_CUT, KILL);
	lost(2, "its connection closed");
	ended(WIRE_ENDED, 143, "node 0 (h1) received SIGTERM");
}
END_TEST

START_TEST(a_node_that_joins_during_a_stop_is_a_spare)
{
	join(1, 3, (struct how){.min = 1, .hosts_server = 1});
	last_call();
	told(1, WIRE_STOPPED, TERM);
	join(2, 3, (struct how){.min = 1});
	ck_assert_int_eq(ends, 0);
	ck_assert(is_spare(2));
	stopped(1, 0, 143, 0);
	ck_assert_int_eq(job_state(j), JOB_OVER);
}
END_TEST

START_TEST(a_stop_between_two_rounds_ends_the_job)
{
	two_nodes();
	exited(1, 0, 7, 0);
	ck_assert_int_eq(job_state(j), JOB_RESTARTING);
	told(2, WIRE_STOPPED, TERM);
	ended(WIRE_ENDED, 143, "node 1 (h2) received SIGTERM");
	told(1, WIRE_STOPPED, TERM);
	ck_assert_int_eq(ends + stops, 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("told");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, all_get_each_level_once);
	tcase_add_test(c, exits_on_request_are_not_failures);
	tcase_add_test(c, the_time_limit_gives_143_and_its_own_text);
	tcase_add_test(c, a_worker_that_finished_before_the_stop_succeeded);
	tcase_add_test(c, a_crash_is_a_failure_and_not_restarted);
	tcase_add_test(c,
		a_failure_after_a_killed_peer_is_its_victim);
	tcase_add_test(c,
		an_elastic_node_leaves_alone_unless_all_must);
	tcase_add_test(c,
		a_node_whose_ssh_ended_left_for_that_and_for_no_signal);
	tcase_add_test(c,
		a_node_whose_ssh_ended_leaves_an_elastic_job);
	tcase_add_test(c,
		a_spare_takes_the_place_of_a_node_whose_ssh_ended);
	tcase_add_test(c,
		a_signal_to_one_node_with_a_spare_is_for_the_job);
	tcase_add_test(c,
		spares_get_and_send_stops_and_take_no_place);
	tcase_add_test(c, once_it_is_cut_short_a_lost_node_is_its_end);
	tcase_add_test(c, a_node_that_joins_during_a_stop_is_a_spare);
	tcase_add_test(c, a_stop_between_two_rounds_ends_the_job);
	return run_case(c);
}
