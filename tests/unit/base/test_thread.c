/* test_thread.c: what a detached thread has from its creator, and what not. */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/thread.h"
#include "tests/unit/run_case.h"

static int reports_on[2];

static void *report_mask(void *arg)
{
	sigset_t blocked;
	char byte;

	(void)arg;
	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	byte = (char)('0' + sigismember(&blocked, SIGTERM));
	ck_assert_int_eq(write(reports_on[1], &byte, 1), 1);
	return NULL;
}

/* At its end ddprun blocks SIGTERM, which must not find another thread. */
START_TEST(a_detached_thread_takes_no_signal)
{
	sigset_t ours;
	char byte;

	ck_assert_int_eq(pipe(reports_on), 0);
	ck_assert_int_eq(thread_detach(report_mask, NULL, 0), 0);
	ck_assert_int_eq(read(reports_on[0], &byte, 1), 1);
	ck_assert_int_eq(byte, '1');
	pthread_sigmask(SIG_BLOCK, NULL, &ours);
	ck_assert_int_eq(sigismember(&ours, SIGTERM), 0);
	close(reports_on[0]);
	close(reports_on[1]);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("thread");

	tcase_add_test(c, a_detached_thread_takes_no_signal);
	return run_case(c);
}
