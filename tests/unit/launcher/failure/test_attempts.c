/* test_attempts.c: the list of a job's attempts. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "launcher/failure/report.h"
#include "tests/unit/run_case.h"

static struct wire_end failed(const char *text, int64_t pid)
{
	return (struct wire_end){
		.verdict = WIRE_RESTART, .exit_code = 3, .rank = 1,
		.local_rank = 1, .host = SLICE_STR("h2"), .pid = pid,
		.code = 3, .ran_ms = 5021, .text = SLICE_STR(text),
	};
}

static const char *cause(const struct attempt *a, size_t max)
{
	static char text[4096];
	struct buf out = BUF_INIT(sizeof(text) - 1);

	attempt_put_cause(&out, a, max);
	snprintf(text, sizeof(text), "%.*s", (int)out.len, out.data);
	buf_release(&out);
	return text;
}

START_TEST(each_attempt_keeps_its_cause)
{
	struct attempts a = {NULL, 0, 0};
	struct wire_end end = failed("rank 1 (local rank 1) on h2, pid 41, "
				     "exited with code 3: boom, pid 7, no",
				     41);

	attempts_add(&a, &end, 0, 1000);
	end = failed("node 1 (h2) was lost", 0);
	end.rank = -1;
	attempts_add(&a, &end, 1, 2000);
	ck_assert_uint_eq(a.n, 2);
	ck_assert_str_eq(cause(&a.list[0], 200), "rank 1 on h2 exited with "
						 "code 3: boom, pid 7, no");
	ck_assert_str_eq(cause(&a.list[0], 25), "rank 1 on h2 exited wi...");
	ck_assert_int_eq(a.list[0].code, 3);
	ck_assert_str_eq(a.list[0].host, "h2");
	ck_assert_int_eq(a.list[0].ended_ms, 1000);
	ck_assert_str_eq(cause(&a.list[1], 200), "node 1 (h2) was lost");
	attempts_release(&a);
}
END_TEST

START_TEST(a_cut_keeps_characters_whole)
{
	struct attempts a = {NULL, 0, 0};
	struct wire_end end = failed("ab\xc3\xa9" "def", 1);

	end.rank = -1;
	attempts_add(&a, &end, 0, 1000);
	ck_assert_str_eq(cause(&a.list[0], 6), "ab...");
	ck_assert_str_eq(cause(&a.list[0], 7), "ab\xc3\xa9" "def");
	attempts_release(&a);
}
END_TEST

/* The job ends while the next attempt is awaited. */
START_TEST(one_death_is_one_entry)
{
	struct attempts a = {NULL, 0, 0};
	struct wire_end end = failed("rank 1 died", 41);

	attempts_add(&a, &end, 2, 1000);
	end.text = SLICE_STR("no progress: rank 1 died");
	attempts_add(&a, &end, 2, 2000);
	ck_assert_uint_eq(a.n, 1);
	ck_assert_str_eq(a.list[0].text, "no progress: rank 1 died");
	end.rank = -1;
	attempts_add(&a, &end, 2, 3000);
	ck_assert_uint_eq(a.n, 2);
	attempts_release(&a);
}
END_TEST

START_TEST(the_oldest_of_very_many_are_dropped)
{
	struct attempts a = {NULL, 0, 0};

	for (uint32_t i = 0; i < ATTEMPTS_MAX + 5; i++) {
		struct wire_end end = failed("rank 1 died", i + 1);

		attempts_add(&a, &end, i, i);
	}
	ck_assert_uint_eq(a.n, ATTEMPTS_MAX);
	ck_assert_uint_eq(a.list[0].attempt, 5);
	ck_assert_uint_eq(a.list[ATTEMPTS_MAX - 1].attempt, ATTEMPTS_MAX + 4);
	attempts_release(&a);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("attempts");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, each_attempt_keeps_its_cause);
	tcase_add_test(c, a_cut_keeps_characters_whole);
	tcase_add_test(c, one_death_is_one_entry);
	tcase_add_test(c, the_oldest_of_very_many_are_dropped);
	return run_case(c);
}
