/* test_pickle.c: what Python's pickle writes in several protocols, and what
 * PyTorch's C++ writes, is read back; what is cut or calls something is not. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/traces/pickle.h"
#include "tests/unit/run_case.h"

#define BYTES(s) SLICE((s), sizeof(s) - 1)

static struct pickle p;

/* {"a": [1, -2, 70000, 2**40, -1.5, None, True], "b": ("x", {"c": "yz"})} */
static void check_values(struct slice bytes)
{
	static const int64_t numbers[] = {1, -2, 70000, (int64_t)1 << 40, -1,
					  0, 1};
	const struct pickle_value *root, *list, *v;
	uint32_t at = 0;

	ck_assert_int_eq(pickle_read(&p, bytes, NULL), 0);
	root = pickle_root(&p);
	ck_assert_int_eq(root->type, PICKLE_DICT);
	list = pickle_get(&p, root, "a");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		v = pickle_next(&p, list, &at);
		ck_assert_ptr_nonnull(v);
		ck_assert_int_eq(v->number, numbers[i]);
	}
	ck_assert_ptr_null(pickle_next(&p, list, &at));
	at = 0;
	list = pickle_get(&p, root, "b");
	v = pickle_next(&p, list, &at);
	ck_assert_int_eq(v->type, PICKLE_TEXT);
	ck_assert_uint_eq(v->text.len, 1);
	v = pickle_next(&p, list, &at);
	ck_assert_mem_eq(pickle_get_text(&p, v, "c").data, "yz", 2);
	ck_assert_uint_eq(pickle_get_text(&p, v, "d").len, 0);
	ck_assert_int_eq(pickle_get_number(&p, v, "c"), -1);
	pickle_release(&p);
	/* each part of it is cut */
	for (size_t n = 0; n < bytes.len; n++) {
		ck_assert_int_eq(pickle_read(&p, SLICE(bytes.data, n), NULL),
				 ERR_DATA);
		pickle_release(&p);
	}
}

START_TEST(values_of_protocols_2_and_4_are_read)
{
	check_values(BYTES(
		"\200\002}q\000(X\001\000\000\000aq\001]q\002(K\001J"
		"\376\377\377\377Jp\021\001\000\212\006\000\000\000"
		"\000\000\001G\277\370\000\000\000\000\000\000N\210e"
		"X\001\000\000\000bq\003X\001\000\000\000xq\004}q"
		"\005X\001\000\000\000cq\006X\002\000\000\000yzq\007"
		"s\206q\010u."));
	check_values(BYTES(
		"\200\004\225B\000\000\000\000\000\000\000}\224(\214"
		"\001a\224]\224(K\001J\376\377\377\377Jp\021\001\000"
		"\212\006\000\000\000\000\000\001G\277\370\000\000"
		"\000\000\000\000N\210e\214\001b\224\214\001x\224}"
		"\224\214\001c\224\214\002yz\224s\206\224u."));
}
END_TEST

/* A list in a list twice, by the memo: one value, two links. */
START_TEST(one_value_may_be_in_several_lists)
{
	const struct pickle_value *a, *b;
	uint32_t at = 0;

	ck_assert_int_eq(
		pickle_read(&p, BYTES("\x80\x02](]q\1K\7ah\1e."), NULL), 0);
	a = pickle_next(&p, pickle_root(&p), &at);
	b = pickle_next(&p, pickle_root(&p), &at);
	ck_assert_ptr_nonnull(a);
	ck_assert_ptr_eq(a, b);
	at = 0;
	ck_assert_int_eq(pickle_next(&p, a, &at)->number, 7);
	pickle_release(&p);
}
END_TEST

/* PyTorch writes lists of numbers as calls of build_intlist. */
START_TEST(a_call_is_its_first_argument)
{
	uint32_t at = 0;

	ck_assert_int_eq(
		pickle_read(&p, BYTES("\x80\x02" "ctorch.jit._pickle\n"
				      "build_intlist\n(](K\3K\4etR."),
			    NULL),
		0);
	ck_assert_int_eq(pickle_root(&p)->type, PICKLE_LIST);
	ck_assert_int_eq(pickle_next(&p, pickle_root(&p), &at)->number, 3);
	ck_assert_int_eq(pickle_next(&p, pickle_root(&p), &at)->number, 4);
	pickle_release(&p);
}
END_TEST

START_TEST(what_makes_no_sense_is_refused)
{
	static const struct slice bad[] = {
		{"", 0},
		BYTES("."),		  /* nothing to return */
		BYTES("e."),		  /* no list, no mark */
		BYTES("(."),		  /* a mark is no value */
		BYTES("h\1."),		  /* nothing in the memo */
		BYTES("]\x87."),	  /* a tuple of three */
		BYTES("X\xff\xff\xff\xff."), /* text beyond the end */
		BYTES("\x8d\xff\xff\xff\xff\xff\xff\xff\xff."),
		BYTES("Nr\xff\xff\xff\xff."), /* a memo of 4 billion */
		BYTES("cos"),
		BYTES("Vline\n."), /* an operation that we do not know */
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ck_assert_int_eq(pickle_read(&p, bad[i], NULL), ERR_DATA);
		pickle_release(&p);
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pickle");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, values_of_protocols_2_and_4_are_read);
	tcase_add_test(c, one_value_may_be_in_several_lists);
	tcase_add_test(c, a_call_is_its_first_argument);
	tcase_add_test(c, what_makes_no_sense_is_refused);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
