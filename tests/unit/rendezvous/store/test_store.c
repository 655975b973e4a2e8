/* test_store.c: each operation of the store and its waiters, without processes
 * or sockets. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/store/store.h"
#include "tests/unit/run_case.h"

static const struct store_limits roomy = {1 << 20, 1 << 30, 1 << 20, 8};
static struct store *s;
static struct err e;

static void begin(void)
{
	s = store_new(&roomy);
	e = (struct err)ERR_INIT;
}

static void end(void)
{
	ck_assert_ptr_null(store_woken(s));
	store_free(s);
}

static void begin_with(size_t keys, size_t bytes, size_t value)
{
	struct store_limits l = {keys, bytes, value, 8};

	store_free(s);
	s = store_new(&l);
}

static struct slice t(const char *text)
{
	return SLICE_STR(text);
}

static int set(const char *key, const char *value)
{
	return store_set(s, t(key), t(value), &e);
}

static void has(const char *key, const char *value)
{
	struct slice v;

	ck_assert_int_eq(store_get(s, t(key), &v), 1);
	ck_assert_uint_eq(v.len, strlen(value));
	ck_assert(v.len == 0 || !memcmp(v.data, value, v.len));
}

static void lacks(const char *key)
{
	struct slice v;

	ck_assert_int_eq(store_get(s, t(key), &v), 0);
	ck_assert_uint_eq(v.len, 0);
}

/* ---- operations ---- */

START_TEST(set_and_get)
{
	lacks("a");
	ck_assert_int_eq(set("a", "1"), 0);
	has("a", "1");
	ck_assert_int_eq(set("a", "longer than before"), 0);
	has("a", "longer than before");
	ck_assert_int_eq(set("a", ""), 0);
	has("a", "");
	ck_assert_int_eq(set("", "the empty key"), 0);
	has("", "the empty key");
	ck_assert_uint_eq(store_keys(s), 2);
}
END_TEST

START_TEST(keys_are_bytes)
{
	ck_assert_int_eq(store_set(s, SLICE("a\0b", 3), t("x"), &e), 0);
	lacks("a");
	ck_assert_int_eq(store_set(s, SLICE("a\0c", 3), t("y"), &e), 0);
	ck_assert_uint_eq(store_keys(s), 2);
}
END_TEST

START_TEST(add_counts_in_decimal_text)
{
	int64_t sum;

	ck_assert_int_eq(store_add(s, t("n"), 5, &sum, &e), 0);
	ck_assert_int_eq(sum, 5);
	has("n", "5");
	ck_assert_int_eq(store_add(s, t("n"), -12, &sum, &e), 0);
	ck_assert_int_eq(sum, -7);
	has("n", "-7");
	ck_assert_int_eq(set("n", "9223372036854775807"), 0);
	ck_assert_int_eq(store_add(s, t("n"), 1, &sum, &e), ERR_ARGUMENT);
	has("n", "9223372036854775807");
	ck_assert_int_eq(store_add(s, t("n"), -1, &sum, &e), 0);
	ck_assert_int_eq(sum, INT64_MAX - 1);
}
END_TEST

START_TEST(add_refuses_a_value_that_is_not_a_number)
{
	static const char *const bad[] = {"", "x", " 1", "1 ", "1x", "+1", "-",
		"99999999999999999999", "0x10", "-9223372036854775809"};
	int64_t sum;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		set("n", bad[i]);
		ck_assert_int_eq(store_add(s, t("n"), 1, &sum, &e),
				 ERR_ARGUMENT);
		ck_assert_ptr_nonnull(strstr(e.text, "'n'"));
		has("n", bad[i]);
	}
}
END_TEST

START_TEST(compare_set)
{
	ck_assert_int_eq(store_compare_set(s, t("k"), t("x"), t("y"), &e), 0);
	lacks("k");
	ck_assert_int_eq(store_compare_set(s, t("k"), t(""), t("one"), &e), 1);
	has("k", "one");
	ck_assert_int_eq(store_compare_set(s, t("k"), t(""), t("two"), &e), 0);
	has("k", "one");
	ck_assert_int_eq(store_compare_set(s, t("k"), t("one"), t("two"), &e),
			 1);
	has("k", "two");
	ck_assert_int_eq(store_compare_set(s, t("k"), t("twx"), t("3"), &e), 0);
	has("k", "two");
}
END_TEST

START_TEST(append)
{
	ck_assert_int_eq(store_append(s, t("k"), t("ab"), &e), 2);
	ck_assert_int_eq(store_append(s, t("k"), t(""), &e), 2);
	ck_assert_int_eq(store_append(s, t("k"), t("cde"), &e), 5);
	has("k", "abcde");
	for (int i = 0; i < 1000; i++)
		store_append(s, t("long"), t("0123456789"), &e);
	ck_assert_int_eq(store_append(s, t("long"), t("."), &e), 10001);
}
END_TEST

START_TEST(delete)
{
	ck_assert_int_eq(store_delete(s, t("k")), 0);
	set("k", "v");
	ck_assert_int_eq(store_delete(s, t("k")), 1);
	ck_assert_int_eq(store_delete(s, t("k")), 0);
	lacks("k");
	ck_assert_uint_eq(store_keys(s), 0);
}
END_TEST

START_TEST(multi_set_is_all_or_nothing)
{
	struct slice keys[] = {t("a"), t("b"), t("a"), t("c")};
	struct slice values[] = {t("1"), t("2"), t("3"), t("4")};
	char big[65] = "";

	ck_assert_int_eq(store_multi_set(s, keys, values, 4, &e), 0);
	has("a", "3");
	has("b", "2");
	has("c", "4");
	ck_assert_int_eq(store_multi_set(s, keys, values, 0, &e), 0);

	begin_with(100, 1000, 64);
	set("b", "old");
	memset(big, 'x', sizeof(big));
	values[3] = SLICE(big, sizeof(big));
	ck_assert_int_eq(store_multi_set(s, keys, values, 4, &e),
			 ERR_ARGUMENT);
	lacks("a");
	lacks("c");
	has("b", "old");
	ck_assert_uint_eq(store_keys(s), 1);
}
END_TEST

START_TEST(limits_hold_and_deletes_free_their_room)
{
	char big[1000] = "";

	begin_with(2, 1200, 1000);
	ck_assert_int_eq(set("a", "1"), 0);
	ck_assert_int_eq(set("b", "2"), 0);
	ck_assert_int_eq(set("c", "3"), ERR_REFUSED);
	ck_assert_ptr_nonnull(strstr(e.text, "2 keys"));
	ck_assert_int_eq(set("b", "3"), 0);
	ck_assert_int_eq(store_delete(s, t("b")), 1);
	ck_assert_int_eq(set("c", "3"), 0);
	ck_assert_int_eq(store_set(s, t("a"), SLICE(big, 1000), &e), 0);
	ck_assert_int_eq(store_set(s, t("c"), SLICE(big, 1000), &e),
			 ERR_REFUSED);
	ck_assert_ptr_nonnull(strstr(e.text, "bytes"));
	has("c", "3");
	ck_assert_int_eq(set("a", "1"), 0);
	ck_assert_int_eq(store_append(s, t("c"), SLICE(big, 1000), &e),
			 ERR_ARGUMENT);
	ck_assert_int_eq(store_append(s, t("c"), SLICE(big, 990), &e), 991);
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(store_delete(s, t("c")), 1);
		ck_assert_int_eq(store_set(s, t("c"), SLICE(big, 1000), &e), 0);
	}
}
END_TEST

START_TEST(values_up_to_the_limit_are_accepted)
{
	begin_with(2, 10, 1000);
	ck_assert_int_eq(set("k", "1234567890"), ERR_REFUSED);
	ck_assert_int_eq(set("k", "123456789"), 0);
	ck_assert_uint_eq(store_bytes(s), 10);
	ck_assert_int_eq(set("l", ""), ERR_REFUSED);
}
END_TEST

/* ---- waiting for keys ---- */

static struct store_waiter w[8];

static void wait_for(int i, const char *a, const char *b)
{
	struct slice keys[2] = {t(a), t(b ? b : "")};

	memset(&w[i], 0, sizeof(w[i]));
	ck_assert_int_eq(store_wait(s, keys, b ? 2 : 1, &w[i], &e), 0);
}

/* Checks that the next woken waiter is w[i], with that code. */
static void woken(int i, int code)
{
	struct store_waiter *got = store_woken(s);

	ck_assert_ptr_eq(got, &w[i]);
	ck_assert_int_eq(got->code, code);
}

static void nobody_woken(void)
{
	ck_assert_ptr_null(store_woken(s));
}

START_TEST(wait_is_over_when_every_key_is_there)
{
	set("a", "1");
	wait_for(0, "a", "b");
	wait_for(1, "b", "c");
	wait_for(2, "a", NULL);
	woken(2, 0);
	nobody_woken();
	set("b", "2");
	woken(0, 0);
	nobody_woken();
	set("c", "3");
	woken(1, 0);
	nobody_woken();
	for (int i = 0; i < 3; i++)
		store_waiter_release(&w[i]);
}
END_TEST

START_TEST(each_kind_of_write_wakes)
{
	struct slice keys[] = {t("m")}, values[] = {t("1")};
	int64_t sum;

	wait_for(0, "a", NULL);
	store_add(s, t("a"), 1, &sum, &e);
	woken(0, 0);
	wait_for(1, "c", NULL);
	store_compare_set(s, t("c"), t(""), t("x"), &e);
	woken(1, 0);
	wait_for(2, "p", NULL);
	store_append(s, t("p"), t(""), &e);
	woken(2, 0);
	wait_for(3, "m", NULL);
	store_multi_set(s, keys, values, 1, &e);
	woken(3, 0);
	nobody_woken();
	for (int i = 0; i < 4; i++)
		store_waiter_release(&w[i]);
}
END_TEST

START_TEST(a_leaving_waiter_leaves_nothing_behind)
{
	wait_for(0, "a", "b");
	wait_for(1, "a", "a");
	wait_for(2, "a", NULL);
	ck_assert_uint_eq(store_keys(s), 0);
	/* the names, and the links of a wait for five of them */
	ck_assert_uint_eq(store_bytes(s), 2 + 5 * sizeof(struct store_link));
	store_waiter_release(&w[1]);
	store_waiter_release(&w[0]);
	ck_assert_uint_eq(store_bytes(s), 1 + sizeof(struct store_link));
	set("b", "1");
	nobody_woken();
	set("a", "1");
	store_waiter_release(&w[2]); /* woken, but not taken yet */
	nobody_woken();
	store_waiter_release(&w[2]);
	wait_for(0, "z", NULL);
	store_waiter_release(&w[0]);
	lacks("z");
	ck_assert_uint_eq(store_keys(s), 2);
	ck_assert_uint_eq(store_bytes(s), 4);
}
END_TEST

/* ---- barriers ---- */

static int barrier(int i, const char *key, uint32_t size)
{
	memset(&w[i], 0, sizeof(w[i]));
	return store_barrier(s, t(key), size, &w[i], &e);
}

START_TEST(barrier_opens_for_all_and_may_be_used_again)
{
	for (int again = 0; again < 3; again++) {
		ck_assert_int_eq(barrier(0, "b", 3), 0);
		ck_assert_int_eq(barrier(1, "b", 3), 0);
		nobody_woken();
		ck_assert_int_eq(barrier(2, "b", 3), 0);
		/* one is early for the next barrier, before the others have
		 * read */
		ck_assert_int_eq(barrier(3, "b", 3), 0);
		for (int n = 0; n < 3; n++)
			ck_assert_int_eq(store_woken(s)->code, 0);
		nobody_woken();
		for (int i = 0; i < 4; i++)
			store_waiter_release(&w[i]);
	}
	ck_assert_int_eq(barrier(0, "one", 1), 0);
	woken(0, 0);
	store_waiter_release(&w[0]);
}
END_TEST

START_TEST(a_barrier_removes_a_leaving_caller)
{
	struct store_awaited a;

	barrier(0, "b", 2);
	store_waiter_release(&w[0]);
	barrier(1, "b", 2);
	nobody_woken();
	store_awaited(&w[1], &a);
	ck_assert(a.kind == STORE_AWAITS_BARRIER && a.missing == 1);
	barrier(2, "b", 2);
	ck_assert_ptr_nonnull(store_woken(s));
	ck_assert_ptr_nonnull(store_woken(s));
	store_waiter_release(&w[1]);
	store_waiter_release(&w[2]);
}
END_TEST

START_TEST(callers_must_agree_on_kind_and_count)
{
	barrier(0, "b", 2);
	ck_assert_int_eq(barrier(1, "b", 3), ERR_ARGUMENT);
	ck_assert_str_eq(e.text, "'b' is a barrier of 2 for the other "
				 "callers, but a barrier of 3 for this one");
	memset(&w[1], 0, sizeof(w[1]));
	ck_assert_int_eq(store_gather(s, t("b"), 2, 0, t(""), &w[1], &e),
			 ERR_ARGUMENT);
	ck_assert_int_eq(barrier(2, "x", 0), ERR_ARGUMENT);
	store_waiter_release(&w[0]);
	store_waiter_release(&w[1]);
	store_waiter_release(&w[2]);
}
END_TEST

/* ---- gathers ---- */

static int gather(int i, uint32_t size, uint32_t rank, const char *value)
{
	memset(&w[i], 0, sizeof(w[i]));
	return store_gather(s, t("g"), size, rank, t(value), &w[i], &e);
}

static void gathered(struct store_waiter *x, const char *const *want,
		     uint32_t n)
{
	uint32_t size;
	struct barrier_gather *m = store_hold(x);
	const struct slice *v = store_held(m, &size);

	ck_assert_uint_eq(size, n);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_uint_eq(v[i].len, strlen(want[i]));
		ck_assert(v[i].len == 0 ||
			  !memcmp(v[i].data, want[i], v[i].len));
	}
	store_drop_held(s, m);
}

START_TEST(gather_gives_all_values_in_rank_order)
{
	static const char *const want[] = {"zero", "", "two"};

	for (int again = 0; again < 2; again++) {
		ck_assert_int_eq(gather(0, 3, 2, "two"), 0);
		ck_assert_int_eq(gather(1, 3, 0, "zero"), 0);
		nobody_woken();
		ck_assert_int_eq(gather(2, 3, 1, ""), 0);
		for (int n = 0; n < 3; n++) {
			struct store_waiter *x = store_woken(s);

			ck_assert_int_eq(x->code, 0);
			gathered(x, want, 3);
			store_waiter_release(x);
		}
		nobody_woken();
	}
}
END_TEST

START_TEST(gather_checks_its_callers)
{
	ck_assert_int_eq(gather(0, 2, 2, "x"), ERR_ARGUMENT);
	ck_assert_int_eq(gather(0, 9, 0, "x"), ERR_ARGUMENT);
	ck_assert_ptr_nonnull(strstr(e.text, "this round has only 8"));
	ck_assert_int_eq(gather(0, 2, 0, "x"), 0);
	ck_assert_int_eq(gather(1, 2, 0, "x"), ERR_ARGUMENT);
	ck_assert_str_eq(e.text, "rank 0 has already joined this gather");
	store_waiter_release(&w[0]);
}
END_TEST

START_TEST(gather_fails_when_a_rank_it_misses_leaves)
{
	gather(0, 3, 0, "x");
	gather(1, 3, 2, "x");
	ck_assert_int_eq(store_rank_left(s, 0, "rank 0 on h1 died"), 0);
	nobody_woken(); /* its value is there */
	ck_assert_int_eq(store_rank_left(s, 5, "rank 5 on h1 died"), 0);
	nobody_woken(); /* the gather has no such rank */
	ck_assert_int_eq(store_rank_left(s, 1, "rank 1 on h2 exited with "
					       "code 0"), 0);
	for (int n = 0; n < 2; n++) {
		struct store_waiter *x = store_woken(s);

		ck_assert_int_eq(x->code, ERR_REMOTE);
		ck_assert_str_eq(store_waiter_text(x),
				 "rank 1 on h2 exited with code 0 before it "
				 "reached 'g'");
		store_waiter_release(x);
	}
	nobody_woken();
}
END_TEST

START_TEST(gather_fails_at_once_when_a_rank_has_left_before)
{
	store_rank_left(s, 1, "rank 1 on h2 exited with code 0");
	ck_assert_int_eq(gather(0, 2, 0, "x"), 0);
	woken(0, ERR_REMOTE);
	store_waiter_release(&w[0]);
	ck_assert_int_eq(gather(0, 1, 0, "x"), 0);
	woken(0, 0);
	store_waiter_release(&w[0]);
}
END_TEST

START_TEST(a_gather_removes_a_leaving_caller)
{
	struct store_awaited a;
	uint8_t came[2] = {0};

	gather(0, 2, 0, "first");
	store_waiter_release(&w[0]);
	gather(1, 2, 1, "one");
	nobody_woken();
	store_awaited(&w[1], &a);
	ck_assert(a.kind == STORE_AWAITS_GATHER && a.missing == 1);
	store_arrived(&w[1], came, 2);
	ck_assert(!came[0] && came[1]);
	gather(2, 2, 0, "again");
	ck_assert_ptr_nonnull(store_woken(s));
	ck_assert_ptr_nonnull(store_woken(s));
	gathered(&w[1], (const char *const[]){"again", "one"}, 2);
	store_waiter_release(&w[1]);
	store_waiter_release(&w[2]);
}
END_TEST

/* The agent's notice that a rank has exited may arrive before the end of that
 * rank's own connection, on which it waits in the gather. */
START_TEST(a_gather_fails_when_a_caller_that_left_is_removed)
{
	gather(0, 3, 0, "x");
	gather(1, 3, 1, "x");
	store_rank_left(s, 0, "rank 0 died");
	nobody_woken();
	store_waiter_release(&w[0]);
	woken(1, ERR_REMOTE);
	ck_assert_str_eq(store_waiter_text(&w[1]),
			 "rank 0 died before it reached 'g'");
	store_waiter_release(&w[1]);
}
END_TEST

/* ---- all of it, against a plain array ---- */

START_TEST(many_keys_come_and_go)
{
	enum { N = 20000 };
	static char there[N];
	uint32_t x = 1;
	size_t n = 0;

	for (int step = 0; step < 200000; step++) {
		char key[16];
		int i;

		x = x * 1664525 + 1013904223;
		i = (int)((x >> 8) % N);
		snprintf(key, sizeof(key), "key%d", i);
		if ((x >> 4 & 3) == 0) {
			ck_assert_int_eq(store_delete(s, t(key)), there[i]);
			n -= (size_t)there[i];
			there[i] = 0;
		} else {
			ck_assert_int_eq(set(key, key), 0);
			n += !there[i];
			there[i] = 1;
		}
	}
	ck_assert_uint_eq(store_keys(s), n);
	for (int i = 0; i < N; i++) {
		char key[16];

		snprintf(key, sizeof(key), "key%d", i);
		if (there[i])
			has(key, key);
		else
			lacks(key);
	}
}
END_TEST

static void add_all(TCase *c)
{
	tcase_add_test(c, set_and_get);
	tcase_add_test(c, keys_are_bytes);
	tcase_add_test(c, add_counts_in_decimal_text);
	tcase_add_test(c, add_refuses_a_value_that_is_not_a_number);
	tcase_add_test(c, compare_set);
	tcase_add_test(c, append);
	tcase_add_test(c, delete);
	tcase_add_test(c, multi_set_is_all_or_nothing);
	tcase_add_test(c, limits_hold_and_deletes_free_their_room);
	tcase_add_test(c, values_up_to_the_limit_are_accepted);
	tcase_add_test(c, wait_is_over_when_every_key_is_there);
	tcase_add_test(c, each_kind_of_write_wakes);
	tcase_add_test(c, a_leaving_waiter_leaves_nothing_behind);
	tcase_add_test(c, barrier_opens_for_all_and_may_be_used_again);
	tcase_add_test(c, a_barrier_removes_a_leaving_caller);
	tcase_add_test(c, callers_must_agree_on_kind_and_count);
	tcase_add_test(c, gather_gives_all_values_in_rank_order);
	tcase_add_test(c, gather_checks_its_callers);
	tcase_add_test(c, gather_fails_when_a_rank_it_misses_leaves);
	tcase_add_test(c, gather_fails_at_once_when_a_rank_has_left_before);
	tcase_add_test(c, a_gather_removes_a_leaving_caller);
	tcase_add_test(c, a_gather_fails_when_a_caller_that_left_is_removed);
	tcase_add_test(c, many_keys_come_and_go);
}

int main(void)
{
	TCase *c = tcase_create("store");

	tcase_set_timeout(c, 60);
	tcase_add_checked_fixture(c, begin, end);
	add_all(c);
	return run_case(c);
}
