/* test_vouch.c: distinguishes our user's sockets from other users'. */
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/membership/vouch.h"
#include "tests/unit/run_case.h"

enum { AS_EXPECTED, NOT_AS_EXPECTED, NO_NAMESPACES };

/* Runs the check in a child that first becomes user uid (-1: unchanged) and
 * then enters a user namespace; returns the child's status. */
static int in_namespace(uid_t uid, int expected)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (uid != (uid_t)-1 && setuid(uid))
			_exit(NO_NAMESPACES);
		if (vouch_can_identify_users() != 1)
			_exit(NOT_AS_EXPECTED);
		if (!expected && unshare(CLONE_NEWUSER))
			_exit(NO_NAMESPACES);
		_exit(vouch_can_identify_users() == expected ? AS_EXPECTED
							     : NOT_AS_EXPECTED);
	}
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

START_TEST(ours_are_known_where_users_are)
{
	ck_assert_int_eq(in_namespace((uid_t)-1, 1), AS_EXPECTED);
}
END_TEST

/* Debian's nobody is a user like any other. */
START_TEST(the_user_nobody_is_a_user)
{
	if (geteuid() == 0)
		ck_assert_int_eq(in_namespace(65534, 1), AS_EXPECTED);
}
END_TEST

START_TEST(no_user_is_known_in_a_namespace_without_users)
{
	int status = in_namespace((uid_t)-1, 0);

	if (status == NO_NAMESPACES)
		puts("no user namespaces here: one test less");
	else
		ck_assert_int_eq(status, AS_EXPECTED);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("vouch");

	tcase_add_test(c, ours_are_known_where_users_are);
	tcase_add_test(c, the_user_nobody_is_a_user);
	tcase_add_test(c, no_user_is_known_in_a_namespace_without_users);
	return run_case(c);
}
