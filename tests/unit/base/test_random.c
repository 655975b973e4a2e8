/* test_random.c: random bytes, whatever getrandom does. */
#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "tests/unit/run_case.h"

static int fails, error;

/* Replace libc's. */
ssize_t getrandom(void *out, size_t n, unsigned flags)
{
	ck_assert_uint_eq(flags, GRND_NONBLOCK); /* it never waits itself */
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

static uint64_t now_ms, slept_ms;

int clock_gettime(clockid_t clock, struct timespec *t)
{
	t->tv_sec = (time_t)(now_ms / 1000);
	t->tv_nsec = (long)(now_ms % 1000) * 1000000;
	return 0;
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	now_ms += (uint64_t)t->tv_nsec / 1000000;
	slept_ms += (uint64_t)t->tv_nsec / 1000000;
	return 0;
}

START_TEST(a_host_that_has_just_booted_has_its_entropy_late)
{
	struct err e = ERR_INIT;
	char byte = 0;

	fails = 100;
	error = EAGAIN;
	ck_assert_int_eq(random_bytes(&byte, 1, &e), 0);
	ck_assert_int_eq(byte, 0x5a);
	ck_assert_uint_ge(slept_ms, 1000);
	ck_assert_uint_lt(slept_ms, 10000);
}
END_TEST

START_TEST(a_host_without_entropy_is_an_error_that_says_so)
{
	struct err e = ERR_INIT;
	char byte;

	fails = 1 << 30;
	error = EAGAIN;
	ck_assert_int_eq(random_bytes(&byte, 1, &e), -EAGAIN);
	ck_assert_ptr_nonnull(strstr(e.text, "no random bytes for 60 s"));
	ck_assert_uint_ge(slept_ms, 60000);
	ck_assert_uint_lt(slept_ms, 61000);
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
	tcase_add_test(c, a_host_that_has_just_booted_has_its_entropy_late);
	tcase_add_test(c, a_host_without_entropy_is_an_error_that_says_so);
	tcase_add_test(c, any_other_error_is_reported);
	return run_case(c);
}
