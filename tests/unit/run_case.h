/* run_case.h: what is left of a unit test's main: its case is run. */
#ifndef TESTS_RUN_CASE_H
#define TESTS_RUN_CASE_H

#include <check.h>

/* Runs a suite and frees it; returns how many of its tests failed. */
static inline int run_suite(Suite *s)
{
	SRunner *r = srunner_create(s);
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed;
}

/* The same for a suite of this case. */
static inline int run_case(TCase *c)
{
	Suite *s = suite_create("unit");

	suite_add_tcase(s, c);
	return run_suite(s);
}

#endif
