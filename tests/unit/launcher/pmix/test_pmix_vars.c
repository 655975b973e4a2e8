/* test_pmix_vars.c: variables from one process to another. */
#include <check.h>

#include "launcher/pmix/pmix_vars.h"
#include "tests/unit/run_case.h"

static char *const first[] = {(char *)"PMIX_RANK=0", (char *)"A=", NULL};
static char *const second[] = {(char *)"PMIX_RANK=1", (char *)"A=b c", NULL};
static char *const more[] = {(char *)"X=1"};

START_TEST(each_rank_gets_its_variables)
{
	struct buf b = BUF_INIT(1000);
	struct pmix_vars v;

	pmix_vars_put(&b, first, more, 1);
	pmix_vars_put(&b, second, more, 1);
	ck_assert_int_eq(pmix_vars_get(&v, SLICE(b.data, b.len), 2, NULL), 0);
	ck_assert_uint_eq(v.n, 3);
	ck_assert_str_eq(v.vars[0], "PMIX_RANK=0");
	ck_assert_str_eq(v.vars[1], "A=");
	ck_assert_str_eq(v.vars[3], "PMIX_RANK=1");
	ck_assert_str_eq(v.vars[4], "A=b c");
	ck_assert_str_eq(v.vars[5], "X=1");
	pmix_vars_release(&v);
	buf_release(&b);
}
END_TEST

START_TEST(torn_and_uneven_variables_are_refused)
{
	struct buf b = BUF_INIT(1000);
	struct pmix_vars v;
	struct err e = ERR_INIT;

	pmix_vars_put(&b, first, more, 1);
	pmix_vars_put(&b, second, more, 1);
	for (size_t n = 0; n < b.len; n++)
		ck_assert_int_eq(pmix_vars_get(&v, SLICE(b.data, n), 2, &e),
				 ERR_PROTOCOL);
	/* more ranks, and fewer, than there are variables for */
	ck_assert_int_eq(pmix_vars_get(&v, SLICE(b.data, b.len), 3, &e),
			 ERR_PROTOCOL);
	ck_assert_int_eq(pmix_vars_get(&v, SLICE(b.data, b.len), 1, &e),
			 ERR_PROTOCOL);
	buf_reset(&b);
	pmix_vars_put(&b, first, more, 1);
	pmix_vars_put(&b, second, more, 0);
	ck_assert_int_eq(pmix_vars_get(&v, SLICE(b.data, b.len), 2, &e),
			 ERR_PROTOCOL);
	buf_release(&b);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pmix_vars");

	tcase_add_test(c, each_rank_gets_its_variables);
	tcase_add_test(c, torn_and_uneven_variables_are_refused);
	return run_case(c);
}
