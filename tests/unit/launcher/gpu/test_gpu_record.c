/* test_gpu_record.c: the helper's lines, there and back. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/gpu/gpu_record.h"
#include "tests/unit/run_case.h"

static struct buf out = BUF_INIT(1 << 16);
static struct gpu_line line;

static int parse(const char *text)
{
	return gpu_line_parse(SLICE_STR(text), &line);
}

/* What was put, without its line break. */
static int parse_put(void)
{
	ck_assert(!out.failed && out.len && out.data[out.len - 1] == '\n');
	return gpu_line_parse(SLICE(out.data, out.len - 1), &line);
}

START_TEST(a_record_comes_back_as_it_was)
{
	struct gpu_record r;

	gpu_record_init(&r, 63);
	ck_assert_int_eq(r.temperature, -1);
	ck_assert_int_eq(r.is_lost, -1);
	strcpy(r.uuid, "GPU-1");
	strcpy(r.name, "NVIDIA H200 NVL");
	r.temperature = 71;
	r.memory_total = INT64_C(150754820096);
	r.is_lost = 0;
	buf_reset(&out);
	gpu_record_put(&out, &r);
	ck_assert_int_eq(parse_put(), 0);
	ck_assert_int_eq(line.kind, GPU_LINE_RECORD);
	ck_assert_int_eq(line.record.index, 63);
	ck_assert_str_eq(line.record.uuid, "GPU-1");
	ck_assert_str_eq(line.record.name, "NVIDIA H200 NVL");
	ck_assert_int_eq(line.record.temperature, 71);
	ck_assert_int_eq(line.record.memory_total, INT64_C(150754820096));
	ck_assert_int_eq(line.record.throttle, -1);
	ck_assert_int_eq(line.record.is_lost, 0);
}
END_TEST

START_TEST(a_lost_gpu_may_have_no_uuid_and_no_name)
{
	struct gpu_record r;

	gpu_record_init(&r, 0);
	r.is_lost = 1;
	buf_reset(&out);
	gpu_record_put(&out, &r);
	ck_assert_int_eq(parse_put(), 0);
	ck_assert_str_eq(line.record.uuid, "");
	ck_assert_str_eq(line.record.name, "");
	ck_assert_int_eq(line.record.is_lost, 1);
}
END_TEST

START_TEST(odd_bytes_in_names_do_not_break_the_line)
{
	struct gpu_record r;

	gpu_record_init(&r, 2);
	strcpy(r.uuid, "a b\nc");
	strcpy(r.name, "x\ny");
	buf_reset(&out);
	gpu_record_put(&out, &r);
	ck_assert_int_eq(parse_put(), 0);
	ck_assert_str_eq(line.record.uuid, "a_b_c");
	ck_assert_str_eq(line.record.name, "x y");
	buf_reset(&out);
	gpu_record_put_text(&out, 1, "no\ndriver");
	ck_assert_int_eq(parse_put(), 0);
	ck_assert_int_eq(line.kind, GPU_LINE_FAIL);
	ck_assert_str_eq(line.text, "no driver");
}
END_TEST

START_TEST(the_other_lines)
{
	buf_reset(&out);
	gpu_record_put_xid(&out, 3, 79, GPU_NO_INSTANCE);
	ck_assert_int_eq(parse_put(), 0);
	ck_assert_int_eq(line.kind, GPU_LINE_XID);
	ck_assert_uint_eq(line.index, 3);
	ck_assert_uint_eq(line.xid, 79);
	ck_assert_uint_eq(line.instance, GPU_NO_INSTANCE);
	ck_assert_int_eq(parse("end"), 0);
	ck_assert_int_eq(line.kind, GPU_LINE_END);
	ck_assert_int_eq(parse("note x"), 0);
	ck_assert_int_eq(line.kind, GPU_LINE_NOTE);
}
END_TEST

START_TEST(invalid_lines_are_refused)
{
	static const char *const bad[] = {
		"", " ", "gpu", "gpu 64 u 1", "gpu -1 u", "gpus 1", "end x",
		"xid 1 79", "xid 1 79 2 3", "xid 64 79 0", "xid 1 x 0",
		"xid 1 4294967296 0", "gpu 0 u 1 2 3 4 5 6 7 8 9 10 11 12 13",
		"gpu 0 u 1 2 3 4 5 6 7 8 9 10 11 12 13 -2 n",
		"gpu 0 u 1 2 3 4 5 6 7 8 9 10 11 12 13 99999999999999999999 n",
		"gpu 0  1 2 3 4 5 6 7 8 9 10 11 12 13 14 n",
	};
	char text[GPU_LINE_MAX + 1];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_msg(parse(bad[i]) == -1, "'%s'", bad[i]);
	ck_assert_int_eq(gpu_line_parse(SLICE("end\0", 4), &line), -1);
	memset(text, 'x', sizeof(text));
	memcpy(text, "note ", 5);
	ck_assert_int_eq(gpu_line_parse(SLICE(text, GPU_LINE_MAX), &line), -1);
	ck_assert_int_eq(gpu_line_parse(SLICE(text, GPU_LINE_MAX - 1), &line),
			 0);
	/* a name or a UUID of the largest size, and one byte more */
	for (int n = GPU_NAME_MAX - 1; n <= GPU_NAME_MAX; n++) {
		int at = snprintf(text, sizeof(text),
				  "gpu 0 u 1 2 3 4 5 6 7 8 9 10 11 12 13 14 ");

		memset(text + at, 'n', (size_t)n);
		text[at + n] = '\0';
		ck_assert_int_eq(parse(text), n < GPU_NAME_MAX ? 0 : -1);
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("gpu_record");

	tcase_add_test(c, a_record_comes_back_as_it_was);
	tcase_add_test(c, a_lost_gpu_may_have_no_uuid_and_no_name);
	tcase_add_test(c, odd_bytes_in_names_do_not_break_the_line);
	tcase_add_test(c, the_other_lines);
	tcase_add_test(c, invalid_lines_are_refused);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
