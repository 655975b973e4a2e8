/* test_template.c: the pieces of a template, as Python cuts them, and the
 * prefix of lines. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/output/log_rules.h"
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

/* ---- line_prefix ---- */

static const char *made(const char *template)
{
	static struct buf out = BUF_INIT(64);
	const struct line_prefix_vars vars = {
		.role_name = "trainer", .host = "h1", .rank = "17",
		.local_rank = "1", .stream = "stderr", .node_rank = 2,
		.world_size = 64,
	};

	buf_reset(&out);
	line_prefix_put(&out, template, &vars);
	out.failed = 0;
	if (out.len == out.max)
		out.len--;
	buf_put(&out, "", 1);
	return out.data;
}

START_TEST(a_template_is_filled_in_as_python_does)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{LINE_PREFIX_DEFAULT, "[17] "},
		{"[${role_name}${local_rank}]:", "[trainer1]:"},
		{"$hostname:$rank/$world_size ", "h1:17/64 "},
		{"<${node_rank}>", "<2>"},
		{"[1,${rank}]<${stream}>:", "[1,17]<stderr>:"},
		{"", ""},
		{"plain", "plain"},
		{"$$rank $$ $", "$rank $ $"},
		{"${nothing} $nothing_else", "${nothing} $nothing_else"},
		{"${rank", "${rank"},
		{"${} ${1} $1 ${ra nk}", "${} ${1} $1 ${ra nk}"},
		{"$rank$local_rank${rank}s", "17117s"},
		{"$local_rank_2", "$local_rank_2"},
		{"a\nb\rc", "abc"},
		{"\x1b[1m$rank", "\x1b[1m17"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_str_eq(made(rows[i].in), rows[i].out);
}
END_TEST

START_TEST(a_long_prefix_is_cut)
{
	char template[600];

	memset(template, 'x', sizeof(template) - 1);
	template[sizeof(template) - 1] = '\0';
	ck_assert_uint_eq(strlen(made(template)), 63);
}
END_TEST

static int matches(const char *filter, const char *line)
{
	struct line_filter f;
	struct err e;
	int found;

	ck_assert_int_eq(line_filter_init(&f, filter, "--f", &e), 0);
	found = line_filter_matches(&f, SLICE_STR(line));
	line_filter_release(&f);
	return found;
}

START_TEST(a_line_with_any_of_the_strings_matches)
{
	struct line_filter f;
	struct err e;

	ck_assert(matches("loss", "epoch 1 loss 2"));
	ck_assert(!matches("loss", "los s"));
	ck_assert(matches("a,b", "xbx"));
	ck_assert(!matches("a,b", ""));
	ck_assert(!matches("", "anything"));
	ck_assert(!matches(NULL, "anything"));
	ck_assert(matches("a,,b", "xa,bx"));
	ck_assert(!matches("a,,b", "a b"));
	ck_assert(matches("a,,,b", "xa,x"));
	ck_assert(matches("a,,,b", "b"));
	ck_assert(matches(",a", "a"));
	ck_assert(!matches(",a", "b"));
	ck_assert_int_eq(line_filter_init(&f, ",", "--f", &e), ERR_USAGE);
	ck_assert(strstr(e.text, "--f"));
}
END_TEST

START_TEST(ranks_are_shown_that_pass_both_lists)
{
	struct output_options c = {.ranks_filter = "0,4-7",
			   .local_ranks_filter = "0,1"};
	struct log_rules r;
	struct err e = ERR_INIT;

	ck_assert_int_eq(log_rules_init(&r, &c, &e), 0);
	ck_assert(log_rules_shows(&r, 0, 0));
	ck_assert(!log_rules_shows(&r, 1, 1));
	ck_assert(log_rules_shows(&r, 1, 5));
	ck_assert(!log_rules_shows(&r, 2, 6));
	log_rules_release(&r);
	c = (struct output_options){.ranks_filter = "", .log_prefix = "x"};
	ck_assert_int_eq(log_rules_init(&r, &c, &e), 0);
	ck_assert(log_rules_shows(&r, 70, 700));
	ck_assert_str_eq(r.prefix, "x");
	log_rules_release(&r);
	c = (struct output_options){.local_ranks_filter = "0,x"};
	ck_assert_int_eq(log_rules_init(&r, &c, &e), ERR_USAGE);
	ck_assert(strstr(e.text, "--local-ranks-filter"));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("core");

	tcase_add_test(c, text_and_variables);
	tcase_add_test(c, unknown_variables_are_text);
	tcase_add_test(c, an_unknown_variable_stays_unchanged);
	tcase_add_test(c, a_template_is_filled_in_as_python_does);
	tcase_add_test(c, a_long_prefix_is_cut);
	tcase_add_test(c, a_line_with_any_of_the_strings_matches);
	tcase_add_test(c, ranks_are_shown_that_pass_both_lists);
	return run_case(c);
}
