/* test_shell_words.c: splits words as a shell does, and quotes for a shell. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/plan/shell_words.h"
#include "tests/unit/run_case.h"

/* "[a][b c]", or the error. */
static const char *split(const char *text)
{
	static char out[ERR_TEXT_MAX];
	struct shell_words w;
	struct err e = ERR_INIT;
	size_t len = 0;

	out[0] = '\0';
	if (shell_words_split(&w, text, "--wrap", &e)) {
		ck_assert_int_eq(e.code, ERR_USAGE);
		ck_assert_ptr_null(w.list);
		snprintf(out, sizeof(out), "%s", e.text);
		return out;
	}
	ck_assert_ptr_null(w.list[w.n]);
	for (size_t i = 0; i < w.n; i++)
		len += (size_t)snprintf(out + len, sizeof(out) - len, "[%s]",
					w.list[i]);
	shell_words_release(&w);
	return out;
}

START_TEST(as_a_shell_splits)
{
	static const struct {
		const char *text, *words;
	} rows[] = {
		{"", ""},
		{" \t\n ", ""},
		{"gdb -batch -ex run --args",
		 "[gdb][-batch][-ex][run][--args]"},
		{"  a\tb\nc  ", "[a][b][c]"},
		{"gdb -ex 'break main' -ex \"run 1\"",
		 "[gdb][-ex][break main][-ex][run 1]"},
		{"a'b'\"c\"d", "[abcd]"},
		{"'' \"\"", "[][]"},
		{"a ''", "[a][]"},
		{"a\\ b", "[a b]"},
		{"\\'a\\\"", "['a\"]"},
		{"'a\\b'", "[a\\b]"},
		{"\"a\\b\\\"\\\\\\$\"", "[a\\b\"\\$]"},
		{"\"it's\" 'say \"x\"'", "[it's][say \"x\"]"},
		{"a\\\nb", "[ab]"},
		{"\"a\\\nb\"", "[ab]"},
		{"$HOME `ls` * ~ #x ; | &", "[$HOME][`ls`][*][~][#x][;][|][&]"},
		{"a b c d e f g h i j k l m n o p",
		 "[a][b][c][d][e][f][g][h][i][j][k][l][m][n][o][p]"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_str_eq(split(rows[i].text), rows[i].words);
}
END_TEST

START_TEST(an_unterminated_quote_is_an_error)
{
	ck_assert_str_eq(split("gdb 'run"),
			 "--wrap 'gdb 'run': a quote is opened and never "
			 "closed");
	ck_assert_str_eq(split("a \"b' c"),
			 "--wrap 'a \"b' c': a quote is opened and never "
			 "closed");
	ck_assert_str_eq(split("\"\\\""),
			 "--wrap '\"\\\"': a quote is opened and never closed");
	ck_assert_str_eq(split("a \\"),
			 "--wrap 'a \\': nothing follows the last backslash");
	ck_assert_str_eq(split("\"\\"),
			 "--wrap '\"\\': nothing follows the last backslash");
}
END_TEST

static const char *quote(const char *word)
{
	static char out[256];
	struct buf b = BUF_INIT(sizeof(out));

	shell_words_quote(&b, word);
	snprintf(out, sizeof(out), "%.*s", (int)b.len, b.data);
	buf_release(&b);
	return out;
}

START_TEST(quoted_only_where_it_matters)
{
	static const struct {
		const char *word, *quoted;
	} rows[] = {
		{"", "''"},
		{"./train", "./train"},
		{"--lr=0.1", "--lr=0.1"},
		{"A=b", "'A=b'"},
		{"a b", "'a b'"},
		{"it's", "'it'\\''s'"},
		{"$x", "'$x'"},
		{"a\\b", "'a\\b'"},
		{"~", "'~'"},
		{"a\nb", "'a\nb'"},
		{"gr\303\266\303\237e", "'gr\303\266\303\237e'"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_str_eq(quote(rows[i].word), rows[i].quoted);
}
END_TEST

START_TEST(every_byte_survives_quoting_and_splitting)
{
	char word[256], again[258];

	for (int i = 1; i < 256; i++)
		word[i - 1] = (char)i;
	word[255] = '\0';
	snprintf(again, sizeof(again), "[%s]", word);
	struct buf b = BUF_INIT(2048);

	shell_words_quote(&b, word);
	buf_put_u8(&b, 0);
	ck_assert_str_eq(split(b.data), again);
	buf_release(&b);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("words");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, as_a_shell_splits);
	tcase_add_test(c, an_unterminated_quote_is_an_error);
	tcase_add_test(c, quoted_only_where_it_matters);
	tcase_add_test(c, every_byte_survives_quoting_and_splitting);
	return run_case(c);
}
