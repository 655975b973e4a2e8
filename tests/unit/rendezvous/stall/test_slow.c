/* test_slow.c: shares of time in, lines out, on a clock that the test sets. */
#include <check.h>
#include <string.h>

#include "rendezvous/stall/stall.h"
#include "tests/unit/run_case.h"

enum { PATIENCE = 30000, MINUTE = 60000, TICK = 5000 };

static struct stall ranks;
static struct slow slow;
static struct slow_news news;
static uint64_t now;
static uint32_t per_host;

static const char *host(void *arg, uint32_t rank)
{
	static const char *const names[] = {"h1", "h2", "h3", "h4",
					    "h5", "h6", "h7", "h8"};

	return names[rank / per_host];
}

static void begin_world(uint32_t world, uint32_t ranks_per_host)
{
	stall_release(&ranks);
	ck_assert_int_eq(stall_init(&ranks, world, PATIENCE), 0);
	ranks.host = host;
	per_host = ranks_per_host;
	slow = (struct slow){0};
	now = 1000000;
}

static void begin(void)
{
	begin_world(4, 2);
}

static void end(void)
{
	stall_release(&ranks);
}

static void waits(uint32_t rank, int32_t waited, const char *cause)
{
	const struct wire_rank r = {
		.rank = rank,
		.pid = 100 + rank,
		.peer = -1,
		.step = -1,
		.waited = waited,
		.cause = SLICE_STR(cause),
	};

	ck_assert_int_eq(stall_set(&ranks, &r), 0);
}

/* communicators of two ranks; + 1: the second */
enum { ROW = 11, COLUMN = 21 };

/* In a grid of 2 by 2 ranks, which also meet in the world. */
static void waits_in_grid(uint32_t rank, int32_t world, int32_t row,
			  int32_t column)
{
	struct buf items = BUF_INIT(1024);
	const struct wire_group of[] = {
		{ROW + rank / 2, 2, row, SLICE_STR(rank / 2 ? "1.1" : "1.0")},
		{COLUMN + rank % 2, 2, column,
		 SLICE_STR(rank % 2 ? "2.1" : "2.0")},
	};
	struct wire_rank r = {
		.rank = rank, .pid = 100 + rank, .peer = -1, .step = -1,
		.waited = world, .groups = {2, {NULL, 0}}};

	wire_put_group_item(&items, &of[0]);
	wire_put_group_item(&items, &of[1]);
	r.groups.bytes = SLICE(items.data, items.len);
	ck_assert_int_eq(stall_set(&ranks, &r), 0);
	buf_release(&items);
}

static void all_wait(const int32_t *waited)
{
	for (uint32_t i = 0; i < ranks.world; i++)
		waits(i, waited[i], "");
}

static void check_after(uint64_t ms)
{
	now += ms;
	slow_check(&slow, &ranks, now, &news);
}

/* No line comes in an hour. */
static void stays_silent(void)
{
	for (int i = 0; i < 720; i++) {
		check_after(TICK);
		ck_assert(!news.is_slow && !news.is_over);
	}
}

START_TEST(a_rank_that_is_waited_for_a_minute_gets_a_line)
{
	all_wait((const int32_t[]){400, 390, 410, 60});
	waits(3, 60, "its cgroup was throttled for 21 s of the last 60 s");
	check_after(0);
	check_after(MINUTE - 1);
	ck_assert(!news.is_slow);
	check_after(1);
	ck_assert(news.is_slow);
	ck_assert_uint_eq(news.rank, 3);
	ck_assert_uint_eq(news.share, 340);
	ck_assert_str_eq(news.text,
			 "rank 3 on h2 (pid 103) slows the job down: the other "
			 "ranks wait for it 34 % of the time; its cgroup was "
			 "throttled for 21 s of the last 60 s");
	stays_silent();
}
END_TEST

START_TEST(the_slowest_rank_is_known_also_without_a_line)
{
	all_wait((const int32_t[]){400, -1, 410, 300});
	check_after(0);
	ck_assert(!news.has_slowest);
	all_wait((const int32_t[]){400, 390, 410, 300});
	check_after(0);
	ck_assert(news.has_slowest && !news.is_slow);
	ck_assert_uint_eq(news.slowest, 3);
	ck_assert_uint_eq(news.slowest_share, 100);
}
END_TEST

START_TEST(a_minute_that_is_interrupted_begins_anew)
{
	const int32_t slow_one[] = {400, 390, 410, 60};
	const int32_t none[] = {400, 390, 410, 395};

	for (int i = 0; i < 10; i++) {
		all_wait(slow_one);
		check_after(TICK);
		check_after(MINUTE - 1);
		ck_assert(!news.is_slow);
		all_wait(none);
		check_after(TICK);
		ck_assert(!news.is_over);
	}
}
END_TEST

START_TEST(a_line_says_that_the_rank_has_recovered)
{
	all_wait((const int32_t[]){400, 390, 410, 60});
	check_after(0);
	check_after(MINUTE);
	ck_assert(news.is_slow);
	all_wait((const int32_t[]){300, 290, 310, 200});
	check_after(TICK);
	ck_assert(!news.is_over);
	all_wait((const int32_t[]){300, 290, 310, 201});
	check_after(TICK);
	ck_assert(news.is_over);
	ck_assert_uint_eq(news.rank, 3);
	ck_assert_str_eq(news.text,
			 "rank 3 on h2 (pid 103) no longer slows the job down");
	stays_silent();
}
END_TEST

START_TEST(balanced_ranks_get_no_line_whatever_an_exchange_takes)
{
	static const int32_t shares[][4] = {
		{0, 0, 0, 0},	      {1000, 1000, 1000, 1000},
		{800, 700, 850, 650}, {150, 0, 199, 120},
		{200, 400, 400, 400}, {2000, 1500, 1000, 1200},
	};

	for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
		begin();
		all_wait(shares[i]);
		stays_silent();
	}
}
END_TEST

START_TEST(no_rank_is_called_slow_before_all_have_reported)
{
	waits(0, 900, "");
	waits(1, 0, "");
	waits(2, 900, "");
	stays_silent();
	waits(3, -1, "");
	stays_silent();
	waits(3, 900, "");
	check_after(TICK);
	check_after(MINUTE);
	ck_assert(news.is_slow);
	ck_assert_uint_eq(news.rank, 1);
}
END_TEST

START_TEST(a_rank_alone_waits_for_nobody)
{
	begin_world(1, 1);
	waits(0, 0, "");
	stays_silent();
	begin_world(2, 1);
	waits(0, 900, "");
	waits(1, 0, "");
	stall_set_ended(&ranks, 0);
	stays_silent();
}
END_TEST

START_TEST(a_slow_rank_that_ends_is_forgotten)
{
	all_wait((const int32_t[]){400, 390, 410, 60});
	check_after(0);
	check_after(MINUTE);
	ck_assert(news.is_slow);
	stall_set_ended(&ranks, 3);
	stays_silent();
}
END_TEST

START_TEST(either_of_two_ranks_can_be_slow)
{
	begin_world(2, 2);
	all_wait((const int32_t[]){500, 200});
	check_after(0);
	check_after(MINUTE);
	ck_assert(news.is_slow);
	ck_assert_uint_eq(news.rank, 1);
	ck_assert_uint_eq(news.share, 300);
}
END_TEST

START_TEST(one_fast_rank_does_not_make_the_rest_slow)
{
	all_wait((const int32_t[]){50, 60, 900, 40});
	stays_silent();
	begin_world(3, 1);
	all_wait((const int32_t[]){50, 60, 900});
	stays_silent();
}
END_TEST

START_TEST(ranks_that_are_all_slow_are_a_node)
{
	begin_world(8, 4);
	all_wait((const int32_t[]){300, 310, 300, 320, 10, 0, 20, 30});
	check_after(0);
	check_after(MINUTE);
	ck_assert(news.is_slow);
	ck_assert_str_eq(news.text,
			 "node h2 (ranks 4 to 7) slows the job down: the ranks "
			 "of other nodes wait for it 30 % of the time");
	/* one of its ranks waits as those of other nodes do */
	begin_world(8, 4);
	all_wait((const int32_t[]){300, 310, 300, 320, 10, 0, 20, 300});
	check_after(0);
	check_after(MINUTE);
	ck_assert_ptr_nonnull(strstr(news.text, "rank 5 on h2 (pid 105) "));
	/* there is no other node */
	begin_world(4, 4);
	all_wait((const int32_t[]){300, 310, 10, 0});
	check_after(0);
	check_after(MINUTE);
	ck_assert_ptr_null(strstr(news.text, "node "));
}
END_TEST

START_TEST(a_rank_that_is_slow_in_a_group_is_named_with_it)
{
	/* 2 waits for 3 in their row, so 0 waits for 2 in their column */
	waits_in_grid(0, 10, 0, 400);
	waits_in_grid(1, 0, 0, 420);
	waits_in_grid(2, 0, 400, 0);
	waits_in_grid(3, 10, 10, 10);
	check_after(0);
	check_after(MINUTE);
	ck_assert(news.is_slow);
	ck_assert_str_eq(news.text,
			 "rank 3 on h2 (pid 103) slows the job down: the other "
			 "ranks of group 2.1 wait for it 40 % of the time");
	ck_assert_uint_eq(news.slowest, 3);
	/* it recovers in one, and then in the other */
	waits_in_grid(1, 0, 0, 0);
	check_after(TICK);
	ck_assert(!news.is_over);
	waits_in_grid(2, 0, 50, 0);
	waits_in_grid(0, 0, 0, 50);
	check_after(TICK);
	ck_assert(news.is_over);
	stays_silent();
}
END_TEST

START_TEST(a_rank_that_waits_in_a_group_does_not_slow_the_world_down)
{
	/* all meet in the world after the rows */
	waits_in_grid(0, 400, 0, 0);
	waits_in_grid(1, 400, 0, 0);
	waits_in_grid(2, 0, 400, 0);
	waits_in_grid(3, 5, 0, 0);
	check_after(0);
	check_after(MINUTE);
	ck_assert(news.is_slow);
	ck_assert_uint_eq(news.rank, 3);
}
END_TEST

START_TEST(a_group_counts_only_with_all_its_ranks)
{
	for (uint32_t i = 0; i < 4; i++)
		waits_in_grid(i, 0, i == 2 ? 400 : 0, 0);
	waits(3, 0, "");
	stays_silent();
	/* not watched for a minute */
	waits_in_grid(3, 0, -1, -1);
	stays_silent();
	waits_in_grid(3, 0, 0, 0);
	check_after(0);
	check_after(MINUTE);
	ck_assert(news.is_slow);
	stall_set_ended(&ranks, 2);
	check_after(TICK);
	ck_assert(news.is_over);
	stays_silent();
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("slow");

	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, a_rank_that_is_waited_for_a_minute_gets_a_line);
	tcase_add_test(c, the_slowest_rank_is_known_also_without_a_line);
	tcase_add_test(c, a_minute_that_is_interrupted_begins_anew);
	tcase_add_test(c, a_line_says_that_the_rank_has_recovered);
	tcase_add_test(c,
		       balanced_ranks_get_no_line_whatever_an_exchange_takes);
	tcase_add_test(c, no_rank_is_called_slow_before_all_have_reported);
	tcase_add_test(c, a_rank_alone_waits_for_nobody);
	tcase_add_test(c, a_slow_rank_that_ends_is_forgotten);
	tcase_add_test(c, either_of_two_ranks_can_be_slow);
	tcase_add_test(c, one_fast_rank_does_not_make_the_rest_slow);
	tcase_add_test(c, ranks_that_are_all_slow_are_a_node);
	tcase_add_test(c, a_rank_that_is_slow_in_a_group_is_named_with_it);
	tcase_add_test(
		c, a_rank_that_waits_in_a_group_does_not_slow_the_world_down);
	tcase_add_test(c, a_group_counts_only_with_all_its_ranks);
	return run_case(c);
}
