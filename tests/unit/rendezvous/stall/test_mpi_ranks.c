/* test_mpi_ranks.c: reports of ranks that poll in MPI in, verdicts out. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/rendezvous/stall/four_ranks.h"

/* Without calls of libddp and steps, for a long time. */
static void report(uint32_t rank, enum wire_doing doing, uint64_t ms,
		   const char *call, const char *words)
{
	struct wire_rank r = rank_at(rank, doing, 900000, words);

	r.does_ms = ms;
	r.call = SLICE_STR(call);
	ck_assert_int_eq(stall_set(&s, &r), 0);
}

static void in_mpi(uint32_t rank, const char *call, const char *how,
		   uint64_t ms)
{
	char words[80];

	snprintf(words, sizeof(words), "%s in %s at train.c:12 (99 %% CPU)",
		 how, call);
	report(rank, RANK_BUSY, ms, call, words);
}

static void in_none(uint32_t rank, enum wire_doing doing, uint64_t ms,
		    const char *words)
{
	report(rank, doing, ms, "", words);
}

static void three_in_mpi(const char *how, uint64_t ms)
{
	for (uint32_t i = 0; i < 3; i++)
		in_mpi(i, "MPI_Barrier", how, ms);
}

static void check(void)
{
	stall_check(&s, &news);
}

START_TEST(a_rank_that_sleeps_while_others_poll_in_mpi_is_named)
{
	three_in_mpi("stays", 27000);
	in_none(3, RANK_IDLE, 29000, "sleeps (nanosleep)");
	check();
	ck_assert(!news.show);
	three_in_mpi("stays", 29000);
	in_none(3, RANK_IDLE, 31000, "sleeps (nanosleep)");
	check();
	ck_assert(news.show);
	ck_assert_uint_eq(news.rank, 3);
	ck_assert_str_eq(news.text,
			 "no progress for 31 s: 3 of 4 ranks wait in "
			 "MPI_Barrier; rank 3 on h2, pid 103, has not arrived: "
			 "it sleeps (nanosleep)");
	ck_assert_str_eq(news.why, "it sleeps (nanosleep); for 31 s 3 of 4 "
				   "ranks wait in MPI_Barrier");
}
END_TEST

START_TEST(a_rank_that_computes_while_others_stay_in_mpi_is_waited_for)
{
	static const char begins[] = "waiting for 35 s: 3 of 4 ranks wait in "
				     "MPI_Barrier; rank 3 on h2";

	three_in_mpi("stays", 30000);
	in_none(3, RANK_BUSY, 600000, "computes (99 % CPU)");
	check();
	ck_assert(news.show && news.rank == 3);
	ck_assert_msg(!strncmp(news.text, begins, strlen(begins)), "%s",
		      news.text);
}
END_TEST

/* Their calls return, or may return, between two looks. */
START_TEST(ranks_that_are_often_in_mpi_are_no_sign_of_a_hang)
{
	three_in_mpi("is", 600000);
	in_none(3, RANK_BUSY, 600000, "computes (99 % CPU)");
	check();
	ck_assert(!news.is_stalled);
	in_none(3, RANK_IDLE, 600000, "sleeps (nanosleep)");
	check();
	ck_assert(!news.is_stalled);
	in_none(3, RANK_IDLE, 600000,
		"sleeps (nanosleep) without being woken");
	check();
	ck_assert(news.show && news.rank == 3);
	in_mpi(3, "MPI_Recv", "is", 600000);
	check();
	ck_assert(!news.is_stalled);
}
END_TEST

START_TEST(two_ranks_that_compute_are_work)
{
	three_in_mpi("stays", 600000);
	in_none(2, RANK_BUSY, 600000, "computes (99 % CPU)");
	in_none(3, RANK_BUSY, 600000, "computes (99 % CPU)");
	check();
	ck_assert(!news.is_stalled);
}
END_TEST

START_TEST(a_rank_in_another_call_of_mpi_is_named)
{
	for (uint32_t odd = 0; odd < 4; odd += 3) {
		for (uint32_t i = 0; i < 4; i++)
			in_mpi(i, i == odd ? "MPI_Recv" : "MPI_Barrier",
			       "stays", 31000);
		check();
		ck_assert(news.is_stalled && news.rank == odd);
		ck_assert(strstr(news.text, "3 of 4 ranks wait in MPI_Barrier; "
					    "rank "));
		ck_assert(strstr(news.text, "is in another call: it stays in "
					    "MPI_Recv at train.c:12"));
	}
}
END_TEST

START_TEST(ranks_that_all_stay_in_the_same_call_are_a_hang)
{
	for (uint32_t i = 0; i < 4; i++)
		in_mpi(i, "MPI_Recv", "stays", 40000);
	in_mpi(3, "MPI_Recv", "is", 40000);
	check();
	ck_assert(!news.is_stalled);
	in_mpi(3, "MPI_Recv", "stays", 20000);
	check();
	ck_assert(!news.show);
	in_mpi(3, "MPI_Recv", "stays", 31000);
	check();
	ck_assert(news.show);
	ck_assert_str_eq(news.text, "no progress for 31 s: 4 of 4 ranks wait "
				    "in MPI_Recv, and no rank is missing; rank "
				    "0 on h1, pid 100, for example: it stays "
				    "in MPI_Recv at train.c:12 (99 % CPU)");
	ck_assert(strstr(news.why, "and no rank is missing"));
}
END_TEST

START_TEST(a_rank_that_has_exited_while_others_poll_in_mpi_is_named)
{
	three_in_mpi("stays", 20000);
	in_none(3, RANK_BUSY, 1000, "computes (99 % CPU)");
	stall_set_ended(&s, 3);
	check();
	ck_assert(!news.show);
	three_in_mpi("stays", 30000);
	check();
	ck_assert(news.show);
	ck_assert_str_eq(news.text, "no progress for 30 s: 3 of 4 ranks wait "
				    "in MPI_Barrier; rank 3 on h2, pid 103, "
				    "has exited with code 0");
	ck_assert_uint_eq(news.rank, 0); /* it can be ended */
	ck_assert(strstr(news.why, "rank 3 on h2, pid 103, has exited"));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("mpi_ranks");

	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, a_rank_that_sleeps_while_others_poll_in_mpi_is_named);
	tcase_add_test(
		c, a_rank_that_computes_while_others_stay_in_mpi_is_waited_for);
	tcase_add_test(c, ranks_that_are_often_in_mpi_are_no_sign_of_a_hang);
	tcase_add_test(c, two_ranks_that_compute_are_work);
	tcase_add_test(c, a_rank_in_another_call_of_mpi_is_named);
	tcase_add_test(c, ranks_that_all_stay_in_the_same_call_are_a_hang);
	tcase_add_test(
		c, a_rank_that_has_exited_while_others_poll_in_mpi_is_named);
	return run_case(c);
}
