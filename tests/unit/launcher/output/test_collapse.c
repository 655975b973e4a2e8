/* test_collapse.c: merges identical lines of many ranks. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher/output/collapse.h"
#include "tests/unit/run_case.h"

static struct buf seen = BUF_INIT(1 << 20);
static struct collapse c;

static void see(void *arg, const struct collapse_line *line)
{
	buf_put(&seen, "[", 1);
	collapse_put_ranks(&seen, &c, line, *(uint32_t *)arg);
	buf_put(&seen, "] ", 2);
	if (line->text.len)
		buf_put(&seen, line->text.data, line->text.len);
	buf_put(&seen, "|", 1);
}

static void begin(uint32_t n, uint32_t *base)
{
	buf_reset(&seen);
	ck_assert_int_eq(collapse_init(&c, n, see, base), 0);
	for (uint32_t i = 0; i < n; i++)
		collapse_open(&c, i);
}

static const char *text(void)
{
	buf_put(&seen, "", 1);
	seen.len--;
	return seen.data;
}

static void say(uint32_t i, const char *what, uint64_t now)
{
	collapse_add(&c, i, SLICE_STR(what), 0, now);
}

START_TEST(a_line_of_all_ranks_is_printed_at_once)
{
	uint32_t base = 4;

	begin(3, &base);
	say(1, "hi", 0);
	say(0, "hi", 1);
	ck_assert_str_eq(text(), "");
	say(2, "hi", 2);
	ck_assert_str_eq(text(), "[4-6] hi|");
	collapse_release(&c);
}
END_TEST

START_TEST(a_line_waits_for_a_bounded_time)
{
	uint32_t base = 0;
	uint64_t until = 0;

	begin(9, &base);
	ck_assert(!collapse_holds(&c, &until));
	for (uint32_t i = 0; i < 9; i++) {
		if (i != 1 && i != 3 && i != 4 && i != 8)
			say(i, "x", 50);
	}
	ck_assert(collapse_holds(&c, &until));
	ck_assert_uint_eq(until, 50 + COLLAPSE_HOLD_MS);
	collapse_expire(&c, until - 1);
	ck_assert_str_eq(text(), "");
	collapse_expire(&c, until);
	ck_assert_str_eq(text(), "[0,2,5-7] x|");
	/* late, but not lost */
	say(1, "x", until);
	collapse_flush(&c);
	ck_assert_str_eq(text(), "[0,2,5-7] x|[1] x|");
	collapse_release(&c);
}
END_TEST

START_TEST(an_ended_rank_is_not_waited_for)
{
	uint32_t base = 0;

	begin(3, &base);
	say(0, "a", 0);
	say(1, "a", 0);
	collapse_close(&c, 0);
	ck_assert_str_eq(text(), "");
	collapse_close(&c, 2);
	ck_assert_str_eq(text(), "[0-1] a|");
	say(1, "b", 0);
	ck_assert_str_eq(text(), "[0-1] a|[1] b|");
	collapse_release(&c);
}
END_TEST

START_TEST(a_rank_that_repeats_itself_is_not_one_line)
{
	uint32_t base = 0;

	begin(2, &base);
	say(0, "x", 0);
	say(0, "x", 0);
	say(1, "x", 0);
	ck_assert_str_eq(text(), "[0-1] x|");
	say(1, "y", 0);
	collapse_flush(&c);
	ck_assert_str_eq(text(), "[0-1] x|[0] x|[1] y|");
	collapse_release(&c);
}
END_TEST

START_TEST(pieces_of_long_lines_are_not_whole_lines)
{
	uint32_t base = 0;

	begin(2, &base);
	collapse_add(&c, 0, SLICE_STR("x"), 1, 0);
	collapse_add(&c, 1, SLICE_STR("x"), 0, 0);
	collapse_flush(&c);
	ck_assert_str_eq(text(), "[0] x|[1] x|");
	collapse_release(&c);
}
END_TEST

START_TEST(held_lines_are_bounded)
{
	uint32_t base = 0;
	static char big[64 << 10];

	begin(2, &base);
	for (int i = 0; i < 1000; i++) {
		char line[32];

		snprintf(line, sizeof(line), "%d", i);
		say(0, line, 0);
		ck_assert_uint_le(c.next - c.first, COLLAPSE_LINES);
	}
	collapse_flush(&c);
	memset(big, 'b', sizeof(big));
	for (int i = 0; i < 20; i++) {
		big[0] = (char)('a' + i);
		collapse_add(&c, 0, SLICE(big, sizeof(big)), 0, 0);
		ck_assert_uint_le(c.bytes, COLLAPSE_BYTES);
		buf_reset(&seen);
	}
	collapse_release(&c);
}
END_TEST

/* ---- no line is lost or invented, each rank's order is kept */

enum { RANKS = 5, SAID = 400, WORDS = 3 };

static unsigned int seed;
static unsigned char said[RANKS][SAID], heard[RANKS][SAID];
static int n_said[RANKS], n_heard[RANKS];

static unsigned int draw(unsigned int below)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % below;
}

static void hear(void *arg, const struct collapse_line *line)
{
	int any = 0;

	for (uint32_t i = 0; i < RANKS; i++) {
		if (!(line->who[0] >> i & 1))
			continue;
		any = 1;
		ck_assert_int_lt(n_heard[i], n_said[i] + 1);
		heard[i][n_heard[i]++] = (unsigned char)line->text.data[0];
	}
	ck_assert(any);
}

static void talk(unsigned int start)
{
	uint64_t now = 0;

	seed = start;
	memset(n_said, 0, sizeof(n_said));
	memset(n_heard, 0, sizeof(n_heard));
	ck_assert_int_eq(collapse_init(&c, RANKS, hear, NULL), 0);
	for (uint32_t i = 0; i < RANKS; i++)
		collapse_open(&c, i);
	for (int step = 0; step < RANKS * SAID; step++) {
		uint32_t i = draw(RANKS);
		char word = (char)('a' + draw(WORDS));

		if (n_said[i] == SAID)
			continue;
		said[i][n_said[i]++] = (unsigned char)word;
		collapse_add(&c, i, SLICE(&word, 1), 0, now);
		now += draw(3) * (start % 50);
		if (draw(4) == 0)
			collapse_expire(&c, now);
	}
	for (uint32_t i = 0; i < RANKS; i++)
		collapse_close(&c, i);
	for (uint32_t i = 0; i < RANKS; i++) {
		ck_assert_int_eq(n_heard[i], n_said[i]);
		ck_assert_mem_eq(heard[i], said[i], (size_t)n_said[i]);
	}
	collapse_release(&c);
}

START_TEST(in_any_order_no_line_is_lost_or_invented)
{
	for (unsigned int start = 1; start <= 300; start++)
		talk(start);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("all");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_line_of_all_ranks_is_printed_at_once);
	tcase_add_test(tc, a_line_waits_for_a_bounded_time);
	tcase_add_test(tc, an_ended_rank_is_not_waited_for);
	tcase_add_test(tc, a_rank_that_repeats_itself_is_not_one_line);
	tcase_add_test(tc, pieces_of_long_lines_are_not_whole_lines);
	tcase_add_test(tc, held_lines_are_bounded);
	tcase_add_test(tc, in_any_order_no_line_is_lost_or_invented);
	return run_case(tc);
}
