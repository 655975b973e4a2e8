/* test_dynlib.c: a library that every system has, a library that none has, and
 * a library that lacks a wanted function. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "base/dynlib.h"
#include "tests/unit/run_case.h"

struct calls {
	double (*root)(double x);
	double (*other)(double x);
};

static struct calls calls;
static struct err e;

static void *load(const char *library, const char *name)
{
	const struct dynlib_symbol rows[] = {
		DYNLIB_SYMBOL(struct calls, root, "sqrt"),
		DYNLIB_SYMBOL(struct calls, other, name),
	};
	const struct dynlib s = {library, "no roots", "install one", rows, 2};

	e = (struct err)ERR_INIT;
	return dynlib_load(&s, &calls, &e);
}

START_TEST(an_existing_symbol_is_called)
{
	ck_assert_ptr_nonnull(load("libm.so.6", "fabs"));
	ck_assert(calls.root(9) == 3);
	ck_assert(calls.other(-27) == 27);
}
END_TEST

START_TEST(a_missing_symbol_is_named)
{
	ck_assert_ptr_null(load("libno-such.so.9", "fabs"));
	ck_assert_int_eq(e.code, ERR_SYSTEM);
	ck_assert_ptr_nonnull(strstr(e.text, "no roots: libno-such.so.9: "));
	ck_assert_ptr_nonnull(strstr(e.text, " (install one)"));
	ck_assert_ptr_null(load("libm.so.6", "no_such_root"));
	ck_assert_int_eq(e.code, ERR_SYSTEM);
	ck_assert_str_eq(e.text, "no roots: libm.so.6 has no no_such_root "
				 "(install one)");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("dynlib");

	tcase_add_test(c, an_existing_symbol_is_called);
	tcase_add_test(c, a_missing_symbol_is_named);
	return run_case(c) ? 1 : 0;
}
