/* test_read_backoff.c: how long the agent waits before it reads the workers
 * again. */
#include <check.h>
#include <stdlib.h>

#include "launcher/output/output.h"
#include "tests/unit/run_case.h"

/* BEGIN_MS is as if a long quiet time had passed. */
enum { BEGIN_MS = 1000000, LITTLE = 64, STREAMS = 4 };

/* Counts the passes between begin and end if each finds little, at most one per
 * ms. */
static unsigned passes(struct read_backoff *p, uint64_t begin, uint64_t end)
{
	unsigned n = 0;

	for (uint64_t now = begin; now < end; n++) {
		uint64_t rest = read_backoff_ms(p, now, STREAMS, LITTLE);

		ck_assert_uint_le(rest, BACKOFF_WINDOW_MS);
		now += rest ? rest : 1;
	}
	return n;
}

START_TEST(lines_that_arrive_together_are_not_delayed)
{
	struct read_backoff p = {0};

	/* a line of each of four workers, and the ends of their streams */
	for (int again = 0; again < 3; again++) {
		for (int i = 0; i < 3 * STREAMS; i++)
			ck_assert_uint_eq(read_backoff_ms(&p, BEGIN_MS + again,
							  1, LITTLE), 0);
	}
}
END_TEST

START_TEST(a_steady_trickle_is_read_a_few_times_a_window)
{
	struct read_backoff p = {0};
	unsigned n;

	passes(&p, BEGIN_MS, BEGIN_MS + 1000); /* spends the saved passes */
	n = passes(&p, BEGIN_MS + 1000, BEGIN_MS + 11000);
	ck_assert_uint_le(n, (10000 / BACKOFF_WINDOW_MS + 1) * BACKOFF_PASSES);
	ck_assert_uint_ge(n, (10000 / BACKOFF_WINDOW_MS - 1) * BACKOFF_PASSES);
}
END_TEST

START_TEST(the_saved_passes_are_bounded)
{
	struct read_backoff p = {0};
	unsigned n = 0;

	passes(&p, BEGIN_MS, BEGIN_MS + 1000);
	while (read_backoff_ms(&p, 100 * BEGIN_MS, STREAMS, LITTLE) == 0)
		n++;
	ck_assert_uint_lt(n, BACKOFF_SAVED);
	ck_assert_uint_ge(n, BACKOFF_SAVED - BACKOFF_PASSES);
}
END_TEST

START_TEST(a_reader_that_finds_much_continues)
{
	struct read_backoff p = {0};

	passes(&p, BEGIN_MS, BEGIN_MS + 1000);
	for (int i = 0; i < 1000; i++)
		ck_assert_uint_eq(read_backoff_ms(&p, BEGIN_MS + 1000, STREAMS,
						  STREAMS *
						  BACKOFF_LITTLE_BYTES), 0);
}
END_TEST

START_TEST(a_rest_ends_where_the_next_passes_are_earned)
{
	struct read_backoff p = {0};
	uint64_t rest, now = BEGIN_MS;

	do {
		rest = read_backoff_ms(&p, now, STREAMS, LITTLE);
	} while (rest == 0);
	now += rest;
	for (int i = 1; i < BACKOFF_PASSES; i++)
		ck_assert_uint_eq(read_backoff_ms(&p, now, STREAMS, LITTLE), 0);
	ck_assert_uint_eq(read_backoff_ms(&p, now + 4, STREAMS, LITTLE),
			  BACKOFF_WINDOW_MS - 4);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("backoff");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, lines_that_arrive_together_are_not_delayed);
	tcase_add_test(c, a_steady_trickle_is_read_a_few_times_a_window);
	tcase_add_test(c, the_saved_passes_are_bounded);
	tcase_add_test(c, a_reader_that_finds_much_continues);
	tcase_add_test(c, a_rest_ends_where_the_next_passes_are_earned);
	return run_case(c);
}
