/* test_pmix_frame.c: frames in pieces, what is no frame, and variables from one
 * process to another. */
#include <check.h>
#include <stdlib.h>

#include "launcher/pmix/pmix_frame.h"
#include "tests/unit/run_case.h"

START_TEST(a_frame_is_cut_when_all_of_it_is_there)
{
	const struct pmix_frame in = {HELPER_ABORT, 3, -7, SLICE("why", 3)};
	struct buf b = BUF_INIT(100);
	struct pmix_frame out;

	pmix_frame_put(&b, &in);
	buf_printf(&b, "next");
	for (size_t n = 0; n < PMIX_FRAME_HEAD + 3; n++)
		ck_assert_int_eq(pmix_frame_cut(SLICE(b.data, n), &out, NULL),
				 0);
	ck_assert_int_eq(pmix_frame_cut(SLICE(b.data, b.len), &out, NULL),
			 PMIX_FRAME_HEAD + 3);
	ck_assert_int_eq(out.type, HELPER_ABORT);
	ck_assert_uint_eq(out.id, 3);
	ck_assert_int_eq(out.code, -7);
	ck_assert_uint_eq(out.data.len, 3);
	ck_assert_mem_eq(out.data.data, "why", 3);
	buf_release(&b);
}
END_TEST

START_TEST(bytes_that_are_not_a_frame_are_refused)
{
	static const struct {
		uint32_t length;
		uint8_t type;
	} bad[] = {
		{8, HELPER_BEGIN}, {9, 0}, {9, HELPER_TYPES},
		{PMIX_FRAME_MAX + 1, HELPER_BEGIN}, {UINT32_MAX, HELPER_BEGIN},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct buf b = BUF_INIT(100);
		struct pmix_frame f;
		struct err e = ERR_INIT;

		buf_put_u32(&b, bad[i].length);
		buf_put_u8(&b, bad[i].type);
		buf_put_u64(&b, 0);
		ck_assert_int_eq(pmix_frame_cut(SLICE(b.data, b.len), &f, &e),
				 ERR_PROTOCOL);
		buf_release(&b);
	}
}
END_TEST

/* ---- pmix_vars ---- */

static char *const first[] = {(char *)"PMIX_RANK=0", (char *)"A=", NULL};
static char *const second[] = {(char *)"PMIX_RANK=1", (char *)"A=b c", NULL};
static char *const more[] = {(char *)"X=1"};

START_TEST(each_rank_gets_its_variables)
{
	struct buf b = BUF_INIT(1000);
	struct pmix_vars v;

	pmix_vars_put(&b, first, more, 1);
	pmix_vars_put(&b, second, more, 1);
	ck_assert_int_eq(pmix_vars_get(&v, SLICE(b.data, b.len), 2, NULL), 0);
	ck_assert_uint_eq(v.n, 3);
	ck_assert_str_eq(v.vars[0], "PMIX_RANK=0");
	ck_assert_str_eq(v.vars[1], "A=");
	ck_assert_str_eq(v.vars[3], "PMIX_RANK=1");
	ck_assert_str_eq(v.vars[4], "A=b c");
	ck_assert_str_eq(v.vars[5], "X=1");
	pmix_vars_release(&v);
	buf_release(&b);
}
END_TEST

START_TEST(torn_and_uneven_variables_are_refused)
{
	struct buf b = BUF_INIT(1000);
	struct pmix_vars v;
	struct err e = ERR_INIT;

	pmix_vars_put(&b, first, more, 1);
	pmix_vars_put(&b, second, more, 1);
	for (size_t n = 0; n < b.len; n++)
		ck_assert_int_eq(pmix_vars_get(&v, SLICE(b.data, n), 2, &e),
				 ERR_PROTOCOL);
	/* more ranks, and fewer, than there are variables for */
	ck_assert_int_eq(pmix_vars_get(&v, SLICE(b.data, b.len), 3, &e),
			 ERR_PROTOCOL);
	ck_assert_int_eq(pmix_vars_get(&v, SLICE(b.data, b.len), 1, &e),
			 ERR_PROTOCOL);
	buf_reset(&b);
	pmix_vars_put(&b, first, more, 1);
	pmix_vars_put(&b, second, more, 0);
	ck_assert_int_eq(pmix_vars_get(&v, SLICE(b.data, b.len), 2, &e),
			 ERR_PROTOCOL);
	buf_release(&b);
}
END_TEST

START_TEST(the_text_of_a_message_of_open_mpi_is_found)
{
	static const char bytes[] = "\0\0\0\1\0\0\0\5file\0"
				    "\0\0\0\1\0\0\0\2t\0"
				    "\0\0\0\1\1"
				    "\0\0\0\1\0\0\0\7*** no";
	struct slice text = pmix_said(SLICE(bytes, sizeof(bytes)));

	ck_assert_mem_eq(text.data, "*** no", 6);
	ck_assert_uint_eq(text.len, 6);
	for (size_t n = 0; n < sizeof(bytes) - 1; n++) {
		char *copy = malloc(n + 1);

		memcpy(copy, bytes, n);
		ck_assert_uint_eq(pmix_said(SLICE(copy, n)).len, 0);
		free(copy);
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pmix_frame");

	tcase_add_test(c, a_frame_is_cut_when_all_of_it_is_there);
	tcase_add_test(c, bytes_that_are_not_a_frame_are_refused);
	tcase_add_test(c, each_rank_gets_its_variables);
	tcase_add_test(c, torn_and_uneven_variables_are_refused);
	tcase_add_test(c, the_text_of_a_message_of_open_mpi_is_found);
	return run_case(c);
}
