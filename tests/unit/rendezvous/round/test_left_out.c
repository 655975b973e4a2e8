/* test_left_out.c: workers of optional roles that failed, with a job that is
 * saved and loaded after each event. */
#define THROUGH_BYTES
#include "tests/unit/rendezvous/round/rounds.h"
#include "tests/unit/run_case.h"

START_TEST(a_worker_that_is_left_out_ends_nothing)
{
	struct wire_exited m = {.rank = 2, .pid = 4711, .code = 3,
				.early = WIRE_LEFT_OUT};
	struct job_fate f = {.owner = &f};
	const char *text;

	join(1, 2, (struct how){.nproc = 2, .restarts = 1});
	join(2, 2, (struct how){.nproc = 1, .restarts = 1});
	ck_assert_int_eq(job_exited(j, node[2], &m, &e), 0);
	drain();
	ck_assert_int_eq(ends, 0);
	ck_assert_int_eq(job_fate(j, 2, &f, &text, &e), 0);
	ck_assert_str_eq(text, "rank 2 (local rank 0) on h2, pid 4711, "
			       "exited with code 3, and is left out");
	exited(1, 0, 0, 0);
	ck_assert_int_eq(ends, 0);
	exited(1, 1, 0, 0);
	ended(WIRE_SUCCESS, 0, "2 workers exited with code 0, and 1 of "
			       "optional roles failed");
}
END_TEST

START_TEST(a_worker_that_is_left_out_hides_no_failure)
{
	struct wire_exited m = {.rank = 0, .signal = 9, .early = WIRE_LEFT_OUT};

	join(1, 1, (struct how){.nproc = 2});
	ck_assert_int_eq(job_exited(j, node[1], &m, &e), 0);
	drain();
	exited(1, 1, 4, 0);
	ended(WIRE_FAILURE, 4, "rank 1 (local rank 1) on h1, pid 4711, "
			       "exited with code 4");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("left_out");

	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, a_worker_that_is_left_out_ends_nothing);
	tcase_add_test(c, a_worker_that_is_left_out_hides_no_failure);
	return run_case(c);
}
