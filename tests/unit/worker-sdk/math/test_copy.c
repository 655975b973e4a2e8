/* test_copy.c: a put writes exactly the given bytes, on fast and slow machines,
 * and small puts are not measured. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/math/copy.h"

enum { MOST = 80 << 10, PAD = 64 };

static const size_t sizes[] = {0,    1,	   63,	  511,	 512,	4095,
			       4096, 5001, 16384, 16385, 40000, MOST};

/* More puts than between two measurements, so that it measures at least
 * twice. */
START_TEST(puts_any_size_anywhere)
{
	char *from = malloc(MOST + PAD), *to = malloc(MOST + 2 * PAD);

	for (size_t i = 0; i < MOST + PAD; i++)
		from[i] = (char)(i * 7 + i / 251);
	for (unsigned i = 0; i < 300; i++) {
		struct ddp__put p = {_i, _i, i % 70};
		size_t size = sizes[i % (sizeof(sizes) / sizeof(*sizes))];
		size_t shift = i % 65, at = PAD + i % 17;

		memset(to, 0x55, MOST + 2 * PAD);
		ddp__put(&p, to + at, from + shift, size);
		ck_assert(memcmp(to + at, from + shift, size) == 0);
		ck_assert_int_eq(to[at - 1], 0x55);
		ck_assert_int_eq(to[at + size], 0x55);
	}
	free(from);
	free(to);
}
END_TEST

static void fill(char *room, size_t size)
{
	for (size_t i = 0; i < size; i++)
		room[i] = (char)(i * 7 + i / 251);
}

/* "rep movsb" may be slow from some of these places to others. */
START_TEST(copies_to_any_place_in_a_page)
{
	static _Alignas(4096) char from[MOST + PAD], to[MOST + 4 * PAD];
	size_t shift = _i % 2 ? 0 : 16;

	fill(from, sizeof(from));
	for (size_t at = 1; at < 2 * PAD; at++) {
		size_t size = sizes[at % (sizeof(sizes) / sizeof(*sizes))];

		memset(to, 0x55, sizeof(to));
		if (_i < 2)
			ddp__copy_plain(to + at, from + shift, size);
		else
			ddp__move(to + at, from + shift, size);
		ck_assert(memcmp(to + at, from + shift, size) == 0);
		ck_assert_int_eq(to[at - 1], 0x55);
		ck_assert_int_eq(to[at + size], 0x55);
	}
}
END_TEST

START_TEST(moves_by_any_distance)
{
	enum { FROM = 2 * PAD, SIZE = 5001 };
	char room[SIZE + 2 * FROM], want[SIZE];

	for (size_t to = 0; to < 2 * FROM; to++) {
		fill(room, sizeof(room));
		memcpy(want, room + FROM, SIZE);
		ddp__move(room + to, room + FROM, SIZE);
		ck_assert(memcmp(room + to, want, SIZE) == 0);
	}
}
END_TEST

START_TEST(stores_are_measured_now_and_then)
{
	static char from[4096], to[4096];
	struct ddp__put p = {0, 0, 0};
	int looked = 0;

	for (int i = 0; i < 1000; i++)
		ddp__put(&p, to, from, 100);
	ck_assert_uint_eq(p.until, 0);
	for (int i = 0; i < 1000; i++) {
		int due = !p.until;

		ddp__put(&p, to, from, sizeof(from));
		looked += due;
	}
	ck_assert_int_ge(looked, 1000 / 65);
}
END_TEST

START_TEST(large_copies_bypass_the_caches)
{
	struct ddp__put near = {0, 0, 0};
	struct ddp__put far = {1, 1, 0};

	ck_assert(!ddp__put_streams(&near, MOST));
	ck_assert(ddp__put_streams(&far, 4096));
	ck_assert(!ddp__put_streams(&far, 16));
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("copy");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, puts_any_size_anywhere, 0, 2);
	tcase_add_loop_test(tc, copies_to_any_place_in_a_page, 0, 4);
	tcase_add_test(tc, moves_by_any_distance);
	tcase_add_test(tc, stores_are_measured_now_and_then);
	tcase_add_test(tc, large_copies_bypass_the_caches);
	return run_case(tc);
}
