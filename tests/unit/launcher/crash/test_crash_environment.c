/* test_crash_environment.c: what the library of a worker leaves in the
 * environment, by the name of the program that has loaded it. The tests copy
 * this program under other names and run it. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/crash/crash_internal.h"
#include "launcher/crash/crash_record.h"
#include "tests/unit/run_case.h"

enum { AGENT = 470, TEXT_MAX = 1024 };

#define RECORD CRASH_VARIABLE "=/proc/470/fd/22:0"
#define OURS "/proc/470/fd/21"

static char folder[] = "/tmp/crash_environment_XXXXXX";

/* The program under its other name: prints the variables that are left of those
 * in its arguments, and ends. */
static void leave(char **variables)
{
	extern char **environ;

	environ = variables;
	crash_environment_leave(AGENT);
	for (char **v = environ; *v; v++)
		printf("%s|", *v);
	fflush(stdout);
	_exit(0);
}

static void copy_as(const char *name, char *path, size_t size)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	struct stat st;
	off_t at = 0;

	snprintf(path, size, "%s/%s", folder, name);
	to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	ck_assert(from >= 0 && to >= 0);
	ck_assert_int_eq(fstat(from, &st), 0);
	while (at < st.st_size)
		ck_assert_int_gt(
			sendfile(to, from, &at, (size_t)(st.st_size - at)), 0);
	close(from);
	close(to);
}

/* The variables that a program with this name is left with. */
static const char *left(const char *name, const char *preload,
			const char *more)
{
	static char text[TEXT_MAX];
	char path[128];
	size_t n = 0;
	int ends[2], status;
	ssize_t got;
	pid_t pid;

	copy_as(name, path, sizeof(path));
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		execl(path, name, "leave", "A=1", preload, RECORD, more,
		      (char *)NULL);
		_exit(1);
	}
	ck_assert_int_gt(pid, 0);
	close(ends[1]);
	while ((got = read(ends[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	close(ends[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	unlink(path);
	return text;
}

static void setup(void)
{
	strcpy(strrchr(folder, '_'), "_XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
	rmdir(folder);
}

START_TEST(a_program_is_left_without_the_library_and_its_variable)
{
	ck_assert_str_eq(left("trainer", "LD_PRELOAD=" OURS, "B=2"),
			 "A=1|B=2|");
	/* nothing precedes the one entry that stays */
	ck_assert_str_eq(left("trainer", "LD_PRELOAD=" OURS ":/lib/x.so",
			      "B=2"),
			 "A=1|LD_PRELOAD=/lib/x.so|B=2|");
}
END_TEST

START_TEST(other_libraries_stay_in_their_order)
{
	static const struct {
		const char *list, *rest;
	} all[] = {
		{"/a.so:" OURS ":/b.so", "/a.so:/b.so"},
		{"/a.so /b.so " OURS, "/a.so:/b.so"},
		{OURS " " OURS ":/b.so", "/b.so"},
		/* other agents' libraries, or no agent's */
		{"/proc/47/fd/21", "/proc/47/fd/21"},
		{"/proc/4700/fd/21", "/proc/4700/fd/21"},
		{"/proc/471/fd/21:" OURS, "/proc/471/fd/21"},
		{"/proc/470/cwd/x.so", "/proc/470/cwd/x.so"},
		{"/proc/self/fd/21", "/proc/self/fd/21"},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		char preload[128], want[160];

		snprintf(preload, sizeof(preload), "LD_PRELOAD=%s",
			 all[i].list);
		snprintf(want, sizeof(want), "A=1|LD_PRELOAD=%s|B=2|",
			 all[i].rest);
		ck_assert_str_eq(left("trainer", preload, "B=2"), want);
	}
}
END_TEST

START_TEST(variables_whose_names_only_begin_alike_stay)
{
	ck_assert_str_eq(left("trainer", "LD_PRELOAD_32=" OURS,
			      CRASH_VARIABLE "S=1"),
			 "A=1|LD_PRELOAD_32=" OURS "|" CRASH_VARIABLE "S=1|");
}
END_TEST

START_TEST(programs_that_start_others_hand_everything_on)
{
	static const char *const wrappers[] = {
		"sh", "bash", "python", "python3", "python3.90", "env", "uv",
		"zsh", "ash", "numactl",
	};
	static const char *const others[] = {
		"s", "shell", "bas", "pythonic", "3.11", "xsh", "sh-1a", "as",
		"python3.11t",
	};

	for (size_t i = 0; i < sizeof(wrappers) / sizeof(*wrappers); i++)
		ck_assert_str_eq(left(wrappers[i], "LD_PRELOAD=" OURS, "B=2"),
				 "A=1|LD_PRELOAD=" OURS "|" RECORD "|B=2|");
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		ck_assert_str_eq(left(others[i], "LD_PRELOAD=" OURS, "B=2"),
				 "A=1|B=2|");
}
END_TEST

START_TEST(the_record_is_found_by_the_whole_name_of_its_variable)
{
	extern char **environ;
	char *one[] = {(char *)"A=1", (char *)CRASH_VARIABLE "X=2",
		       (char *)CRASH_VARIABLE "=/proc/1/fd/2:3", NULL};
	char *none[] = {(char *)"A=1", (char *)CRASH_VARIABLE, NULL};
	char **before = environ;
	const char *found, *missing;

	environ = one;
	found = crash_environment_find();
	environ = none;
	missing = crash_environment_find();
	environ = before;
	ck_assert_str_eq(found, "/proc/1/fd/2:3");
	ck_assert_ptr_null(missing);
}
END_TEST

int main(int argc, char **argv)
{
	TCase *c;

	if (argc > 1 && strcmp(argv[1], "leave") == 0)
		leave(argv + 2);
	c = tcase_create("crash_environment");
	tcase_set_timeout(c, 60);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c,
		a_program_is_left_without_the_library_and_its_variable);
	tcase_add_test(c, other_libraries_stay_in_their_order);
	tcase_add_test(c, variables_whose_names_only_begin_alike_stay);
	tcase_add_test(c, programs_that_start_others_hand_everything_on);
	tcase_add_test(c,
		the_record_is_found_by_the_whole_name_of_its_variable);
	return run_case(c);
}
