/* test_pmix_library.c: a child tries libpmix, and leaves nothing. */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/pmix/pmix_library.h"
#include "tests/unit/run_case.h"

/* The next descriptors that this process would get. */
static void free_descriptors(int out[2])
{
	out[0] = dup(STDERR_FILENO);
	out[1] = dup(STDERR_FILENO);
	close(out[0]);
	close(out[1]);
}

/* Whether the library is here or not. */
START_TEST(a_try_leaves_neither_descriptors_nor_a_process)
{
	struct err e = ERR_INIT, again = ERR_INIT;
	struct pmix_library l;
	int before[2], after[2];

	free_descriptors(before);
	for (int i = 0; i < 3; i++) {
		int rc = pmix_library_check(&e);

		free_descriptors(after);
		ck_assert_int_eq(after[0], before[0]);
		ck_assert_int_eq(after[1], before[1]);
		ck_assert_int_eq(waitpid(-1, NULL, 0), -1);
		ck_assert_int_eq(errno, ECHILD);
		ck_assert(rc == 0 || rc == ERR_SYSTEM);
	}
	/* it has found what this process finds */
	if (pmix_library_load(&l, &again) == 0)
		ck_assert_int_eq(e.code, 0);
	else
		ck_assert_str_eq(e.text, again.text);
}

int main(void)
{
	TCase *c = tcase_create("pmix_library");

	tcase_add_test(c, a_try_leaves_neither_descriptors_nor_a_process);
	return run_case(c);
}
