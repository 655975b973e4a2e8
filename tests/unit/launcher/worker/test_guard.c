/* test_guard.c: the process that cleans up after a killed agent. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/worker/guard.h"
#include "launcher/worker/sweep.h"
#include "tests/held_exec.h"
#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"

static const struct sweep_marks marks = {.variable = "GUARD_TEST=1"};

static void read_name(pid_t pid, char *name, int size)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(name, size, f));
	fclose(f);
}

/* Otherwise the guard of an outer ddprun, which kills our group and then marked
 * processes, would kill our guard before it has done its work. */
START_TEST(it_differs_from_its_agent_from_the_start)
{
	char before[32], after[32], name[32];
	struct err e = ERR_INIT;
	struct guard g;

	read_name(getpid(), before, sizeof(before));
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(guard_start(&g, 4, &marks, &e), 0);
		ck_assert_int_eq(getpgid(g.pid), g.pid);
		read_name(g.pid, name, sizeof(name));
		ck_assert_str_eq(name, "ddp-guard\n");
		guard_stop(&g);
	}
	read_name(getpid(), after, sizeof(after));
	ck_assert_str_eq(after, before);
}
END_TEST

/* A child that leads a process group of its own, and another in that group;
 * both sleep until they are killed. */
static void start_group(pid_t *leader, pid_t *member)
{
	pid_t *both[] = {leader, member};

	*leader = 0;
	for (int i = 0; i < 2; i++) {
		pid_t pid = fork(), group = i ? *leader : pid;

		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
		ck_assert_int_gt(pid, 0);
		ck_assert_int_eq(setpgid(pid, group), 0);
		*both[i] = pid;
	}
}

START_TEST(a_reused_pid_is_not_signalled)
{
	pid_t leader, member;
	int status;

	start_group(&leader, &member);
	/* as if we had reaped a leader with this pid: a living process with the
	 * pid is a stranger */
	ck_assert_int_eq(guard_signal(-leader, SIGKILL), 0);
	ck_assert_int_eq(waitpid(leader, &status, WNOHANG), 0);
	ck_assert_int_eq(waitpid(member, &status, WNOHANG), 0);
	/* without its leader the group is still ours */
	kill(leader, SIGKILL);
	ck_assert_int_eq(waitpid(leader, &status, 0), leader);
	ck_assert_int_eq(guard_signal(-leader, SIGKILL), 1);
	ck_assert_int_eq(waitpid(member, &status, 0), member);
	ck_assert_int_eq(guard_signal(-leader, SIGKILL), 0);
}
END_TEST

/* Makes close_range fail as on a kernel without it. */
static int no_close_range;

int close_range(unsigned first, unsigned last, int flags)
{
	if (!no_close_range)
		return (int)syscall(SYS_close_range, first, last, flags);
	errno = ENOSYS;
	return -1;
}

START_TEST(it_holds_no_file_open_also_without_close_range)
{
	struct err e = ERR_INIT;
	struct guard g;
	int ends[2], status;
	char byte;

	for (no_close_range = 0; no_close_range < 2; no_close_range++) {
		ck_assert_int_eq(pipe(ends), 0);
		ck_assert_int_eq(guard_start(&g, 4, &marks, &e), 0);
		close(ends[1]);
		ck_assert_int_eq(read(ends[0], &byte, 1), 0);
		close(ends[0]);
		ck_assert_int_eq(waitpid(g.pid, &status, WNOHANG), 0);
		guard_stop(&g);
	}
}
END_TEST

START_TEST(an_empty_slot_and_one_never_filled_signal_nobody)
{
	ck_assert_int_eq(guard_signal(0, SIGKILL), 0);
	ck_assert_int_eq(guard_signal(1, SIGKILL), 0);
	ck_assert_int_eq(guard_signal(-1, SIGKILL), 0);
}
END_TEST

/* After execve the process may have the mark. If execve hangs, it does not
 * keep the guard forever. */
START_TEST(it_keeps_looking_while_a_process_is_in_execve)
{
	pid_t hung = held_exec_start();
	struct err e = ERR_INIT;
	struct guard g;
	uint64_t before;

	if (emulator_lacks("ptrace"))
		return;
	ck_assert_int_gt(hung, 0);
	ck_assert_int_eq(guard_start(&g, 4, &marks, &e), 0);
	before = clock_ms();
	guard_finish(&g);
	ck_assert_uint_ge(clock_ms() - before, 50 * SWEEP_LOOK_MS);
	guard_stop(&g);
	ck_assert_int_eq(held_exec_end(hung), 0);
}
END_TEST

static void make_folder(char *path)
{
	char file[64];
	FILE *f;

	strcpy(path, "/tmp/guard_XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(path));
	snprintf(file, sizeof(file), "%s/file", path);
	f = fopen(file, "w");
	ck_assert_ptr_nonnull(f);
	fclose(f);
}

START_TEST(it_removes_the_folder_that_was_noted_last)
{
	char job[32], earlier[32], last[32], file[64];
	char longest[GUARD_FOLDER_MAX + 1];
	struct err e = ERR_INIT;
	struct guard g;

	make_folder(job);
	make_folder(earlier);
	make_folder(last);
	ck_assert_int_eq(guard_start(&g, 4, &marks, &e), 0);
	guard_note_folder(&g, GUARD_JOB_FOLDER, job);
	guard_note_folder(&g, GUARD_ROUND_FOLDER, earlier);
	guard_note_folder(&g, GUARD_ROUND_FOLDER, last);
	/* not a path that it could remove */
	memset(longest, '/', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	guard_note_folder(&g, GUARD_ROUND_FOLDER, longest);
	guard_finish(&g);
	guard_stop(&g);
	ck_assert_int_eq(access(job, F_OK), -1);
	ck_assert_int_eq(access(last, F_OK), -1);
	snprintf(file, sizeof(file), "%s/file", earlier);
	ck_assert_int_eq(unlink(file), 0);
	ck_assert_int_eq(rmdir(earlier), 0);
}
END_TEST

/* As after a round of which the agent has removed the folder itself. */
START_TEST(it_ends_without_a_folder_to_remove)
{
	struct err e = ERR_INIT;
	struct guard g;
	int status;

	ck_assert_int_eq(guard_start(&g, 4, &marks, &e), 0);
	guard_note_folder(&g, GUARD_ROUND_FOLDER,
			  "/tmp/guard_that_is_not_there");
	guard_note_folder(&g, GUARD_JOB_FOLDER, "");
	close(g.pipe);
	ck_assert_int_eq(waitpid(g.pid, &status, 0), g.pid);
	ck_assert_int_eq(status, 0);
	g.pid = g.pipe = -1;
	guard_stop(&g);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("guard");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, it_differs_from_its_agent_from_the_start);
	tcase_add_test(c,
		a_reused_pid_is_not_signalled);
	tcase_add_test(c, it_holds_no_file_open_also_without_close_range);
	tcase_add_test(c, an_empty_slot_and_one_never_filled_signal_nobody);
	tcase_add_test(c, it_keeps_looking_while_a_process_is_in_execve);
	tcase_add_test(c, it_removes_the_folder_that_was_noted_last);
	tcase_add_test(c, it_ends_without_a_folder_to_remove);
	return run_case(c);
}
