/* test_restarts.c: whether restarts make progress, by the steps that nodes
 * report when they join again, without processes. */
#include "tests/unit/rendezvous/round/rounds.h"
#include "tests/unit/run_case.h"

enum { RESTARTS = 20 };

static struct how how(uint64_t step)
{
	return (struct how){.restarts = RESTARTS, .no_progress = 3,
			    .steps = step};
}

/* Two nodes; in the round that begins, none has reported a step. */
static void run_two(void)
{
	join(0, 2, how(0));
	join(1, 2, how(0));
	ck_assert_int_eq(starts, 1);
}

/* The worker of node 1 fails; the nodes join again with these steps, each plus
 * 1. Returns whether another round has begun. */
static int fail_at(uint64_t step0, uint64_t step1)
{
	exited(1, 1, 7, 0);
	ck_assert_int_eq(job_state(j), JOB_RESTARTING);
	join(0, 2, how(step0));
	ck_assert_int_eq(starts + ends, 0);
	join(1, 2, how(step1));
	ck_assert_int_eq(starts + ends, 1);
	return starts;
}

START_TEST(three_restarts_without_progress_end_the_job)
{
	run_two();
	ck_assert(fail_at(100, 101));
	ck_assert(fail_at(101, 100)); /* not beyond 101 */
	ck_assert(fail_at(0, 0));     /* before the first step */
	ck_assert(!fail_at(90, 101));
	ended(WIRE_FAILURE, 7,
	      "3 restarts in a row reached no step beyond 100 "
	      "(--max-no-progress-restarts): rank 1 (local rank 1) on h1, pid "
	      "4711, exited with code 7");
	ck_assert_int_eq(job_state(j), JOB_OVER);
	ck_assert_int_eq(job_end(j)->rank, 1);
	ck_assert_int_eq(job_end(j)->code, 7);
	/* the failed attempt's, as in any END */
	ck_assert_uint_eq(job_end(j)->restarts_left, RESTARTS - 3);
	for (int i = 0; i < 2; i++) {
		struct wire_end m;

		ck_assert_int_eq(job_end_for(j, node[i], &m), 1);
	}
}
END_TEST

START_TEST(any_progress_makes_the_count_begin_anew)
{
	run_two();
	ck_assert(fail_at(100, 0));
	for (uint64_t step = 101; step < 104; step++) {
		ck_assert(fail_at(step - 1, 0));
		ck_assert(fail_at(0, step - 1));
		ck_assert(fail_at(step - 1, step));
	}
	ck_assert(fail_at(103, 0));
	ck_assert(fail_at(103, 0));
	ck_assert(!fail_at(103, 0));
}
END_TEST

START_TEST(restarts_around_one_step_are_no_progress)
{
	/* the attempt before was always lower, but never the highest */
	run_two();
	ck_assert(fail_at(104, 0));
	ck_assert(fail_at(102, 0));
	ck_assert(fail_at(103, 0));
	ck_assert(!fail_at(104, 0));
}
END_TEST

START_TEST(without_steps_all_restarts_are_used)
{
	run_two();
	for (int i = 0; i < RESTARTS; i++)
		ck_assert(fail_at(0, 0));
	exited(1, 1, 7, 0);
	ended(WIRE_FAILURE, 7,
	      "rank 1 (local rank 1) on h1, pid 4711, exited with code 7");
}
END_TEST

START_TEST(zero_is_no_limit)
{
	struct how h = how(5);

	h.no_progress = 0;
	join(0, 1, h);
	for (int i = 0; i < RESTARTS; i++) {
		exited(0, 0, 7, 0);
		join(0, 1, h);
		ck_assert_int_eq(starts, 1);
	}
}
END_TEST

static int come(int i, uint64_t step)
{
	struct how h = how(step);

	h.min = 1;
	return join(i, 3, h);
}

START_TEST(only_failures_count)
{
	come(0, 0);
	come(1, 0);
	last_call();
	for (int i = 0; i < 5; i++) {
		lost(1, "gone"); /* regroups */
		come(0, 10);
		ck_assert_int_eq(starts, 1);
		come(1, 0); /* regroups */
		come(0, 10);
		ck_assert_int_eq(starts, 1);
	}
}
END_TEST

START_TEST(a_round_is_not_judged_without_a_node_that_is_lost)
{
	come(0, 0);
	come(1, 0);
	last_call();
	for (int i = 0; i < 5; i++) {
		exited(1, 1, 7, 0);
		come(0, 10);
		lost(1, "gone"); /* it may have reached step 11 */
		ck_assert_int_eq(starts, 1);
		come(1, 0); /* regroups */
		come(0, 10);
		ck_assert_int_eq(starts, 1);
	}
}
END_TEST

START_TEST(a_newcomer_does_not_hide_that_there_is_no_progress)
{
	come(0, 0);
	last_call();
	for (int i = 0; i < 4; i++) {
		exited(0, 0, 7, 0);
		if (i == 3)
			come(1, 0); /* waits for node 0 */
		come(0, 10);
	}
	ck_assert_int_eq(starts, 0);
	ck_assert_int_eq(job_state(j), JOB_OVER);
}
END_TEST

/* ---- nodes that fail at the start ---- */

/* Nodes 0 and 1 run, 2 is a spare, if there is one; the limit is 2. */
static struct how fragile(uint64_t steps)
{
	return (struct how){.restarts = RESTARTS, .swap_after = 2,
			    .no_progress = 2, .steps = steps};
}

static void run_with_spare(void)
{
	for (int i = 0; i < 3; i++)
		join(i, 2, fragile(0));
	ck_assert(is_spare(2));
}

/* A worker of node i fails after ran_ms, when its node had reached `steps`. */
static void fails(int i, uint64_t ran_ms, uint64_t steps)
{
	struct wire_exited m = {.round = job_round(j),
				.rank = start_of(i).base_rank, .pid = 4711,
				.code = 7, .ran_ms = ran_ms, .steps = steps};

	ck_assert_int_eq(job_exited(j, node[i], &m, &e), 0);
	drain();
	ck_assert_int_eq(job_state(j), JOB_RESTARTING);
}

static int has_swap(void)
{
	return job_end(j)->swap.len > 0;
}

static void again(int i, uint64_t steps)
{
	ck_assert_int_eq(join(i, 2, fragile(steps)), 0);
}

START_TEST(a_spare_replaces_a_node_that_fails_at_the_start_again)
{
	char text[400];

	run_with_spare();
	fails(1, 900, 0);
	ck_assert(!has_swap());
	again(1, 0);
	again(0, 0);
	fails(1, 900, 0);
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(job_end(j)->swap));
	ck_assert_str_eq(text, "node 1 (h1) was the first to fail 2 times in "
			       "a row at the start (--swap-after): the spare "
			       "h2 takes its place, and it waits as a spare");
	again(1, 0);
	ck_assert(is_spare(1) && !is_spare(2));
	ck_assert_int_eq(starts, 0);
	again(0, 0);
	ck_assert_int_eq(starts, 1);
	has_rank(0, 0, 0);
	has_rank(2, 1, 1);
	/* which it does no more, while others are there */
	fails(2, 900, 0);
	again(0, 0);
	again(2, 0);
	fails(2, 900, 0);
	ck_assert(!has_swap());
	again(0, 0);
	again(2, 0);
	ck_assert_int_eq(starts, 1);
	/* but it is better than none */
	lost(2, "gone");
	again(0, 0);
	ck_assert_int_eq(starts, 1);
	has_rank(1, 1, 1);
}
END_TEST

START_TEST(failures_after_the_start_are_no_reason_to_swap)
{
	run_with_spare();
	for (int i = 0; i < 4; i++) {
		/* by time, and then by its steps */
		fails(1, i % 2 ? 60000 : 900, 0);
		ck_assert(!has_swap());
		again(0, 0);
		again(1, 0);
	}
	for (uint64_t step = 1; step < 5; step++) {
		fails(1, 900, step);
		ck_assert(!has_swap());
		again(0, step);
		again(1, step);
	}
	/* it has reported steps, so the time says nothing */
	fails(1, 90000, 0);
	again(0, 5);
	again(1, 0);
	fails(1, 90000, 0);
	ck_assert(has_swap());
}
END_TEST

START_TEST(failures_of_other_nodes_between_are_not_in_its_favour)
{
	run_with_spare();
	fails(1, 900, 0);
	again(0, 0);
	again(1, 0);
	fails(0, 900, 0);
	ck_assert(!has_swap());
	again(0, 0);
	again(1, 0);
	fails(1, 900, 0);
	ck_assert(has_swap());
}
END_TEST

START_TEST(a_node_keeps_its_place_if_the_spare_is_lost_meanwhile)
{
	run_with_spare();
	fails(1, 900, 0);
	again(0, 0);
	again(1, 0);
	fails(1, 900, 0);
	ck_assert(has_swap());
	lost(2, "gone");
	again(0, 0);
	again(1, 0);
	ck_assert_int_eq(starts, 1);
	has_rank(1, 1, 1);
	/* the next spare takes it */
	join(2, 2, fragile(0));
	fails(1, 900, 0);
	ck_assert(has_swap());
}
END_TEST

START_TEST(without_a_spare_or_with_0_no_node_is_swapped)
{
	struct how h = fragile(0);

	join(0, 1, h);
	for (int i = 0; i < 4; i++) {
		exited(0, 0, 7, 0);
		ck_assert(!has_swap());
		join(0, 1, h);
	}
	end();
	begin();
	h.swap_after = 0;
	join(0, 1, h);
	join(1, 1, h);
	for (int i = 0; i < 4; i++) {
		exited(0, 0, 7, 0);
		ck_assert(!has_swap());
		join(0, 1, h);
	}
}
END_TEST

START_TEST(a_swap_is_a_new_chance_to_make_progress)
{
	run_with_spare();
	fails(1, 900, 10);
	again(0, 10);
	again(1, 10);
	for (int i = 0; i < 2; i++) {
		fails(1, 900, 0);
		again(0, 0);
		again(1, 0);
	}
	ck_assert_int_eq(starts, 1); /* though two restarts were futile */
	ck_assert_int_eq(states, 1); /* tells node 1 that it is a spare */
	fails(2, 900, 0);
	again(0, 0);
	again(2, 0);
	ck_assert_int_eq(starts, 1);
	fails(2, 900, 0);
	again(0, 0);
	again(2, 0);
	ck_assert_int_eq(job_state(j), JOB_OVER);
}
END_TEST

START_TEST(nodes_must_give_the_same_limit_and_backoff)
{
	struct how h = how(0);

	join(0, 2, h);
	h.no_progress = 5;
	ck_assert_int_eq(join(1, 2, h), ERR_REFUSED);
	ck_assert_ptr_nonnull(
		strstr(e.text, "h1 has --max-no-progress-restarts 5, but h0 "
			       "has 3 in job 'none' at h0:29400: give both the "
			       "same value"));
	h = how(0);
	h.backoff = 1500;
	ck_assert_int_eq(join(1, 2, h), ERR_REFUSED);
	ck_assert_ptr_nonnull(strstr(
		e.text, "h1 has --restart-backoff 1.5, but h0 has 0 in job"));
	ck_assert_int_eq(join(1, 2, how(0)), 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("restarts");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, three_restarts_without_progress_end_the_job);
	tcase_add_test(c, any_progress_makes_the_count_begin_anew);
	tcase_add_test(c, restarts_around_one_step_are_no_progress);
	tcase_add_test(c, without_steps_all_restarts_are_used);
	tcase_add_test(c, zero_is_no_limit);
	tcase_add_test(c, only_failures_count);
	tcase_add_test(c, a_round_is_not_judged_without_a_node_that_is_lost);
	tcase_add_test(c, a_newcomer_does_not_hide_that_there_is_no_progress);
	tcase_add_test(c,
		       a_spare_replaces_a_node_that_fails_at_the_start_again);
	tcase_add_test(c, failures_after_the_start_are_no_reason_to_swap);
	tcase_add_test(c,
		       failures_of_other_nodes_between_are_not_in_its_favour);
	tcase_add_test(c,
		       a_node_keeps_its_place_if_the_spare_is_lost_meanwhile);
	tcase_add_test(c, without_a_spare_or_with_0_no_node_is_swapped);
	tcase_add_test(c, a_swap_is_a_new_chance_to_make_progress);
	tcase_add_test(c, nodes_must_give_the_same_limit_and_backoff);
	return run_case(c);
}
