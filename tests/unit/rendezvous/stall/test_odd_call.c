/* test_odd_call.c: two ranks say that their calls differ; which of them did
 * not do what most ranks did. */
#include <check.h>
#include <string.h>

#include "rendezvous/stall/stall.h"
#include "tests/unit/run_case.h"

#define FOUR "all_reduce #4 (f32 x 16, sum)"
#define MORE "all_reduce #4 (f32 x 17, sum)"
#define RULE ": all ranks must make the same calls in the same order"

static struct stall s;
static struct stall_news news;

static void begin(void)
{
	ck_assert_int_eq(stall_init(&s, 4, STALL_PATIENCE_MS), 0);
}

static void end(void)
{
	stall_release(&s);
}

static void calls(uint32_t rank, const char *call)
{
	const struct wire_rank r = {
		.rank = rank, .local_rank = rank % 2, .pid = 100 + rank,
		.doing = RANK_CALLS, .peer = -1, .step = -1,
		.call = SLICE_STR(call),
	};

	ck_assert_int_eq(stall_set(&s, &r), 0);
}

static int find(const char *why)
{
	return odd_call_find(&s, SLICE_STR(why), &news);
}

START_TEST(names_the_rank_that_made_another_call_than_most)
{
	for (uint32_t i = 0; i < 3; i++)
		calls(i, FOUR);
	calls(3, MORE);
	ck_assert_int_eq(find("rank 0 on h1 called " FOUR ", but rank 3 on h2 "
			      "called " MORE RULE), 1);
	ck_assert_uint_eq(news.rank, 3);
	ck_assert_uint_eq(news.local_rank, 1);
	ck_assert_int_eq(news.pid, 103);
	ck_assert_str_eq(news.why, "it called " MORE ", but 3 ranks called "
			 FOUR);
	ck_assert_int_eq(find("DDPError: rank 3 on h2 called " MORE ", but "
			      "rank 1 on h1 called " FOUR RULE " (w.py:3)"), 1);
	ck_assert_uint_eq(news.rank, 3);
}
END_TEST

START_TEST(needs_no_news_of_the_odd_ranks_call)
{
	calls(0, FOUR);
	calls(1, FOUR);
	calls(3, "all_reduce #3 (f32 x 16, sum)"); /* its last report is old */
	ck_assert_int_eq(find("rank 0 on h1 called " FOUR ", but rank 3 on h2 "
			      "called barrier #4" RULE), 1);
	ck_assert_uint_eq(news.rank, 3);
}
END_TEST

START_TEST(blames_no_rank_if_neither_call_is_rarer)
{
	const char *why = "rank 0 on h1 called " FOUR ", but rank 3 on h2 "
			  "called " MORE RULE;

	calls(0, FOUR);
	calls(3, MORE);
	ck_assert_int_eq(find(why), 0);
	calls(1, FOUR);
	calls(2, MORE);
	ck_assert_int_eq(find(why), 0);
	calls(1, MORE);
	ck_assert_int_eq(find(why), 1);
	ck_assert_uint_eq(news.rank, 0);
}
END_TEST

START_TEST(blames_no_rank_that_no_agent_has_reported)
{
	calls(0, FOUR);
	calls(1, FOUR);
	ck_assert_int_eq(find("rank 0 on h1 called " FOUR ", but rank 3 on h2 "
			      "called " MORE RULE), 0);
	ck_assert_int_eq(find("rank 0 on h1 called " FOUR ", but rank 9 on h2 "
			      "called " MORE RULE), 0);
}
END_TEST

START_TEST(more_reports_may_say_which_rank_it_is)
{
	const struct slice why = SLICE_STR("rank 0 on h1 called " FOUR ", but "
					   "rank 3 on h2 called " MORE RULE);

	ck_assert_int_eq(odd_call_needs_reports(&s, why), 1);
	ck_assert_int_eq(odd_call_needs_reports(
		&s, SLICE_STR("rank 0 on h1 called " FOUR ", but rank 4 on h2 "
			      "called " MORE RULE)), 0);
	ck_assert_int_eq(odd_call_needs_reports(
		&s, SLICE_STR("ValueError: 3")), 0);
	stall_release(&s);
	/* with two ranks, either may be right */
	ck_assert_int_eq(stall_init(&s, 2, STALL_PATIENCE_MS), 0);
	ck_assert_int_eq(odd_call_needs_reports(
		&s, SLICE_STR("rank 0 on h1 called " FOUR ", but rank 1 on h2 "
			      "called " MORE RULE)), 0);
}
END_TEST

START_TEST(takes_no_other_sentence_for_one_about_calls)
{
	static const char *const other[] = {
		"", "rank 0", "rank 0 on h1 called " FOUR RULE,
		"rank on h1 called " FOUR ", but rank 3 on h2 called " MORE
			RULE,
		"rank 0 on h1 called " FOUR ", but rank 3 on h2 called " MORE,
		"rank 0 on h1 called " FOUR ", but rank 3 on h2" RULE,
		"x, but rank 3 on h2 called " MORE RULE,
		"rank 99999999999999999999 on h1 called " FOUR
			", but rank 3 on h2 called " MORE RULE,
	};

	for (uint32_t i = 0; i < 3; i++)
		calls(i, FOUR);
	calls(3, MORE);
	for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++)
		ck_assert_msg(!find(other[i]), "%s", other[i]);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("odd_call");

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, names_the_rank_that_made_another_call_than_most);
	tcase_add_test(tc, needs_no_news_of_the_odd_ranks_call);
	tcase_add_test(tc, blames_no_rank_if_neither_call_is_rarer);
	tcase_add_test(tc, blames_no_rank_that_no_agent_has_reported);
	tcase_add_test(tc, more_reports_may_say_which_rank_it_is);
	tcase_add_test(tc, takes_no_other_sentence_for_one_about_calls);
	return run_case(tc);
}
