/* test_key_space.c: the limits of PMI's keys, what other nodes get, and
 * mappings of even and uneven layouts. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "launcher/pmi/key_space.h"
#include "tests/unit/run_case.h"

static char bytes[KEY_SPACE_VALUE_MAX];

/* A key of that many bytes. */
static int put(struct key_space *k, size_t key, size_t value, struct err *e)
{
	return key_space_put(k, SLICE(bytes, key), SLICE(bytes, value), e);
}

START_TEST(a_key_and_a_value_have_a_maximum)
{
	struct err e = ERR_INIT;
	struct key_space k;

	key_space_init(&k);
	ck_assert_int_eq(put(&k, 0, 1, &e), ERR_ARGUMENT);
	ck_assert_str_eq(e.text, "a key has 0 bytes, but 1 to 63 are allowed");
	ck_assert_int_eq(put(&k, 1, 0, NULL), 0);
	ck_assert_int_eq(put(&k, KEY_SPACE_KEY_MAX - 1,
			     KEY_SPACE_VALUE_MAX - 1, NULL), 0);
	e = (struct err)ERR_INIT;
	ck_assert_int_eq(put(&k, KEY_SPACE_KEY_MAX, 1, &e), ERR_ARGUMENT);
	ck_assert_str_eq(e.text, "a key has 64 bytes, but 1 to 63 are allowed");
	e = (struct err)ERR_INIT;
	ck_assert_int_eq(put(&k, 2, KEY_SPACE_VALUE_MAX, &e), ERR_ARGUMENT);
	ck_assert_str_eq(e.text, "a value has 1024 bytes, but at most 1023 "
				 "are allowed");
	ck_assert_uint_eq(k.n, 2);
	ck_assert_uint_eq(k.bytes, 1 + KEY_SPACE_KEY_MAX - 1 +
					   KEY_SPACE_VALUE_MAX - 1);
	key_space_release(&k);
}
END_TEST

START_TEST(all_keys_together_have_a_maximum)
{
	struct err e = ERR_INIT;
	struct key_space k;

	key_space_init(&k);
	k.bytes = KEY_SPACE_BYTES_MAX - 3;
	ck_assert_int_eq(put(&k, 2, 2, &e), ERR_ARGUMENT);
	ck_assert_str_eq(e.text, "the keys take more than 1073741824 bytes");
	ck_assert_int_eq(put(&k, 2, 1, NULL), 0);
	key_space_release(&k);
}
END_TEST

/* The key of number i has i in its first bytes. */
static struct slice numbered(uint32_t i, char key[8])
{
	memset(key, 0, 8);
	memcpy(key, &i, sizeof(i));
	return SLICE(key, 8);
}

START_TEST(puts_between_two_barriers_have_a_maximum)
{
	/* with the lengths of both */
	const uint32_t fit = KEY_SPACE_NEW_MAX / (4 + 8 + 4 + 1008);
	struct err e = ERR_INIT;
	struct key_space k;
	char key[8];

	key_space_init(&k);
	for (uint32_t i = 0; i < fit; i++)
		ck_assert_int_eq(key_space_put(&k, numbered(i, key),
					       SLICE(bytes, 1008), NULL), 0);
	ck_assert_int_eq(key_space_put(&k, numbered(fit, key),
				       SLICE(bytes, 1008), &e), -ENOBUFS);
	ck_assert_str_eq(e.text, "put a key with which the ranks of this "
				 "node exceed 67108864 bytes before a barrier");
	key_space_release(&k);
}
END_TEST

START_TEST(a_table_that_grows_keeps_its_keys_and_is_half_empty)
{
	struct slice value;
	struct key_space k;
	char key[8];

	key_space_init(&k);
	ck_assert_int_eq(key_space_get(&k, numbered(0, key), &value), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		struct slice s = numbered(i, key);

		ck_assert_int_eq(key_space_put(&k, s, s, NULL), 0);
		ck_assert_uint_le(2 * k.n, k.cap);
		ck_assert_uint_le(k.cap, k.n > 32 ? 4 * k.n : 64);
	}
	for (uint32_t i = 0; i < 1000; i++) {
		struct slice s = numbered(i, key);

		ck_assert_int_eq(key_space_get(&k, s, &value), 1);
		ck_assert_uint_eq(value.len, s.len);
		ck_assert_mem_eq(value.data, s.data, s.len);
	}
	/* the start of a key is another key */
	ck_assert_int_eq(key_space_get(&k, SLICE(key, 7), &value), 0);
	key_space_release(&k);
}
END_TEST

START_TEST(another_node_gets_what_is_new_once)
{
	struct key_space from, to;
	struct slice value;
	struct reader r;

	key_space_init(&from);
	key_space_init(&to);
	for (int i = 0; i < 2; i++) {
		struct slice key = i ? SLICE_STR("b") : SLICE_STR("a");
		struct buf part = BUF_INIT(1 << 20);

		ck_assert_int_eq(key_space_put(&from, key, key, NULL), 0);
		key_space_take_new(&from, &part);
		ck_assert_uint_eq(part.len, 4 + 1 + 4 + 1);
		reader_init(&r, SLICE(part.data, part.len));
		ck_assert_int_eq(key_space_merge(&to, &r, NULL), 0);
		ck_assert_int_eq(key_space_get(&to, key, &value), 1);
		ck_assert_mem_eq(value.data, key.data, 1);
		buf_release(&part);
	}
	/* it does not hand on what it got */
	ck_assert_uint_eq(to.added.len, 0);
	key_space_release(&from);
	key_space_release(&to);
}
END_TEST

START_TEST(torn_keys_of_another_node_are_an_error)
{
	static const char torn[] = {1, 0, 0, 0, 'a', 1, 0, 0, 0};
	struct err e = ERR_INIT;
	struct slice value;
	struct key_space k;
	struct reader r;

	key_space_init(&k);
	reader_init(&r, SLICE(torn, sizeof(torn)));
	ck_assert_int_eq(key_space_merge(&k, &r, &e), ERR_PROTOCOL);
	ck_assert_str_eq(e.text, "malformed keys of another node");
	ck_assert_int_eq(key_space_get(&k, SLICE_STR("a"), &value), 0);
	key_space_release(&k);
}
END_TEST

/* ---- process_mapping ---- */

static const struct layout {
	uint32_t ranks[6], nodes;
	const char *text;
} layouts[] = {
	{{1}, 1, "(vector,(0,1,1))"},
	{{8}, 1, "(vector,(0,1,8))"},
	{{2, 2, 2}, 3, "(vector,(0,3,2))"},
	{{4, 1}, 2, "(vector,(0,1,4),(1,1,1))"},
	{{1, 4, 4, 4, 2, 2}, 6, "(vector,(0,1,1),(1,3,4),(4,2,2))"},
	{{1, 2, 1, 2}, 4, "(vector,(0,1,1),(1,1,2),(2,1,1),(3,1,2))"},
};

START_TEST(each_run_of_equal_nodes_is_a_block)
{
	const struct layout *l = &layouts[_i];
	char text[100];

	ck_assert_int_eq(process_mapping_put(l->ranks, l->nodes, text,
					     sizeof(text)), 1);
	ck_assert_str_eq(text, l->text);
	/* with room for the text and its NUL, and no more */
	ck_assert_int_eq(process_mapping_put(l->ranks, l->nodes, text,
					     strlen(l->text) + 1), 1);
	for (size_t size = 1; size <= strlen(l->text); size++)
		ck_assert_int_eq(process_mapping_put(l->ranks, l->nodes, text,
						     size), 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("key_space");

	tcase_add_test(c, a_key_and_a_value_have_a_maximum);
	tcase_add_test(c, all_keys_together_have_a_maximum);
	tcase_add_test(c, puts_between_two_barriers_have_a_maximum);
	tcase_add_test(c, a_table_that_grows_keeps_its_keys_and_is_half_empty);
	tcase_add_test(c, another_node_gets_what_is_new_once);
	tcase_add_test(c, torn_keys_of_another_node_are_an_error);
	tcase_add_loop_test(c, each_run_of_equal_nodes_is_a_block, 0,
			    sizeof(layouts) / sizeof(*layouts));
	return run_case(c);
}
