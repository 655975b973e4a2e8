/* test_hash_table.c: the store's hash table finds every item, also while it
 * grows, and its hash separates similar keys. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/store/hash_table.h"
#include "tests/unit/run_case.h"

START_TEST(keys_that_differ_little_spread_well)
{
	struct hash_table table;
	static struct hash_item items[4096];
	static char keys[4096][24];
	size_t longest = 0;

	hash_table_init(&table);
	for (int i = 0; i < 4096; i++) {
		snprintf(keys[i], sizeof(keys[i]), "worker/%d/address", i);
		items[i].key = SLICE_STR(keys[i]);
		ck_assert_int_eq(hash_table_insert(&table, &items[i]), 0);
	}
	for (size_t i = 0; i < table.size; i++) {
		size_t n = 0;

		for (struct hash_item *p = table.slots[i]; p; p = p->next)
			n++;
		longest = n > longest ? n : longest;
	}
	ck_assert_uint_le(longest, 10);
	for (int i = 0; i < 4096; i++)
		ck_assert_ptr_nonnull(hash_table_pop(&table));
	ck_assert_ptr_null(hash_table_pop(&table));
	hash_table_release(&table);
}
END_TEST

/* With an unkeyed hash whose steps are invertible, a client could make any
 * number of keys with one hash. */
static void make_key(char key[16], uint64_t first)
{
	uint64_t h = 0x9e3779b97f4a7c15u ^ 16, second;

	h = (h ^ first) * 0xff51afd7ed558ccdu;
	h ^= h >> 32;
	second = h ^ 42;
	memcpy(key, &first, 8);
	memcpy(key + 8, &second, 8);
}

START_TEST(keys_chosen_to_collide_spread_well)
{
	enum { N = 2000 };
	static struct hash_item items[N];
	static char keys[N][16];
	struct hash_table table;
	int same = 0;

	hash_table_init(&table);
	for (uint64_t i = 0; i < N; i++) {
		make_key(keys[i], i);
		items[i].key = SLICE(keys[i], 16);
		ck_assert_int_eq(hash_table_insert(&table, &items[i]), 0);
		for (uint64_t k = 0; k < i; k++)
			same += items[k].hash == items[i].hash;
	}
	ck_assert_int_eq(same, 0);
	while (hash_table_pop(&table))
		;
	hash_table_release(&table);
}
END_TEST

START_TEST(items_are_found_and_removed_at_every_size)
{
	enum { N = 5000 };
	static struct hash_item items[N];
	static char keys[N][16];
	struct hash_table table;

	hash_table_init(&table);
	ck_assert_ptr_null(hash_table_find(&table, SLICE_STR("none")));
	for (int i = 0; i < N; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%d", i);
		items[i].key = SLICE_STR(keys[i]);
		ck_assert_int_eq(hash_table_insert(&table, &items[i]), 0);
		/* the first, the last, and one of those being moved */
		ck_assert_ptr_eq(hash_table_find(&table, items[0].key),
				 &items[0]);
		ck_assert_ptr_eq(hash_table_find(&table, items[i].key),
				 &items[i]);
		ck_assert_ptr_eq(hash_table_find(&table, items[i / 2].key),
				 &items[i / 2]);
	}
	for (int i = 0; i < N; i += 2)
		hash_table_remove(&table, &items[i]);
	ck_assert_uint_eq(table.items, N / 2);
	for (int i = 0; i < N; i++)
		ck_assert_ptr_eq(hash_table_find(&table, items[i].key),
				 i % 2 ? &items[i] : NULL);
	while (hash_table_pop(&table))
		;
	ck_assert_uint_eq(table.items, 0);
	ck_assert_ptr_null(hash_table_find(&table, items[1].key));
	hash_table_release(&table);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("table");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, keys_that_differ_little_spread_well);
	tcase_add_test(c, keys_chosen_to_collide_spread_well);
	tcase_add_test(c, items_are_found_and_removed_at_every_size);
	return run_case(c);
}
