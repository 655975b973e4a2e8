/* test_network.c: which nodes a matrix of links blames. */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/check/network.h"
#include "worker-sdk/check/reach.h"

enum { NODES = 5 };

static struct findings nodes[NODES];
static struct findings *const list[NODES] = {&nodes[0], &nodes[1], &nodes[2],
					     &nodes[3], &nodes[4]};
static const char *const hosts[NODES] = {"h1", "h2", "h3", "h4", "h5"};
static const char *const addrs[NODES] = {"10.0.0.1", "10.0.0.2", "10.0.0.3",
					 "10.0.0.4", "10.0.0.5"};
static struct network w;

static void set_pair(int a, int b, double rtt_us, double mbytes_s)
{
	network_at(&w, a < b ? a : b, a < b ? b : a)->pair =
		(struct pair_result){rtt_us, mbytes_s, mbytes_s, 0};
}

static void begin(void)
{
	ck_assert_int_eq(network_init(&w, NODES, hosts, addrs), 0);
	for (int i = 0; i < NODES; i++) {
		nodes[i].n = 0;
		for (int k = i + 1; k < NODES; k++)
			set_pair(i, k, 50, 1000);
	}
}

static void end(void)
{
	network_release(&w);
}

/* The nodes that are not fit, as digits. */
static const char *unfit(void)
{
	static char text[NODES + 1];
	const struct finding *first;
	int n = 0;

	network_judge(&w, list, reach_text);
	for (int i = 0; i < NODES; i++) {
		if (findings_worst(&nodes[i], &first) == FINDING_FAILURE)
			text[n++] = (char)('1' + i);
	}
	text[n] = '\0';
	return text;
}

START_TEST(a_whole_network_blames_nobody)
{
	ck_assert_str_eq(unfit(), "");
	for (int i = 0; i < NODES; i++) {
		const struct finding *first;

		ck_assert_int_eq(findings_worst(&nodes[i], &first), FINDING_OK);
		ck_assert_str_eq(findings_get(&nodes[i], "connections")->text,
				 "all");
	}
}
END_TEST

START_TEST(a_node_that_no_other_reaches_is_blamed_alone)
{
	for (int i = 0; i < NODES; i++)
		network_at(&w, i, 1)->code = i == 1 ? 0 : ECONNREFUSED;
	ck_assert_str_eq(unfit(), "2");
	ck_assert_str_eq(nodes[1].list[0].wrong,
			 "h1 cannot connect to h2 at 10.0.0.2: connection "
			 "refused (does a firewall reject it?); the same with "
			 "3 other nodes");
}
END_TEST

START_TEST(one_direction_is_enough)
{
	network_at(&w, 3, 0)->code = REACH_NO_ANSWER;
	ck_assert_str_eq(unfit(), "4");
	ck_assert_ptr_nonnull(strstr(nodes[3].list[0].wrong,
				     "h4 cannot connect to h1 at 10.0.0.1: no "
				     "answer"));
}
END_TEST

START_TEST(as_few_nodes_as_possible_are_left_out)
{
	network_at(&w, 0, 2)->code = ETIMEDOUT;
	network_at(&w, 1, 2)->code = ETIMEDOUT;
	network_at(&w, 4, 3)->code = ETIMEDOUT;
	ck_assert_str_eq(unfit(), "35");
}
END_TEST

START_TEST(a_connection_that_breaks_is_a_failure)
{
	network_at(&w, 1, 4)->error = -ETIMEDOUT;
	ck_assert_str_eq(unfit(), "5");
}
END_TEST

START_TEST(a_node_with_a_slow_link_stands_out)
{
	const struct finding *f;

	for (int i = 0; i < NODES - 1; i++)
		set_pair(i, NODES - 1, 9000, 90);
	ck_assert_str_eq(unfit(), "");
	f = findings_get(&nodes[4], "network latency");
	ck_assert_int_eq(f->verdict, FINDING_WARNING);
	f = findings_get(&nodes[0], "network latency");
	ck_assert_int_eq(f->verdict, FINDING_OK);
	findings_compare(list, hosts, NODES);
	f = findings_get(&nodes[4], "network speed");
	ck_assert_int_eq(f->verdict, FINDING_WARNING);
	ck_assert_ptr_null(findings_get(&nodes[4], "slow link"));
}
END_TEST

START_TEST(a_single_slow_pair_is_named)
{
	const struct finding *f;

	set_pair(1, 3, 50, 100);
	ck_assert_str_eq(unfit(), "");
	f = findings_get(&nodes[3], "slow link");
	ck_assert_int_eq(f->verdict, FINDING_WARNING);
	ck_assert_ptr_nonnull(strstr(f->wrong, "between h2 and h4 only 100"));
}
END_TEST

START_TEST(a_wrong_clock_is_named)
{
	const struct finding *f;

	network_at(&w, 0, 2)->pair.clock_ms = 83000;
	ck_assert_str_eq(unfit(), "");
	f = findings_get(&nodes[2], "clock");
	ck_assert_int_eq(f->verdict, FINDING_WARNING);
	ck_assert_ptr_nonnull(strstr(f->wrong, "83.0 s ahead"));
	f = findings_get(&nodes[1], "clock");
	ck_assert_int_eq(f->verdict, FINDING_OK);
}
END_TEST

START_TEST(a_row_survives_its_bytes)
{
	struct buf b = BUF_INIT(1 << 20);
	struct err e = ERR_INIT;

	network_at(&w, 1, 0)->code = ECONNREFUSED;
	network_at(&w, 1, 2)->pair.clock_ms = -2.5;
	network_put_row(&b, &w, 1);
	end();
	begin();
	ck_assert_int_eq(network_read_row(&w, 1, SLICE(b.data, b.len - 1), &e),
			 ERR_PROTOCOL);
	ck_assert_int_eq(network_read_row(&w, 1, SLICE(b.data, b.len), &e), 0);
	ck_assert_int_eq(network_at(&w, 1, 0)->code, ECONNREFUSED);
	ck_assert_double_eq(network_at(&w, 1, 2)->pair.clock_ms, -2.5);
	/* it is from a check of another number of nodes */
	b.data[0] ^= 1;
	ck_assert_int_eq(network_read_row(&w, 1, SLICE(b.data, b.len), &e),
			 ERR_PROTOCOL);
	buf_release(&b);
}
END_TEST

START_TEST(a_summary_names_the_worst_pairs)
{
	struct network_summary s;

	set_pair(0, 4, 800, 1000);
	set_pair(2, 3, 50, 10);
	network_at(&w, 1, 2)->code = ETIMEDOUT;
	ck_assert_int_eq(network_summarise(&w, &s), 0);
	ck_assert_int_eq(s.pairs, 10);
	ck_assert_int_eq(s.measured, 9);
	ck_assert_int_eq(s.far_a, 0);
	ck_assert_int_eq(s.far_b, 4);
	ck_assert_int_eq(s.slow_a, 2);
	ck_assert_double_eq(s.slowest_mbytes_s, 10);
	ck_assert_double_eq(s.rtt_us, 50);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("network");

	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, a_whole_network_blames_nobody);
	tcase_add_test(c, a_node_that_no_other_reaches_is_blamed_alone);
	tcase_add_test(c, one_direction_is_enough);
	tcase_add_test(c, as_few_nodes_as_possible_are_left_out);
	tcase_add_test(c, a_connection_that_breaks_is_a_failure);
	tcase_add_test(c, a_node_with_a_slow_link_stands_out);
	tcase_add_test(c, a_single_slow_pair_is_named);
	tcase_add_test(c, a_wrong_clock_is_named);
	tcase_add_test(c, a_row_survives_its_bytes);
	tcase_add_test(c, a_summary_names_the_worst_pairs);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
