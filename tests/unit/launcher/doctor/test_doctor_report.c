/* test_doctor_report.c: rows, marks and remedies; what must not be shown; how
 * two reports differ. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher/doctor/doctor_internal.h"
#include "tests/unit/run_case.h"

static struct buf b;

static void start(void)
{
	buf_init(&b, 1 << 20);
	setenv("HOME", "/home/ann", 1);
}

static void stop(void)
{
	buf_release(&b);
}

static const char *text(void)
{
	static char out[8192];
	struct slice s;

	ck_assert_int_eq(buf_bytes(&b, &s), 0);
	snprintf(out, sizeof(out), "%.*s", SLICE_FMT(s));
	return out;
}

START_TEST(a_row_has_a_mark_a_label_and_a_remedy)
{
	doctor_put(&b, DOCTOR_FINE, "memory", NULL, "%d GiB", 4);
	doctor_put(&b, DOCTOR_ERROR, "a label of more than its width", "do it",
		   "gone");
	ck_assert_str_eq(text(),
			 "  memory               4 GiB\n"
			 "X a label of more than its width  gone\n"
			 "X     do it\n");
}
END_TEST

START_TEST(control_characters_and_the_home_folder_are_not_shown)
{
	doctor_put(&b, DOCTOR_FINE, "x", NULL, "%s",
		   "\033]0;title\007 /home/ann/a:/home/ann /home/anna");
	ck_assert_ptr_nonnull(strstr(text(),
				     "?]0;title? ~/a:~ /home/anna\n"));
}
END_TEST

START_TEST(a_value_cannot_add_a_line_of_its_own)
{
	doctor_put(&b, DOCTOR_FINE, "x", NULL, "a\nX forged     b");
	ck_assert_int_eq(doctor_count(SLICE(b.data, b.len), DOCTOR_ERROR), 0);
}
END_TEST

START_TEST(values_of_secrets_are_not_shown)
{
	doctor_put_variable(&b, "DDP_TOKEN", "0123456789abcdef");
	doctor_put_variable(&b, "PET_aws_secret_x", "hunter2");
	doctor_put_variable(&b, "NCCL_PROXY",
			    "http://ann:pw@h1/,https://bob:pw@h2 http://h3/@");
	ck_assert_ptr_null(strstr(text(), "0123456789abcdef"));
	ck_assert_ptr_nonnull(strstr(text(), "(16 characters, not shown)"));
	ck_assert_ptr_null(strstr(text(), "hunter2"));
	ck_assert_ptr_null(strstr(text(), "pw"));
	ck_assert_ptr_nonnull(strstr(text(), "@h1/,https://*"));
	ck_assert_ptr_nonnull(strstr(text(), "http://h3/@"));
}
END_TEST

START_TEST(a_long_value_is_cut)
{
	char value[5000];

	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	doctor_put_variable(&b, "SLURM_X", value);
	doctor_put_variable(&b, "DDP_X", "");
	ck_assert_uint_lt(b.len, 256);
	ck_assert_ptr_nonnull(strstr(text(), " (empty)\n"));
	ck_assert_ptr_nonnull(strstr(text(), "v... (4999 characters)"));
}
END_TEST

START_TEST(rows_are_counted_by_mark_without_their_remedies)
{
	doctor_put(&b, DOCTOR_WARNING, "a", "r", "v");
	doctor_put(&b, DOCTOR_WARNING, "b", NULL, "v");
	doctor_put(&b, DOCTOR_ERROR, "c", "r", "v");
	ck_assert_int_eq(doctor_count(SLICE(b.data, b.len), DOCTOR_WARNING), 2);
	ck_assert_int_eq(doctor_count(SLICE(b.data, b.len), DOCTOR_ERROR), 1);
}
END_TEST

START_TEST(only_the_lines_that_differ_are_left)
{
	doctor_put_difference(&b, SLICE_STR("a\nb\nc\n"), SLICE_STR("c\na\n"));
	ck_assert_str_eq(text(), "b\n");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("doctor_report");

	tcase_add_checked_fixture(c, start, stop);
	tcase_add_test(c, a_row_has_a_mark_a_label_and_a_remedy);
	tcase_add_test(c, control_characters_and_the_home_folder_are_not_shown);
	tcase_add_test(c, a_value_cannot_add_a_line_of_its_own);
	tcase_add_test(c, values_of_secrets_are_not_shown);
	tcase_add_test(c, a_long_value_is_cut);
	tcase_add_test(c, rows_are_counted_by_mark_without_their_remedies);
	tcase_add_test(c, only_the_lines_that_differ_are_left);
	return run_case(c);
}
