/* test_layout.c: which versions of CPython are known, what an interpreter may
 * state about itself, and the line tables that CPython 3.9, 3.10, 3.11 and 3.13
 * made of one function, with the lines that they state themselves. */
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

/* ---- line_table ---- */

/* From this offset up to the next the line is that; -1: the end. */
struct range {
	int from, line;
};

static void check_ranges(enum line_table_kind kind, const unsigned char *table,
			 size_t size, const struct range *r)
{
	for (; r[1].from >= 0; r++) {
		for (int at = r->from; at < r[1].from; at += 2)
			ck_assert_int_eq(line_table_find(kind, table, size, 1,
							 (uint64_t)at),
					 r->line);
	}
}

START_TEST(test_lnotab)
{
	static const unsigned char table[] = {
		0, 2, 6, 1, 2, 255, 6, 3, 2, 1, 2, 1, 2, 1, 2, 254, 6, 5, 12, 4,
	};
	static const struct range ranges[] = {
		{0, 3},	 {6, 4},  {8, 3},   {14, 6},  {16, 7}, {18, 8},
		{20, 9}, {22, 7}, {28, 12}, {40, 16}, {44, 0}, {-1, 0},
	};

	check_ranges(LINE_TABLE_LNOTAB, table, sizeof(table), ranges);
}
END_TEST

START_TEST(test_ranges)
{
	static const unsigned char table[] = {
		6, 2, 2, 1, 6,	 255, 2, 3, 2, 1, 2,
		1, 2, 1, 6, 254, 4,   5, 4, 4, 6, 252,
	};
	static const struct range ranges[] = {
		{0, 3},	  {6, 4},  {8, 3},  {14, 6},  {16, 7},
		{18, 8},  {20, 9}, {22, 7}, {28, 12}, {32, 16},
		{36, 12}, {42, 0}, {-1, 0},
	};
	static const unsigned char none[] = {4, 1, 4, 128, 4, 1};

	check_ranges(LINE_TABLE_RANGES, table, sizeof(table), ranges);
	ck_assert_int_eq(line_table_find(LINE_TABLE_RANGES, none, 6, 1, 4), 0);
	ck_assert_int_eq(line_table_find(LINE_TABLE_RANGES, none, 6, 1, 8), 3);
}
END_TEST

START_TEST(test_locations_of_3_11)
{
	static const unsigned char table[] = {
		128, 0,	  240, 4,   2,	 9,   15,  240, 0,   2,	  9,  15,  216,
		18,  19,  240, 3,   2,	 9,   15,  241, 0,   2,	  9,  15,  244,
		0,   2,	  9,   15,  128, 65,  240, 6,	6,   5,	  14, 216, 12,
		13,  136, 65,  216, 12,	 13,  216, 12,	13,  241, 5,  2,   13,
		15,  244, 0,   2,   13,	 15,  136, 1,	240, 10,  0,  13,  14,
		136, 1,	  136, 1,   248, 136, 65,  136, 1,   136, 5,  136, 5,
		136, 5,	  136, 5,   240, 8,   0,   12,	13,  128, 72,
	};
	static const struct range ranges[] = {
		{0, 1},	 {2, 3},   {6, 4},   {8, 3},  {26, 6},
		{28, 7}, {32, 8},  {34, 9},  {36, 7}, {52, 12},
		{58, 0}, {60, 12}, {72, 16}, {76, 0}, {-1, 0},
	};

	check_ranges(LINE_TABLE_LOCATIONS, table, sizeof(table), ranges);
}
END_TEST

START_TEST(test_locations_of_3_13)
{
	static const unsigned char table[] = {
		128, 0,	  241, 6,  0,	19,  20,  243, 3,   2,	 9,   15, 217,
		18,  19,  136, 81, 220, 12,  13,  247, 5,   0,	 10,  11, 217,
		18,  19,  240, 3,  0,	5,   6,	  240, 0,   2,	 9,   15, 240,
		6,   6,	  5,   14, 217, 12,  13,  216, 12,  13,	 216, 12, 13,
		243, 5,	  2,   13, 15,	136, 1,	  240, 10,  0,	 13,  14, 136,
		1,   240, 8,   0,  12,	13,  128, 72,  249, 242, 27,  2,  9,
		15,  248, 240, 18, 0,	13,  14,  137, 1,   250,
	};
	static const struct range ranges[] = {
		{0, 1},	  {2, 4},   {6, 3},   {14, 4}, {20, 5}, {30, 3},
		{46, 4},  {50, 3},  {54, 6},  {56, 7}, {60, 8}, {62, 9},
		{64, 7},  {74, 12}, {78, 16}, {82, 0}, {86, 3}, {92, 0},
		{94, 12}, {100, 0}, {106, 0}, {-1, 0},
	};

	check_ranges(LINE_TABLE_LOCATIONS, table, sizeof(table), ranges);
}
END_TEST

/* Memory that changes while it is read may be anything. */
START_TEST(test_garbage_has_some_line_or_none)
{
	unsigned char table[64];
	unsigned seed = 7;

	for (int i = 0; i < 2000; i++) {
		for (size_t k = 0; k < sizeof(table); k++) {
			seed = seed * 1103515245 + 12345;
			table[k] = (unsigned char)(seed >> 16);
		}
		for (int kind = 0; kind <= LINE_TABLE_LOCATIONS; kind++) {
			int line = line_table_find((enum line_table_kind)kind,
						   table, seed % 65, 1,
						   seed % 200);

			ck_assert_int_ge(line, 0);
		}
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("layout");

	tcase_add_test(c, test_known_versions);
	tcase_add_test(c, test_versions_that_state_their_offsets);
	tcase_add_test(c, an_unknown_layout_is_refused);
	tcase_add_test(c, test_lnotab);
	tcase_add_test(c, test_ranges);
	tcase_add_test(c, test_locations_of_3_11);
	tcase_add_test(c, test_locations_of_3_13);
	tcase_add_test(c, test_garbage_has_some_line_or_none);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
