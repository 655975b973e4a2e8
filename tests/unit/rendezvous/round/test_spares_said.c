/* test_spares_said.c: nodes that join as spares, as the hosts of -H beyond MAX
 * do, wait for the end of the last call. The job is saved and loaded after each
 * event. */
#define THROUGH_BYTES
#include "tests/unit/rendezvous/round/rounds.h"
#include "tests/unit/run_case.h"

static void join_as_spare(int i, struct how h, uint32_t max)
{
	h.rank = WIRE_RANK_OF_SPARE + 1;
	ck_assert_int_eq(join(i, max, h), 0);
	ck_assert(is_spare(i));
}

START_TEST(a_declared_spare_leaves_the_places_to_others)
{
	struct how h = {.min = 1, .last_call = 30000};

	join_as_spare(3, h, 2);
	ck_assert_uint_eq(call_ms, 30000);
	h.rank = 2;
	join(2, 2, h);
	ck_assert_int_eq(starts, 0);
	h.rank = 1;
	join(1, 2, h);
	ck_assert_int_eq(starts, 1);
	has_rank(1, 0, 0);
	has_rank(2, 1, 1);
	ck_assert(is_spare(3));
}
END_TEST

START_TEST(declared_spares_fill_the_round_after_the_last_call)
{
	struct how h = {.min = 2, .last_call = 30000};

	join_as_spare(3, h, 3);
	ck_assert_uint_eq(call_ms, 0);
	join_as_spare(4, h, 3);
	ck_assert_uint_eq(call_ms, 30000);
	join_as_spare(5, h, 3);
	h.rank = 2;
	join(2, 3, h);
	last_call();
	ck_assert_int_eq(starts, 1);
	has_rank(3, 0, 0);
	has_rank(2, 1, 1);
	has_rank(4, 2, 2);
	ck_assert(is_spare(5));
}
END_TEST

START_TEST(a_declared_spare_that_leaves_is_not_counted)
{
	struct how h = {.min = 2, .last_call = 30000};

	join(1, 3, h);
	join_as_spare(4, h, 3);
	ck_assert_uint_eq(call_ms, 30000);
	leave(4, 2);
	ck_assert_int_eq(calls_off, 1);
	last_call();
	ck_assert_int_eq(starts, 0);
	join_as_spare(5, h, 3);
	ck_assert_uint_eq(call_ms, 30000);
	lost(5, "its connection closed");
	ck_assert_int_eq(calls_off, 1);
}
END_TEST

START_TEST(a_declared_spare_stays_when_all_others_leave)
{
	struct how h = {.min = 1, .last_call = 30000};

	join(1, 2, h);
	join_as_spare(3, h, 2);
	leave(1, 2);
	ck_assert(is_spare(3));
	last_call();
	ck_assert_int_eq(starts, 1);
	has_rank(3, 0, 0);
}
END_TEST

START_TEST(a_spare_joins_the_next_round_if_there_is_room)
{
	struct how h = {.min = 1, .last_call = 30000};

	join(1, 2, h);
	last_call();
	ck_assert_int_eq(starts, 1);
	h.rank = WIRE_RANK_OF_SPARE + 1;
	join(3, 2, h);
	ck_assert_int_eq(ends, 1);
	ck_assert(!is_spare(3));
}
END_TEST

/* Over ssh the ranks come from the list of hosts: nobody could choose
 * another. */
START_TEST(a_host_that_comes_late_waits_for_the_spare_in_its_place)
{
	struct how h = {.min = 1, .last_call = 500};

	join_as_spare(2, h, 1);
	last_call();
	has_rank(2, 0, 0);
	h.rank = 1;
	ck_assert_int_eq(join(1, 1, h), 0);
	ck_assert(is_spare(1));
	ck_assert_int_eq(ends, 0);
	lost(2, "its connection closed");
	ck_assert_int_eq(starts, 1);
	has_rank(1, 0, 0);
}
END_TEST

START_TEST(a_host_that_comes_late_gets_its_rank_back)
{
	struct how h = {.min = 1, .last_call = 500};

	join_as_spare(3, h, 2);
	last_call();
	has_rank(3, 0, 0);
	h.rank = 1;
	ck_assert_int_eq(join(1, 2, h), 0);
	ck_assert_int_eq(ends, 1);
	h.rank = WIRE_RANK_OF_SPARE + 1;
	ck_assert_int_eq(join(3, 2, h), 0);
	ck_assert_int_eq(starts, 1);
	has_rank(1, 0, 0);
	has_rank(3, 1, 1);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("spares_said");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c,
		       a_declared_spare_leaves_the_places_to_others);
	tcase_add_test(c,
		declared_spares_fill_the_round_after_the_last_call);
	tcase_add_test(c, a_declared_spare_that_leaves_is_not_counted);
	tcase_add_test(c, a_declared_spare_stays_when_all_others_leave);
	tcase_add_test(c,
		a_spare_joins_the_next_round_if_there_is_room);
	tcase_add_test(c,
		a_host_that_comes_late_waits_for_the_spare_in_its_place);
	tcase_add_test(c, a_host_that_comes_late_gets_its_rank_back);
	return run_case(c);
}
