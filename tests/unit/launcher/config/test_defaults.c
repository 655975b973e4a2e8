/* test_defaults.c: --help prints the real defaults. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/config/config.h"
#include "tests/unit/run_case.h"

static char *words[] = {(char *)"ddprun", (char *)"./a", NULL};
static struct config config;
static struct err error;

/* The last "(5)", "(5; ...)" or "(5, ...)" of a help text; 0: it has none. */
static int default_in_help(const char *help, double *value)
{
	int found = 0;

	for (const char *at = help; (at = strchr(at, '(')); at++) {
		char *end;
		double v = strtod(at + 1, &end);

		if (end > at + 1 && strchr(");,", *end)) {
			*value = v;
			found = 1;
		}
	}
	return found;
}

START_TEST(each_default_in_help_is_the_actual_one)
{
	int compared = 0;

	clearenv();
	ck_assert_int_eq(config_parse(&config, 2, words, &error), 0);
	for (const struct option_spec *s = config_options; s->name; s++) {
		const char *at = (const char *)&config + s->offset;
		char help[OPTION_HELP_MAX];
		double said, is;

		ck_assert_ptr_null(strstr(option_help(s, help), "{}"));
		if (!default_in_help(help, &said))
			continue;
		if (s->kind == OPTION_INT)
			is = (double)*(const long *)(const void *)at;
		else if (s->kind == OPTION_DOUBLE)
			is = *(const double *)(const void *)at;
		else if (s->kind == OPTION_STRING)
			is = strtod(*(const char *const *)(const void *)at,
				    NULL);
		else
			continue;
		ck_assert_msg(said == is, "--%s: help says %g, it is %g",
			      s->name, said, is);
		compared++;
	}
	ck_assert_int_ge(compared, 12);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("defaults");

	tcase_add_test(t, each_default_in_help_is_the_actual_one);
	return run_case(t);
}
