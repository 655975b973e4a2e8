/* test_doctor_task.c: children that write, crash, hang, close their output or
 * are many. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "launcher/doctor/doctor_internal.h"
#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"

enum { LONG_MS = 60000, SHORT_MS = 100, MANY = 40 };

static void write_words(void *arg)
{
	printf("out %s\n", (const char *)arg);
	fprintf(stderr, "err\n");
}

static void crash(void *arg)
{
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
}

/* With a child that holds the pipe as well. */
static void hang(void *arg)
{
	fork();
	for (;;)
		pause();
}

static void close_and_hang(void *arg)
{
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	for (;;)
		pause();
}

static void flood(void *arg)
{
	char bytes[4096] = "";

	for (int i = 0; i < 1024; i++) {
		if (file_write_all(STDOUT_FILENO, bytes, sizeof(bytes)) < 0)
			_exit(1);
	}
}

START_TEST(output_and_exit_status_are_collected)
{
	char word[] = "x";
	struct doctor_task t = {.run = write_words, .arg = word};

	doctor_task_run(&t, 1, 1, LONG_MS);
	ck_assert_int_eq(t.status, 0);
	ck_assert_int_eq(t.is_late, 0);
	ck_assert_uint_eq(t.out.len, 10);
	ck_assert_ptr_nonnull(memmem(t.out.data, t.out.len, "out x\n", 6));
	doctor_task_release(&t, 1);
}
END_TEST

START_TEST(a_crash_is_a_status)
{
	struct doctor_task t = {.run = crash};

	doctor_task_run(&t, 1, 1, LONG_MS);
	ck_assert(WIFSIGNALED(t.status) && WTERMSIG(t.status) == SIGSEGV);
	doctor_task_release(&t, 1);
}
END_TEST

START_TEST(what_hangs_is_killed_with_its_children)
{
	struct doctor_task t[] = {{.run = hang}, {.run = close_and_hang}};
	int status;

	if (emulator_lacks("subreapers"))
		return;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	doctor_task_run(t, 2, 2, SHORT_MS);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(t[i].is_late, 1);
		ck_assert(WIFSIGNALED(t[i].status));
	}
	/* the orphan is this process's child now, and was killed too */
	ck_assert_int_gt(waitpid(-t[0].pid, &status, 0), 0);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	doctor_task_release(t, 2);
}
END_TEST

START_TEST(output_beyond_the_maximum_is_lost_and_blocks_nothing)
{
	struct doctor_task t = {.run = flood};

	doctor_task_run(&t, 1, 1, LONG_MS);
	ck_assert_int_eq(t.status, 0);
	ck_assert_uint_le(t.out.len, 1 << 20);
	doctor_task_release(&t, 1);
}
END_TEST

START_TEST(more_tasks_than_the_width_all_run)
{
	char word[] = "y";
	struct doctor_task t[MANY];

	for (int i = 0; i < MANY; i++)
		t[i] = (struct doctor_task){.run = write_words, .arg = word};
	doctor_task_run(t, MANY, 3, LONG_MS);
	for (int i = 0; i < MANY; i++)
		ck_assert_uint_eq(t[i].out.len, 10);
	doctor_task_release(t, MANY);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("doctor_task");

	tcase_add_test(c, output_and_exit_status_are_collected);
	tcase_add_test(c, a_crash_is_a_status);
	tcase_add_test(c, what_hangs_is_killed_with_its_children);
	tcase_add_test(c, output_beyond_the_maximum_is_lost_and_blocks_nothing);
	tcase_add_test(c, more_tasks_than_the_width_all_run);
	return run_case(c);
}
