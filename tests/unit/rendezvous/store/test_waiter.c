/* test_waiter.c: waits for many keys: the memory that they use, and its
 * limit. */
#include <check.h>
#include <stdlib.h>

#include "rendezvous/store/store.h"
#include "tests/unit/run_case.h"

enum { KEYS = 100 };

static struct store *s;
static struct store_waiter w[2];
static struct slice keys[KEYS];
static struct err e;

/* Memory for one and a half waits for a key that is named repeatedly. */
static void begin(void)
{
	struct store_limits l = {1000, 150 * sizeof(struct store_link), 100, 8};

	s = store_new(&l);
	e = (struct err)ERR_INIT;
	for (int i = 0; i < KEYS; i++)
		keys[i] = SLICE_STR("k");
	w[0] = w[1] = (struct store_waiter){.owner = NULL};
}

static void end(void)
{
	store_free(s);
}

static int wait_for(int i, uint32_t n)
{
	return store_wait(s, keys, n, &w[i], &e);
}

START_TEST(a_key_named_twice_is_waited_for_once)
{
	ck_assert_int_eq(wait_for(0, KEYS), 0);
	ck_assert_uint_eq(w[0].nlinks, 1);
	ck_assert_int_eq(store_set(s, keys[0], SLICE("v", 1), &e), 0);
	ck_assert_ptr_eq(store_woken(s), &w[0]);
	ck_assert_int_eq(w[0].code, 0);
	store_waiter_release(&w[0]);
}
END_TEST

START_TEST(it_counts_against_the_limit_of_bytes)
{
	ck_assert_int_eq(wait_for(0, KEYS), 0);
	ck_assert_uint_ge(store_bytes(s), KEYS * sizeof(struct store_link));
	ck_assert_int_eq(wait_for(1, KEYS), ERR_REFUSED);
	store_waiter_release(&w[0]);
	ck_assert_uint_eq(store_bytes(s), 0);
	ck_assert_int_eq(wait_for(1, KEYS), 0);
	store_waiter_release(&w[1]);
	ck_assert_uint_eq(store_bytes(s), 0);
}
END_TEST

START_TEST(two_that_wait_for_one_key_are_both_woken)
{
	ck_assert_int_eq(wait_for(0, 2), 0);
	ck_assert_int_eq(wait_for(1, 2), 0);
	ck_assert_int_eq(store_set(s, keys[0], SLICE("v", 1), &e), 0);
	ck_assert_ptr_eq(store_woken(s), &w[0]);
	ck_assert_ptr_eq(store_woken(s), &w[1]);
	store_waiter_release(&w[0]);
	store_waiter_release(&w[1]);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("waiter");

	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, a_key_named_twice_is_waited_for_once);
	tcase_add_test(c, it_counts_against_the_limit_of_bytes);
	tcase_add_test(c, two_that_wait_for_one_key_are_both_woken);
	return run_case(c);
}
