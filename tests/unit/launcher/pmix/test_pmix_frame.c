/* test_pmix_frame.c: frames in pieces, and what is no frame. */
#include <check.h>

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

START_TEST(bytes_that_are_no_frame_are_refused)
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

int main(void)
{
	TCase *c = tcase_create("pmix_frame");

	tcase_add_test(c, a_frame_is_cut_when_all_of_it_is_there);
	tcase_add_test(c, bytes_that_are_no_frame_are_refused);
	return run_case(c);
}
