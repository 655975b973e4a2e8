/* test_store_queue.c: queued values, independent of the name's value. */
#include <check.h>
#include <string.h>

#include "rendezvous/store/store.h"
#include "tests/unit/run_case.h"

static const struct store_limits roomy = {1 << 20, 1 << 30, 1 << 20, 8};
static const struct slice key = SLICE("k", 1);
static struct store *s;
static struct err e;

static void begin(void)
{
	s = store_new(&roomy);
	e = (struct err)ERR_INIT;
}

static void end(void)
{
	store_free(s);
}

static void push(const char *value)
{
	ck_assert_int_eq(store_push(s, key, SLICE_STR(value), &e), 0);
}

static void first_is(uint64_t queued, const char *value)
{
	struct slice v;

	ck_assert_uint_eq(store_queued(s, key, &v), queued);
	ck_assert_uint_eq(v.len, strlen(value));
	ck_assert(!memcmp(v.data, value, v.len));
}

START_TEST(items_are_popped_in_the_order_of_their_pushes)
{
	struct slice v;

	push("one");
	push("");
	push("three");
	first_is(3, "one");
	store_pop(s, key);
	first_is(2, "");
	store_pop(s, key);
	first_is(1, "three");
	store_pop(s, key);
	ck_assert_uint_eq(store_queued(s, key, &v), 0);
	ck_assert_uint_eq(store_bytes(s), 0);
}
END_TEST

START_TEST(a_name_has_a_value_and_a_queue)
{
	struct slice v;

	push("queued");
	ck_assert_int_eq(store_get(s, key, &v), 0);
	ck_assert_int_eq(store_set(s, key, SLICE("v", 1), &e), 0);
	store_pop(s, key);
	ck_assert_int_eq(store_get(s, key, &v), 1);
	ck_assert_int_eq(store_delete(s, key), 1);
	ck_assert_uint_eq(store_bytes(s), 0);
}
END_TEST

START_TEST(a_deleted_value_is_gone_though_its_name_stays)
{
	char large[5000] = {0};
	struct slice v;
	size_t empty;

	push("queued");
	empty = store_bytes(s);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(store_set(s, key, SLICE(large, sizeof(large)),
					   &e), 0);
		ck_assert_uint_eq(store_bytes(s), empty + sizeof(large));
		ck_assert_int_eq(store_delete(s, key), 1);
		ck_assert_uint_eq(store_bytes(s), empty);
	}
	ck_assert_int_eq(store_append(s, key, SLICE("new", 3), &e), 3);
	ck_assert_int_eq(store_get(s, key, &v), 1);
	ck_assert_uint_eq(v.len, 3);
	ck_assert_uint_eq(store_bytes(s), empty + 3);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("store_queue");

	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, items_are_popped_in_the_order_of_their_pushes);
	tcase_add_test(c, a_name_has_a_value_and_a_queue);
	tcase_add_test(c, a_deleted_value_is_gone_though_its_name_stays);
	return run_case(c);
}
