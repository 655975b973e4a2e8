/* test_option.c: one table drives the command line and the environment; errors
 * name the wrong word and the nearest valid one. */
#include <check.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "tests/unit/run_case.h"

struct values {
	int unused; /* offset 0 would mean "no given field" */
	int verbose, verbose_given;
	long count;
	int count_given;
	double rate;
	const char *name, *again, *way;
};

#define AT(field) offsetof(struct values, field)

static const struct option_spec table[] = {
	{.name = "verbose", .letter = 'v', .kind = OPTION_FLAG,
	 .offset = AT(verbose), .given_offset = AT(verbose_given),
	 .env = "TEST_OPTION_VERBOSE", .help = "says more"},
	{.name = "max-count", .kind = OPTION_INT, .offset = AT(count),
	 .given_offset = AT(count_given), .min = -2, .max = 1000, .arg = "N",
	 .env = "TEST_OPTION_COUNT", .help = "how many"},
	{.name = "max-rate", .kind = OPTION_DOUBLE, .offset = AT(rate),
	 .min = 0, .max = 1e6, .arg = "HZ", .help = "how often"},
	{.name = "name", .letter = 'n', .kind = OPTION_STRING,
	 .offset = AT(name), .arg = "TEXT", .env = "TEST_OPTION_NAME",
	 .help = "its name"},
	{.name = "again", .kind = OPTION_STRING, .offset = AT(again),
	 .arg = "[TEXT]", .help = "with or without", .bare = "bare"},
	{.name = "way", .kind = OPTION_STRING, .offset = AT(way),
	 .arg = "short|long", .help = "one of two", .bare = "short"},
	{.name = "help", .letter = 'h', .kind = OPTION_HELP, .help = "this"},
	{.name = "version", .kind = OPTION_VERSION, .help = "that"},
	{.name = NULL},
};

static struct values v;
static struct err e;

static void reset(void)
{
	unsetenv("TEST_OPTION_VERBOSE");
	unsetenv("TEST_OPTION_COUNT");
	unsetenv("TEST_OPTION_NAME");
	v = (struct values){.count = 7, .rate = 0.5, .name = "none"};
	e = (struct err)ERR_INIT;
}

/* Parses up to eight words after the program's name. */
static int parse(int stop_at_first, const char *a, const char *b, const char *c,
		 const char *d)
{
	const char *words[] = {"program", a, b, c, d, NULL};
	int n = 1;

	while (n < 5 && words[n])
		n++;
	return option_parse(table, &v, n, (char **)(void *)words,
			    stop_at_first, &e);
}

START_TEST(both_spellings_and_both_forms)
{
	ck_assert_int_eq(parse(0, "--max-count", "3", "--name=x", NULL), 4);
	ck_assert_int_eq(v.count, 3);
	ck_assert_int_eq(v.count_given, 1);
	ck_assert_str_eq(v.name, "x");
	ck_assert_int_eq(parse(0, "--max_count=4", "--max_rate", "2.5", "-v"),
			 5);
	ck_assert_int_eq(v.count, 4);
	ck_assert_double_eq(v.rate, 2.5);
	ck_assert_int_eq(v.verbose, 1);
	ck_assert_int_eq(v.verbose_given, 1);
	ck_assert_int_eq(parse(0, "-n", "a", "--max-count", "-2"), 5);
	ck_assert_str_eq(v.name, "a");
	ck_assert_int_eq(v.count, -2);
	ck_assert_int_eq(parse(0, "--name=a=b", "--name", "", NULL), 4);
	ck_assert_str_eq(v.name, "");
}
END_TEST

START_TEST(a_word_that_is_no_literal_value_is_the_program)
{
	ck_assert_int_eq(parse(1, "--way", "program", NULL, NULL), 2);
	ck_assert_str_eq(v.way, "short");
	ck_assert_int_eq(parse(1, "--way", "long", "program", NULL), 3);
	ck_assert_str_eq(v.way, "long");
	ck_assert_int_eq(parse(1, "--way=lo", "program", NULL, NULL), 2);
	ck_assert_str_eq(v.way, "lo");
}
END_TEST

START_TEST(an_optional_value_may_be_left_out)
{
	ck_assert_int_eq(parse(0, "--again", NULL, NULL, NULL), 2);
	ck_assert_str_eq(v.again, "bare");
	ck_assert_int_eq(parse(0, "--again", "-v", NULL, NULL), 3);
	ck_assert_str_eq(v.again, "bare");
	ck_assert_int_eq(v.verbose, 1);
	ck_assert_int_eq(parse(0, "--again", "x", NULL, NULL), 3);
	ck_assert_str_eq(v.again, "x");
	ck_assert_int_eq(parse(0, "--again=-y", "-v", NULL, NULL), 3);
	ck_assert_str_eq(v.again, "-y");
	ck_assert_int_eq(parse(0, "-n", NULL, NULL, NULL), ERR_USAGE);
}
END_TEST

START_TEST(defaults_stay_if_nothing_is_given)
{
	ck_assert_int_eq(parse(0, NULL, NULL, NULL, NULL), 1);
	ck_assert_int_eq(v.count, 7);
	ck_assert_int_eq(v.count_given, 0);
	ck_assert_double_eq(v.rate, 0.5);
	ck_assert_str_eq(v.name, "none");
}
END_TEST

START_TEST(prefixes_that_name_one_option)
{
	ck_assert_int_eq(parse(0, "--verb", "--max-c", "5", NULL), 4);
	ck_assert_int_eq(v.verbose, 1);
	ck_assert_int_eq(v.count, 5);
	ck_assert_int_eq(parse(0, "--max", "5", NULL, NULL), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "ambiguous"));
	ck_assert_ptr_nonnull(strstr(e.text, "--max-count"));
	ck_assert_ptr_nonnull(strstr(e.text, "--max-rate"));
}
END_TEST

START_TEST(an_unknown_option_names_the_nearest)
{
	ck_assert_int_eq(parse(0, "--mux-cuont=3", NULL, NULL, NULL),
			 ERR_USAGE);
	ck_assert_int_eq(e.code, ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "--mux-cuont"));
	ck_assert_ptr_nonnull(strstr(e.text, "--max-count"));
	ck_assert_int_eq(parse(0, "-x", NULL, NULL, NULL), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "-x"));
	ck_assert_int_eq(parse(0, "--=3", NULL, NULL, NULL), ERR_USAGE);
}
END_TEST

START_TEST(an_unknown_option_unlike_any_other_names_none)
{
	ck_assert_int_eq(parse(0, "--bogus", NULL, NULL, NULL), ERR_USAGE);
	ck_assert_str_eq(e.text, "unknown option --bogus (--help lists all)");
}
END_TEST

START_TEST(a_very_long_name_is_just_unknown)
{
	char word[5000];

	memset(word, 'a', sizeof(word) - 1);
	memcpy(word, "--", 2);
	word[sizeof(word) - 1] = 0;
	ck_assert_int_eq(parse(0, word, NULL, NULL, NULL), ERR_USAGE);
	word[3000] = '=';
	ck_assert_int_eq(parse(0, word, NULL, NULL, NULL), ERR_USAGE);
}
END_TEST

START_TEST(wrong_values_name_the_option_and_the_value)
{
	static const char *const counts[] = {
		"1001", "-3", "1e3", "0x10", "", " ", "1 2", "+1",
		"99999999999999999999", "one", "--verbose",
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		e.text[0] = 0;
		ck_assert_msg(parse(0, "--max-count", counts[i], NULL, NULL) ==
				      ERR_USAGE,
			      "'%s' was taken", counts[i]);
		ck_assert_ptr_nonnull(strstr(e.text, "--max-count"));
		ck_assert_ptr_nonnull(strstr(e.text, counts[i]));
		ck_assert_int_eq(v.count, 7);
		ck_assert_int_eq(v.count_given, 0);
	}
	/* blanks around it, as wc -l prints them, are no part of a number */
	ck_assert_int_eq(parse(0, "--max-count", " \t12 ", NULL, NULL), 3);
	ck_assert_int_eq(v.count, 12);
	ck_assert_int_eq(parse(0, "--max-rate=nan", NULL, NULL, NULL),
			 ERR_USAGE);
	ck_assert_int_eq(parse(0, "--max-rate=inf", NULL, NULL, NULL),
			 ERR_USAGE);
	ck_assert_int_eq(parse(0, "--max-rate=1x", NULL, NULL, NULL),
			 ERR_USAGE);
	ck_assert_double_eq(v.rate, 0.5);
}
END_TEST

START_TEST(missing_and_surplus_values_are_errors)
{
	ck_assert_int_eq(parse(0, "--max-count", NULL, NULL, NULL), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "--max-count N"));
	ck_assert_int_eq(parse(0, "--verbose=1", NULL, NULL, NULL), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "takes no value"));
}
END_TEST

START_TEST(the_environment_is_the_default)
{
	setenv("TEST_OPTION_COUNT", "42", 1);
	setenv("TEST_OPTION_NAME", "env", 1);
	setenv("TEST_OPTION_VERBOSE", "0", 1);
	ck_assert_int_eq(parse(0, "--name", "line", NULL, NULL), 3);
	ck_assert_int_eq(v.count, 42);
	ck_assert_int_eq(v.count_given, 1);
	ck_assert_str_eq(v.name, "line");
	ck_assert_int_eq(v.verbose, 0);
	setenv("TEST_OPTION_VERBOSE", "1", 1);
	ck_assert_int_eq(parse(0, NULL, NULL, NULL, NULL), 1);
	ck_assert_int_eq(v.verbose, 1);
	setenv("TEST_OPTION_VERBOSE", "2", 1);
	ck_assert_int_eq(parse(0, NULL, NULL, NULL, NULL), 1);
	ck_assert_int_eq(v.verbose, 1);
	setenv("TEST_OPTION_VERBOSE", "yes", 1);
	ck_assert_int_eq(parse(0, NULL, NULL, NULL, NULL), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "TEST_OPTION_VERBOSE"));
	setenv("TEST_OPTION_VERBOSE", "0", 1);
	setenv("TEST_OPTION_COUNT", "many", 1);
	ck_assert_int_eq(parse(0, "--max-count", "1", NULL, NULL), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "TEST_OPTION_COUNT"));
}
END_TEST

START_TEST(the_program_and_its_words)
{
	ck_assert_int_eq(parse(1, "-v", "prog", "--max-count", "x"), 2);
	ck_assert_int_eq(v.verbose, 1);
	ck_assert_int_eq(v.count, 7);
	ck_assert_int_eq(parse(1, "-v", "--", "--name", "x"), 3);
	ck_assert_str_eq(v.name, "none");
	ck_assert_int_eq(parse(1, "-", "x", NULL, NULL), 1);
	ck_assert_int_eq(parse(1, "-v", NULL, NULL, NULL), 2);
	ck_assert_int_eq(parse(0, "-v", "prog", NULL, NULL), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "prog"));
}
END_TEST

START_TEST(help_and_version)
{
	ck_assert_int_eq(parse(1, "--help", "x", NULL, NULL),
			 OPTION_WANT_HELP);
	ck_assert_int_eq(parse(1, "-h", NULL, NULL, NULL), OPTION_WANT_HELP);
	ck_assert_int_eq(parse(1, "-v", "--version", NULL, NULL),
			 OPTION_WANT_VERSION);
	ck_assert_int_eq(parse(1, "prog", "--help", NULL, NULL), 1);
}
END_TEST

START_TEST(whole_numbers)
{
	long n = 5;

	ck_assert_int_eq(parse_long("-9223372036854775808", LONG_MIN, LONG_MAX,
				    "n", &n, NULL), 0);
	ck_assert_int_eq(n, LONG_MIN);
	ck_assert_int_eq(parse_long("9223372036854775808", LONG_MIN, LONG_MAX,
				    "n", &n, &e), ERR_USAGE);
	ck_assert_int_eq(parse_long("8", 0, 7, "the port", &n, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "the port"));
	ck_assert_int_eq(n, LONG_MIN);
}
END_TEST

START_TEST(two_dashes_that_are_a_value_do_not_end_the_options)
{
	char *words[] = {"program", "--name", "--", "-v", "run", NULL};
	char *ended[] = {"program", "-v", "--", "run", NULL};
	int n;

	ck_assert_int_eq(option_parse_program(table, &v, 5, words, &n, &e), 4);
	ck_assert_str_eq(v.name, "--");
	ck_assert_int_eq(n, 3); /* the value counts: remote hosts need it */
	ck_assert_int_eq(option_parse_program(table, &v, 3, words, &n, &e), 3);
	ck_assert_int_eq(n, 2);
	ck_assert_int_eq(option_parse_program(table, &v, 4, ended, &n, &e), 3);
	ck_assert_int_eq(n, 1);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("option");

	tcase_set_timeout(c, 10);
	tcase_add_checked_fixture(c, reset, NULL);
	tcase_add_test(c, both_spellings_and_both_forms);
	tcase_add_test(c, a_word_that_is_no_literal_value_is_the_program);
	tcase_add_test(c, an_optional_value_may_be_left_out);
	tcase_add_test(c, defaults_stay_if_nothing_is_given);
	tcase_add_test(c, prefixes_that_name_one_option);
	tcase_add_test(c, an_unknown_option_names_the_nearest);
	tcase_add_test(c, an_unknown_option_unlike_any_other_names_none);
	tcase_add_test(c, a_very_long_name_is_just_unknown);
	tcase_add_test(c, wrong_values_name_the_option_and_the_value);
	tcase_add_test(c, missing_and_surplus_values_are_errors);
	tcase_add_test(c, the_environment_is_the_default);
	tcase_add_test(c, the_program_and_its_words);
	tcase_add_test(c, help_and_version);
	tcase_add_test(c, whole_numbers);
	tcase_add_test(c, two_dashes_that_are_a_value_do_not_end_the_options);
	return run_case(c);
}
