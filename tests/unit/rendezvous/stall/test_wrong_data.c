/* test_wrong_data.c: all ranks fail because one rank has wrong numbers; which
 * of them it is. */
#include <check.h>
#include <string.h>

#include "rendezvous/stall/stall.h"
#include "tests/unit/run_case.h"

#define REPLICA "ddp_check_replicas: the data of "
#define DIFFERS " differs from that of the other 2 ranks, first in span 0 of 2"

static struct stall s;
static struct stall_news news;

static void begin(void)
{
	const struct wire_rank r = {
		.rank = 2, .local_rank = 1, .pid = 102, .doing = RANK_WORKS,
		.peer = -1, .step = -1,
	};

	ck_assert_int_eq(stall_init(&s, 4, STALL_PATIENCE_MS), 0);
	ck_assert_int_eq(stall_set(&s, &r), 0);
}

static void end(void)
{
	stall_release(&s);
}

static int find(const char *why)
{
	return wrong_data_find(&s, SLICE_STR(why), &news);
}

START_TEST(names_the_rank_in_each_sentence)
{
	static const char *const sentences[] = {
		"step 4: " REPLICA "rank 2 on h1" DIFFERS ": a rank missed",
		"ddp_reducer_finish: the gradient of parameter 7 is not finite "
		"on rank 2 on h1, before the average: its samples",
		"DDPError: ddp_reducer_finish: the gradient of parameter 7 has "
		"values up to 1e+30 on rank 2 on h1, before the average, and "
		"up to 0.1 on most ranks",
	};

	for (int i = 0; i < 3; i++) {
		ck_assert_msg(find(sentences[i]), "%s", sentences[i]);
		ck_assert_uint_eq(news.rank, 2);
		ck_assert_uint_eq(news.local_rank, 1);
		ck_assert_int_eq(news.pid, 102);
		ck_assert_str_eq(news.why, sentences[i]);
	}
	ck_assert(find(REPLICA "rank 2 on h1" DIFFERS "\n#0 main at w.c:3"));
	ck_assert_str_eq(news.why, REPLICA "rank 2 on h1" DIFFERS);
}
END_TEST

START_TEST(blames_no_rank_that_no_agent_has_reported)
{
	ck_assert(!find(REPLICA "rank 1 on h1" DIFFERS));
	ck_assert(!find(REPLICA "rank 9 on h1" DIFFERS));
}
END_TEST

START_TEST(takes_no_other_sentence_for_one_about_data)
{
	static const char *const other[] = {
		"", "\n", "rank 2", REPLICA, REPLICA "rank 2 on h1",
		REPLICA "rank 2 on h1 differs from that of rank 0 on h1, and "
			"no 3 ranks agree, first in span 0 of 2",
		REPLICA "rank 2 on h1 and rank 3 on h1" DIFFERS,
		REPLICA "rank on h1" DIFFERS,
		REPLICA "rank 99999999999999999999 on h1" DIFFERS,
		REPLICA "rank 2 on h1\n" DIFFERS,
		"ValueError: the loss is not finite on rank 2 on h1",
	};

	for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++)
		ck_assert_msg(!find(other[i]), "%s", other[i]);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("wrong_data");

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, names_the_rank_in_each_sentence);
	tcase_add_test(tc, blames_no_rank_that_no_agent_has_reported);
	tcase_add_test(tc, takes_no_other_sentence_for_one_about_data);
	return run_case(tc);
}
