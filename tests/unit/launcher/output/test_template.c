/* test_template.c: the pieces of a template, as Python cuts them. */
#include <check.h>
#include <stdlib.h>

#include "launcher/output/template.h"
#include "tests/unit/run_case.h"

/* "text" of each piece, "<name>" of a variable, with a | after it. */
static const char *pieces(const char *template)
{
	static struct buf out = BUF_INIT(256);
	struct template_piece piece;

	buf_reset(&out);
	while (template_next(&template, &piece)) {
		if (piece.name.len)
			buf_printf(&out, "<%.*s>", SLICE_FMT(piece.name));
		else
			buf_put(&out, piece.text.data, piece.text.len);
		buf_put(&out, "|", 1);
	}
	buf_put(&out, "", 1);
	return out.data;
}

START_TEST(text_and_variables)
{
	ck_assert_str_eq(pieces(""), "");
	ck_assert_str_eq(pieces("plain"), "plain|");
	ck_assert_str_eq(pieces("a $b c"), "a |<b>| c|");
	ck_assert_str_eq(pieces("${a}${_b1}x"), "<a>|<_b1>|x|");
	ck_assert_str_eq(pieces("$a$b_C-"), "<a>|<b_C>|-|");
}
END_TEST

START_TEST(unknown_variables_are_text)
{
	ck_assert_str_eq(pieces("$$a"), "$|a|");
	ck_assert_str_eq(pieces("$$$a"), "$|<a>|");
	ck_assert_str_eq(pieces("$"), "$|");
	ck_assert_str_eq(pieces("$1 ${"), "$|1 |$|{|");
	ck_assert_str_eq(pieces("${a b} ${c"), "$|{a b} |$|{c|");
}
END_TEST

START_TEST(an_unknown_variable_stays_unchanged)
{
	const char *template = "${no}$no";
	struct template_piece piece;

	ck_assert(template_next(&template, &piece));
	ck_assert_uint_eq(piece.text.len, 5);
	ck_assert(template_names(&piece, "no"));
	ck_assert(!template_names(&piece, "n"));
	ck_assert(!template_names(&piece, "not"));
	ck_assert(template_next(&template, &piece));
	ck_assert_uint_eq(piece.text.len, 3);
	ck_assert(!template_next(&template, &piece));
	ck_assert(!template_names(&piece, "no"));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("core");

	tcase_add_test(c, text_and_variables);
	tcase_add_test(c, unknown_variables_are_text);
	tcase_add_test(c, an_unknown_variable_stays_unchanged);
	return run_case(c);
}
