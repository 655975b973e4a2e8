/* test_job.c: rounds without processes: how each kind of end is reported, what
 * a restart keeps, and when fates are answered. */
#include "tests/unit/rendezvous/round/rounds.h"
#include "tests/unit/run_case.h"

/* ---- ends ---- */

START_TEST(a_query_lists_each_node_by_rank_and_host)
{
	join(1, 2, (struct how){.rank = 2});
	ck_assert_int_eq(job_node_rank(node[1]), -1);
	join(2, 2, (struct how){.rank = 1, .host = "n07"});
	ck_assert_int_eq(job_node_rank(node[1]), 1);
	ck_assert_int_eq(job_node_rank(node[2]), 0);
	ck_assert_str_eq(job_node_host(node[1]), "h1");
	ck_assert_str_eq(job_node_host(node[2]), "n07");
}
END_TEST

START_TEST(success_when_all_have_exited_with_0)
{
	join(1, 2, (struct how){.nproc = 2});
	join(2, 2, (struct how){.nproc = 1});
	ck_assert_int_eq(exited(1, 0, 0, 0), 0);
	ck_assert_str_eq(left_text, "rank 0 (local rank 0) on h1, pid 4711, "
				    "exited with code 0");
	ck_assert_int_eq(exited(2, 2, 0, 0), 0);
	ck_assert_int_eq(ends, 0);
	ck_assert_int_eq(exited(1, 1, 0, 0), 0);
	ended(WIRE_SUCCESS, 0, "all 3 workers exited with code 0");
	ck_assert_int_eq(job_end(j)->rank, -1);
	ck_assert_int_eq(job_state(j), JOB_OVER);
	lost(1, "its connection closed");
	ck_assert_int_eq(ends, 0);
	lost(2, "its connection closed");
	ck_assert(job_is_empty(j));
}
END_TEST

START_TEST(the_first_failure_ends_the_job_with_all_details)
{
	const struct wire_end *m;

	join(1, 2, (struct how){.nproc = 2});
	join(2, 2, (struct how){.nproc = 2});
	ck_assert_int_eq(exited(2, 3, 3, 0), 0);
	m = job_end(j);
	ended(WIRE_FAILURE, 3, "rank 3 (local rank 1) on h2, pid 4711, exited "
			       "with code 3");
	ck_assert_int_eq(m->rank, 3);
	ck_assert_uint_eq(m->local_rank, 1);
	ck_assert_uint_eq(m->node_rank, 1);
	ck_assert_int_eq(m->pid, 4711);
	ck_assert_int_eq(m->code, 3);
	ck_assert_uint_eq(m->ran_ms, 5);
	ck_assert_uint_eq(m->restarts_left, 0);
	ck_assert(m->host.len == 2 && !memcmp(m->host.data, "h2", 2));
	ck_assert(m->tail.len == 10 && !memcmp(m->tail.data, "last words", 10));
	/* its victims change nothing, and their nodes may leave */
	exited(1, 0, 0, 6);
	ck_assert_int_eq(ends, 0);
	lost(2, "its connection closed");
	ck_assert_int_eq(ends, 0);
	m = job_end(j);
	ck_assert(m->host.len == 2 && !memcmp(m->host.data, "h2", 2));
}
END_TEST

START_TEST(a_workers_known_details_are_reported)
{
	const struct wire_end *m;
	struct wire_exited x = {
		.rank = 1, .local_rank = 1, .pid = 12, .signal = 9,
		.core = 1, .max_rss_kib = 1 << 20,
		.why = SLICE_STR("the kernel's OOM killer\nsecond line"),
		.error = SLICE_STR("{\"message\": 1}"),
		.log = SLICE_STR("/tmp/1/stderr.log")};

	join(1, 1, (struct how){.nproc = 2});
	ck_assert_int_eq(job_exited(j, node[1], &x, &e), 0);
	drain();
	ended(WIRE_FAILURE, 137, "rank 1 (local rank 1) on h1, pid 12, was "
				 "killed by signal 9 (SIGKILL): the kernel's "
				 "OOM killer");
	m = job_end(j);
	ck_assert_uint_eq(m->core, 1);
	ck_assert_uint_eq(m->max_rss_kib, 1 << 20);
	ck_assert(m->why.len == 35 && !memcmp(m->why.data, x.why.data, 35));
	ck_assert(m->error.len == 14 && !memcmp(m->error.data, "{\"mess", 6));
	ck_assert(m->log.len == 17 && !memcmp(m->log.data, "/tmp/1", 6));
	ck_assert_uint_eq(m->tail.len, 0);
}
END_TEST

START_TEST(signals_are_named_and_give_128_and_their_number)
{
	join(1, 1, (struct how){.nproc = 4});
	exited(1, 2, 0, 9);
	ended(WIRE_FAILURE, 137, "rank 2 (local rank 0) on h1, pid 4711, was "
				 "killed by signal 9 (SIGKILL)");
	ck_assert_int_eq(job_end(j)->signal, 9);
}
END_TEST

START_TEST(a_stopped_worker_is_no_cause)
{
	struct wire_exited m = {.rank = 0, .signal = 15, .stopped = 1};

	join(1, 1, (struct how){.nproc = 2});
	ck_assert_int_eq(job_exited(j, node[1], &m, &e), 0);
	drain();
	ck_assert_int_eq(ends, 0);
	exited(1, 1, 4, 0);
	ended(WIRE_FAILURE, 4, "rank 1 (local rank 1) on h1, pid 4711, exited "
			       "with code 4");
}
END_TEST

START_TEST(impossible_exits_are_protocol_errors)
{
	join(1, 2, (struct how){.nproc = 2});
	join(2, 2, (struct how){.nproc = 2});
	ck_assert_int_eq(exited(1, 2, 0, 0), ERR_PROTOCOL);
	ck_assert_int_eq(exited(2, 4, 0, 0), ERR_PROTOCOL);
	ck_assert_int_eq(exited(2, UINT32_MAX, 0, 0), ERR_PROTOCOL);
	ck_assert_int_eq(exited(2, 2, 0, 0), 0);
	ck_assert_int_eq(exited(2, 2, 0, 0), ERR_PROTOCOL);
	ck_assert_int_eq(ends, 0);
}
END_TEST

START_TEST(a_lost_node_fails_the_job_for_the_others)
{
	join_plain(1, 2);
	join_plain(2, 2);
	lost(2, "not heard from for 5.0 s");
	ended(WIRE_FAILURE, 69, "node 1 (h2) was lost: not heard from for "
				"5.0 s");
	ck_assert_uint_eq(job_end(j)->node_rank, 1);
	ck_assert_int_eq(job_end(j)->rank, -1);
	ck_assert_ptr_eq(job_next_node(j, NULL), node[1]);
	ck_assert_ptr_null(job_next_node(j, node[1]));
}
END_TEST

START_TEST(only_the_host_of_a_job_of_one_is_alone)
{
	join(1, 1, (struct how){.hosts_server = 1});
	ck_assert_int_eq(job_node_is_alone(j, node[1]), 1);
}
END_TEST

START_TEST(a_node_is_alone_while_nobody_else_is_in_its_job)
{
	join(1, 2, (struct how){.min = 1, .hosts_server = 1});
	ck_assert_int_eq(job_node_is_alone(j, node[1]), 1);
	join(2, 2, (struct how){.min = 1});
	ck_assert_int_eq(job_node_is_alone(j, node[1]), 0);
}
END_TEST

START_TEST(a_guest_of_a_server_and_a_node_of_two_are_not_alone)
{
	join_plain(1, 1);
	ck_assert_int_eq(job_node_is_alone(j, node[1]), 0);
	end();
	begin();
	join(1, 2, (struct how){.hosts_server = 1});
	ck_assert_int_eq(job_node_is_alone(j, node[1]), 0);
}
END_TEST

START_TEST(a_stopping_node_ends_the_job)
{
	join_plain(1, 2);
	join_plain(2, 2);
	leave(1, 2);
	ended(WIRE_ENDED, 130, "node 0 (h1) received SIGINT");
	lost(1, "its connection closed");
	ck_assert_int_eq(ends, 0);
}
END_TEST

START_TEST(an_agent_that_cannot_start_its_workers_ends_the_job)
{
	struct wire_failed m = {0, 0, SLICE_STR("no such file: ./x")};

	join_plain(1, 2);
	join_plain(2, 2);
	job_failed(j, node[2], &m);
	drain();
	ended(WIRE_FAILURE, 66, "node 1 (h2) could not start its workers: no "
				"such file: ./x");
}
END_TEST

START_TEST(a_failed_start_has_an_exit_code)
{
	struct wire_failed m = {0, 127, SLICE_STR("no such file: ./x")};

	join_plain(1, 1);
	job_failed(j, node[1], &m);
	drain();
	ended(WIRE_FAILURE, 127, "node 0 (h1) could not start its workers: no "
				 "such file: ./x");
}
END_TEST

START_TEST(an_impossible_exit_code_becomes_66)
{
	struct wire_failed m = {0, 256, SLICE_STR("no")};

	join_plain(1, 1);
	job_failed(j, node[1], &m);
	drain();
	ended(WIRE_FAILURE, 66, "node 0 (h1) could not start its workers: no");
}
END_TEST

START_TEST(a_server_that_stops_tells_its_jobs)
{
	join_plain(1, 2);
	job_stop(j, "the server stops");
	drain();
	ended(WIRE_ENDED, 69, "the server stops");
	job_stop(j, "again");
	drain();
	ck_assert_int_eq(ends, 0);
}
END_TEST

/* ---- restarts ---- */

START_TEST(a_restart_keeps_ranks_and_counts_once_for_the_job)
{
	struct how h = {.restarts = 1, .nproc = 2, .addr = "127.0.0.1"};

	join(2, 2, h);
	join(1, 2, h);
	has_rank(2, 0, 0);
	exited(2, 1, 7, 0);
	ended(WIRE_RESTART, 7, "rank 1 (local rank 1) on h2, pid 4711, exited "
			       "with code 7");
	ck_assert_uint_eq(job_end(j)->restarts_left, 0);
	ck_assert_int_eq(job_state(j), JOB_RESTARTING);
	exited(1, 2, 0, 15); /* a late victim of the last round */
	ck_assert_int_eq(ends, 0);

	ck_assert_int_eq(join(1, 2, h), 0);
	ck_assert_str_eq(state_text(), "1 of 2: node 0 (h2)");
	ck_assert_int_eq(join(1, 2, h), ERR_REFUSED);
	ck_assert_int_eq(join(2, 2, h), 0);
	ck_assert_int_eq(starts, 1);
	has_rank(2, 0, 0);
	has_rank(1, 1, 2);
	ck_assert_uint_eq(start_of(1).round, 1);
	ck_assert_uint_eq(start_of(1).attempt, 1);

	exited(1, 2, 8, 0);
	ended(WIRE_FAILURE, 8, "rank 2 (local rank 0) on h1, pid 4711, exited "
			       "with code 8");
	ck_assert_int_eq(job_state(j), JOB_OVER);
	ck_assert_int_eq(join(1, 2, h), ERR_REFUSED);
	ck_assert_ptr_nonnull(strstr(e.text, "has ended"));
}
END_TEST

START_TEST(a_node_that_is_lost_between_rounds_ends_the_job)
{
	struct how h = {.restarts = 3};

	join(1, 2, h);
	join(2, 2, h);
	exited(1, 0, 1, 0);
	ck_assert_int_eq(job_end(j)->verdict, WIRE_RESTART);
	ck_assert_uint_eq(job_end(j)->restarts_left, 2);
	join(1, 2, h);
	lost(2, "its connection closed");
	ended(WIRE_FAILURE, 69, "node 1 (h2) was lost: its connection closed");
}
END_TEST

START_TEST(nproc_may_change_over_a_restart)
{
	struct how h = {.restarts = 1, .nproc = 2};

	join(1, 2, h);
	join(2, 2, h);
	exited(1, 0, 1, 0);
	h.nproc = 3;
	join(1, 2, h);
	h.nproc = 1;
	join(2, 2, h);
	ck_assert_int_eq(starts, 1);
	has_rank(2, 1, 3);
	ck_assert_uint_eq(job_world_size(j), 4);
}
END_TEST

START_TEST(workers_of_another_round_are_refused)
{
	join(1, 1, (struct how){.restarts = 1});
	ck_assert_int_eq(job_check_round(j, 0, &e), 0);
	ck_assert_int_eq(job_check_round(j, 1, &e), ERR_ABORTED);
	exited(1, 0, 3, 0);
	ck_assert_int_eq(job_check_round(j, 0, &e), ERR_ABORTED);
	ck_assert_str_eq(e.text, "round 0 of job 'none' is over: rank 0 (local "
				 "rank 0) on h1, pid 4711, exited with code 3");
	ck_assert_int_eq(job_check_round(j, 1, &e), ERR_ABORTED);
	join(1, 1, (struct how){.restarts = 1});
	ck_assert_int_eq(job_check_round(j, 1, &e), 0);
	ck_assert_int_eq(job_check_round(j, 0, &e), ERR_ABORTED);
}
END_TEST

START_TEST(round_numbers_continue_those_of_the_last_job)
{
	job_free(j);
	j = job_new(SLICE_STR("none"), 5);
	join_plain(1, 1);
	ck_assert_uint_eq(start_of(1).round, 5);
	ck_assert_uint_eq(start_of(1).attempt, 0);
}
END_TEST

/* ---- fates ---- */

START_TEST(a_fate_is_reported_when_it_is_known)
{
	struct job_fate f[4] = {{.owner = &f[0]}, {.owner = &f[1]},
				{.owner = &f[2]}, {.owner = &f[3]}};
	const char *text;

	join(1, 1, (struct how){.nproc = 3});
	ck_assert_int_eq(job_fate(j, 3, &f[0], &text, &e), ERR_ARGUMENT);
	ck_assert_int_eq(job_fate(j, 0, &f[0], &text, &e), 1);
	ck_assert_int_eq(job_fate(j, 0, &f[1], &text, &e), 1);
	ck_assert_int_eq(job_fate(j, 1, &f[2], &text, &e), 1);
	ck_assert_int_eq(job_fate(j, 2, &f[3], &text, &e), 1);
	job_fate_release(&f[1]);
	exited(1, 0, 0, 0);
	ck_assert_int_eq(fates, 1);
	ck_assert_ptr_eq(fate[0].who, &f[0]);
	ck_assert_str_eq(fate[0].text, "rank 0 (local rank 0) on h1, pid 4711, "
				       "exited with code 0");
	ck_assert_int_eq(job_fate(j, 0, &f[0], &text, &e), 0);
	ck_assert_str_eq(text, fate[0].text);
	/* the end of the round answers the rest, with its cause */
	exited(1, 1, 0, 9);
	ck_assert_int_eq(fates, 2);
	ck_assert_ptr_eq(fate[0].who, &f[2]);
	ck_assert_ptr_eq(fate[1].who, &f[3]);
	ck_assert_str_eq(fate[1].text, fate[0].text);
	job_fate_release(&f[0]);
}
END_TEST

START_TEST(the_loss_of_a_node_is_the_fate_of_its_ranks)
{
	struct job_fate f = {.owner = &f};
	const char *text;

	join_plain(1, 2);
	join_plain(2, 2);
	job_fate(j, 1, &f, &text, &e);
	lost(2, "its connection closed");
	ck_assert_int_eq(fates, 1);
	ck_assert_str_eq(fate[0].text,
			 "node 1 (h2) was lost: its connection closed");
}
END_TEST

/* ---- the table ---- */

START_TEST(the_policy_has_an_answer_to_everything)
{
	static const char *const names[] = {"GATHERING", "RUNNING",
					    "RESTARTING", "OVER"};

	for (int s = 0; s < JOB_STATES; s++) {
		ck_assert_str_eq(job_state_name(s), names[s]);
		for (int ev = 0; ev < JOB_EVENTS; ev++) {
			ck_assert_ptr_nonnull(job_policy(s, ev));
			ck_assert(strlen(job_event_name(ev)) > 0);
		}
	}
	ck_assert_str_eq(job_policy(JOB_GATHERING, JOB_ON_LOST),
			 "frees its place; too few: no last call");
	ck_assert_str_eq(job_policy(JOB_RUNNING, JOB_ON_LOST),
			 "elastic or a spare: END regroup, -> RESTARTING; "
			 "else END failure (69), -> OVER");
	ck_assert_str_eq(job_policy(JOB_OVER, JOB_ON_EXITED), "nothing");
}
END_TEST

static void add_all(TCase *c)
{
	tcase_add_test(c, a_query_lists_each_node_by_rank_and_host);
	tcase_add_test(c, success_when_all_have_exited_with_0);
	tcase_add_test(c, the_first_failure_ends_the_job_with_all_details);
	tcase_add_test(c, a_workers_known_details_are_reported);
	tcase_add_test(c, signals_are_named_and_give_128_and_their_number);
	tcase_add_test(c, a_stopped_worker_is_no_cause);
	tcase_add_test(c, impossible_exits_are_protocol_errors);
	tcase_add_test(c, a_lost_node_fails_the_job_for_the_others);
	tcase_add_test(c, only_the_host_of_a_job_of_one_is_alone);
	tcase_add_test(c, a_node_is_alone_while_nobody_else_is_in_its_job);
	tcase_add_test(c, a_guest_of_a_server_and_a_node_of_two_are_not_alone);
	tcase_add_test(c, a_stopping_node_ends_the_job);
	tcase_add_test(c, an_agent_that_cannot_start_its_workers_ends_the_job);
	tcase_add_test(c, a_failed_start_has_an_exit_code);
	tcase_add_test(c, an_impossible_exit_code_becomes_66);
	tcase_add_test(c, a_server_that_stops_tells_its_jobs);
	tcase_add_test(c, a_restart_keeps_ranks_and_counts_once_for_the_job);
	tcase_add_test(c, a_node_that_is_lost_between_rounds_ends_the_job);
	tcase_add_test(c, nproc_may_change_over_a_restart);
	tcase_add_test(c, workers_of_another_round_are_refused);
	tcase_add_test(c, round_numbers_continue_those_of_the_last_job);
	tcase_add_test(c, a_fate_is_reported_when_it_is_known);
	tcase_add_test(c, the_loss_of_a_node_is_the_fate_of_its_ranks);
	tcase_add_test(c, the_policy_has_an_answer_to_everything);
}

int main(void)
{
	TCase *c = tcase_create("round");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, begin, end);
	add_all(c);
	return run_case(c);
}
