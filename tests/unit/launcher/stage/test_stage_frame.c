/* test_stage_frame.c: sealed frames, and bytes that are not frames. */
#include <check.h>
#include <stdlib.h>

#include "launcher/stage/stage_frame.h"
#include "tests/unit/run_case.h"

static struct stage_list list = {.key = "0123456789abcdef0123456789abcdef"};
static char text[STAGE_TEXT_MAX], back[STAGE_TEXT_MAX];
static char frame[STAGE_FRAME_MAX];

static void seal_init(struct stage_seal *s, unsigned char token)
{
	const struct proof t = {{token}};
	struct err e = ERR_INIT;

	ck_assert_int_eq(stage_seal_init(s, &t, &list, &e), 0);
}

static long seal(struct stage_seal *s, struct stage_frame *f)
{
	struct err e = ERR_INIT;
	long n = stage_frame_seal(s, f, text, frame, &e);

	ck_assert_int_gt(n, 0);
	return n;
}

/* Bytes that zstd cannot compress. */
static void fill(size_t n)
{
	uint32_t x = 1;

	for (size_t i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		text[i] = (char)(x >> 24);
	}
}

START_TEST(a_frame_has_the_text_and_the_place_that_were_sealed)
{
	static const uint32_t sizes[] = {0, 1, 511, STAGE_BLOCK};
	struct stage_frame f, got;
	struct stage_seal s;

	seal_init(&s, 1);
	fill(sizeof(text));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		long n;

		f = (struct stage_frame){STAGE_LAST | STAGE_ZIPPED |
						 STAGE_REREAD,
					 sizes[i], 7, 1ull << 40};
		n = seal(&s, &f);
		ck_assert_int_eq(stage_frame_read(&got, SLICE(frame, n)), n);
		ck_assert_uint_eq(got.flags, STAGE_LAST | STAGE_REREAD);
		ck_assert_uint_eq(got.size, sizes[i]);
		ck_assert_uint_eq(got.file, 7);
		ck_assert_uint_eq(got.at, 1ull << 40);
		ck_assert_int_eq(stage_frame_open(&s, SLICE(frame, n), back),
				 0);
		ck_assert_mem_eq(back, text, sizes[i] + STAGE_HASH_SIZE);
	}
	stage_seal_release(&s);
}
END_TEST

START_TEST(a_text_becomes_smaller_where_there_is_zstd)
{
	struct stage_frame f = {STAGE_ZIPPED, 100000, 0, 0};
	struct stage_seal s;
	long n;

	seal_init(&s, 1);
	memset(text, 'a', sizeof(text));
	n = seal(&s, &f);
	ck_assert_int_eq((f.flags & STAGE_ZIPPED) != 0, s.zip.library != NULL);
	if (s.zip.library)
		ck_assert_int_lt(n, 1000);
	ck_assert_int_eq(stage_frame_open(&s, SLICE(frame, n), back), 0);
	ck_assert_mem_eq(back, text, 100000);
	/* a node without zstd says so */
	s.zip.library = NULL;
	if (f.flags & STAGE_ZIPPED)
		ck_assert_int_eq(stage_frame_open(&s, SLICE(frame, n), back),
				 ERR_DATA);
	stage_seal_release(&s);
}
END_TEST

START_TEST(no_byte_of_a_frame_can_be_changed)
{
	struct stage_frame f = {STAGE_LAST, 40, 3, 4096};
	struct stage_seal s, other;
	long n;

	seal_init(&s, 1);
	seal_init(&other, 2);
	fill(100);
	n = seal(&s, &f);
	for (long i = 0; i < 8 * n; i++) {
		frame[i / 8] ^= (char)(1 << i % 8);
		ck_assert_int_lt(stage_frame_open(&s, SLICE(frame, n), back),
				 0);
		frame[i / 8] ^= (char)(1 << i % 8);
	}
	ck_assert_int_eq(stage_frame_open(&s, SLICE(frame, n), back), 0);
	ck_assert_int_lt(stage_frame_open(&s, SLICE(frame, n - 1), back), 0);
	/* another round's key, and the same round's for another list */
	ck_assert_int_eq(stage_frame_open(&other, SLICE(frame, n), back),
			 ERR_REMOTE);
	stage_seal_release(&other);
	list.key[0] = 'f';
	seal_init(&other, 1);
	list.key[0] = '0';
	ck_assert_int_eq(stage_frame_open(&other, SLICE(frame, n), back),
			 ERR_REMOTE);
	stage_seal_release(&s);
	stage_seal_release(&other);
}
END_TEST

START_TEST(heads_with_wrong_sizes_or_flags)
{
	static const struct {
		uint32_t n, flags, size;
	} bad[] = {
		{0, 0, 0}, {1, 0, 2}, {2, 0, 1}, {33, STAGE_LAST, 0},
		{0, STAGE_LAST | STAGE_ZIPPED, 0}, {9, STAGE_ZIPPED, 8},
		{8, 8, 8}, {STAGE_BLOCK + 1, 0, STAGE_BLOCK + 1},
		{1, STAGE_ZIPPED, STAGE_BLOCK + 1}, {UINT32_MAX, 0, UINT32_MAX},
	};
	struct stage_frame f;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char head[STAGE_FRAME_HEAD] = "";

		for (int b = 0; b < 4; b++) {
			head[b] = (char)(bad[i].n >> 8 * b);
			head[4 + b] = (char)(bad[i].flags >> 8 * b);
			head[8 + b] = (char)(bad[i].size >> 8 * b);
		}
		ck_assert_msg(stage_frame_read(&f, SLICE(head, sizeof(head))) ==
				      ERR_PROTOCOL, "row %zu", i);
		ck_assert_int_eq(stage_frame_read(&f, SLICE(head, 47)), 0);
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("stage_frame");

	tcase_add_test(c, a_frame_has_the_text_and_the_place_that_were_sealed);
	tcase_add_test(c, a_text_becomes_smaller_where_there_is_zstd);
	tcase_add_test(c, no_byte_of_a_frame_can_be_changed);
	tcase_add_test(c, heads_with_wrong_sizes_or_flags);
	return run_case(c);
}
