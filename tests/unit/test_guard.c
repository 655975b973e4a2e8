/* test_guard.c: the process that outlives the agent. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/guard.h"
#include "tests/unit/run_case.h"

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

/* Else the guard of a ddprun around this one, which kills our group and then
 * what is marked, would kill ours before it has done its work. */
START_TEST(it_can_be_told_from_its_agent_as_soon_as_it_is_there)
{
	char before[32], after[32], name[32];
	struct err e = ERR_INIT;
	struct guard g;

	read_name(getpid(), before, sizeof(before));
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(guard_start(&g, 4, "X=1", "", &e), 0);
		ck_assert_int_eq(getpgid(g.pid), g.pid);
		read_name(g.pid, name, sizeof(name));
		ck_assert_str_eq(name, "ddprun-guard\n");
		guard_stop(&g);
	}
	read_name(getpid(), after, sizeof(after));
	ck_assert_str_eq(after, before);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("guard");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, it_can_be_told_from_its_agent_as_soon_as_it_is_there);
	return run_case(c);
}
