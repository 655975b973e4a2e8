/* test_sampler_step.c: the step that a worker has written to its step file. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/watch/activity.h"
#include "launcher/watch/watch.h"
#include "tests/unit/run_case.h"

static int64_t last_step(const char *text)
{
	return sampler_last_step(text, strlen(text));
}

START_TEST(the_last_whole_line_is_the_step)
{
	ck_assert_int_eq(last_step(""), -1);
	ck_assert_int_eq(last_step("12\n"), 12);
	ck_assert_int_eq(last_step("12\n13\r\n 14 \n15"), 14);
	ck_assert_int_eq(last_step("12\nstep 13\nx\n"), 12);
	ck_assert_int_eq(last_step("1\n99999999999999999999\n"), 1);
	ck_assert_int_eq(last_step("999999999999999999\n"),
			 INT64_C(999999999999999999));
	ck_assert_int_eq(last_step("7\n12 34\n"), 7);
	ck_assert_int_eq(last_step("7\n\n \r\n-3\n"), 7);
}
END_TEST

START_TEST(the_end_of_a_long_line_is_no_step)
{
	char path[] = "/tmp/test_sampler_step_XXXXXX", line[300];
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");

	memset(line, ' ', sizeof(line));
	ck_assert_ptr_nonnull(file);
	fprintf(file, "5\nloss%.*s7\n", (int)sizeof(line), line);
	fflush(file);
	ck_assert_int_eq(sampler_read_step(path), -1);
	fprintf(file, "8\n");
	fclose(file);
	ck_assert_int_eq(sampler_read_step(path), 8);
	unlink(path);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("step");

	tcase_add_test(c, the_last_whole_line_is_the_step);
	tcase_add_test(c, the_end_of_a_long_line_is_no_step);
	return run_case(c);
}
