/* test_reply_cache.c: which sessions are kept, and in which order they are
 * dropped. */
#include "rendezvous/journal/reply_cache.h"
#include "tests/unit/run_case.h"

static struct store *store;
static struct reply_cache ps;

static void setup(void)
{
	const struct store_limits limits = {.keys = 100,
					    .bytes = 1 << 20,
					    .value = 1 << 16,
					    .job = "j",
					    .ranks = 2};

	store = store_new(&limits);
	ck_assert_ptr_nonnull(store);
	ps = (struct reply_cache){0};
	reply_cache_limit(&ps, 2);
}

static void teardown(void)
{
	reply_cache_release(&ps, store);
	store_free(store);
}

enum { MOST = 2 * REPLY_CACHE_PER_RANK + REPLY_CACHE_MORE };

static struct cached_reply *come(uint64_t session)
{
	struct cached_reply *p = reply_cache_find_or_make(&ps, session, 1);

	ck_assert_ptr_nonnull(p);
	reply_cache_take(&ps, p, store);
	return p;
}

static void set_and_leave(uint64_t session)
{
	struct cached_reply *p = come(session);

	reply_cache_set(&ps, p, store, 1, WIRE_SET, 0, NULL);
	reply_cache_leave(&ps, store, p);
}

START_TEST(the_oldest_sessions_that_are_gone_are_forgotten)
{
	struct cached_reply *stays = come(1);

	reply_cache_set(&ps, stays, store, 1, WIRE_ADD, 5, NULL);
	for (uint64_t s = 2; s < 1000; s++)
		set_and_leave(s);
	ck_assert_uint_eq(ps.ngone, MOST);
	ck_assert_uint_eq(ps.table.items, MOST + 1);
	ck_assert_ptr_nonnull(reply_cache_find(&ps, 999));
	ck_assert_ptr_nonnull(reply_cache_find(&ps, 1000 - MOST));
	ck_assert_ptr_null(reply_cache_find(&ps, 999 - MOST));
	ck_assert_ptr_eq(reply_cache_find(&ps, 1), stays);
	/* a session that reconnects is kept as long as the last one */
	reply_cache_leave(&ps, store, come(1000 - MOST));
	set_and_leave(1000);
	ck_assert_ptr_nonnull(reply_cache_find(&ps, 1000 - MOST));
	ck_assert_ptr_null(reply_cache_find(&ps, 1001 - MOST));
}
END_TEST

START_TEST(requests_that_changed_nothing_are_forgotten)
{
	reply_cache_leave(&ps, store, come(7));
	ck_assert_ptr_null(reply_cache_find(&ps, 7));
	ck_assert_uint_eq(ps.table.items, 0);
}
END_TEST

/* A next server, to which all sessions are gone, keeps the ones that this
 * server writes in the order of reply_cache_next. */
START_TEST(connected_sessions_are_forgotten_last)
{
	uint64_t order[MOST + 2];
	const struct cached_reply *at = NULL;
	size_t n = 0;

	for (uint64_t s = 1; s <= 2; s++)
		reply_cache_set(&ps, come(s), store, 1, WIRE_SET, 0, NULL);
	for (uint64_t s = 3; s < MOST + 3; s++)
		set_and_leave(s);
	while ((at = reply_cache_next(&ps, at)))
		order[n++] = at->session;
	ck_assert_uint_eq(n, MOST + 2);
	ck_assert_uint_eq(order[0], 3);
	ck_assert_uint_eq(order[n - 2], 1);
	ck_assert_uint_eq(order[n - 1], 2);
	reply_cache_release(&ps, store);
	for (size_t i = 0; i < n; i++)
		reply_cache_set(&ps, reply_cache_find_or_make(&ps, order[i], 1),
				store, 1, WIRE_SET, 0, NULL);
	ck_assert_uint_eq(ps.ngone, MOST);
	for (uint64_t s = 1; s <= 5; s++)
		ck_assert_int_eq(reply_cache_find(&ps, s) != NULL,
				 s != 3 && s != 4);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("past");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_oldest_sessions_that_are_gone_are_forgotten);
	tcase_add_test(t, requests_that_changed_nothing_are_forgotten);
	tcase_add_test(t, connected_sessions_are_forgotten_last);
	return run_case(t);
}
