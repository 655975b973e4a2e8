/* test_top_rows.c: joins ranks with their nodes, marks, sorts and
 * filters them. */
#include <check.h>
#include <stdlib.h>

#include "launcher/top/top_internal.h"
#include "tests/unit/run_case.h"

static struct buf ranks, nodes;
static struct job_status job;
static struct top_rows rows;

static void start(void)
{
	buf_release(&ranks);
	buf_release(&nodes);
	buf_init(&ranks, 1 << 20);
	buf_init(&nodes, 1 << 20);
	top_rows_release(&rows);
	job = (struct job_status){.bytes = NULL};
}

static struct wire_rank rank_of(uint32_t rank)
{
	return (struct wire_rank){
		.rank = rank, .pid = 100 + rank, .doing = RANK_WORKS,
		.step = -1, .waited = -1, .peer = -1,
		.call = SLICE_STR("all_reduce #7"),
		.words = SLICE_STR("works"), .cause = SLICE_STR(""),
	};
}

static void add_rank(struct wire_rank r)
{
	wire_put_rank_item(&ranks, &r);
	job.ranks.ranks.count++;
	job.ranks.ranks.bytes = SLICE(ranks.data, ranks.len);
}

static void add_node(int32_t node_rank, const char *host, uint32_t base,
		     uint32_t n)
{
	const struct wire_job_node node = {
		.node_rank = node_rank, .host = SLICE_STR(host),
		.addr = SLICE_STR("10.0.0.1"), .state = WIRE_NODE_RUNS,
		.base_rank = base, .nproc = n,
	};

	wire_put_job_node_item(&nodes, &node);
	job.as.nodes.count++;
	job.as.nodes.bytes = SLICE(nodes.data, nodes.len);
}

START_TEST(a_row_has_its_node)
{
	start();
	add_rank(rank_of(2)); /* not in order */
	add_rank(rank_of(0));
	add_rank(rank_of(9)); /* on no node */
	add_node(1, "h2", 2, 2);
	add_node(0, "h1", 0, 2);
	ck_assert_int_eq(top_rows_init(&rows, &job), 0);
	ck_assert_uint_eq(rows.n, 3);
	ck_assert_uint_eq(rows.rows[0].as.rank, 0);
	ck_assert_int_eq(rows.rows[0].node, 0);
	ck_assert_int_eq(rows.rows[1].node, 1);
	ck_assert_int_eq(rows.rows[2].node, -1);
	ck_assert_uint_eq(rows.rows[2].host.len, 0);
}
END_TEST

/* waited of four ranks in thousandths, and the rank that is marked, or -1 */
static const struct {
	int32_t waited[4];
	int slow;
} slow[] = {
	{{900, 900, 100, 900}, 2},  {{300, 300, 100, 300}, -1},
	{{301, 301, 100, 301}, 2},  {{100, 900, 900, -1}, -1},
	{{100, 100, 100, 900}, -1}, {{0, 0, 0, 0}, -1},
};

START_TEST(the_rank_that_the_others_wait_for_is_slow)
{
	start();
	for (uint32_t i = 0; i < 4; i++) {
		struct wire_rank r = rank_of(i);

		r.waited = slow[_i].waited[i];
		add_rank(r);
	}
	ck_assert_int_eq(top_rows_init(&rows, &job), 0);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(rows.rows[i].mark,
				 i == slow[_i].slow ? TOP_SLOW : TOP_FINE);
}
END_TEST

START_TEST(a_rank_that_is_stopped_or_without_progress_is_marked)
{
	struct wire_rank r = rank_of(0);

	start();
	r.step = 7;
	r.quiet_ms = 29999;
	add_rank(r);
	r.rank = 1;
	r.quiet_ms = 30000;
	add_rank(r);
	r.rank = 2;
	r.quiet_ms = 0;
	r.doing = RANK_STOPPED;
	add_rank(r);
	ck_assert_int_eq(top_rows_init(&rows, &job), 0);
	ck_assert_int_eq(rows.rows[0].mark, TOP_FINE);
	ck_assert_int_eq(rows.rows[1].mark, TOP_QUIET);
	ck_assert_int_eq(rows.rows[2].mark, TOP_QUIET);
}
END_TEST

START_TEST(a_rank_whose_progress_nobody_reports_is_not_marked)
{
	struct wire_rank r = rank_of(0);

	start();
	r.step = r.waited = -1;
	r.call = SLICE_STR("");
	r.quiet_ms = 90000;
	add_rank(r);
	r.rank = 1;
	add_rank(r);
	ck_assert_int_eq(top_rows_init(&rows, &job), 0);
	ck_assert_int_eq(rows.rows[0].mark, TOP_FINE);
	ck_assert_int_eq(rows.rows[1].mark, TOP_FINE);
	/* rank 0 is missing in its first call */
	top_rows_release(&rows);
	r.rank = 2;
	r.call = SLICE_STR("barrier");
	add_rank(r);
	ck_assert_int_eq(top_rows_init(&rows, &job), 0);
	ck_assert_int_eq(rows.rows[0].mark, TOP_QUIET);
}
END_TEST

static void check_order(enum top_order order, uint32_t a, uint32_t b,
			uint32_t c)
{
	top_rows_sort(&rows, order);
	ck_assert_uint_eq(rows.rows[0].as.rank, a);
	ck_assert_uint_eq(rows.rows[1].as.rank, b);
	ck_assert_uint_eq(rows.rows[2].as.rank, c);
}

START_TEST(rows_are_sorted_by_each_order)
{
	static const uint64_t quiet[] = {5, 70, 5};
	static const int64_t step[] = {8, 8, 7};

	start();
	for (uint32_t i = 0; i < 3; i++) {
		struct wire_rank r = rank_of(i);

		r.quiet_ms = quiet[i];
		r.step = step[i];
		add_rank(r);
	}
	ck_assert_int_eq(top_rows_init(&rows, &job), 0);
	rows.rows[0].as.cpu = 500;
	rows.rows[2].as.cpu = 1500;
	check_order(TOP_BY_QUIET, 1, 0, 2);
	check_order(TOP_BY_STEP, 2, 0, 1);
	check_order(TOP_BY_CPU, 2, 0, 1);
	check_order(TOP_BY_RANK, 0, 1, 2);
}
END_TEST

static const struct {
	const char *text;
	size_t kept;
} filters[] = {
	{"", 12}, {"1", 1}, {"11", 1}, {"12", 0}, {"ha", 12}, {"reduce", 12},
	{"barrier", 0},
};

START_TEST(a_filter_keeps_a_rank_or_what_contains_its_text)
{
	start();
	for (uint32_t i = 0; i < 12; i++) {
		struct wire_rank r = rank_of(i);

		r.call = SLICE_STR("all_reduce #");
		add_rank(r);
	}
	add_node(0, "ha", 0, 12);
	ck_assert_int_eq(top_rows_init(&rows, &job), 0);
	top_rows_filter(&rows, filters[_i].text);
	ck_assert_uint_eq(rows.n, filters[_i].kept);
}
END_TEST

START_TEST(a_truncated_list_is_read_up_to_its_end)
{
	start();
	add_rank(rank_of(0));
	add_rank(rank_of(1));
	job.ranks.ranks.bytes.len -= 3;
	ck_assert_int_eq(top_rows_init(&rows, &job), 0);
	ck_assert_uint_eq(rows.n, 1);
}
END_TEST

#define COUNT(a) (int)(sizeof(a) / sizeof(*(a)))

int main(void)
{
	TCase *c = tcase_create("top_rows");

	tcase_add_test(c, a_row_has_its_node);
	tcase_add_loop_test(c, the_rank_that_the_others_wait_for_is_slow, 0,
			    COUNT(slow));
	tcase_add_test(c, a_rank_that_is_stopped_or_without_progress_is_marked);
	tcase_add_test(c, a_rank_whose_progress_nobody_reports_is_not_marked);
	tcase_add_test(c, rows_are_sorted_by_each_order);
	tcase_add_loop_test(c, a_filter_keeps_a_rank_or_what_contains_its_text,
			    0, COUNT(filters));
	tcase_add_test(c, a_truncated_list_is_read_up_to_its_end);
	return run_case(c);
}
