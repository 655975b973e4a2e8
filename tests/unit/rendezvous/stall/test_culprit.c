/* test_culprit.c: which rank hangs after another has failed, by all reports and
 * by the words of the error. */
#include <check.h>
#include <string.h>

#include "tests/unit/rendezvous/stall/four_ranks.h"

static void idle_but(uint32_t rank, enum wire_doing doing, uint64_t ms,
		     const char *words)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct wire_rank r =
			rank_at(i, i == rank ? doing : RANK_IDLE,
				i == rank ? ms : 12000,
				i == rank ? words : "waits for a socket in "
				"w.py:9 f() (torch.distributed: barrier)");
		ck_assert_int_eq(stall_set(&s, &r), 0);
	}
}

START_TEST(a_rank_that_the_victims_error_names_is_the_first_suspect)
{
	static const char one[] = "[Rank 0]: Rank 2 failed to pass "
				  "monitoredBarrier in 4000 ms",
			  more[] = "[Rank 0]: Ranks 1, 23, 2 failed to pass "
				   "monitoredBarrier in 4000 ms",
			  other[] = "Rank 2 successfully reached "
				    "monitoredBarrier, timed out";

	idle_but(3, RANK_STOPPED, 12000, "is stopped (SIGSTOP)");
	stall_set_ended(&s, 0);
	stall_set_ended(&s, 1);
	ck_assert(stall_is_timeout(SLICE_STR(one)));
	stall_find_culprit(&s, 0, SLICE_STR(one), &news);
	ck_assert(news.is_stalled);
	ck_assert_uint_eq(news.rank, 2);
	stall_find_culprit(&s, 0, SLICE_STR(more), &news);
	ck_assert_uint_eq(news.rank, 2);
	stall_find_culprit(&s, 0, SLICE_STR(other), &news);
	ck_assert_uint_eq(news.rank, 3);
}
END_TEST

START_TEST(a_rank_that_cannot_connect_is_named_even_if_it_is_busy)
{
	static const char words[] =
		"works (30 % CPU) in train.py:12 <module> (torch.distributed: "
		"init_process_group) (its stderr ends with: The client socket "
		"has timed out after 8000ms while trying to connect to (h1, "
		"1).)";
	static const char same[] =
		"torch.distributed.DistNetworkError: The client socket has "
		"timed out after 8000ms while trying to connect to (h1, 1).";

	idle_but(2, RANK_WORKS, 100, words);
	stall_set_ended(&s, 0);
	stall_find_culprit(&s, 0, SLICE_STR("DistStoreError: wait timeout "
					    "after 8000ms"), &news);
	ck_assert(news.is_stalled);
	ck_assert_uint_eq(news.rank, 2);
	ck_assert_ptr_nonnull(strstr(news.why, "(h1, 1)"));
	ck_assert_ptr_null(strstr(news.why, "no progress for"));
	stall_find_culprit(&s, 0, SLICE_STR(same), &news);
	ck_assert(!news.is_stalled);
}
END_TEST

START_TEST(causes_are_distinguished)
{
	static const char *const timeouts[] = {
		"Timed out waiting 12000ms",
		"barrier #3: rank 1 on h2 has not arrived for 30.0 s",
		"recv #3: no data from rank 1 on h2 at h2:29 for 30.0 s",
		"all_reduce #6 (f32 x 9, sum): not done after 2.0 s",
		"DistStoreError: Socket Timeout",
	};

	for (size_t i = 0; i < sizeof(timeouts) / sizeof(*timeouts); i++)
		ck_assert(stall_is_timeout(SLICE_STR(timeouts[i])));
	ck_assert(!stall_is_timeout(SLICE_STR("cannot decode image 17")));
	ck_assert(!stall_is_timeout(SLICE(NULL, 0)));
	ck_assert(stall_is_loss(SLICE_STR("barrier #3: rank 0 on h2 lost its "
					  "connection (Input/output error)")));
	ck_assert(!stall_is_loss(SLICE_STR("cannot decode image 17")));
	ck_assert(stall_is_reported(SLICE_STR(
		"all_reduce #1: another rank ended it: send #1: NCCL: "
		"unhandled system error")));
	ck_assert(!stall_is_reported(SLICE_STR(
		"all_reduce #1: another rank ended it: all_reduce #1: rank 2 "
		"on h2 has not arrived for 2.1 s")));
	ck_assert(stall_is_disconnect(SLICE_STR("Read error: Connection reset "
						"by peer")));
	ck_assert(!stall_is_disconnect(SLICE_STR("cannot decode image 17")));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("culprit");
	TCase *c = tcase_create("culprit");

	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(
		c, a_rank_that_the_victims_error_names_is_the_first_suspect);
	tcase_add_test(
		c, a_rank_that_cannot_connect_is_named_even_if_it_is_busy);
	tcase_add_test(c, causes_are_distinguished);
	suite_add_tcase(suite, c);
	return run_suite(suite);
}
