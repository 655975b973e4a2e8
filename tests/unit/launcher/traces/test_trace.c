/* test_trace.c: the first call in which the ranks of a group differ. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/traces/trace.h"
#include "tests/unit/run_case.h"

static struct trace t;
static struct buf out;

static void start(void)
{
	buf_init(&out, 1 << 20);
}

static void finish(void)
{
	trace_release(&t);
	buf_release(&out);
}

static void call(uint32_t rank, uint64_t group, uint64_t number,
		 const char *words)
{
	char where[] = "train.py:88 step()";
	struct trace_call c = {
		.rank = rank, .group = group, .number = number,
		.same = trace_hash(0, SLICE_STR(words)),
		.words = (char *)words, .where = rank == 1 ? where : where + 18,
	};

	ck_assert_int_eq(trace_add(&t, &c), 0);
}

static const char *text(void)
{
	trace_put_mismatches(&out, &t);
	buf_put(&out, "", 1);
	return out.data;
}

START_TEST(the_first_mismatch_of_each_group_is_shown)
{
	for (uint32_t rank = 0; rank < 4; rank++) {
		call(rank, 0, 1, "barrier #1");
		call(rank, 0, 2, rank == 1 ? "broadcast #2" : "all_reduce #2");
		/* follows from it */
		call(rank, 0, 3, rank == 1 ? "all_reduce #3" : "barrier #3");
		call(rank, 7, 5, rank < 2 ? "send #5" : "recv #5");
	}
	text();
	ck_assert_ptr_nonnull(strstr(
		out.data, "mismatch: ranks made different calls\n"));
	ck_assert_ptr_nonnull(
		strstr(out.data, "  all_reduce #2: ranks 0, 2, 3\n"));
	ck_assert_ptr_nonnull(strstr(
		out.data, "  broadcast #2: rank 1 (train.py:88 step())\n"));
	ck_assert_ptr_nonnull(strstr(out.data, "  recv #5: ranks 2, 3\n"));
	ck_assert_ptr_null(strstr(out.data, "#1"));
	ck_assert_ptr_null(strstr(out.data, "#3"));
}
END_TEST

START_TEST(calls_that_not_all_ranks_have_recorded_are_no_mismatch)
{
	call(0, 0, 8, "barrier #8");
	call(1, 0, 9, "all_reduce #9");
	call(2, 1, 8, "all_reduce #8");
	ck_assert_str_eq(text(), "");
}
END_TEST

/* Several calls of a rank with one number are one coalesced call. */
START_TEST(a_number_that_a_rank_used_twice_is_not_compared)
{
	for (uint32_t rank = 0; rank < 2; rank++) {
		call(rank, 0, 4, "all_reduce #4");
		call(rank, 0, 4, "broadcast #4");
	}
	ck_assert_str_eq(text(), "");
}
END_TEST

START_TEST(ranks_are_written_as_ranges)
{
	static const uint32_t one[] = {3}, twice[] = {3, 3},
			      some[] = {0, 1, 2, 5, 7, 8};

	trace_put_ranks(&out, one, 1);
	buf_put(&out, ";", 1);
	trace_put_ranks(&out, twice, 2);
	buf_put(&out, ";", 1);
	trace_put_ranks(&out, some, 6);
	buf_put(&out, "", 1);
	ck_assert_str_eq(out.data, "rank 3;rank 3;ranks 0-2, 5, 7, 8");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("trace");

	tcase_add_checked_fixture(c, start, finish);
	tcase_add_test(c, the_first_mismatch_of_each_group_is_shown);
	tcase_add_test(c,
		       calls_that_not_all_ranks_have_recorded_are_no_mismatch);
	tcase_add_test(c, a_number_that_a_rank_used_twice_is_not_compared);
	tcase_add_test(c, ranks_are_written_as_ranges);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
