/* test_elastic.c: jobs whose nodes come and go, without processes: the last
 * call, spares, regrouping, and the counts. */
#include "tests/unit/rendezvous/round/rounds.h"
#include "tests/unit/run_case.h"

/* Node i joins a job of 2 to 4 nodes. */
static int come(int i)
{
	return join(i, 4, (struct how){.min = 2, .restarts = 3});
}

static void run_with(int n)
{
	for (int i = 0; i < n; i++)
		come(i);
	last_call();
	ck_assert_int_eq(job_state(j), JOB_RUNNING);
}

static struct wire_end end_of(int i)
{
	struct wire_end m;

	ck_assert_int_eq(job_end_for(j, node[i], &m), 1);
	return m;
}

static int is_told(int i)
{
	struct wire_end m;

	return job_end_for(j, node[i], &m);
}

/* ---- the last call ---- */

START_TEST(the_minimum_is_enough_after_the_last_call)
{
	struct how h = {.min = 2, .last_call = 30000};

	join(1, 4, h);
	ck_assert_uint_eq(call_ms, 0);
	h.last_call = 5; /* the first node's counts */
	join(2, 4, h);
	ck_assert_uint_eq(call_ms, 30000);
	join(3, 4, h);
	ck_assert_uint_eq(call_ms, 0);
	ck_assert_int_eq(starts, 0);
	last_call();
	ck_assert_int_eq(starts, 1);
	has_rank(3, 2, 2);
	ck_assert_uint_eq(start_of(1).nnodes, 3);
	last_call();
	ck_assert_int_eq(starts, 0);
}
END_TEST

START_TEST(the_maximum_starts_at_once)
{
	come(0);
	come(1);
	come(2);
	come(3);
	ck_assert_int_eq(starts, 1);
	last_call();
	ck_assert_int_eq(starts + ends, 0);
}
END_TEST

START_TEST(a_last_call_ends_when_too_few_are_left)
{
	struct how h = {.min = 2, .last_call = 30000};

	join(1, 4, h);
	join(2, 4, h);
	lost(2, "its connection closed");
	ck_assert_int_eq(calls_off, 1);
	last_call(); /* the timer had fired already */
	ck_assert_int_eq(starts, 0);
	join(3, 4, h);
	ck_assert_uint_eq(call_ms, 30000);
	leave(1, 2);
	ck_assert_int_eq(calls_off, 1);
	join(4, 4, h);
	ck_assert_uint_eq(call_ms, 30000);
	last_call();
	ck_assert_int_eq(starts, 1);
	has_rank(3, 0, 0);
	has_rank(4, 1, 1);
}
END_TEST

START_TEST(a_fixed_number_has_no_last_call)
{
	join(1, 2, (struct how){.last_call = 5});
	ck_assert_uint_eq(call_ms, 0);
	last_call();
	ck_assert_int_eq(starts, 0);
	join(2, 2, (struct how){.last_call = 5});
	ck_assert_int_eq(starts, 1);
}
END_TEST

START_TEST(a_state_says_whether_the_last_call_is_out)
{
	struct how h = {.min = 2, .last_call = 700};
	struct wire_state m;

	join(1, 4, h);
	job_state_for(j, &m);
	ck_assert_uint_eq(m.last_call_ms, 0);
	join(2, 4, h);
	job_state_for(j, &m);
	ck_assert_uint_eq(m.last_call_ms, 700);
	ck_assert_uint_eq(m.joined, 2);
	ck_assert_uint_eq(m.min_nodes, 2);
	ck_assert_uint_eq(m.max_nodes, 4);
}
END_TEST

/* ---- spares ---- */

START_TEST(a_fifth_node_of_four_is_a_spare)
{
	struct wire_state m;

	for (int i = 0; i < 4; i++)
		join_plain(i, 4);
	ck_assert_int_eq(join_plain(4, 4), 0);
	ck_assert_int_eq(states, 1);
	ck_assert_int_eq(starts + ends, 0);
	ck_assert(is_spare(4) && !is_spare(3));
	ck_assert(job_node_waits(j, node[4]) && !job_node_waits(j, node[3]));
	ck_assert(!job_node_runs(node[4]) && job_node_runs(node[3]));
	job_state_for(j, &m);
	ck_assert_uint_eq(m.spares, 1);
	/* it leaves without effect */
	lost(4, "its connection closed");
	ck_assert_int_eq(starts + ends, 0);
	join_plain(5, 4);
	leave(5, 15);
	ck_assert_int_eq(starts + ends, 0);
	ck_assert_int_eq(job_state(j), JOB_RUNNING);
	/* node 5 is still connected, but cannot take over */
	lost(0, "its connection closed");
	ended(WIRE_FAILURE, 69, "node 0 (h0) was lost: its connection closed");
}
END_TEST

START_TEST(spares_take_over_in_order_of_joining)
{
	for (int i = 0; i < 5; i++)
		join_plain(i, 2);
	lost(0, "its connection closed");
	ended(WIRE_REGROUP, 69, "node 0 (h0) was lost: its connection closed; "
				"h2 takes its place");
	ck_assert_int_eq(job_state(j), JOB_RESTARTING);
	ck_assert(is_told(1) && !is_told(2) && !is_told(3));
	ck_assert(!is_spare(2) && is_spare(3) && is_spare(4));
	ck_assert_str_eq(state_text(), "1 of 2: node 1 (h1)");
	/* another is lost before the next round has begun */
	lost(1, "its connection closed");
	ck_assert_int_eq(ends, 0);
	ck_assert_int_eq(starts, 1);
	ck_assert(!is_spare(3) && is_spare(4));
	has_rank(2, 0, 0);
	has_rank(3, 1, 1);
	ck_assert_uint_eq(start_of(2).changes, 1);
	ck_assert_uint_eq(start_of(2).attempt, 0);
	ck_assert_uint_eq(start_of(2).round, 1);
}
END_TEST

START_TEST(a_spare_of_a_job_of_one_node_starts_at_once)
{
	join(1, 1, (struct how){0});
	join(2, 1, (struct how){0});
	ck_assert(is_spare(2));
	lost(1, "its connection closed");
	ck_assert_int_eq(ends, 1);
	ck_assert_int_eq(starts, 1);
	ck_assert_int_eq(job_state(j), JOB_RUNNING);
	ck_assert_uint_eq(start_of(2).round, 1);
}
END_TEST

START_TEST(a_node_with_a_spare_is_not_alone)
{
	join(1, 1, (struct how){.hosts_server = 1});
	ck_assert_int_eq(job_node_is_alone(j, node[1]), 1);
	join(2, 1, (struct how){0});
	ck_assert_int_eq(job_node_is_alone(j, node[1]), 0);
	lost(2, "its connection closed");
	ck_assert_int_eq(job_node_is_alone(j, node[1]), 1);
}
END_TEST

START_TEST(spares_learn_the_end_and_its_cause)
{
	join_plain(1, 1);
	join_plain(2, 1);
	exited(1, 0, 7, 0);
	ck_assert_int_eq(job_state(j), JOB_OVER);
	ck_assert_int_eq(end_of(2).verdict, WIRE_FAILURE);
	ck_assert_int_eq(end_of(2).exit_code, 7);
	ck_assert(!job_node_waits(j, node[2]));
}
END_TEST

START_TEST(spares_are_not_notified_of_a_restart)
{
	struct how h = {.restarts = 1};

	join(1, 1, h);
	join(2, 1, h);
	exited(1, 0, 7, 0);
	ck_assert_int_eq(job_end(j)->verdict, WIRE_RESTART);
	ck_assert(is_told(1) && !is_told(2) && is_spare(2));
	join(1, 1, h);
	ck_assert_int_eq(starts, 1);
	ck_assert(is_spare(2));
	has_rank(1, 0, 0);
}
END_TEST

START_TEST(a_spare_cannot_ask_for_a_rank_that_is_taken)
{
	join_plain(1, 2);
	join_plain(2, 2);
	ck_assert_int_eq(join(3, 2, (struct how){.rank = 1 + 1}), ERR_REFUSED);
	ck_assert_str_eq(e.text,
			 "--node-rank 1 of job 'none' at h0:29400 is taken by "
			 "h2: give h3 another, or leave --node-rank out");
}
END_TEST

START_TEST(a_spare_that_fails_or_exits_affects_no_node)
{
	struct wire_failed m = {0, 3, SLICE_STR("no")};

	join_plain(1, 1);
	join_plain(2, 1);
	ck_assert_int_eq(exited(2, 0, 1, 0), ERR_PROTOCOL);
	job_failed(j, node[2], &m);
	drain();
	ck_assert_int_eq(ends + starts, 0);
	ck_assert_int_eq(job_state(j), JOB_RUNNING);
}
END_TEST

/* ---- nodes that come ---- */

START_TEST(a_node_that_joins_a_running_job_ends_its_round)
{
	run_with(2);
	ck_assert_int_eq(come(3), 0);
	ended(WIRE_REGROUP, 0, "h3 joined");
	ck_assert(is_told(0) && is_told(1) && !is_told(3));
	ck_assert_int_eq(states, 1);
	ck_assert_str_eq(state_text(), "1 of 4: node 0 (h0), node 1 (h1)");
	come(0);
	/* another comes meanwhile, and ends nothing */
	come(4);
	ck_assert_int_eq(ends + starts, 0);
	/* a surplus node is a spare */
	come(5);
	ck_assert(is_spare(5));
	come(1);
	ck_assert_int_eq(starts, 1);
	has_rank(0, 0, 0);
	has_rank(1, 1, 1);
	has_rank(3, 2, 2);
	has_rank(4, 3, 3);
	ck_assert_uint_eq(start_of(4).changes, 1);
	ck_assert_uint_eq(start_of(4).attempt, 0);
	ck_assert_uint_eq(start_of(4).nnodes, 4);
	ck_assert_uint_eq(job_end(j)->restarts_left, 3);
}
END_TEST

START_TEST(a_node_that_joins_after_workers_finished_waits)
{
	run_with(2);
	exited(0, 0, 0, 0);
	come(3);
	ck_assert_int_eq(ends, 0);
	ck_assert(is_spare(3));
	exited(1, 1, 0, 0);
	ended(WIRE_SUCCESS, 0, "all 2 workers exited with code 0");
	ck_assert(is_told(3));
}
END_TEST

START_TEST(a_waiting_node_is_in_the_next_round_if_any)
{
	run_with(2);
	exited(0, 0, 0, 0);
	come(3);
	exited(1, 1, 4, 0);
	ck_assert_int_eq(job_end(j)->verdict, WIRE_RESTART);
	ck_assert(!is_spare(3) && !is_told(3));
	come(0);
	come(1);
	ck_assert_int_eq(starts, 1);
	ck_assert_uint_eq(start_of(3).nnodes, 3);
	ck_assert_uint_eq(start_of(3).attempt, 1);
	ck_assert_uint_eq(start_of(3).changes, 0);
}
END_TEST

/* ---- nodes that leave ---- */

START_TEST(a_job_that_may_shrink_continues)
{
	run_with(4);
	lost(1, "its connection closed");
	ended(WIRE_REGROUP, 69, "node 1 (h1) was lost: its connection closed");
	come(0);
	come(3);
	ck_assert_int_eq(starts, 0);
	come(2);
	ck_assert_int_eq(starts, 1);
	has_rank(0, 0, 0);
	has_rank(3, 1, 1);
	has_rank(2, 2, 2);
	ck_assert_uint_eq(start_of(0).changes, 1);
}
END_TEST

START_TEST(too_few_nodes_wait_for_more)
{
	run_with(2);
	lost(1, "its connection closed");
	ck_assert_int_eq(job_end(j)->verdict, WIRE_REGROUP);
	come(0);
	ck_assert_int_eq(starts, 0);
	ck_assert_str_eq(state_text(), "1 of 4: 1 more");
	come(5);
	ck_assert_int_eq(starts, 1);
	has_rank(0, 0, 0);
	has_rank(5, 1, 1);
}
END_TEST

START_TEST(a_stopping_node_leaves_alone_if_enough_remain)
{
	run_with(3);
	leave(1, 15);
	ended(WIRE_REGROUP, 143, "node 1 (h1) received SIGTERM");
	ck_assert_int_eq(end_of(0).verdict, WIRE_REGROUP);
	ck_assert_int_eq(end_of(1).verdict, WIRE_ENDED);
	ck_assert_int_eq(end_of(1).exit_code, 143);
	/* the ends of its workers, and its own, change nothing */
	exited(1, 1, 0, 15);
	lost(1, "its connection closed");
	ck_assert_int_eq(ends + starts, 0);
	come(0);
	come(2);
	ck_assert_int_eq(starts, 1);
	has_rank(2, 1, 1);
}
END_TEST

START_TEST(a_stopping_node_ends_a_job_that_cannot_continue)
{
	run_with(2);
	leave(1, 15);
	ended(WIRE_ENDED, 143, "node 1 (h1) received SIGTERM");
}
END_TEST

START_TEST(a_spare_does_not_keep_a_fixed_job_from_being_stopped)
{
	for (int i = 0; i < 3; i++)
		join_plain(i, 2);
	leave(1, 2);
	ended(WIRE_ENDED, 130, "node 1 (h1) received SIGINT");
}
END_TEST

START_TEST(a_node_that_leaves_during_a_regroup_is_no_failure)
{
	run_with(4);
	lost(0, "its connection closed");
	come(1);
	leave(2, 2);
	ck_assert_int_eq(ends + starts, 0);
	lost(2, "its connection closed");
	ck_assert_int_eq(ends + starts, 0);
	come(3);
	ck_assert_int_eq(starts, 1);
	/* the last missing node leaves: the others start */
	come(5);
	come(1);
	lost(3, "its connection closed");
	ck_assert_int_eq(ends, 0);
	ck_assert_int_eq(starts, 1);
	ck_assert_uint_eq(start_of(5).nnodes, 2);
	ck_assert_uint_eq(start_of(5).round, 2);
	ck_assert_uint_eq(start_of(5).changes, 2);
	leave(5, 2);
	ended(WIRE_ENDED, 130, "node 0 (h5) received SIGINT");
}
END_TEST

START_TEST(a_job_cannot_continue_without_its_servers_node)
{
	struct how h = {.min = 1, .hosts_server = 1};

	join(0, 3, h);
	h.hosts_server = 0;
	join(1, 3, h);
	join(2, 3, h);
	lost(0, "its connection closed");
	ended(WIRE_FAILURE, 69, "node 0 (h0) was lost: its connection closed");
}
END_TEST

START_TEST(a_restart_while_nodes_come_and_go_counts_each_once)
{
	run_with(4);
	exited(2, 2, 9, 0);
	ck_assert_int_eq(job_end(j)->verdict, WIRE_RESTART);
	ck_assert_uint_eq(job_end(j)->restarts_left, 2);
	exited(1, 1, 9, 0);
	lost(1, "its connection closed");
	ck_assert_int_eq(ends, 0);
	come(5);
	come(0);
	come(2);
	ck_assert_int_eq(starts, 0);
	come(3);
	ck_assert_int_eq(starts, 1);
	ck_assert_uint_eq(start_of(0).attempt, 1);
	ck_assert_uint_eq(start_of(0).changes, 0);
	ck_assert_uint_eq(start_of(0).round, 1);
	/* a worker of an old round learns how that round ended */
	ck_assert_int_eq(job_check_round(j, 0, &e), ERR_ABORTED);
	ck_assert_ptr_nonnull(strstr(e.text, "exited with code 9"));
}
END_TEST

START_TEST(a_leaving_node_reduces_the_count_of_workers)
{
	struct how h = {.min = 1, .nproc = 65536};

	join(0, 3, h);
	join(1, 3, h);
	h.nproc = 1;
	ck_assert_int_eq(join(2, 3, h), ERR_REFUSED);
	last_call();
	lost(1, "its connection closed");
	ck_assert_int_eq(join(0, 3, (struct how){.min = 1, .nproc = 65536}),
			 0);
	ck_assert_int_eq(starts, 1);
	ck_assert_int_eq(join(2, 3, h), 0);
	ck_assert_int_eq(ends, 1);
	ck_assert_int_eq(join(0, 3, (struct how){.min = 1, .nproc = 65536}),
			 0);
	ck_assert_uint_eq(job_world_size(j), 65537);
}
END_TEST

static void add_all(TCase *c)
{
	tcase_add_test(c, the_minimum_is_enough_after_the_last_call);
	tcase_add_test(c, the_maximum_starts_at_once);
	tcase_add_test(c, a_last_call_ends_when_too_few_are_left);
	tcase_add_test(c, a_fixed_number_has_no_last_call);
	tcase_add_test(c, a_state_says_whether_the_last_call_is_out);
	tcase_add_test(c, a_fifth_node_of_four_is_a_spare);
	tcase_add_test(c, spares_take_over_in_order_of_joining);
	tcase_add_test(c, a_spare_of_a_job_of_one_node_starts_at_once);
	tcase_add_test(c, a_node_with_a_spare_is_not_alone);
	tcase_add_test(c, spares_learn_the_end_and_its_cause);
	tcase_add_test(c, spares_are_not_notified_of_a_restart);
	tcase_add_test(c, a_spare_cannot_ask_for_a_rank_that_is_taken);
	tcase_add_test(c, a_spare_that_fails_or_exits_affects_no_node);
	tcase_add_test(c, a_node_that_joins_a_running_job_ends_its_round);
	tcase_add_test(c, a_node_that_joins_after_workers_finished_waits);
	tcase_add_test(
		c,
		a_waiting_node_is_in_the_next_round_if_any);
	tcase_add_test(c, a_job_that_may_shrink_continues);
	tcase_add_test(c, too_few_nodes_wait_for_more);
	tcase_add_test(
		c,
		a_stopping_node_leaves_alone_if_enough_remain);
	tcase_add_test(c, a_stopping_node_ends_a_job_that_cannot_continue);
	tcase_add_test(c,
		       a_spare_does_not_keep_a_fixed_job_from_being_stopped);
	tcase_add_test(c, a_node_that_leaves_during_a_regroup_is_no_failure);
	tcase_add_test(c, a_job_cannot_continue_without_its_servers_node);
	tcase_add_test(c, a_restart_while_nodes_come_and_go_counts_each_once);
	tcase_add_test(c, a_leaving_node_reduces_the_count_of_workers);
}

int main(void)
{
	TCase *c = tcase_create("elastic");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, begin, end);
	add_all(c);
	return run_case(c);
}
