/* test_rank_list.c: valid and invalid lists of ranks. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "launcher/output/rank_list.h"
#include "tests/unit/run_case.h"

/* The ranges of text, "0 4-7"; "error: ..." if it is wrong. */
static const char *parse(const char *text)
{
	static char out[16 + ERR_TEXT_MAX];
	struct rank_list l;
	struct err e = ERR_INIT;
	size_t len = 0;

	if (rank_list_parse(&l, text, "--ranks", &e)) {
		ck_assert_int_eq(e.code, ERR_USAGE);
		ck_assert_ptr_null(l.ranges);
		snprintf(out, sizeof(out), "error: %s", e.text);
		return out;
	}
	out[0] = '\0';
	for (size_t i = 0; i < l.n; i++) {
		const struct rank_range *r = &l.ranges[i];

		len += (size_t)snprintf(out + len, sizeof(out) - len, "%s%u",
					i ? " " : "", r->first);
		if (r->last != r->first)
			len += (size_t)snprintf(out + len, sizeof(out) - len,
						"-%u", r->last);
	}
	rank_list_release(&l);
	return out;
}

START_TEST(lists_are_sorted_and_merged)
{
	static const struct {
		const char *text, *ranges;
	} rows[] = {
		{"0", "0"},
		{"0,4-7", "0 4-7"},
		{"7,5,6", "5-7"},
		{"4-7,0", "0 4-7"},
		{"0-9,3-4,8-12", "0-12"},
		{"3,3,3", "3"},
		{"2-2", "2"},
		{" 1 , 3 - 5 ", "1 3-5"},
		{"007", "7"},
		{"1073741824", "1073741824"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_str_eq(parse(rows[i].text), rows[i].ranges);
}
END_TEST

START_TEST(errors_name_the_option_the_list_and_the_item)
{
	static const struct {
		const char *text, *item;
	} rows[] = {
		{"", "'' is neither a rank"},
		{"0,", "'' is neither a rank"},
		{",0", "'' is neither a rank"},
		{"0,x", "'x' is neither a rank"},
		{"1-", "'1-' is neither a rank"},
		{"-1", "'-1' is neither a rank"},
		{"7-4", "'7-4' is neither a rank"},
		{"1-2-3", "'1-2-3' is neither a rank"},
		{"1 2", "'1 2' is neither a rank"},
		{"+1", "'+1' is neither a rank"},
		{"0x1", "'0x1' is neither a rank"},
		{"1073741825", "'1073741825' is neither a rank"},
		{"99999999999999999999999", "neither a rank"},
		{"all", "'all' is neither a rank"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *text = parse(rows[i].text);
		char start[64];

		snprintf(start, sizeof(start), "error: --ranks '%s': ",
			 rows[i].text);
		ck_assert_msg(strncmp(text, start, strlen(start)) == 0, "%s",
			      text);
		ck_assert_msg(strstr(text, rows[i].item) != NULL, "%s", text);
	}
}
END_TEST

START_TEST(contains_what_was_listed_and_nothing_else)
{
	struct rank_list l, none = {NULL, 0};
	struct err e = ERR_INIT;
	static const int in[] = {1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0};

	ck_assert_int_eq(rank_list_parse(&l, "12,0,4-7", "--ranks", &e), 0);
	for (uint32_t i = 0; i < sizeof(in) / sizeof(*in); i++)
		ck_assert_int_eq(rank_list_contains(&l, i), in[i]);
	ck_assert_uint_eq(rank_list_last(&l), 12);
	rank_list_release(&l);
	ck_assert_int_eq(rank_list_contains(&l, 0), 0);
	ck_assert_int_eq(rank_list_contains(&none, 0), 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("rank_list");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, lists_are_sorted_and_merged);
	tcase_add_test(c, errors_name_the_option_the_list_and_the_item);
	tcase_add_test(c, contains_what_was_listed_and_nothing_else);
	return run_case(c);
}
