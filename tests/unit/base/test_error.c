/* test_error.c: an error's code is negative, whatever errno was. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tests/unit/run_case.h"

START_TEST(code_and_text_are_kept)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(err_set(&e, -EIO, "disk %d on %s", 3, "h1"), -EIO);
	ck_assert_int_eq(e.code, -EIO);
	ck_assert_str_eq(e.text, "disk 3 on h1");
	ck_assert_int_eq(err_set(NULL, ERR_DATA, "unread"), ERR_DATA);
}
END_TEST

/* `return err_set(e, -errno, ...)` after a call that set no errno */
START_TEST(a_failure_without_errno_is_not_a_success)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(err_set(&e, 0, "pipe of worker 2"), ERR_INTERNAL);
	ck_assert_int_eq(e.code, ERR_INTERNAL);
	ck_assert_str_eq(e.text, "pipe of worker 2");
	ck_assert_int_eq(err_set(NULL, 5, "unread"), ERR_INTERNAL);
}
END_TEST

START_TEST(a_note_accompanies_a_success)
{
	struct err e = {ERR_DATA, "old"};

	err_note(&e, "%s instead", "cpu");
	ck_assert_int_eq(e.code, 0);
	ck_assert_str_eq(e.text, "cpu instead");
	err_note(NULL, "unread");
}
END_TEST

START_TEST(every_code_has_a_name)
{
#define X(name, code, text) ck_assert_str_eq(err_name(code), text);
	ERR_LIST(X)
#undef X
	ck_assert_str_eq(err_name(0), "success");
	ck_assert_str_eq(err_name(-ENOENT), "No such file or directory");
	ck_assert_str_eq(err_name(7), "unknown error");
}
END_TEST

START_TEST(every_signal_has_a_name)
{
	char out[SIGNAL_NAME_MAX];

	for (int i = 1; i <= SIGSYS; i++)
		ck_assert_msg(strncmp(signal_name(i, out), "SIG", 3) == 0,
			      "%d is %s", i, out);
	ck_assert_str_eq(signal_name(SIGHUP, out), "SIGHUP");
	ck_assert_str_eq(signal_name(SIGKILL, out), "SIGKILL");
	ck_assert_str_eq(signal_name(SIGIO, out), "SIGPOLL");
	ck_assert_str_eq(signal_name(SIGSYS, out), "SIGSYS");
	ck_assert_str_eq(signal_name(SIGSYS + 1, out), "signal 32");
	ck_assert_str_eq(signal_name(40, out), "signal 40");
	ck_assert_str_eq(signal_name(0, out), "signal 0");
	ck_assert_str_eq(signal_name(-1, out), "signal -1");
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("error");

	tcase_add_test(t, code_and_text_are_kept);
	tcase_add_test(t, a_failure_without_errno_is_not_a_success);
	tcase_add_test(t, a_note_accompanies_a_success);
	tcase_add_test(t, every_code_has_a_name);
	tcase_add_test(t, every_signal_has_a_name);
	return run_case(t);
}
