/* test_utf8.c: valid and invalid UTF-8. */
#include <check.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "tests/unit/run_case.h"

#define BAD "\xef\xbf\xbd"

static void expect(struct slice in, const char *want)
{
	struct buf out = BUF_INIT(1000);

	utf8_put(&out, in);
	buf_put(&out, "", 1);
	ck_assert_int_eq(out.failed, 0);
	ck_assert_str_eq(out.data, want);
	buf_release(&out);
}

START_TEST(valid_text_stays)
{
	expect(SLICE_STR(""), "");
	expect(SLICE_STR("plain\ttext\n"), "plain\ttext\n");
	expect(SLICE_STR("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"),
	       "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
	expect(SLICE_STR("\xf4\x8f\xbf\xbf"), "\xf4\x8f\xbf\xbf");
}
END_TEST

START_TEST(invalid_bytes_are_replaced)
{
	expect(SLICE_STR("a\xff" "b"), "a" BAD "b");
	expect(SLICE("a\0b", 3), "a" BAD "b");
	expect(SLICE_STR("\x80"), BAD);
	expect(SLICE_STR("\xc0\xaf"), BAD BAD);     /* too long */
	expect(SLICE_STR("\xe0\x9f\x80"), BAD BAD BAD);
	expect(SLICE_STR("\xed\xa0\x80"), BAD BAD BAD); /* a surrogate */
	expect(SLICE_STR("\xf4\x90\x80\x80"), BAD BAD BAD BAD);
	expect(SLICE_STR("\xe2\x82"), BAD BAD);     /* truncated */
	expect(SLICE_STR("\xc3(x"), BAD "(x");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("utf8");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, valid_text_stays);
	tcase_add_test(c, invalid_bytes_are_replaced);
	return run_case(c);
}
