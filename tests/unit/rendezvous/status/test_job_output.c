/* test_job_output.c: the last lines of a rank: nothing in them acts on a
 * terminal, and their JSON is valid. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/status/job_status.h"
#include "tests/unit/run_case.h"

static const struct {
	const char *text, *cleaned;
} texts[] = {
	{"", ""},
	{"a line\nand \xc3\xbc\n", "a line\nand \xc3\xbc\n"},
	{"\x1b[31mred\x1b[m", "red"},
	{"\x1b[1;38;5;9mx\x1b[0K\n", "x\n"},
	{"\x1b[?25l\x1b[2J\x1b[Hx", "x"},
	/* the title of a window, a link, a string; ended in either way */
	{"a\x1b]0;owned\a!", "a!"},
	{"\x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\", "link"},
	{"a\x1bPq#0;2\x1b\\!", "a!"},
	/* one more character, with or without intermediate ones */
	{"\x1b(Bx\x1b=y\x1b#8z", "xyz"},
	/* cut off: by the end, a newline, or another sequence */
	{"a\x1b", "a"},
	{"a\x1b[", "a"},
	{"a\x1b[31", "a"},
	{"a\x1b]0;t", "a"},
	{"a\x1b\n!", "a\n!"},
	{"a\x1b[3\n!", "a\n!"},
	{"a\x1b]0;t\n!", "a\n!"},
	{"a\x1b(\n!", "a\n!"},
	{"\x1b\x1b[31mx", "x"},
	{"\x1b]0;t\x1b[31mx", "[31mx"},
	/* other controls, of both sets */
	{"a\ry\b!\x7f\x01", "a?y?!??"},
	{"\xc2\x9b!31mx\xc2\xa0", "?!31mx\xc2\xa0"},
	{"a\ty\n\tz\n12345678\tz", "a       y\n        z\n12345678        z"},
	/* not UTF-8: JSON and the screen replace it */
	{"\xff\xc2", "\xff\xc2"},
};

START_TEST(text_is_cleaned)
{
	struct buf out = BUF_INIT(1024);

	job_output_clean(&out, SLICE_STR(texts[_i].text));
	ck_assert_uint_eq(out.len, strlen(texts[_i].cleaned));
	if (out.len)
		ck_assert_int_eq(memcmp(out.data, texts[_i].cleaned, out.len),
				 0);
	buf_release(&out);
}
END_TEST

START_TEST(a_nul_byte_ends_nothing)
{
	static const char text[] = {'a', 0, 'b', 0x1b, 0, 'c'};
	struct buf out = BUF_INIT(64);

	job_output_clean(&out, SLICE(text, sizeof(text)));
	ck_assert_uint_eq(out.len, 5);
	ck_assert_int_eq(memcmp(out.data, "a?b?c", 5), 0);
	buf_release(&out);
}
END_TEST

/* The JSON of what an agent answered. */
static char *json_of(const struct job_output *o)
{
	struct err e = ERR_INIT;
	const struct json *j = json_load(&e);
	cJSON *to = j->object();
	char *text;

	job_output_put_json(j, to, o);
	text = j->print(to);
	j->release(to);
	return text;
}

START_TEST(the_answer_as_json)
{
	const struct wire_node_dump m = {
		.host = SLICE_STR("h\"1"), .text = SLICE_STR(""),
		.out = SLICE_STR("one\n\n<b>\xff\x1b[m\nnot ended"),
		.err = SLICE_STR(""),
	};
	struct job_output o;
	char *text;

	ck_assert_int_eq(job_output_init(&o, 3, &m), 0);
	text = json_of(&o);
	ck_assert_str_eq(text,
			 "{\"rank\":3,\"host\":\"h\\\"1\",\"error\":null,"
			 "\"stdout\":[\"one\",\"\",\"<b>\xef\xbf\xbd\","
			 "\"not ended\"],\"stderr\":[]}");
	free(text);
	job_output_set_error(&o, 4, "no rank 4");
	text = json_of(&o);
	ck_assert_str_eq(text,
			 "{\"rank\":4,\"host\":null,\"error\":\"no rank 4\","
			 "\"stdout\":[],\"stderr\":[]}");
	free(text);
	job_output_release(&o);
	job_output_release(&o);
}
END_TEST

START_TEST(the_longest_answer_fits)
{
	struct wire_node_dump m = {.host = SLICE_STR(""),
				   .text = SLICE_STR("")};
	char *bytes = malloc(WIRE_OUTPUT_MAX), *text;
	struct job_output o;

	memset(bytes, '\t', WIRE_OUTPUT_MAX);
	m.out = m.err = SLICE(bytes, WIRE_OUTPUT_MAX);
	ck_assert_int_eq(job_output_init(&o, 0, &m), 0);
	ck_assert_uint_eq(o.lines[0].len, 8 * WIRE_OUTPUT_MAX);
	job_output_release(&o);
	memset(bytes, 0xff, WIRE_OUTPUT_MAX);
	ck_assert_int_eq(job_output_init(&o, 0, &m), 0);
	text = json_of(&o);
	ck_assert_uint_gt(strlen(text), 2 * 3 * WIRE_OUTPUT_MAX);
	free(text);
	job_output_release(&o);
	free(bytes);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("job_output");

	tcase_add_loop_test(c, text_is_cleaned, 0,
			    (int)(sizeof(texts) / sizeof(*texts)));
	tcase_add_test(c, a_nul_byte_ends_nothing);
	tcase_add_test(c, the_answer_as_json);
	tcase_add_test(c, the_longest_answer_fits);
	return run_case(c);
}
