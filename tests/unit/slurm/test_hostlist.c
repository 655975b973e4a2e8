/* test_hostlist.c: Slurm's host lists: grammar, order, limits, and the position
 * in errors. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "slurm/hostlist.h"
#include "tests/unit/run_case.h"

/* The names of text, separated by blanks; "error: ..." if it is wrong. */
static const char *expand(const char *text)
{
	static char out[4096];
	struct hostlist l;
	struct err e = ERR_INIT;

	hostlist_init(&l);
	out[0] = 0;
	if (hostlist_parse(&l, SLICE_STR(text), &e)) {
		ck_assert_int_eq(e.code, ERR_USAGE);
		snprintf(out, sizeof(out), "%s", e.text);
	} else {
		for (uint32_t i = 0; i < l.count; i++) {
			size_t len = strlen(out);
			snprintf(out + len, sizeof(out) - len, "%s%s",
				 i ? " " : "", hostlist_name(&l, i));
		}
	}
	hostlist_release(&l);
	return out;
}

static uint32_t count(const char *text)
{
	struct hostlist l;
	struct err e = ERR_INIT;

	hostlist_init(&l);
	ck_assert_msg(!hostlist_parse(&l, SLICE_STR(text), &e), "%s", e.text);
	uint32_t n = l.count;
	hostlist_release(&l);
	return n;
}

START_TEST(slurms_and_handwritten_lists_are_parsed)
{
	static const struct {
		const char *text, *names;
	} rows[] = {
		{"", ""},
		{" ,,\t\n", ""},
		{"h1", "h1"},
		{"h1,h2", "h1 h2"},
		{" h1  h2\nh3,", "h1 h2 h3"},
		{"h2,h1,h2", "h2 h1 h2"},
		{"tux[0-2,5,20-21]", "tux0 tux1 tux2 tux5 tux20 tux21"},
		{"n[001-003,010]", "n001 n002 n003 n010"},
		{"clip-f-5,clip-f-[15,17]", "clip-f-5 clip-f-15 clip-f-17"},
		{"n[9-11]", "n9 n10 n11"},
		{"n[09-11]", "n09 n10 n11"},
		{"n[099-101]", "n099 n100 n101"},
		{"n[7]-ib", "n7-ib"},
		{"[1-2]", "1 2"},
		{"n[5,4]", "n5 n4"},
		{"n[000000000000000001]", "n000000000000000001"},
		{"n[999999999999999998-999999999999999999]",
		 "n999999999999999998 n999999999999999999"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_str_eq(expand(rows[i].text), rows[i].names);
}
END_TEST

START_TEST(order_of_several_groups)
{
	ck_assert_str_eq(expand("a[0-1]b[0-1]"), "a0b0 a0b1 a1b0 a1b1");
	ck_assert_str_eq(expand("rack[0-1]n[01-02]-ib"),
			 "rack0n01-ib rack0n02-ib rack1n01-ib rack1n02-ib");
	/* the second-to-last is the slowest, then moving left */
	ck_assert_str_eq(expand("a[0-1]b[0-1]c[0-1]"),
			 "a0b0c0 a0b0c1 a1b0c0 a1b0c1 "
			 "a0b1c0 a0b1c1 a1b1c0 a1b1c1");
	ck_assert_str_eq(expand("[1-2][1][3,5][0]"), "1130 2130 1150 2150");
}
END_TEST

START_TEST(errors_name_the_character)
{
	static const struct {
		const char *text, *error;
	} rows[] = {
		{"n[1-3", "character 2: this '[' has no ']'"},
		{"n[", "character 3: the list ends inside [...]"},
		{"n[1-", "character 5: the list ends inside [...]"},
		{"h1,n1]", "character 6: this ']' has no '['"},
		{"n[]", "character 3: a number is expected here"},
		{"n[1,,2]", "character 5: a number is expected here"},
		{"n[-1]", "character 3: a number is expected here"},
		{"n[a]", "character 3: a number is expected here"},
		{"n[1[2]]", "character 4: ',', '-' or ']' is expected here"},
		{"n[1 2]", "character 4: ',', '-' or ']' is expected here"},
		{"n[1-2-3]", "character 6: ',', '-' or ']' is expected here"},
		{"n[3-1]", "character 3: this range goes backwards"},
		{"n[1-65537]", "character 3: this range has more than 65536"},
		{"n[1234567890123456789]", "character 3: this number is too"},
		{"bgl[123x456]", "character 8: lists of more than one dim"},
		{"bgl[x456]", "character 5: lists of more than one dim"},
		{"h1,block{b1}", "character 9: forms with {...} need Slurm"},
		{"n\001", "character 2: not valid in a host name"},
		{"n\303\244", "character 2: not valid in a host name"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *text = expand(rows[i].text);
		ck_assert_msg(strstr(text, rows[i].error), "%s: %s",
			      rows[i].text, text);
	}
}
END_TEST

START_TEST(long_lists_are_shown_in_part)
{
	char text[200];

	memset(text, 'a', sizeof(text));
	memcpy(text + 190, "[1-2", 5);
	ck_assert_ptr_nonnull(strstr(expand(text), "aaa...\", character 191:"));
}
END_TEST

START_TEST(limits)
{
	ck_assert_uint_eq(count("n[0-65535]"), 65536);
	ck_assert_uint_eq(count("n[0-65535],m[0-65535],o[0-65535],p[0-65535]"),
			  262144);
	ck_assert_uint_eq(count("a[0-255]b[0-255]c[0-1]"), 131072);
	ck_assert_ptr_nonnull(strstr(
		expand("n[0-65535],m[0-65535],o[0-65535],p[0-65535],q"),
		"character 45: more than 262144 hosts"));
	ck_assert_ptr_nonnull(strstr(expand("a[0-65535]b[0-65535]"),
				     "character 1: more than 262144 hosts"));
	ck_assert_ptr_nonnull(strstr(expand("a[0-65535]b[0-1]c[0]"),
				     "character 1: more than 65536 names"));
	ck_assert_ptr_nonnull(strstr(
		expand("n[0-65535,0-65535,0-65535,0-65535,1]"),
		"character 35: more than 262144 hosts"));
}
END_TEST

START_TEST(names_have_at_most_255_bytes)
{
	char text[270];

	memset(text, 'a', sizeof(text));
	text[255] = 0;
	ck_assert_uint_eq(count(text), 1);
	text[255] = 'a';
	text[256] = 0;
	ck_assert_ptr_nonnull(strstr(expand(text), "more than 255 bytes"));
	memcpy(text + 251, "[9-10]", 7);
	ck_assert_uint_eq(count(text), 2);
	memcpy(text + 251, "a[9-999]", 9);
	ck_assert_uint_eq(count(text), 991);
	memcpy(text + 251, "aa[9-999]", 10);
	ck_assert_ptr_nonnull(strstr(expand(text), "more than 255 bytes"));
}
END_TEST

START_TEST(many_groups)
{
	char text[4 * 256 + 1] = "";

	for (int i = 0; i < 255; i++)
		strcat(text, "[1]");
	ck_assert_uint_eq(count(text), 1);
	strcat(text, "[1]");
	ck_assert_ptr_nonnull(strstr(expand(text), "too many [...]"));
}
END_TEST

/* A slice need not end with a NUL. */
START_TEST(reads_no_further_than_the_slice)
{
	struct hostlist l;
	struct err e = ERR_INIT;
	char *text = malloc(6);

	memcpy(text, "n[1-29", 6);
	hostlist_init(&l);
	ck_assert_int_eq(hostlist_parse(&l, SLICE(text, 6), &e), ERR_USAGE);
	ck_assert_int_eq(hostlist_parse(&l, SLICE(text, 1), &e), 0);
	ck_assert_uint_eq(l.count, 1);
	ck_assert_str_eq(hostlist_name(&l, 0), "n");
	hostlist_release(&l);
	free(text);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("hostlist");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, slurms_and_handwritten_lists_are_parsed);
	tcase_add_test(c, order_of_several_groups);
	tcase_add_test(c, errors_name_the_character);
	tcase_add_test(c, long_lists_are_shown_in_part);
	tcase_add_test(c, limits);
	tcase_add_test(c, names_have_at_most_255_bytes);
	tcase_add_test(c, many_groups);
	tcase_add_test(c, reads_no_further_than_the_slice);
	return run_case(c);
}
