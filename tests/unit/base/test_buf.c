/* test_buf.c: the capped buffer, its byte order, and the reader, which must not
 * read past its end. */
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/buf.h"
#include "tests/unit/run_case.h"

START_TEST(integers_are_little_endian)
{
	static const unsigned char want[] = {
		0xab, 0x34, 0x12, 0x78, 0x56, 0x34, 0x12, 8,
		7,    6,    5,    4,    3,    2,    1,
	};
	struct buf b = BUF_INIT(100);
	struct reader r;

	buf_put_u8(&b, 0xab);
	buf_put_u16(&b, 0x1234);
	buf_put_u32(&b, 0x12345678);
	buf_put_u64(&b, 0x0102030405060708);
	ck_assert_uint_eq(b.len, sizeof(want));
	ck_assert_mem_eq(b.data, want, sizeof(want));

	reader_init(&r, SLICE(b.data, b.len));
	ck_assert_uint_eq(reader_left(&r), sizeof(want));
	ck_assert_uint_eq(reader_u8(&r), 0xab);
	ck_assert_uint_eq(reader_u16(&r), 0x1234);
	ck_assert_uint_eq(reader_u32(&r), 0x12345678);
	ck_assert_uint_eq(reader_u64(&r), 0x0102030405060708);
	ck_assert_uint_eq(reader_left(&r), 0);
	ck_assert_int_eq(r.bad, 0);
	buf_release(&b);
}
END_TEST

START_TEST(a_failed_part_makes_the_whole_fail)
{
	struct buf part = BUF_INIT(4), whole = BUF_INIT(100);
	struct slice bytes;

	buf_put_u32(&part, 7);
	buf_put_buf(&whole, &part);
	ck_assert_int_eq(buf_bytes(&whole, &bytes), 0);
	ck_assert_uint_eq(bytes.len, 8);
	ck_assert_mem_eq(bytes.data, "\4\0\0\0\7\0\0\0", 8);
	buf_put_u8(&part, 1);
	/* half a message has no bytes that could be sent by mistake */
	ck_assert_int_eq(buf_bytes(&part, &bytes), -ENOBUFS);
	ck_assert_uint_eq(bytes.len, 0);
	buf_put_buf(&whole, &part);
	ck_assert_int_eq(buf_bytes(&whole, &bytes), -ENOBUFS);
	ck_assert_uint_eq(bytes.len, 0);
	buf_release(&part);
	buf_release(&whole);
}
END_TEST

START_TEST(a_full_buffer_fails_and_stays_failed)
{
	struct buf b = BUF_INIT(10);

	buf_put(&b, "12345678", 8);
	buf_put_u32(&b, 1);
	ck_assert_int_eq(b.failed, -ENOBUFS);
	ck_assert_uint_eq(b.len, 8);
	buf_put_u8(&b, 1); /* there is room, but an earlier put failed */
	ck_assert_uint_eq(b.len, 8);
	ck_assert_ptr_null(buf_reserve(&b, 1));
	buf_reset(&b);
	ck_assert_int_eq(b.failed, 0);
	ck_assert_uint_eq(b.len, 0);
	buf_put(&b, "1234567890", 10);
	ck_assert_int_eq(b.failed, 0);
	ck_assert_uint_eq(b.len, 10);
	ck_assert_uint_le(b.cap, 10);
	buf_release(&b);
	ck_assert_ptr_null(b.data);
	ck_assert_uint_eq(b.max, 10);
}
END_TEST

START_TEST(lengths_near_the_end_of_size_t_do_not_wrap)
{
	struct buf b = BUF_INIT(100);

	buf_put_u8(&b, 1);
	ck_assert_ptr_null(buf_reserve(&b, SIZE_MAX));
	ck_assert_int_eq(b.failed, -ENOBUFS);
	buf_reset(&b);
	buf_put_slice(&b, SLICE("", (size_t)UINT32_MAX + 1));
	ck_assert_int_eq(b.failed, -ENOBUFS);
	buf_release(&b);
}
END_TEST

START_TEST(grows_and_keeps_its_contents)
{
	struct buf b = BUF_INIT(1 << 20);

	for (uint32_t i = 0; i < 50000; i++)
		buf_put_u32(&b, i);
	ck_assert_int_eq(b.failed, 0);
	struct reader r;
	reader_init(&r, SLICE(b.data, b.len));
	for (uint32_t i = 0; i < 50000; i++)
		ck_assert_uint_eq(reader_u32(&r), i);
	ck_assert_uint_eq(reader_left(&r), 0);
	buf_release(&b);
}
END_TEST

START_TEST(reserve_gives_room_that_the_caller_fills)
{
	struct buf b = BUF_INIT(1000);
	char *p = buf_reserve(&b, 600);

	ck_assert_ptr_nonnull(p);
	ck_assert_uint_eq(b.len, 0);
	memset(p, 'x', 600);
	b.len += 600;
	p = buf_reserve(&b, 400);
	ck_assert_ptr_eq(p, b.data + 600);
	ck_assert_ptr_null(buf_reserve(&b, 401));
	buf_release(&b);
	ck_assert_ptr_nonnull(buf_reserve(&b, 0));
	buf_release(&b);
}
END_TEST

START_TEST(consume_moves_the_rest_to_the_front)
{
	struct buf b = BUF_INIT(100);

	buf_consume(&b, 0);
	buf_put(&b, "abcdef", 6);
	buf_consume(&b, 2);
	ck_assert_uint_eq(b.len, 4);
	ck_assert_mem_eq(b.data, "cdef", 4);
	buf_consume(&b, 4);
	ck_assert_uint_eq(b.len, 0);
	buf_release(&b);
}
END_TEST

START_TEST(printf_appends_without_the_nul)
{
	struct buf b = BUF_INIT(20);

	buf_printf(&b, "%s-%d", "a", 17);
	buf_printf(&b, "%s", "");
	buf_printf(&b, "|");
	ck_assert_uint_eq(b.len, 5);
	ck_assert_mem_eq(b.data, "a-17|", 5);
	buf_printf(&b, "%30d", 1);
	ck_assert_int_eq(b.failed, -ENOBUFS);
	ck_assert_uint_eq(b.len, 5);
	buf_release(&b);
}
END_TEST

START_TEST(slices_carry_their_length)
{
	struct buf b = BUF_INIT(100);
	struct reader r;

	buf_put_slice(&b, SLICE_STR("key"));
	buf_put_slice(&b, SLICE("", 0));
	buf_put_slice(&b, SLICE("a\0b", 3));
	reader_init(&r, SLICE(b.data, b.len));
	struct slice s = reader_slice(&r);
	ck_assert_uint_eq(s.len, 3);
	ck_assert_mem_eq(s.data, "key", 3);
	s = reader_slice(&r);
	ck_assert_uint_eq(s.len, 0);
	ck_assert_ptr_nonnull(s.data);
	s = reader_slice(&r);
	ck_assert_uint_eq(s.len, 3);
	ck_assert_mem_eq(s.data, "a\0b", 3);
	ck_assert_int_eq(r.bad, 0);
	buf_release(&b);
}
END_TEST

START_TEST(a_reader_that_ran_out_stays_bad_and_gives_zeroes)
{
	struct reader r;
	char *three = malloc(3); /* a sanitizer detects a read beyond it */

	memcpy(three, "\1\2\3", 3);
	reader_init(&r, SLICE(three, 3));
	ck_assert_uint_eq(reader_u32(&r), 0);
	ck_assert_int_eq(r.bad, 1);
	ck_assert_uint_eq(reader_u8(&r), 0); /* though a byte is left */
	ck_assert_int_eq(r.bad, 1);
	struct slice s = reader_slice(&r);
	ck_assert_uint_eq(s.len, 0);
	free(three);
}
END_TEST

START_TEST(a_slice_longer_than_its_bytes_is_bad)
{
	static const char bytes[] = {5, 0, 0, 0, 'a', 'b'};
	static const char huge[] = {-1, -1, -1, -1, 'a', 'b'};
	struct reader r;

	reader_init(&r, SLICE(bytes, sizeof(bytes)));
	ck_assert_uint_eq(reader_slice(&r).len, 0);
	ck_assert_int_eq(r.bad, 1);
	reader_init(&r, SLICE(huge, sizeof(huge)));
	ck_assert_uint_eq(reader_slice(&r).len, 0);
	ck_assert_int_eq(r.bad, 1);
}
END_TEST

START_TEST(nothing_can_be_read_from_an_empty_slice)
{
	struct reader r;

	reader_init(&r, SLICE(NULL, 0));
	ck_assert_uint_eq(reader_left(&r), 0);
	ck_assert_int_eq(r.bad, 0);
	ck_assert_uint_eq(reader_u64(&r), 0);
	ck_assert_int_eq(r.bad, 1);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("buf");

	tcase_set_timeout(c, 10);
	tcase_add_test(c, integers_are_little_endian);
	tcase_add_test(c, a_failed_part_makes_the_whole_fail);
	tcase_add_test(c, a_full_buffer_fails_and_stays_failed);
	tcase_add_test(c, lengths_near_the_end_of_size_t_do_not_wrap);
	tcase_add_test(c, grows_and_keeps_its_contents);
	tcase_add_test(c, reserve_gives_room_that_the_caller_fills);
	tcase_add_test(c, consume_moves_the_rest_to_the_front);
	tcase_add_test(c, printf_appends_without_the_nul);
	tcase_add_test(c, slices_carry_their_length);
	tcase_add_test(c, a_reader_that_ran_out_stays_bad_and_gives_zeroes);
	tcase_add_test(c, a_slice_longer_than_its_bytes_is_bad);
	tcase_add_test(c, nothing_can_be_read_from_an_empty_slice);
	return run_case(c);
}
