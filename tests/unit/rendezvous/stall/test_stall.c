/* test_stall.c: reports of the ranks in, verdicts out, on a clock that the test
 * sets. test_watch_days.c has whole days. */
#include <check.h>
#include <string.h>

#include "tests/unit/rendezvous/stall/four_ranks.h"

enum { TICK = 1000 };

/* Rank is in the world's collective number k for ms. */
static void calls(uint32_t rank, uint64_t k, uint64_t ms)
{
	struct wire_rank r =
		rank_at(rank, RANK_CALLS, ms, "waits in that call");

	r.world = r.number = k + 1;
	r.call = SLICE_STR("all_reduce #23 (f32 x 4096, avg)");
	ck_assert_int_eq(stall_set(&s, &r), 0);
}

/* Rank has left collective k, and does something else since ms. */
static void does(uint32_t rank, uint64_t k, enum wire_doing doing, uint64_t ms,
		 const char *words)
{
	struct wire_rank r = rank_at(rank, doing, ms, words);

	r.world = k + 1;
	r.call = SLICE_STR("all_reduce #22 (f32 x 4096, avg)");
	ck_assert_int_eq(stall_set(&s, &r), 0);
}

static void check(void)
{
	stall_check(&s, &news);
}

/* Three ranks wait for rank 3, for ms. */
static void late(enum wire_doing doing, uint64_t ms, const char *words)
{
	for (uint32_t i = 0; i < 3; i++)
		calls(i, 23, ms);
	does(3, 22, doing, ms, words);
	check();
}

START_TEST(the_line_names_waiting_ranks_and_the_missing_ones_call)
{
	late(RANK_STOPPED, 29000, "is stopped (SIGSTOP)");
	ck_assert(news.is_stalled && !news.show);
	late(RANK_STOPPED, 30000, "is stopped (SIGSTOP)");
	ck_assert(news.show);
	ck_assert_uint_eq(news.rank, 3);
	ck_assert_int_eq(news.pid, 103);
	ck_assert_str_eq(
		news.text,
		"no progress for 30 s: 3 of 4 ranks wait in "
		"all_reduce #23 (f32 x 4096, avg); rank 3 on h2, pid 103, has "
		"not arrived: it is stopped (SIGSTOP), last in all_reduce #22 "
		"(f32 "
		"x 4096, avg)");
	ck_assert_str_eq(news.why,
			 "it is stopped (SIGSTOP), last in all_reduce "
			 "#22 (f32 x 4096, avg); for 30 s 3 of 4 ranks wait in "
			 "all_reduce #23 (f32 x 4096, avg)");
}
END_TEST

START_TEST(lines_come_at_doubled_times)
{
	unsigned shown = 0;

	for (uint64_t ms = 0; ms <= 250000; ms += TICK) {
		late(RANK_IDLE, ms, "sleeps (nanosleep)");
		shown += (unsigned)news.show;
	}
	ck_assert_uint_eq(shown, 4); /* 30, 60, 120, 240 s */
	for (uint32_t i = 0; i < 4; i++)
		calls(i, 24, 0);
	check();
	ck_assert(news.is_over);
	ck_assert_str_eq(news.text, "progress again, after 250 s");
	check();
	ck_assert(!news.is_over);
}
END_TEST

START_TEST(a_rank_that_computes_is_waited_for)
{
	late(RANK_BUSY, 30000, "computes (99 % CPU, no input or output)");
	ck_assert(news.show);
	ck_assert(strncmp(news.text, "waiting for 30 s: ", 18) == 0);
}
END_TEST

START_TEST(a_rank_in_the_kernel_gets_a_line_like_one_that_sleeps)
{
	late(RANK_BLOCKED, 29000, "waits for a disk or a file server");
	ck_assert(!news.show);
	late(RANK_BLOCKED, 30000, "waits for a disk or a file server");
	ck_assert(news.show);
}
END_TEST

START_TEST(a_rank_that_shows_work_is_given_longer)
{
	for (uint64_t ms = 0; ms < 300000; ms += TICK) {
		late(RANK_WORKS, ms, "works (20 % CPU)");
		ck_assert(!news.show);
	}
	late(RANK_WORKS, 300000, "works (20 % CPU)");
	ck_assert(news.show);
}
END_TEST

START_TEST(a_rank_that_reads_is_named_but_may_only_be_late)
{
	late(RANK_LOADS, 29000, "reads 812 MB/s, 24 GB so far (20 % CPU)");
	ck_assert(!news.show);
	late(RANK_LOADS, 30000, "reads 812 MB/s, 24 GB so far (20 % CPU)");
	ck_assert(news.show);
	ck_assert(strncmp(news.text, "waiting for 30 s: ", 18) == 0);
	ck_assert_ptr_nonnull(strstr(news.text, "it reads 812 MB/s"));
	/* once another gave up */
	stall_find_culprit(&s, 0, SLICE_STR(""), &news);
	ck_assert(news.is_stalled);
	ck_assert_uint_eq(news.rank, 3);
}
END_TEST

START_TEST(a_pause_of_one_kind_teaches_nothing_about_another)
{
	late(RANK_LOADS, 200000, "reads");
	for (uint32_t i = 0; i < 4; i++)
		calls(i, 24, 100);
	check();
	late(RANK_LOADS, 399000, "reads");
	ck_assert(!news.show);
	for (uint32_t i = 0; i < 4; i++)
		calls(i, 25, 100);
	check();
	late(RANK_IDLE, 30000, "sleeps");
	ck_assert(news.show);
}
END_TEST

START_TEST(what_a_job_loads_at_its_start_is_not_its_pace)
{
	for (uint32_t i = 0; i < 3; i++)
		calls(i, 0, 200000);
	does(3, 0, RANK_LOADS, 200000, "reads");
	stall_set_ended(&s, 3); /* as if it had arrived */
	check();
	for (uint32_t i = 0; i < 3; i++)
		calls(i, 1, 100);
	s.ranks[3].ended = 0;
	does(3, 1, RANK_WORKS, 100, "works");
	check();
	late(RANK_LOADS, 30000, "reads");
	ck_assert(news.show);
}
END_TEST

/* The hosts do not report at the same time. */
START_TEST(a_report_older_than_the_end_of_its_wait_is_no_stall)
{
	for (uint32_t i = 0; i < 4; i++) {
		if (i == 1)
			does(1, 22, RANK_WORKS, 55000, "works (30 % CPU)");
		else
			calls(i, 23, 55000);
	}
	check();
	for (uint32_t i = 0; i < 2; i++) /* h1's: all have gone on */
		calls(i, 30, 100);
	check();
	ck_assert(!news.is_stalled);
	for (uint32_t i = 0; i < 4; i++)
		calls(i, 30, 30000);
	check();
	ck_assert(!news.is_stalled); /* h2 has just come to #30 */
	for (uint32_t i = 0; i < 4; i++)
		calls(i, 30, 31000);
	check();
	ck_assert(news.show); /* the network has stopped */
}
END_TEST

START_TEST(of_idle_ranks_with_one_step_the_odd_one_is_named)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct wire_rank r =
			rank_at(i, RANK_IDLE, 31000,
				i == 2 ? "sleeps (nanosleep)"
				       : "waits for a socket or a file (poll)");

		r.step = 7;
		ck_assert_int_eq(stall_set(&s, &r), 0);
	}
	check();
	ck_assert(news.show);
	ck_assert_uint_eq(news.rank, 2);
}
END_TEST

START_TEST(a_job_that_pauses_is_given_twice_its_longest_pause)
{
	late(RANK_IDLE, 45000, "sleeps");
	ck_assert(news.show);
	for (uint32_t i = 0; i < 4; i++)
		calls(i, 24, 100);
	check();
	late(RANK_IDLE, 89000, "sleeps");
	ck_assert(!news.show);
	late(RANK_IDLE, 90000, "sleeps");
	ck_assert(news.show);
	late(RANK_STOPPED, 91000, "is stopped (SIGSTOP)");
	ck_assert_int_eq(news.doing, RANK_STOPPED);
}
END_TEST

START_TEST(ranks_that_never_communicate_give_no_line)
{
	for (uint64_t ms = 0; ms < 3600000; ms += 5000) {
		for (uint32_t i = 0; i < 4; i++) {
			struct wire_rank r =
				rank_at(i, i ? RANK_BUSY : RANK_IDLE, ms,
					i ? "computes" : "sleeps");
			ck_assert_int_eq(stall_set(&s, &r), 0);
		}
		check();
		ck_assert(!news.show);
	}
}
END_TEST

START_TEST(the_line_says_that_all_ranks_are_idle)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct wire_rank r =
			rank_at(i, RANK_IDLE, 31000,
				i == 2 ? "sleeps (nanosleep)"
				       : "waits for a socket or a file (poll)");
		ck_assert_int_eq(stall_set(&s, &r), 0);
	}
	check();
	ck_assert(news.show);
	ck_assert_str_eq(news.text,
			 "no progress for 31 s: all ranks are idle; "
			 "rank 2 on h2, pid 102, sleeps (nanosleep)");
}
END_TEST

static void all_idle(const char *const *words, uint32_t n)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct wire_rank r = rank_at(i, RANK_IDLE, 31000,
					     words[i < n ? i : 0]);

		ck_assert_int_eq(stall_set(&s, &r), 0);
		if (i >= n)
			stall_set_ended(&s, i);
	}
	check();
	ck_assert(news.is_stalled);
}

START_TEST(of_two_idle_ranks_the_one_that_waits_for_no_rank_is_named)
{
	static const char *const sleeps[] = {
		"waits for a lock or another thread (futex) in w.py:9 f()",
		"sleeps (nanosleep) in w.py:5 g()",
	};
	static const char *const loads[] = {
		"waits for a socket or a file (poll) in w.py:5 g()",
		"waits for a lock or another thread (futex) in w.py:9 f() "
		"(torch.distributed: all_reduce)",
	};

	all_idle(sleeps, 2);
	ck_assert_uint_eq(news.rank, 1);
	all_idle(loads, 2);
	ck_assert_uint_eq(news.rank, 0);
}
END_TEST

START_TEST(an_idle_rank_with_an_unanswered_connection_is_named)
{
	static const char *const both[] = {
		"waits for a lock or another thread (futex) in w.py:9 f() "
		"(torch.distributed: all_reduce)",
		"waits for a lock or another thread (futex) in w.py:9 f() "
		"(torch.distributed: all_reduce), resending 8096 bytes to "
		"10.0.0.1:46374 without an answer (7 times)",
	};
	const char *const elsewhere[] = {
		"sleeps (nanosleep) in w.py:5 g()", both[1]};
	static const char question[] =
		"resending 8096 bytes to 10.0.0.1:46374 without an answer (7 "
		"times): does the network drop packets, or only those larger "
		"than its MTU?";
	const char *at;

	all_idle(both, 2);
	ck_assert_uint_eq(news.rank, 1);
	ck_assert(strstr(news.text, question));
	ck_assert(strstr(news.why, question));
	all_idle(elsewhere, 2);
	ck_assert_uint_eq(news.rank, 0);
	at = strstr(news.text, "; rank 1 on h1 is resending 8096 bytes");
	ck_assert(at && strstr(at, question));
}
END_TEST

START_TEST(ranks_in_torch_distributed_wait_for_the_rank_that_is_not)
{
	static const char in_torch[] = "waits for a socket or a file (poll) in "
				       "w.py:9 f() (torch.distributed: "
				       "all_reduce)";

	for (uint32_t i = 0; i < 4; i++) {
		struct wire_rank r = rank_at(i, i == 2 ? RANK_LOADS : RANK_IDLE,
					     i == 2 ? 0 : 31000, in_torch);

		if (i == 2)
			r.words = SLICE_STR("reads 1.0 MB/s");
		ck_assert_int_eq(stall_set(&s, &r), 0);
	}
	check();
	ck_assert(news.show);
	ck_assert_str_eq(news.text,
			 "waiting for 31 s: all others wait in "
			 "torch.distributed; rank 2 on h2, pid 102, reads 1.0 "
			 "MB/s");
}
END_TEST

START_TEST(a_rank_that_sleeps_before_its_first_call_is_named)
{
	struct wire_rank r = rank_at(3, RANK_STARTS, 29000,
				     "sleeps (nanosleep)");

	for (uint32_t i = 0; i < 3; i++)
		calls(i, 0, 30000);
	ck_assert_int_eq(stall_set(&s, &r), 0);
	check();
	ck_assert(!news.show); /* it did something 29 s ago */
	r.quiet_ms = 30000;
	ck_assert_int_eq(stall_set(&s, &r), 0);
	check();
	ck_assert(news.show);
	ck_assert_uint_eq(news.rank, 3);
	ck_assert(strncmp(news.text, "no progress for 30 s: ", 22) == 0);
}
END_TEST

START_TEST(the_time_before_they_were_idle_does_not_count)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct wire_rank r = rank_at(i, RANK_IDLE, 3600000, "sleeps");

		r.does_ms = 5000;
		ck_assert_int_eq(stall_set(&s, &r), 0);
	}
	check();
	ck_assert(!news.show);
}
END_TEST

START_TEST(a_chain_of_waits_ends_at_the_rank_that_waits_for_nobody)
{
	struct wire_rank r;

	calls(0, 23, 31000);
	r = rank_at(1, RANK_CALLS, 30500, "waits in that call");
	r.world = 23; /* has left #22, and receives from rank 3 */
	r.peer = 3;
	r.call = SLICE_STR("recv (f32 x 1, from 3)");
	ck_assert_int_eq(stall_set(&s, &r), 0);
	calls(2, 23, 30900);
	does(3, 22, RANK_IDLE, 30800, "sleeps (nanosleep)");
	r = s.ranks[3].at;
	stall_set_ended(&s, 2);
	s.ranks[3].at.world = 24; /* has entered #23 before */
	check();
	ck_assert_uint_eq(news.rank, 3);
}
END_TEST

START_TEST(a_call_that_all_ranks_have_come_to_has_no_culprit)
{
	for (uint32_t i = 0; i < 4; i++)
		calls(i, 23, 40000 + i);
	check();
	ck_assert(news.show);
	ck_assert_str_eq(news.text,
			 "no progress for 40 s: all 4 ranks wait in "
			 "all_reduce #23 (f32 x 4096, avg), and no rank is "
			 "missing");
}
END_TEST

START_TEST(a_victim_leads_to_the_rank_that_hangs)
{
	late(RANK_STOPPED, 12000, "is stopped (SIGSTOP)");
	stall_set_ended(&s, 0);
	stall_find_culprit(&s, 0, SLICE_STR(""), &news);
	ck_assert(news.is_stalled);
	ck_assert_uint_eq(news.rank, 3);
}
END_TEST

START_TEST(a_late_rank_that_works_is_no_culprit)
{
	late(RANK_WORKS, 12000, "works");
	stall_find_culprit(&s, 0, SLICE_STR(""), &news);
	ck_assert(!news.is_stalled);
}
END_TEST

START_TEST(without_calls_the_odd_rank_is_the_culprit)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct wire_rank r =
			rank_at(i, i == 1 ? RANK_BUSY : RANK_IDLE, 12000,
				i == 1 ? "computes" : "waits for a socket");
		ck_assert_int_eq(stall_set(&s, &r), 0);
	}
	stall_set_ended(&s, 0);
	stall_find_culprit(&s, 0, SLICE_STR(""), &news);
	ck_assert(news.is_stalled);
	ck_assert_uint_eq(news.rank, 1);
}
END_TEST

START_TEST(reports_on_ranks_that_do_not_exist_are_refused)
{
	struct wire_rank r = rank_at(4, RANK_IDLE, 0, "");

	ck_assert_int_eq(stall_set(&s, &r), ERR_PROTOCOL);
	r = rank_at(3, RANK_DOINGS, 0, "");
	ck_assert_int_eq(stall_set(&s, &r), ERR_PROTOCOL);
}
END_TEST

START_TEST(a_rank_that_has_ended_is_not_stopped)
{
	for (uint32_t i = 0; i < 3; i++)
		does(i, 22, RANK_WORKS, 0, "works");
	does(3, 22, RANK_STOPPED, 40000, "is stopped (SIGSTOP)");
	check();
	ck_assert(news.is_stalled && news.rank == 3);
	stall_set_ended(&s, 3);
	check();
	ck_assert(!news.is_stalled);
}
END_TEST

static void receives(uint32_t rank, int32_t peer, const char *call)
{
	struct wire_rank r =
		rank_at(rank, RANK_CALLS, 30000, "waits in that call");

	r.world = 23;
	r.peer = peer;
	r.call = SLICE_STR(call);
	ck_assert_int_eq(stall_set(&s, &r), 0);
}

START_TEST(two_ranks_that_wait_for_each_other_blame_no_third)
{
	receives(2, 3, "recv from 3");
	receives(3, 2, "recv from 2");
	check();
	ck_assert(news.show && news.rank == 2);
	ck_assert_str_eq(news.text,
			 "no progress for 30 s: rank 2 on h2 waits in recv "
			 "from 3; 2 ranks wait for each other: rank 2 for 3, 3 "
			 "for 2");
}
END_TEST

START_TEST(a_circle_of_waits_is_shown_also_if_another_rank_waits_for_it)
{
	receives(0, 2, "recv from 2");
	s.ranks[0].at.quiet_ms = 40000; /* the one in the line */
	receives(1, 3, "recv from 3");
	receives(2, 1, "recv from 1");
	receives(3, 2, "recv from 2");
	check();
	ck_assert(news.show && news.rank == 0);
	ck_assert(strstr(news.text, "; 3 ranks wait for each other: rank "));
	ck_assert(strstr(news.text, "1 for 3") &&
		  strstr(news.text, "3 for 2") && strstr(news.text, "2 for 1"));
	ck_assert(!strstr(news.text, "0 for 2"));
	ck_assert(strstr(news.why, "; 3 ranks wait for each other: rank "));
}
END_TEST

START_TEST(a_rank_that_receives_while_others_are_in_a_collective_is_named)
{
	calls(0, 23, 31000);
	calls(1, 23, 30500);
	calls(3, 23, 30500);
	receives(2, 1, "recv from 1"); /* which waits for it */
	check();
	ck_assert(news.show && news.rank == 2);
	ck_assert_ptr_nonnull(strstr(news.text, "3 of 4 ranks wait in "));
	ck_assert_ptr_nonnull(strstr(news.text, "; rank 2 on h2, pid 102, has "
				     "not arrived: it waits in recv from 1"));
}
END_TEST

START_TEST(an_idle_rank_whose_child_was_killed_comes_before_others)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct wire_rank r = rank_at(
			i, RANK_IDLE, 31000,
			i == 2 ? "waits for a pipe (its process 9 (python3) "
				 "was killed by signal 9 (SIGKILL))"
			: i ? "waits for a pipe" : "sleeps (nanosleep)");

		ck_assert_int_eq(stall_set(&s, &r), 0);
	}
	check();
	ck_assert(news.show && news.rank == 2);
}
END_TEST

START_TEST(a_control_byte_of_a_report_reaches_no_terminal)
{
	late(RANK_STOPPED, 30000, "is \x1f\x1b\x7f");
	ck_assert_ptr_nonnull(strstr(news.text, ": it is ???"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("stall");
	TCase *c = tcase_create("stall");

	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c,
		       the_line_names_waiting_ranks_and_the_missing_ones_call);
	tcase_add_test(c, lines_come_at_doubled_times);
	tcase_add_test(c, a_rank_that_computes_is_waited_for);
	tcase_add_test(c,
		       a_rank_in_the_kernel_gets_a_line_like_one_that_sleeps);
	tcase_add_test(c, a_rank_that_shows_work_is_given_longer);
	tcase_add_test(c, a_rank_that_reads_is_named_but_may_only_be_late);
	tcase_add_test(c, a_pause_of_one_kind_teaches_nothing_about_another);
	tcase_add_test(c, what_a_job_loads_at_its_start_is_not_its_pace);
	tcase_add_test(c, a_report_older_than_the_end_of_its_wait_is_no_stall);
	tcase_add_test(c, of_idle_ranks_with_one_step_the_odd_one_is_named);
	tcase_add_test(c, a_job_that_pauses_is_given_twice_its_longest_pause);
	tcase_add_test(c, ranks_that_never_communicate_give_no_line);
	tcase_add_test(c, the_line_says_that_all_ranks_are_idle);
	tcase_add_test(
		c,
		of_two_idle_ranks_the_one_that_waits_for_no_rank_is_named);
	tcase_add_test(
		c,
		an_idle_rank_with_an_unanswered_connection_is_named);
	tcase_add_test(
		c, ranks_in_torch_distributed_wait_for_the_rank_that_is_not);
	tcase_add_test(c, a_rank_that_sleeps_before_its_first_call_is_named);
	tcase_add_test(c, the_time_before_they_were_idle_does_not_count);
	tcase_add_test(c,
		       a_chain_of_waits_ends_at_the_rank_that_waits_for_nobody);
	tcase_add_test(c, a_call_that_all_ranks_have_come_to_has_no_culprit);
	tcase_add_test(c, a_victim_leads_to_the_rank_that_hangs);
	tcase_add_test(c, a_late_rank_that_works_is_no_culprit);
	tcase_add_test(c, without_calls_the_odd_rank_is_the_culprit);
	tcase_add_test(c, a_rank_that_has_ended_is_not_stopped);
	tcase_add_test(c, two_ranks_that_wait_for_each_other_blame_no_third);
	tcase_add_test(
		c,
		a_circle_of_waits_is_shown_also_if_another_rank_waits_for_it);
	tcase_add_test(
		c,
		a_rank_that_receives_while_others_are_in_a_collective_is_named);
	tcase_add_test(
		c, an_idle_rank_whose_child_was_killed_comes_before_others);
	tcase_add_test(c, a_control_byte_of_a_report_reaches_no_terminal);
	tcase_add_test(c, reports_on_ranks_that_do_not_exist_are_refused);
	suite_add_tcase(suite, c);
	return run_suite(suite);
}
