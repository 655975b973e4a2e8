/* test_random.c: random bytes, whatever getrandom does. */
#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/random.h"
#include "tests/unit/run_case.h"

static int fails, error;

/* Replaces libc's. */
ssize_t getrandom(void *out, size_t n, unsigned flags)
{
	if (fails-- > 0) {
		errno = error;
		return -1;
	}
	memset(out, 0x5a, n);
	return (ssize_t)n;
}

START_TEST(a_signal_while_the_host_boots_is_no_error)
{
	struct err e = ERR_INIT;
	char text[9] = "";

	fails = 3;
	error = EINTR;
	ck_assert_int_eq(random_hex(text, 4, &e), 0);
	ck_assert_str_eq(text, "5a5a5a5a");
}
END_TEST

START_TEST(any_other_error_is_reported)
{
	struct err e = ERR_INIT;
	char byte;

	fails = 1;
	error = ENOSYS;
	ck_assert_int_eq(random_bytes(&byte, 1, &e), -ENOSYS);
	ck_assert_ptr_nonnull(strstr(e.text, "cannot get random bytes"));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("random");

	tcase_add_test(c, a_signal_while_the_host_boots_is_no_error);
	tcase_add_test(c, any_other_error_is_reported);
	return run_case(c);
}
