/* test_wait_text.c: texts of what a wait is for, of jobs and stores without a
 * server. */
#include "rendezvous/round/wait_text.h"
#include "tests/unit/rendezvous/round/rounds.h"
#include "tests/unit/run_case.h"

static struct wait_text a;
static struct wait_text_nodes known;
static uint64_t silent;

static uint64_t silent_of(void *owner)
{
	return owner == &node[2] ? silent : 0;
}

static void begin_awaited(void)
{
	begin();
	memset(&a, 0, sizeof(a));
	known = (struct wait_text_nodes){.silent_ms = silent_of};
	silent = 0;
}

static void end_awaited(void)
{
	wait_text_release(&a);
	end();
}

static const char *text(void)
{
	static char out[4200];

	snprintf(out, sizeof(out), "%.*s", (int)a.text.len,
		 a.text.data ? a.text.data : "");
	return out;
}

static const char *nodes(void)
{
	wait_text_init(&a);
	wait_text_put_nodes(&a, j, &known);
	return text();
}

/* ---- nodes ---- */

START_TEST(unconnected_ranks_are_unknown)
{
	join_plain(1, 3);
	ck_assert_str_eq(nodes(), "2 of 3 nodes");
}
END_TEST

START_TEST(an_agent_that_has_not_joined_is_named)
{
	const char *const hosts[] = {"n07", "n08"};

	known.unjoined = hosts;
	known.nunjoined = 1;
	join_plain(1, 2);
	ck_assert_str_eq(nodes(), "1 of 2 nodes: n07 (agent connected, has not "
				  "joined)");
	end();
	begin();
	join_plain(1, 5);
	known.nunjoined = 2;
	ck_assert_str_eq(nodes(), "4 of 5 nodes: n07 (agent connected, has not "
				  "joined), n08 (agent connected, has not "
				  "joined) and 2 more");
}
END_TEST

START_TEST(missing_ranks_that_no_node_requested_are_named)
{
	join(1, 3, (struct how){.rank = 1});
	ck_assert_str_eq(nodes(), "2 of 3 nodes: node 1 (not connected), "
				  "node 2 (not connected)");
	end();
	begin();
	join(1, 30, (struct how){.rank = 1});
	ck_assert_ptr_nonnull(strstr(nodes(), "29 of 30 nodes: node 1 (not"));
	ck_assert_ptr_nonnull(strstr(text(), "node 6 (not connected) and 23 "
					     "more"));
	ck_assert_ptr_null(strstr(text(), "node 7"));
}
END_TEST

START_TEST(an_elastic_job_waits_for_its_minimum)
{
	join(1, 4, (struct how){.min = 3});
	ck_assert_str_eq(nodes(), "2 more of 3 to 4 nodes");
	join(2, 4, (struct how){.min = 3});
	join(3, 4, (struct how){.min = 3});
	ck_assert_str_eq(nodes(), ""); /* the last call has begun */
}
END_TEST

START_TEST(a_node_that_stops_its_workers_is_named)
{
	join(1, 2, (struct how){.restarts = 1});
	join(2, 2, (struct how){.restarts = 1});
	ck_assert_str_eq(nodes(), ""); /* it runs */
	exited(1, 0, 3, 0);
	join(1, 2, (struct how){.restarts = 1});
	known.ending_ms = 3100;
	ck_assert_str_eq(nodes(), "1 of 2 nodes: node 1 (h2, stopping its "
				  "workers, or in its --restart-backoff, for 3 "
				  "s)");
	silent = 2600;
	ck_assert_str_eq(nodes(),
			 "1 of 2 nodes: node 1 (h2, stopping its workers, or "
			 "in its --restart-backoff, for 3 s, agent silent for "
			 "3 s)");
}
END_TEST

START_TEST(a_node_that_left_is_named)
{
	join(1, 3, (struct how){.min = 2});
	join(2, 3, (struct how){.min = 2});
	last_call();
	lost(2, "its connection closed");
	join(1, 3, (struct how){.min = 2});
	ck_assert_str_eq(nodes(), "1 more of 2 to 3 nodes: node 1 (h2, gone, "
				  "has not come back)");
}
END_TEST

START_TEST(a_change_of_times_alone_is_not_reported)
{
	uint64_t hash;

	join(1, 2, (struct how){.restarts = 1});
	join(2, 2, (struct how){.restarts = 1});
	exited(1, 0, 3, 0);
	known.ending_ms = 3100;
	nodes();
	hash = a.hash;
	known.ending_ms = 9100;
	nodes();
	ck_assert(a.hash == hash);
	join(1, 2, (struct how){.restarts = 1});
	nodes();
	ck_assert(a.hash != hash);
}
END_TEST

/* ---- keys and ranks ---- */

static struct store *store;
static struct store_waiter w;

static void begin_store(void)
{
	const struct store_limits limits = {100, 1 << 20, 1 << 20, 8};

	begin_awaited();
	memset(&w, 0, sizeof(w));
	store = store_new(&limits);
}

static void end_store(void)
{
	store_waiter_release(&w);
	store_free(store);
	end_awaited();
}

START_TEST(keys_that_nobody_has_set)
{
	struct slice keys[10];
	char names[10][8];
	struct buf itself = BUF_INIT(256);

	for (int i = 0; i < 10; i++) {
		snprintf(names[i], sizeof(names[i]), "k%d", i);
		keys[i] = SLICE_STR(names[i]);
	}
	store_set(store, keys[1], SLICE_STR("v"), &e);
	store_wait(store, keys, 3, &w, &e);
	wait_text_init(&a);
	wait_text_begin(&a, &w);
	wait_text_end(&a);
	ck_assert_str_eq(text(), "2 of 3 keys that nobody has set: 'k0', 'k2'");
	wait_text_put_itself(&itself, &w);
	ck_assert_int_eq(memcmp(itself.data, "for key 'k0' and 1 more",
				itself.len), 0);
	buf_release(&itself);
	store_waiter_release(&w);
	store_wait(store, keys, 10, &w, &e);
	wait_text_init(&a);
	wait_text_begin(&a, &w);
	wait_text_end(&a);
	ck_assert_str_eq(text(), "9 of 10 keys that nobody has set: 'k0', "
				 "'k2', 'k3', 'k4', 'k5', 'k6' and 3 more");
}
END_TEST

START_TEST(ranks_are_listed_with_their_state)
{
	wait_text_init(&a);
	store_barrier(store, SLICE_STR("b"), 5, &w, &e);
	wait_text_begin(&a, &w);
	wait_text_put_rank(&a, &(struct wait_text_rank){
		.rank = 1, .host = "h2", .ended = "exited with code 0"});
	wait_text_put_rank(&a, &(struct wait_text_rank){
		.rank = 2, .host = "h2", .connected = 1, .silent_ms = 9000});
	wait_text_put_rank(&a, &(struct wait_text_rank){
		.rank = 3, .host = "h3", .connected = 1, .silent_ms = 9000,
		.itself = "at gather 'g'"});
	wait_text_put_rank(&a, &(struct wait_text_rank){
		.rank = 4, .silent_ms = 2400});
	ck_assert(!wait_text_has_room(&a));
	wait_text_end(&a);
	ck_assert_str_eq(text(), "4 of 5 ranks at barrier 'b': "
		"rank 1 (h2, exited with code 0), "
		"rank 2 (h2, connected, silent for 9 s), "
		"rank 3 (h3, connected, is itself waiting at gather 'g'), "
		"rank 4 (not connected, its agent silent for 2 s)");
}
END_TEST

static uint64_t hash_of(const char *does)
{
	wait_text_init(&a);
	wait_text_begin_ends(&a, 1, 4);
	wait_text_put_rank(&a, &(struct wait_text_rank){
		.rank = 1, .host = "h2", .does = SLICE(does, strlen(does))});
	wait_text_end(&a);
	return a.hash;
}

START_TEST(what_a_rank_does_is_news_only_if_it_is_an_error)
{
	uint64_t before = hash_of("computes (79 % CPU)");

	ck_assert_str_eq(text(), "1 of 4 ranks to end: rank 1 (h2, computes "
				 "(79 % CPU))");
	ck_assert_uint_eq(hash_of("works (98 % CPU)"), before);
	ck_assert_uint_ne(hash_of("sleeps (its stderr ends with: OSError: x)"),
			  before);
	ck_assert_uint_eq(hash_of("works (its stderr ends with: OSError: x)"),
			  hash_of("sleeps (its stderr ends with: OSError: x)"));
}
END_TEST

START_TEST(a_timeout_has_the_same_text)
{
	wait_text_init(&a);
	wait_text_begin_ends(&a, 1, 1);
	wait_text_put_rank(&a, &(struct wait_text_rank){
		.rank = 1, .host = "h2", .connected = 1});
	ck_assert_int_eq(wait_text_timed_out(&a, 1500, &e), ERR_TIMEOUT);
	ck_assert_str_eq(e.text, "waited 1.5 s for 1 of 1 ranks to end: rank 1 "
				 "(h2, connected)");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("awaited");
	TCase *c = tcase_create("nodes");

	tcase_add_checked_fixture(c, begin_awaited, end_awaited);
	tcase_add_test(c, unconnected_ranks_are_unknown);
	tcase_add_test(c, an_agent_that_has_not_joined_is_named);
	tcase_add_test(c, missing_ranks_that_no_node_requested_are_named);
	tcase_add_test(c, an_elastic_job_waits_for_its_minimum);
	tcase_add_test(c, a_node_that_stops_its_workers_is_named);
	tcase_add_test(c, a_node_that_left_is_named);
	tcase_add_test(c, a_change_of_times_alone_is_not_reported);
	suite_add_tcase(s, c);
	c = tcase_create("keys and ranks");
	tcase_add_checked_fixture(c, begin_store, end_store);
	tcase_add_test(c, keys_that_nobody_has_set);
	tcase_add_test(c, ranks_are_listed_with_their_state);
	tcase_add_test(c, what_a_rank_does_is_news_only_if_it_is_an_error);
	tcase_add_test(c, a_timeout_has_the_same_text);
	suite_add_tcase(s, c);
	return run_suite(s);
}
