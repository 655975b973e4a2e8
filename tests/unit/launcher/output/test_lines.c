/* test_lines.c: cuts a stream into lines and keeps the last of them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher/output/lines.h"
#include "tests/unit/run_case.h"

/* The emitted pieces: "text|" for each, '<' if LINES_BEGUN, '>' if LINES_OPEN,
 * '~' if LINES_DRAWN, '=' if LINES_SHOWN. */
static struct buf seen = BUF_INIT(8 << 20);

static void see(void *arg, struct slice text, int flags)
{
	buf_printf(&seen, "%s%s%s", flags & LINES_BEGUN ? "<" : "",
		   flags & LINES_DRAWN ? "~" : "",
		   flags & LINES_SHOWN ? "=" : "");
	buf_put(&seen, text.data, text.len);
	buf_printf(&seen, "%s|", flags & LINES_OPEN ? ">" : "");
}

static const char *text_of(struct buf *b)
{
	buf_put(b, "", 1);
	b->len--;
	return b->data;
}

/* Feeds text in pieces of n bytes, then ends the stream. */
static const char *cut(const char *text, size_t n)
{
	struct lines l;
	size_t len = strlen(text);

	lines_init(&l);
	buf_reset(&seen);
	for (size_t at = 0; at < len; at += n)
		lines_feed(&l, SLICE(text + at, len - at < n ? len - at : n),
			   see, NULL);
	lines_end(&l, see, NULL);
	lines_release(&l);
	return text_of(&seen);
}

START_TEST(lines_are_whole_however_they_come)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{"", ""},
		{"\n", "|"},
		{"one\n", "one|"},
		{"one\ntwo\n\nthree", "one|two||three|"},
		{"no end", "no end|"},
		{"a\rb\n", "a\rb|"},
		{"crlf\r\nx", "crlf\r|x|"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		for (size_t n = 1; n < 8; n++)
			ck_assert_str_eq(cut(rows[i].in, n), rows[i].out);
	}
}
END_TEST

START_TEST(a_line_over_the_limit_comes_in_marked_pieces)
{
	size_t n = LINES_MAX * 2 + 5;
	char *text = malloc(n + 2);
	const char *out;

	memset(text, 'x', n);
	text[n] = '\n';
	text[n + 1] = '\0';
	for (size_t piece = 60000; piece <= n + 1; piece += n / 3) {
		out = cut(text, piece);
		ck_assert_uint_eq(strlen(out), n + 4 + 3);
		ck_assert_int_eq(out[LINES_MAX], '>');
		ck_assert_int_eq(out[LINES_MAX + 1], '|');
		ck_assert_int_eq(out[LINES_MAX + 2], '<');
		ck_assert_str_eq(out + strlen(out) - 7, "<xxxxx|");
	}
	free(text);
}
END_TEST

START_TEST(a_line_of_exactly_the_limit_says_where_it_ended)
{
	char *text = malloc(LINES_MAX + 4);

	memset(text, 'x', LINES_MAX);
	strcpy(text + LINES_MAX, "\ny\n");
	/* complete in one read: nothing must be cut */
	ck_assert_uint_eq(strlen(cut(text, LINES_MAX + 3)), LINES_MAX + 3);
	/* in pieces: the first part is out before its end is seen */
	ck_assert_str_eq(cut(text, 4096) + LINES_MAX, ">|<|y|");
	free(text);
}
END_TEST

START_TEST(binary_bytes_pass)
{
	struct lines l;

	lines_init(&l);
	buf_reset(&seen);
	lines_feed(&l, SLICE("a\0b\n\xff\n", 6), see, NULL);
	ck_assert_uint_eq(seen.len, 6);
	ck_assert_mem_eq(seen.data, "a\0b|\xff|", 6);
	lines_release(&l);
}
END_TEST

START_TEST(a_redrawn_line_is_shown_as_on_a_terminal)
{
	static const struct {
		const char *in, *shown;
	} rows[] = {
		{"10 %\r20 %\r", "20 %"}, {"\r30 %", "30 %"},
		{"\r30 %\r40", "40"},     {"old\n\r50 %", "50 %"},
		{"plain", NULL},          {"\r\r", ""},
		{"done\r\n", NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct lines l;
		struct slice s;

		lines_init(&l);
		buf_reset(&seen);
		lines_feed(&l, SLICE_STR(rows[i].in), see, NULL);
		s = lines_redrawn(&l);
		if (rows[i].shown) {
			ck_assert_ptr_nonnull(s.data);
			ck_assert_uint_eq(s.len, strlen(rows[i].shown));
			ck_assert_mem_eq(s.data, rows[i].shown, s.len);
		} else {
			ck_assert_ptr_null(s.data);
		}
		lines_release(&l);
	}
}
END_TEST

START_TEST(the_held_part_of_a_line_can_be_shown_before_its_end)
{
	/* '.' shows; the rest is fed in pieces between dots */
	static const struct {
		const char *in, *out;
	} rows[] = {
		{".", ""},
		{"abc.de\n", "abc>|<de|"},
		{"abc..\nd\n", "abc>|<|d|"},
		/* a bar that begins, or ends, with \r */
		{"\r10%.\r20%\r30%.\r40%\n", "~10%|~30%|40%|"},
		{"10%\r.20%\r30%\r.40%\r\n", "~10%|~30%|40%|"},
		{"\r10%.\n", "~10%|=10%|"},
		{"\r10%.", "~10%|=10%|"},
		{"\r10%..\r10%.\r10%\n", "~10%|10%|"},
		{"\r10%.x.", "~10%|~10%x|=10%x|"},
		{"\r.\r\r.\n", "=|"},
		/* text that stands for itself, then a bar */
		{"get:.\r1%.\n", "get:>|~1%|=1%|"},
		/* complete in time: unchanged */
		{"\r10%\r20%\n.", "\r10%\r20%|"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct lines l;

		lines_init(&l);
		buf_reset(&seen);
		for (const char *at = rows[i].in; *at;) {
			size_t n = strcspn(at, ".");

			lines_feed(&l, SLICE(at, n), see, NULL);
			if (at[n])
				lines_show(&l, see, NULL);
			at += n + (at[n] != '\0');
		}
		ck_assert_uint_eq(lines_held(&l), 0);
		lines_end(&l, see, NULL);
		ck_assert_str_eq(text_of(&seen), rows[i].out);
		lines_release(&l);
	}
}
END_TEST

static const char *tail_of(const struct tail *t)
{
	struct slice s = tail_text(t);

	buf_reset(&seen);
	buf_put(&seen, s.data, s.len);
	return text_of(&seen);
}

START_TEST(the_tail_keeps_the_last_lines)
{
	struct tail t;
	char line[16];

	tail_init(&t, TAIL_BYTES);
	ck_assert_str_eq(tail_of(&t), "");
	for (int i = 1; i <= TAIL_LINES + 5; i++) {
		snprintf(line, sizeof(line), "line %d", i);
		tail_add(&t, SLICE_STR(line));
	}
	ck_assert_int_eq(t.lines, TAIL_LINES);
	ck_assert_int_eq(strncmp(tail_of(&t), "line 6\nline 7\n", 14), 0);
	ck_assert_ptr_nonnull(strstr(tail_of(&t), "\nline 25\n"));
	tail_clear(&t);
	ck_assert_str_eq(tail_of(&t), "");
	tail_release(&t);
}
END_TEST

START_TEST(the_tail_is_bounded_in_bytes)
{
	struct tail t;
	char *line = malloc(3 * TAIL_BYTES);

	memset(line, 'a', 3 * TAIL_BYTES);
	line[3 * TAIL_BYTES - 1] = 'z';
	tail_init(&t, TAIL_BYTES);
	tail_add(&t, SLICE_STR("first"));
	tail_add(&t, SLICE(line, 3 * TAIL_BYTES));
	ck_assert_uint_eq(tail_text(&t).len, TAIL_BYTES);
	ck_assert_int_eq(tail_text(&t).data[TAIL_BYTES - 2], 'z');
	for (int i = 0; i < 10; i++)
		tail_add(&t, SLICE(line, 1000));
	ck_assert_uint_le(tail_text(&t).len, TAIL_BYTES);
	ck_assert_int_eq(t.lines, 8);
	tail_release(&t);
	free(line);
}
END_TEST

START_TEST(a_tail_has_a_maximum_of_its_own)
{
	struct tail t;

	tail_init(&t, 8);
	tail_add(&t, SLICE_STR("abc"));
	tail_add(&t, SLICE_STR("def"));
	ck_assert_str_eq(tail_of(&t), "abc\ndef\n");
	tail_add(&t, SLICE_STR("g"));
	ck_assert_str_eq(tail_of(&t), "def\ng\n");
	tail_add(&t, SLICE_STR("0123456789"));
	ck_assert_str_eq(tail_of(&t), "3456789\n");
	tail_release(&t);
}
END_TEST

static const struct {
	const char *text;
	uint32_t n;
	const char *last;
} lasts[] = {
	{"", 0, ""},	       {"", 3, ""},	   {"a\nb\n", 0, ""},
	{"a\nb\n", 1, "b\n"}, {"a\nb\n", 2, "a\nb\n"}, {"a\nb\n", 9, "a\nb\n"},
	{"a\nb", 1, "b"},      {"a\n\n", 1, "\n"},    {"\n\n", 2, "\n\n"},
	{"abc", 1, "abc"},     {"a\nb\n", UINT32_MAX, "a\nb\n"},
};

START_TEST(the_last_lines_of_a_text_are_counted_from_its_end)
{
	struct slice last = tail_last(SLICE_STR(lasts[_i].text), lasts[_i].n);

	ck_assert_uint_eq(last.len, strlen(lasts[_i].last));
	ck_assert_int_eq(memcmp(last.data, lasts[_i].last, last.len), 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("lines");
	int failed;

	tcase_set_timeout(c, 20);
	tcase_add_test(c, lines_are_whole_however_they_come);
	tcase_add_test(c, a_line_over_the_limit_comes_in_marked_pieces);
	tcase_add_test(c, a_line_of_exactly_the_limit_says_where_it_ended);
	tcase_add_test(c, binary_bytes_pass);
	tcase_add_test(c, a_redrawn_line_is_shown_as_on_a_terminal);
	tcase_add_test(c, the_held_part_of_a_line_can_be_shown_before_its_end);
	tcase_add_test(c, the_tail_keeps_the_last_lines);
	tcase_add_test(c, the_tail_is_bounded_in_bytes);
	tcase_add_test(c, a_tail_has_a_maximum_of_its_own);
	tcase_add_loop_test(c,
			    the_last_lines_of_a_text_are_counted_from_its_end,
			    0, (int)(sizeof(lasts) / sizeof(*lasts)));
	failed = run_case(c);
	buf_release(&seen);
	return failed;
}
