/* test_past.c: which sessions are remembered, and in which order. */
#include "rendezvous/journal/past.h"
#include "tests/unit/run_case.h"

static struct store *store;
static struct pasts ps;

static void setup(void)
{
	const struct store_limits limits = {.keys = 100, .bytes = 1 << 20,
					    .value = 1 << 16, .job = "j",
					    .ranks = 2};

	store = store_new(&limits);
	ck_assert_ptr_nonnull(store);
	ps = (struct pasts){0};
	pasts_limit(&ps, 2);
}

static void teardown(void)
{
	pasts_release(&ps, store);
	store_free(store);
}

enum { MOST = 2 * PASTS_OF_RANK + PASTS_MORE };

static struct past *come(uint64_t session)
{
	struct past *p = past_find_or_make(&ps, session, 1);

	ck_assert_ptr_nonnull(p);
	past_take(&ps, p, store);
	return p;
}

static void set_and_leave(uint64_t session)
{
	struct past *p = come(session);

	past_set(&ps, p, store, 1, WIRE_SET, 0, NULL);
	past_leave(&ps, store, p);
}

START_TEST(the_oldest_sessions_that_are_gone_are_forgotten)
{
	struct past *stays = come(1);

	past_set(&ps, stays, store, 1, WIRE_ADD, 5, NULL);
	for (uint64_t s = 2; s < 1000; s++)
		set_and_leave(s);
	ck_assert_uint_eq(ps.ngone, MOST);
	ck_assert_uint_eq(ps.table.items, MOST + 1);
	ck_assert_ptr_nonnull(past_find(&ps, 999));
	ck_assert_ptr_nonnull(past_find(&ps, 1000 - MOST));
	ck_assert_ptr_null(past_find(&ps, 999 - MOST));
	ck_assert_ptr_eq(past_find(&ps, 1), stays);
	/* one that comes again is remembered as long as the last */
	past_leave(&ps, store, come(1000 - MOST));
	set_and_leave(1000);
	ck_assert_ptr_nonnull(past_find(&ps, 1000 - MOST));
	ck_assert_ptr_null(past_find(&ps, 1001 - MOST));
}
END_TEST

START_TEST(what_changed_nothing_is_forgotten_when_it_goes)
{
	past_leave(&ps, store, come(7));
	ck_assert_ptr_null(past_find(&ps, 7));
	ck_assert_uint_eq(ps.table.items, 0);
}
END_TEST

/* What a server writes down in the order of past_next is what the next keeps,
 * though to that one all are gone. */
START_TEST(those_with_a_connection_are_the_last_to_be_forgotten)
{
	uint64_t order[MOST + 2];
	const struct past *at = NULL;
	size_t n = 0;

	for (uint64_t s = 1; s <= 2; s++)
		past_set(&ps, come(s), store, 1, WIRE_SET, 0, NULL);
	for (uint64_t s = 3; s < MOST + 3; s++)
		set_and_leave(s);
	while ((at = past_next(&ps, at)))
		order[n++] = at->session;
	ck_assert_uint_eq(n, MOST + 2);
	ck_assert_uint_eq(order[0], 3);
	ck_assert_uint_eq(order[n - 2], 1);
	ck_assert_uint_eq(order[n - 1], 2);
	pasts_release(&ps, store);
	for (size_t i = 0; i < n; i++)
		past_set(&ps, past_find_or_make(&ps, order[i], 1), store, 1,
			 WIRE_SET, 0, NULL);
	ck_assert_uint_eq(ps.ngone, MOST);
	for (uint64_t s = 1; s <= 5; s++)
		ck_assert_int_eq(past_find(&ps, s) != NULL, s != 3 && s != 4);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("past");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_oldest_sessions_that_are_gone_are_forgotten);
	tcase_add_test(t, what_changed_nothing_is_forgotten_when_it_goes);
	tcase_add_test(t, those_with_a_connection_are_the_last_to_be_forgotten);
	return run_case(t);
}
