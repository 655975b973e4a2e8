/* test_roles.c: texts of --multi-prog, valid, invalid and hostile. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/plan/roles.h"
#include "launcher/plan/shell_words.h"
#include "tests/unit/run_case.h"

static struct roles roles;
static struct err error;

static int parse(const char *text)
{
	error = (struct err)ERR_INIT;
	return roles_parse(&roles, text, &error);
}

/* "name ranks [words]; ..." of a valid text. */
static const char *show(const char *text, uint32_t world_size)
{
	static char out[4096];
	struct buf b = BUF_INIT(sizeof(out));

	ck_assert_msg(parse(text) == 0, "'%s': %s", text, error.text);
	roles_put(&b, &roles, world_size);
	for (uint32_t i = 0; i < roles.n; i++) {
		for (char **w = roles.list[i].words; *w; w++)
			buf_printf(&b, "%s%s", *w == *roles.list[i].words
						       ? "; " : "|", *w);
	}
	snprintf(out, sizeof(out), "%.*s", (int)b.len, b.data);
	buf_release(&b);
	roles_release(&roles);
	return out;
}

START_TEST(a_line_gives_ranks_and_a_program)
{
	static const struct {
		const char *text, *shown;
	} rows[] = {
		{"0-3 ./learner\n4-11 ./actor x\n",
		 "learner=0-3 actor=4-11; ./learner; ./actor|x"},
		{"# all\n\n  \t\n1,3 a\n0,2 /b/c", "a=1,3 c=0,2; a; /b/c"},
		{"* a\n0 b", "a=* b=0; a; b"},
		{"0 a\n1 a\n2 a", "a=0 a-1=1 a-2=2; a; a; a"},
		{"0 a b\\\n c\n1 d", "a=0 d=1; a|b|c; d"},
		{"0 a b\\\r\n c\r\n1 d\r\n", "a=0 d=1; a|b|c; d"},
		{"0 a 'b c' \"d 'e'\" f\\ g ''",
		 "a=0; a|b c|d 'e'|f g|"},
		{"0 a 'b\nc'\n1 d", "a=0 d=1; a|b\nc; d"},
		{"0 a x%t '%t' \"%o\" %% %", "a=0; "
		 "a|x${rank}|%t|${role_rank}|%%|%"},
		{"0 --role r a --role b", "r=0; a|--role|b"},
		{"0 we/ird*name", "ird_name=0; we/ird*name"},
		{"0 a #no comment", "a=0; a|#no|comment"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_str_eq(show(rows[i].text, 0), rows[i].shown);
	ck_assert_str_eq(show("* a\n1,3 b", 6), "a=0,2,4-5 b=1,3; a; b");
}
END_TEST

START_TEST(a_line_has_options_of_its_own)
{
	const struct role *r;

	ck_assert_int_eq(parse("0 -x A=1 --wrap 'gdb --args' -x 'B=2 3' "
			       "--role-optional --gpus-per-proc=2 -m --role q "
			       "pkg -x C=1\n1 b"), 0);
	r = &roles.list[0];
	ck_assert_uint_eq(r->nvars, 2);
	ck_assert_str_eq(r->vars[0], "A=1");
	ck_assert_str_eq(r->vars[1], "B=2 3");
	ck_assert_str_eq(r->wrap, "gdb --args");
	ck_assert_str_eq(r->name, "q");
	ck_assert_int_eq(r->is_optional && r->module, 1);
	ck_assert_int_eq((int)r->gpus_per_proc, 2);
	ck_assert_str_eq(r->words[0], "pkg");
	ck_assert_str_eq(r->words[1], "-x");
	ck_assert_int_eq((int)roles.list[1].gpus_per_proc, -1);
	ck_assert_int_eq(roles.list[1].is_optional, 0);
	roles_release(&roles);
}
END_TEST

START_TEST(a_wrong_line_is_named)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{"", "no line names a program"},
		{"\n# only\n", "no line names a program"},
		{"0 a\n\nx b", "line 3: 'x': 'x' is neither a rank"},
		{"0-3 a\n3-4 b", "line 2: rank 3 has a program already, a"},
		{"* a\n* b", "line 2: * stands for all other ranks"},
		{"0 a\n1", "line 2: no program follows"},
		{"0 a\n1 ''", "line 2: no program follows"},
		{"0 --role x", "line 1: no program follows"},
		{"0 --role", "line 1: --role needs a value"},
		{"0 --nnodes 2 a", "line 1: unknown option --nnodes"},
		{"0 -x A a", "line 1: "},
		{"0 -x =1 a", "line 1: "},
		{"0 --role 'a b' c", "line 1: --role 'a b': "},
		{"0 --role '' c", "line 1: --role '': "},
		{"0 --role r a\n1 --role r b", "line 2: --role r: another"},
		{"0 a 'b\n1 c", "line 1: a quote is opened and never closed"},
		{"0 a\n1 b \"c", "line 2: a quote is opened"},
		{"3-1 a", "'3-1' is neither a rank nor a range"},
		{"99999999999999999999 a", "is neither a rank nor a range"},
		{"0 --gpus-per-proc -1 a", "line 1: --gpus-per-proc"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		ck_assert_msg(parse(rows[i].text) == ERR_USAGE, "'%s'",
			      rows[i].text);
		ck_assert_msg(strstr(error.text, rows[i].why) != NULL,
			      "'%s': %s", rows[i].text, error.text);
		ck_assert_uint_eq(roles.n, 0);
		ck_assert_ptr_null(roles.list);
	}
}
END_TEST

START_TEST(each_rank_has_one_role)
{
	static const struct {
		const char *text;
		uint32_t world_size;
		const char *why; /* NULL: right */
	} rows[] = {
		{"0-3 a\n4 b", 5, NULL},
		{"0-3 a\n4 b", 4, "role b (b) has rank 4"},
		{"0-3 a\n4 b", 6, "rank 5 of 6 has no program"},
		{"0-1 a\n3 b", 4, "rank 2 of 4 has no program"},
		{"0-1 a\n* b", 3, NULL},
		{"0-1 a\n* b", 2, "role b (b) has no worker"},
		{"* b", 7, NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int rc;

		ck_assert_int_eq(parse(rows[i].text), 0);
		rc = roles_check(&roles, rows[i].world_size, &error);
		ck_assert_int_eq(rc, rows[i].why ? ERR_USAGE : 0);
		if (rows[i].why)
			ck_assert_msg(strstr(error.text, rows[i].why) != NULL,
				      "%s", error.text);
		roles_release(&roles);
	}
}
END_TEST

START_TEST(ranks_are_found_in_their_roles)
{
	static const uint32_t of[] = {0, 1, 0, 1, 2, 0, 2},
			      at[] = {0, 0, 1, 1, 0, 2, 1};
	uint32_t role_rank;

	ck_assert_int_eq(parse("0,2,5 a\n1,3 b\n* c"), 0);
	ck_assert_int_eq(roles_check(&roles, 7, &error), 0);
	for (uint32_t i = 0; i < 7; i++) {
		ck_assert_uint_eq(roles_find(&roles, i, &role_rank), of[i]);
		ck_assert_uint_eq(role_rank, at[i]);
	}
	ck_assert_uint_eq(roles_size(&roles, 0, 7), 3);
	ck_assert_uint_eq(roles_size(&roles, 2, 7), 2);
	ck_assert_int_eq(roles_has(&roles, 0, 3, 2), 0);
	ck_assert_int_eq(roles_has(&roles, 0, 3, 3), 1);
	ck_assert_int_eq(roles_has(&roles, 2, 0, 4), 0);
	ck_assert_int_eq(roles_has(&roles, 2, 0, 5), 1);
	ck_assert_ptr_null(roles_of(&(struct roles){.n = 0}, 3));
	roles_release(&roles);
}
END_TEST

START_TEST(every_byte_survives_a_written_word)
{
	char word[256];
	struct buf b = BUF_INIT(2048);

	for (int i = 1; i < 256; i++)
		word[i - 1] = (char)i;
	word[255] = '\0';
	buf_printf(&b, "0 a ");
	shell_words_put_quoted(&b, word);
	buf_printf(&b, " ");
	shell_words_put_quoted(&b, "%t\\\n# ");
	buf_printf(&b, "\n1 b");
	buf_put_u8(&b, 0);
	ck_assert_int_eq(parse(b.data), 0);
	ck_assert_str_eq(roles.list[0].words[1], word);
	ck_assert_str_eq(roles.list[0].words[2], "%t\\\n# ");
	ck_assert_uint_eq(roles.n, 2);
	roles_release(&roles);
	buf_release(&b);
}
END_TEST

/* Texts of the characters that mean something, from a fixed seed: each is a
 * program's text or an error that names a line, and memory stays whole. */
START_TEST(no_text_is_too_strange)
{
	static const char letters[] = "01,-*#%to'\"\\\n\r xA=-m ab";
	uint32_t seed = 1, right = 0;

	for (int i = 0; i < 20000; i++) {
		char text[64];
		size_t n = 0;

		for (; n < sizeof(text) - 1; n++) {
			seed = seed * 1664525 + 1013904223;
			text[n] = letters[(seed >> 16) % (sizeof(letters) - 1)];
			if ((seed >> 8) % 40 == 0)
				break;
		}
		text[n] = '\0';
		if (parse(text) == 0) {
			right++;
			roles_check(&roles, 4, &error);
			roles_release(&roles);
		} else {
			ck_assert_int_eq(error.code, ERR_USAGE);
		}
	}
	ck_assert_uint_gt(right, 10);
}
END_TEST

START_TEST(sizes_have_limits)
{
	char *text = malloc(ROLES_TEXT_MAX + 2);
	struct buf b = BUF_INIT(1 << 20);

	memset(text, 'a', ROLES_TEXT_MAX + 1);
	text[ROLES_TEXT_MAX + 1] = '\0';
	ck_assert_int_eq(parse(text), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(error.text, "more than"));
	free(text);
	for (int i = 0; i <= ROLES_MAX; i++)
		buf_printf(&b, "%d --role r%d a\n", i, i);
	buf_put_u8(&b, 0);
	ck_assert_int_eq(parse(b.data), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(error.text, "more than 4096 programs"));
	buf_release(&b);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("roles");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_line_gives_ranks_and_a_program);
	tcase_add_test(c, a_line_has_options_of_its_own);
	tcase_add_test(c, a_wrong_line_is_named);
	tcase_add_test(c, each_rank_has_one_role);
	tcase_add_test(c, ranks_are_found_in_their_roles);
	tcase_add_test(c, every_byte_survives_a_written_word);
	tcase_add_test(c, no_text_is_too_strange);
	tcase_add_test(c, sizes_have_limits);
	return run_case(c);
}
