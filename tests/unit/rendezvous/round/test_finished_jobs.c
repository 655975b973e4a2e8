/* test_finished_jobs.c: how the last jobs ended, and the limit of how many are
 * kept. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/round/finished_jobs.h"
#include "tests/unit/run_case.h"

static struct finished_jobs finished;

static const char *find(const char *id, uint32_t round)
{
	return finished_jobs_find(&finished, SLICE_STR(id), round);
}

START_TEST(job_and_round_must_both_match)
{
	ck_assert_ptr_null(find("a", 0));
	finished_jobs_add(&finished, "a", 2, "rank 1 fell");
	ck_assert_str_eq(find("a", 2), "rank 1 fell");
	ck_assert_ptr_null(find("a", 1));
	ck_assert_ptr_null(find("ab", 2));
	ck_assert_ptr_null(find("", 2));
	/* the name was used again */
	finished_jobs_add(&finished, "a", 2, "all went well");
	ck_assert_str_eq(find("a", 2), "all went well");
	finished_jobs_release(&finished);
}
END_TEST

START_TEST(the_oldest_is_forgotten_first)
{
	char id[16];

	for (int i = 0; i <= FINISHED_JOBS_MAX; i++) {
		snprintf(id, sizeof(id), "job%d", i);
		finished_jobs_add(&finished, id, 0, id);
	}
	ck_assert_ptr_null(find("job0", 0));
	for (int i = 1; i <= FINISHED_JOBS_MAX; i++) {
		snprintf(id, sizeof(id), "job%d", i);
		ck_assert_str_eq(find(id, 0), id);
	}
	finished_jobs_release(&finished);
}
END_TEST

static uint32_t next_round(const char *id)
{
	return finished_jobs_next_round(&finished, SLICE_STR(id));
}

START_TEST(the_next_job_of_a_name_continues_its_rounds)
{
	ck_assert_uint_eq(next_round("a"), 0);
	finished_jobs_add(&finished, "a", 2, "h1 was lost");
	finished_jobs_add(&finished, "b", 0, "all went well");
	ck_assert_uint_eq(next_round("a"), 3);
	ck_assert_uint_eq(next_round("b"), 1);
	ck_assert_uint_eq(next_round("ab"), 0);
	finished_jobs_add(&finished, "a", 5, "all went well");
	ck_assert_uint_eq(next_round("a"), 6);
	finished_jobs_release(&finished);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("ended");

	tcase_add_test(c, job_and_round_must_both_match);
	tcase_add_test(c, the_oldest_is_forgotten_first);
	tcase_add_test(c, the_next_job_of_a_name_continues_its_rounds);
	return run_case(c);
}
