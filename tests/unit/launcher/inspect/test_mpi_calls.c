/* test_mpi_calls.c: which frames are MPI's. tests/e2e/hang_mpi.bats looks at
 * real ranks. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher/inspect/mpi_calls.h"
#include "tests/unit/run_case.h"

static struct backtrace_thread t;

/* Innermost first. */
static const char *find(const char *const *functions, int want)
{
	const char *name = NULL;

	t.n = 0;
	for (; functions[t.n]; t.n++)
		snprintf(t.frames[t.n].function, BACKTRACE_NAME_MAX, "%s",
			 functions[t.n]);
	ck_assert_int_eq(mpi_calls_find(&t, &name), want);
	return name;
}

START_TEST(the_call_is_the_outermost_function_of_mpi)
{
	static const char *const mpich[] = {"MPIR_Wait", "PMPI_Recv",
					    "MPIR_Barrier", "PMPI_Barrier",
					    "mpi_barrier_", "main", NULL};

	ck_assert_str_eq(find(mpich, 3), "MPI_Barrier");
}
END_TEST

START_TEST(other_functions_are_not)
{
	static const char *const others[] = {"MPIR_Wait", "MPI_wait_for_it",
					     "PMI_Barrier", "MPI_", "", "main",
					     NULL};

	find(others, -1);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("mpi_calls");

	tcase_add_test(c, the_call_is_the_outermost_function_of_mpi);
	tcase_add_test(c, other_functions_are_not);
	return run_case(c);
}
