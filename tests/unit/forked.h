/* forked.h: n processes that run one function each, for tests of what ranks of
 * one machine share. A child must not call ck_*: it returns 0 or a number that
 * tells what was wrong. */
#ifndef TESTS_FORKED_H
#define TESTS_FORKED_H

#include <check.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs body(me, arg) in n children and expects 0 of all. */
static inline void run_forked(int n, int (*body)(int me, void *arg), void *arg)
{
	pid_t pid[64];
	int status;

	fflush(NULL);
	for (int i = 0; i < n; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			_exit(body(i, arg));
		ck_assert_int_gt(pid[i], 0);
	}
	for (int i = 0; i < n; i++) {
		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
			      "child %d of %d ended with status 0x%x", i, n,
			      status);
	}
}

#endif
