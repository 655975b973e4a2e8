/* test_layout.c: which versions of CPython are known, and what an interpreter
 * may state about itself. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/python/layout.h"
#include "tests/unit/run_case.h"

static uint64_t words[PYTHON_DEBUG_OFFSETS];

/* Every word is its own place, times 8. */
static void state(unsigned minor)
{
	for (unsigned i = 0; i < PYTHON_DEBUG_OFFSETS; i++)
		words[i] = 8 * (uint64_t)i;
	memcpy(words, "xdebugpy", sizeof(*words));
	words[1] = 3u << 24 | minor << 16 | 0xf0;
	/* what is read as one piece is small */
	for (unsigned i = 28; i < 50; i++)
		words[i] = i;
}

START_TEST(test_known_versions)
{
	struct python_layout l;

	for (unsigned minor = 0; minor < 20; minor++)
		ck_assert_int_eq(python_layout_of(&l, minor),
				 minor >= PYTHON_OLDEST && minor <= 12 ? 0
								       : -1);
	ck_assert_int_eq(python_layout_of(&l, 9), 0);
	ck_assert_uint_eq(l.frame_size, 112);
	ck_assert_uint_eq(l.code_size, 128);
}
END_TEST

/* The members of CPython 3.13's and 3.14's struct _Py_DebugOffsets. */
START_TEST(test_versions_that_state_their_offsets)
{
	struct python_layout l;

	state(13);
	ck_assert_int_eq(python_layout_read(&l, words), 0);
	ck_assert_uint_eq(l.minor, 13);
	ck_assert_uint_eq(l.runtime_interpreters, 40);
	ck_assert_uint_eq(l.interp_next, 64);
	ck_assert_uint_eq(l.interp_threads, 72);
	ck_assert_uint_eq(l.gil_locked, 136);
	ck_assert_uint_eq(l.gil_holder, 144);
	ck_assert_uint_eq(l.thread_frame, 184);
	ck_assert_uint_eq(l.thread_native_id, 200);
	ck_assert_uint_eq(l.frame_code, 30);
	ck_assert_uint_eq(l.code_bytes, 43);
	ck_assert_uint_eq(l.bytes_data, 528);
	ck_assert_uint_eq(l.text_ascii, 560);
	state(14);
	ck_assert_int_eq(python_layout_read(&l, words), 0);
	ck_assert_uint_eq(l.gil_locked, 144);
	ck_assert_uint_eq(l.gil_holder, 152);
	ck_assert_uint_eq(l.thread_frame, 208);
	ck_assert_uint_eq(l.frame_code, 33);
	ck_assert_uint_eq(l.code_first_line, 44);
	ck_assert_uint_eq(l.code_bytes, 48);
	ck_assert_uint_eq(l.bytes_size, 600);
	ck_assert_uint_eq(l.text_length, 632);
}
END_TEST

START_TEST(an_unknown_layout_is_refused)
{
	struct python_layout l;

	state(15);
	ck_assert_int_eq(python_layout_read(&l, words), -1);
	ck_assert_uint_eq(l.minor, 15);
	state(12);
	ck_assert_int_eq(python_layout_read(&l, words), -1);
	state(13);
	words[0]++;
	ck_assert_int_eq(python_layout_read(&l, words), -1);
	ck_assert_uint_eq(l.minor, 0);
	/* no interpreter has structures like these */
	for (unsigned i = 28; i < 44; i++) {
		if (i == 28 || i == 32 || i == 34 || i == 36 ||
		    (i >= 40 && i <= 42))
			continue; /* not read */
		state(13);
		words[i] = UINT64_MAX - 4;
		ck_assert_int_eq(python_layout_read(&l, words), -1);
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("layout");

	tcase_add_test(c, test_known_versions);
	tcase_add_test(c, test_versions_that_state_their_offsets);
	tcase_add_test(c, an_unknown_layout_is_refused);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
