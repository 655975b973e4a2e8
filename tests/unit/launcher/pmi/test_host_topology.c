/* test_host_topology.c: the helper's start and end, and the file. This program
 * is the helper as well. tests/e2e/host_topology.bats has the real one. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/pmi/host_topology.h"
#include "tests/unit/run_case.h"

/* What $HELPER says. */
static int helper(const char *program)
{
	if (strcmp(getenv("HELPER"), "fails") == 0)
		return 1;
	if (strcmp(getenv("HELPER"), "waits") == 0)
		for (;;)
			pause();
	return printf("%s", program) < 0;
}

static void start(struct host_topology *t, const char *does)
{
	setenv("HELPER", does, 1);
	host_topology_start(t, "/a/program");
	unsetenv("HELPER");
	ck_assert_int_gt(t->pid, 0);
	ck_assert_int_eq(host_topology_is_pending(t), 1);
}

/* As the agent does. */
static void reap(struct host_topology *t)
{
	pid_t pid = t->pid;
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(host_topology_reaped(t, pid + 1, status), 0);
	ck_assert_int_eq(host_topology_reaped(t, pid, status), 1);
	ck_assert_int_eq(host_topology_reaped(t, pid, status), 0);
	ck_assert_int_eq(host_topology_is_pending(t), 0);
}

START_TEST(the_file_has_what_the_helper_writes)
{
	struct host_topology t;
	char path[HOST_TOPOLOGY_PATH_MAX], text[20] = "";
	FILE *f;

	start(&t, "writes");
	host_topology_path(&t, path);
	ck_assert_str_eq(path, "");
	reap(&t);
	host_topology_path(&t, path);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
	fclose(f);
	ck_assert_str_eq(text, "/a/program");
	host_topology_close(&t);
	host_topology_path(&t, path);
	ck_assert_str_eq(path, "");
}
END_TEST

START_TEST(there_is_no_file_if_the_helper_fails_or_is_killed)
{
	struct host_topology t;
	char path[HOST_TOPOLOGY_PATH_MAX];

	start(&t, "fails");
	reap(&t);
	host_topology_path(&t, path);
	ck_assert_str_eq(path, "");
	start(&t, "waits");
	host_topology_cancel(&t);
	reap(&t);
	host_topology_path(&t, path);
	ck_assert_str_eq(path, "");
	host_topology_cancel(&t);
	host_topology_close(&t);
}
END_TEST

START_TEST(a_helper_that_runs_is_killed_at_the_end)
{
	struct host_topology t;
	pid_t pid;

	start(&t, "waits");
	pid = t.pid;
	host_topology_close(&t);
	ck_assert_int_eq(host_topology_is_pending(&t), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), -1);
}
END_TEST

START_TEST(no_helper_is_started_if_a_variable_of_hwloc_is_set)
{
	struct host_topology t;

	setenv("HWLOC_HIDE_ERRORS", "1", 1);
	host_topology_start(&t, "/a/program");
	ck_assert_int_eq(host_topology_is_pending(&t), 0);
	ck_assert_int_eq(t.fd, -1);
	unsetenv("HWLOC_HIDE_ERRORS");
}
END_TEST

int main(int argc, char **argv)
{
	TCase *c;

	if (argc > 2 && getenv("HELPER") &&
	    strcmp(argv[1], HOST_TOPOLOGY_COMMAND) == 0)
		return helper(argv[2]);
	c = tcase_create("host_topology");
	tcase_set_timeout(c, 30);
	tcase_add_test(c, the_file_has_what_the_helper_writes);
	tcase_add_test(c, there_is_no_file_if_the_helper_fails_or_is_killed);
	tcase_add_test(c, a_helper_that_runs_is_killed_at_the_end);
	tcase_add_test(c, no_helper_is_started_if_a_variable_of_hwloc_is_set);
	return run_case(c);
}
