/* test_finding.c: lists of findings, their bytes, and the comparison of
 * nodes. */
#include <math.h>
#include <stdlib.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/check/finding.h"

enum { NODES = 5 };

static struct findings nodes[NODES];
static struct findings *const list[NODES] = {&nodes[0], &nodes[1], &nodes[2],
					     &nodes[3], &nodes[4]};
static const char *const hosts[NODES] = {"h1", "h2", "h3", "h4", "h5"};

static void forget(void)
{
	for (int i = 0; i < NODES; i++)
		nodes[i].n = 0;
}

static struct finding *version(int node, const char *text)
{
	struct finding *f = finding_add(&nodes[node], "driver", "%s", text);

	f->compare = FINDING_SAME;
	return f;
}

static struct finding *speed(int node, double value)
{
	struct finding *f = finding_add(&nodes[node], "speed", "%g", value);

	f->value = value;
	f->compare = FINDING_AS_HIGH;
	return f;
}

START_TEST(the_worse_verdict_stays)
{
	struct finding *f = finding_add(&nodes[0], "disk", "full");

	ck_assert_int_eq(f->verdict, FINDING_OK);
	finding_mark(f, FINDING_FAILURE, "it is full");
	finding_mark(f, FINDING_WARNING, "it is slow");
	ck_assert_int_eq(f->verdict, FINDING_FAILURE);
	ck_assert_str_eq(f->wrong, "it is full");
	ck_assert_uint_eq(findings_count(&nodes[0], FINDING_FAILURE), 1);
}
END_TEST

START_TEST(a_list_survives_its_bytes)
{
	struct buf b = BUF_INIT(1 << 20);
	struct err e = ERR_INIT;
	struct findings back;
	struct reader r;

	finding_mark(version(0, "550"), FINDING_WARNING, "old");
	speed(0, 2.5);
	finding_add(&nodes[0], "name", "h1");
	findings_put(&b, &nodes[0]);
	reader_init(&r, SLICE(b.data, b.len));
	ck_assert_int_eq(findings_read(&back, &r, &e), 0);
	ck_assert_uint_eq(back.n, 3);
	ck_assert_str_eq(back.list[0].wrong, "old");
	ck_assert_int_eq(back.list[0].verdict, FINDING_WARNING);
	ck_assert_double_eq(back.list[1].value, 2.5);
	ck_assert(isnan(back.list[2].value));
	ck_assert_str_eq(back.list[2].text, "h1");
	buf_release(&b);
}
END_TEST

START_TEST(bytes_that_are_cut_or_changed_are_refused)
{
	struct buf b = BUF_INIT(1 << 20);
	struct err e = ERR_INIT;
	struct findings back;
	struct reader r;

	speed(0, 1);
	findings_put(&b, &nodes[0]);
	for (size_t n = 0; n < b.len; n++) {
		reader_init(&r, SLICE(b.data, n));
		ck_assert_int_eq(findings_read(&back, &r, &e), ERR_PROTOCOL);
		ck_assert_uint_eq(back.n, 0);
	}
	b.data[b.len - 2] = FINDING_VERDICTS;
	reader_init(&r, SLICE(b.data, b.len));
	ck_assert_int_eq(findings_read(&back, &r, &e), ERR_PROTOCOL);
	b.data[b.len - 2] = 0;
	b.data[0] = (char)0xff; /* more findings than a node may have */
	reader_init(&r, SLICE(b.data, b.len));
	ck_assert_int_eq(findings_read(&back, &r, &e), ERR_PROTOCOL);
	buf_release(&b);
}
END_TEST

START_TEST(a_full_list_keeps_its_size)
{
	for (int i = 0; i < FINDINGS_MAX + 3; i++)
		finding_add(&nodes[0], "x", "%d", i);
	ck_assert_uint_eq(nodes[0].n, FINDINGS_MAX);
}
END_TEST

START_TEST(a_node_with_another_text_is_marked)
{
	for (int i = 0; i < NODES; i++)
		version(i, i == 3 ? "535" : "550");
	findings_compare(list, hosts, NODES);
	for (int i = 0; i < NODES; i++)
		ck_assert_int_eq(nodes[i].list[0].verdict,
				 i == 3 ? FINDING_WARNING : FINDING_OK);
	ck_assert_ptr_nonnull(strstr(nodes[3].list[0].wrong,
				     "535 here, but 550 on h1, h2, h3, h5"));
}
END_TEST

START_TEST(a_node_far_below_the_median_is_marked)
{
	static const double values[NODES] = {10, 11, 4.9, 9, 30};

	for (int i = 0; i < NODES; i++)
		speed(i, values[i]);
	findings_compare(list, hosts, NODES);
	for (int i = 0; i < NODES; i++)
		ck_assert_int_eq(nodes[i].list[0].verdict,
				 i == 2 ? FINDING_WARNING : FINDING_OK);
}
END_TEST

START_TEST(the_lower_of_two_nodes_is_marked)
{
	speed(0, 10);
	speed(1, 4);
	findings_compare(list, hosts, 2);
	ck_assert_int_eq(nodes[0].list[0].verdict, FINDING_OK);
	ck_assert_int_eq(nodes[1].list[0].verdict, FINDING_WARNING);
}
END_TEST

START_TEST(a_finding_that_only_later_nodes_have_is_compared)
{
	version(2, "550");
	version(3, "550");
	version(4, "535");
	findings_compare(list, hosts, NODES);
	ck_assert_int_eq(nodes[4].list[0].verdict, FINDING_WARNING);
	ck_assert_int_eq(nodes[2].list[0].verdict, FINDING_OK);
}
END_TEST

START_TEST(a_failure_stays_one_when_nodes_are_compared)
{
	const struct finding *first;

	speed(0, 10);
	finding_mark(speed(1, 1), FINDING_FAILURE, "broken");
	findings_compare(list, hosts, 2);
	ck_assert_int_eq(findings_worst(&nodes[1], &first), FINDING_FAILURE);
	ck_assert_str_eq(first->wrong, "broken");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("finding");

	tcase_add_checked_fixture(c, forget, NULL);
	tcase_add_test(c, the_worse_verdict_stays);
	tcase_add_test(c, a_list_survives_its_bytes);
	tcase_add_test(c, bytes_that_are_cut_or_changed_are_refused);
	tcase_add_test(c, a_full_list_keeps_its_size);
	tcase_add_test(c, a_node_with_another_text_is_marked);
	tcase_add_test(c, a_node_far_below_the_median_is_marked);
	tcase_add_test(c, the_lower_of_two_nodes_is_marked);
	tcase_add_test(c, a_finding_that_only_later_nodes_have_is_compared);
	tcase_add_test(c, a_failure_stays_one_when_nodes_are_compared);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
