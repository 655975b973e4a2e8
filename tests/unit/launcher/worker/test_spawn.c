/* test_spawn.c: errors name the reason why a process cannot start. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/config/preflight.h"
#include "launcher/worker/spawn.h"
#include "tests/unit/emulated.h"
#include "tests/unit/refuse.h"
#include "tests/unit/run_case.h"

/* LeakSanitizer needs a few descriptors at the end. */
static void close_from(int first)
{
	for (int fd = first; fd < 100; fd++)
		close(fd);
}

START_TEST(descriptors_that_were_inherited_count)
{
	const struct rlimit few = {100, 100};
	struct err e = ERR_INIT;
	int first = dup(STDERR_FILENO);
	uint64_t soft;

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	ck_assert_int_eq(preflight_check_limits(2, &soft, &e), 0);
	while (dup(STDERR_FILENO) < 60)
		continue;
	ck_assert_int_eq(preflight_check_limits(2, &soft, &e), -EMFILE);
	ck_assert_ptr_nonnull(strstr(e.text, "ddprun was started with"));
	ck_assert_ptr_nonnull(strstr(e.text, "hard limit is 100"));
	while (dup(STDERR_FILENO) >= 0)
		continue;
	/* no descriptor is left to count them */
	ck_assert_int_eq(preflight_check_limits(2, &soft, &e), -EMFILE);
	close_from(first);
}
END_TEST

START_TEST(no_descriptor_for_dev_null_is_named_as_such)
{
	const struct rlimit few = {16, 16};
	struct err e = ERR_INIT;
	int first = dup(STDERR_FILENO);

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (dup(STDERR_FILENO) >= 0)
		continue;
	ck_assert_int_eq(spawn_no_input(&e), -EMFILE);
	ck_assert_str_eq(e.text, "cannot open /dev/null: Too many open files");
	close_from(first);
}
END_TEST

enum { AS_EXPECTED, NOT_AS_EXPECTED, NO_SECCOMP };

/* In a process of its own: LeakSanitizer needs clone at its end. */
static _Noreturn void spawn_without_clone(void)
{
	char *const none[] = {NULL};
	const struct spawn s = {.path = "/bin/true", .argv = none,
				.envp = none, .in = 0, .out = 1, .err = 2,
				.keep = {-1, -1}};
	struct err e = ERR_INIT;

	if (refuse(SYS_clone, EAGAIN))
		_exit(NO_SECCOMP);
	_exit(spawn_process(&s, &e) == -EAGAIN &&
			      strstr(e.text, "cannot start '/bin/true'") &&
			      strstr(e.text, "ulimit -u")
		      ? AS_EXPECTED
		      : NOT_AS_EXPECTED);
}

START_TEST(a_process_that_the_kernel_refuses_is_an_error)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		spawn_without_clone();
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_SECCOMP)
		puts("no seccomp here: one test less");
	else
		ck_assert_int_eq(WEXITSTATUS(status), AS_EXPECTED);
}
END_TEST

static void check_script(const char *text, const char *advice)
{
	char path[] = "/tmp/test_spawn.XXXXXX";
	char *const none[] = {NULL};
	const struct spawn s = {.path = path, .argv = none, .envp = none,
				.in = 0, .out = 1, .err = 2, .keep = {-1, -1}};
	struct err e = ERR_INIT;
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), strlen(text));
	ck_assert_int_eq(fchmod(fd, 0700), 0);
	close(fd);
	ck_assert_int_eq(spawn_process(&s, &e), -ENOENT);
	unlink(path);
	ck_assert_msg(strstr(e.text, advice) != NULL, "%s", e.text);
}

START_TEST(a_missing_interpreter_of_a_script_is_named)
{
	if (emulator_lacks("vfork"))
		return;
	check_script("#!/usr/bin/pyton3 -u\nprint(1)\n",
		     "; its interpreter '/usr/bin/pyton3' (#! line) is "
		     "missing");
	check_script("#! /bin/sh\r\necho\r\n",
		     "; its first line ends with a carriage return (Windows "
		     "line ends): convert it");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("spawn");

	tcase_add_test(c, descriptors_that_were_inherited_count);
	tcase_add_test(c, no_descriptor_for_dev_null_is_named_as_such);
	tcase_add_test(c,
		       a_process_that_the_kernel_refuses_is_an_error);
	tcase_add_test(c,
		       a_missing_interpreter_of_a_script_is_named);
	return run_case(c);
}
