/* test_file.c: what closing a file reports, and that it reports it once. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "tests/unit/run_case.h"

START_TEST(closing_reports_a_write_that_fails_only_now)
{
	FILE *f = fopen("/dev/full", "we");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs("buffered", f), 0);
	ck_assert_int_eq(file_close_stream(f, 0), -ENOSPC);
}
END_TEST

START_TEST(closing_keeps_the_first_error)
{
	FILE *f = fopen("/dev/full", "we");

	ck_assert_ptr_nonnull(f);
	fputs("buffered", f);
	ck_assert_int_eq(file_close_stream(f, -EIO), -EIO);
	ck_assert_int_eq(file_close(open("/dev/null", O_WRONLY), -EIO), -EIO);
}
END_TEST

START_TEST(closing_ignores_what_is_not_open)
{
	ck_assert_int_eq(file_close(-1, -ENOENT), -ENOENT);
	ck_assert_int_eq(file_close(-1, 0), 0);
	ck_assert_int_eq(file_close_stream(NULL, -ENOENT), -ENOENT);
}
END_TEST

START_TEST(closing_closes)
{
	int fd = open("/dev/null", O_WRONLY);

	ck_assert_int_eq(file_close(fd, 0), 0);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("file");

	tcase_add_test(c, closing_reports_a_write_that_fails_only_now);
	tcase_add_test(c, closing_keeps_the_first_error);
	tcase_add_test(c, closing_ignores_what_is_not_open);
	tcase_add_test(c, closing_closes);
	return run_case(c);
}
