/* test_sweep.c: which processes are taken for leftovers. */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/sweep.h"
#include "tests/unit/run_case.h"

#define MARK "DDP_SWEEP_TEST=31415926"

/* How sweep.c reads an environment; its first piece is a byte shorter. */
enum { PIECE = 32 << 10, MARK_LEN = sizeof(MARK) - 1 };

/* A process that sleeps, with this environment; it runs when this returns. */
static pid_t sleeper(const char *first, const char *second)
{
	char *envp[] = {(char *)first, (char *)second, NULL}, byte;
	char *argv[] = {(char *)"sleep", (char *)"1000", NULL};
	int ends[2];
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		dup2(ends[1], 100);
		close(ends[1]);
		/* it is closed when the environment is that of sleep */
		fcntl(100, F_SETFD, FD_CLOEXEC);
		execve("/bin/sleep", argv, envp);
		_exit(1);
	}
	close(ends[1]);
	ck_assert_int_eq(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	return pid;
}

static int lives(pid_t pid)
{
	int rc = waitpid(pid, NULL, WNOHANG);

	ck_assert_int_ge(rc, 0);
	return rc == 0;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(a_variable_that_only_ends_with_the_mark_is_another)
{
	pid_t other = sleeper("X_" MARK, MARK "0");
	pid_t ours = sleeper("A=1", MARK);

	ck_assert_int_eq(sweep_kill_marked(MARK, "none"), 1);
	ck_assert_int_eq(waitpid(ours, NULL, 0), ours);
	ck_assert(lives(other));
	end(other);
}
END_TEST

START_TEST(the_mark_is_found_wherever_a_long_environment_is_cut)
{
	static char filler[2 * PIECE];

	for (int piece = 1; piece <= 2; piece++) {
		for (int before = 0; before <= MARK_LEN + 1; before++) {
			size_t n = (size_t)(piece * PIECE - 1 - before);
			pid_t pid;

			/* n bytes with its NUL: then the mark begins */
			memset(filler, 'x', n - 1);
			memcpy(filler, "F=", 2);
			filler[n - 1] = '\0';
			pid = sleeper(filler, MARK);
			ck_assert_int_eq(sweep_kill_marked(MARK, "none"), 1);
			ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		}
	}
}
END_TEST

START_TEST(children_that_were_there_first_are_left_alone_until_reaped)
{
	struct sweep s = {NULL, 0};
	pid_t first = sleeper("A=1", MARK), theirs, ours;

	sweep_note_strangers();
	theirs = sleeper("A=1", "B=2"); /* as if orphaned by the first */
	ours = sleeper("A=1", MARK);
	ck_assert_int_eq(sweep_children(&s, NULL, 0, MARK, SIGKILL), 1);
	ck_assert_int_eq(waitpid(ours, NULL, 0), ours);
	ck_assert(lives(first) && lives(theirs));
	ck_assert_int_eq(sweep_children(&s, NULL, 0, MARK, SIGKILL), 0);
	/* the number may be another's now */
	sweep_reaped(first);
	ck_assert_int_eq(sweep_children(&s, NULL, 0, MARK, SIGKILL), 1);
	ck_assert_int_eq(waitpid(first, NULL, 0), first);
	end(theirs);
	sweep_release(&s);
}
END_TEST

START_TEST(without_strangers_each_child_is_ours_but_those_excepted)
{
	struct sweep s = {NULL, 0};
	pid_t ours, server;

	sweep_note_strangers();
	ours = sleeper("A=1", "B=2");
	server = sleeper("A=1", MARK);
	ck_assert_int_eq(sweep_children(&s, &server, 1, MARK, SIGKILL), 1);
	ck_assert_int_eq(waitpid(ours, NULL, 0), ours);
	ck_assert(lives(server));
	end(server);
	sweep_release(&s);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("sweep");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_variable_that_only_ends_with_the_mark_is_another);
	tcase_add_test(c, the_mark_is_found_wherever_a_long_environment_is_cut);
	tcase_add_test(c,
		children_that_were_there_first_are_left_alone_until_reaped);
	tcase_add_test(c,
		without_strangers_each_child_is_ours_but_those_excepted);
	return run_case(c);
}
