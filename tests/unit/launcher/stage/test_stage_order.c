/* test_stage_order.c: what travels between an agent and its stage helper. */
#include <check.h>

#include "launcher/stage/stage_order.h"
#include "tests/unit/run_case.h"

START_TEST(an_order_is_read_as_it_was_written)
{
	struct stage_order o = {
		.source = SLICE_STR("/a b"), .folder = SLICE_STR(""),
		.copy = SLICE_STR("/c"), .addr = SLICE_STR("fd77::1"),
		.port = 29400, .name = SLICE_STR("node 1 (h1)"),
		.token = {{1, 2}}, .serves = 1, .own = {{3}},
		.shared = {{4}},
	}, back;
	struct buf b = BUF_INIT(STAGE_ORDER_MAX);

	stage_order_put(&b, &o);
	ck_assert_int_eq(stage_order_get(&back, SLICE(b.data, b.len)), 0);
	ck_assert_uint_eq(back.source.len, 4);
	ck_assert_uint_eq(back.port, 29400);
	ck_assert_int_eq(back.token.bytes[1], 2);
	ck_assert_int_eq(back.own.bytes[0], 3);
	ck_assert_int_eq(back.shared.bytes[0], 4);
	ck_assert_int_eq(back.serves, 1);
	ck_assert_int_eq(stage_order_get(&back, SLICE(b.data, b.len - 1)), -1);
	buf_put_u8(&b, 0);
	ck_assert_int_eq(stage_order_get(&back, SLICE(b.data, b.len)), -1);
	buf_release(&b);
}
END_TEST

static int parse(struct stage_report *r, const char *line)
{
	return stage_report_parse(r, SLICE_STR(line));
}

START_TEST(reports)
{
	static const char *const bad[] = {"", "X", "L", "L 1", "L 1 -2 x",
					  "P", "P x", "P -1", "D", "Done",
					  "E text", "L 1 99999999999 x"};
	struct stage_report r;

	ck_assert_int_eq(parse(&r, "L 12 3 /a b"), 0);
	ck_assert_uint_eq(r.bytes, 12);
	ck_assert_uint_eq(r.files, 3);
	ck_assert_uint_eq(r.text.len, 4);
	ck_assert_int_eq(parse(&r, "P 1099511627776"), 0);
	ck_assert_uint_eq(r.bytes, 1ull << 40);
	ck_assert_int_eq(parse(&r, "D 1 /x"), 0);
	ck_assert_int_eq(r.number, 1);
	ck_assert_int_eq(parse(&r, "E -28 no space"), 0);
	ck_assert_int_eq(r.number, -28);
	ck_assert_uint_eq(r.text.len, 8);
	ck_assert_int_eq(parse(&r, "A"), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_msg(parse(&r, bad[i]) == -1, "%s", bad[i]);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("stage_order");

	tcase_add_test(c, an_order_is_read_as_it_was_written);
	tcase_add_test(c, reports);
	return run_case(c);
}
