/* test_top_screen.c: the screen of `ddprun top` at any size and with any text:
 * what is drawn fits, and nothing from another host acts on the terminal. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/top/top_internal.h"
#include "tests/unit/run_case.h"

static struct job_status job;
static struct top_rows rows;
static struct top_screen screen;
static struct buf out;

static void start(const char *name, size_t n)
{
	top_rows_release(&rows);
	buf_release(&out);
	buf_init(&out, 1 << 24);
	job = (struct job_status){
		.server = "10.0.0.1:29400",
		.as = {.job = SLICE_STR(name), .state = 1, .state_ms = 12000,
		       .max_restarts = 3, .attempt = 1, .joined = 2,
		       .max_nodes = 2, .world_size = (uint32_t)n},
	};
	screen = (struct top_screen){.jobs = 1};
	rows.rows = calloc(n + 1, sizeof(*rows.rows));
	rows.n = n;
	for (uint32_t i = 0; i < n; i++)
		rows.rows[i] = (struct top_row){
			.as = {.rank = i, .pid = 4000 + i, .step = 17,
			       .step_us = 500000, .quiet_ms = 250,
			       .waited = 123, .doing = RANK_CALLS,
			       .call = SLICE_STR("all_reduce #7"),
			       .words = SLICE_STR(""), .cpu = 995,
			       .memory = 12345678},
			.node = 1, .host = SLICE_STR("h2"),
		};
}

static const char *draw(void)
{
	out.len = 0;
	top_screen_put(&out, &screen, &job, &rows);
	buf_put(&out, "", 1);
	ck_assert(!out.failed);
	return out.data;
}

START_TEST(plain_text_has_all_columns)
{
	start("run7", 1);
	rows.rows[0].mark = TOP_SLOW;
	ck_assert_str_eq(
		draw(),
		"job 'run7'  running for 12.0s  attempt 2 of 4\n"
		"2 of 2 nodes  1 workers  1 slow  at 10.0.0.1:29400\n"
		" RANK  NODE HOST              PID DOES           STEP"
		"   RATE/s     AGE  WAITS  CPU%     MEM WHAT\n"
		"    0     1 h2               4000 in call          17"
		"      2.0    0.2s     12   100     12M SLOW: all_reduce #7\n");
}
END_TEST

START_TEST(a_job_of_several_programs_has_a_column_of_roles)
{
	start("run7", 1);
	rows.has_roles = 1;
	rows.rows[0].role = SLICE_STR("learner");
	ck_assert_ptr_nonnull(strstr(draw(), "\n RANK ROLE        NODE HOST"));
	ck_assert_ptr_nonnull(strstr(draw(), "\n    0 learner        1 h2 "));
	screen.columns = 43;
	screen.lines = 9;
	ck_assert_ptr_null(strstr(draw(), "learner"));
	screen.columns = 44;
	ck_assert_ptr_nonnull(strstr(draw(), "learner"));
}
END_TEST

START_TEST(unknown_values_are_dashes)
{
	start("run7", 1);
	rows.rows[0] = (struct top_row){
		.as = {.step = -1, .waited = -1, .doing = 99, .cpu = -1,
		       .memory = -1, .words = SLICE_STR("")},
		.node = -1, .host = SLICE_STR(""),
	};
	ck_assert_ptr_nonnull(strstr(
		draw(), "    0     -                     0 ?                 -"
			"        -    0.0s      -     -       - \n"));
}
END_TEST

START_TEST(what_a_job_waits_for_and_its_last_end_are_shown)
{
	start("run7", 0);
	job.as.text = SLICE_STR("1 of 2 nodes: node 1");
	job.as.cause = SLICE_STR("rank 3 exited with code 1");
	ck_assert_ptr_nonnull(
		strstr(draw(), "\nwaiting for 1 of 2 nodes: node 1\n"
			       "the last round ended: rank 3 exited with code "
			       "1\n"));
}
END_TEST

/* What a terminal shows: a grid. Fails on a control sequence that top does not
 * use, on a write beyond the last column, and on a newline on the last line. */
struct grid {
	int columns, lines, x, y, styles;
	char cell[64][256];
};

static const char *grid_sequence(struct grid *g, const char *p)
{
	int a = 0, b = 0, n = 0;

	ck_assert_int_eq(*p++, '[');
	if (sscanf(p, "%d;%dH%n", &a, &b, &n) == 2 && n) {
		g->y = a - 1;
		g->x = b - 1;
		return p + n;
	}
	if (*p == 'H') {
		g->x = g->y = 0;
		return p + 1;
	}
	if (*p == 'K')
		memset(&g->cell[g->y][g->x], ' ', (size_t)(256 - g->x));
	else if (*p == 'J')
		for (int y = g->y; y < 64; y++)
			memset(&g->cell[y][y == g->y ? g->x : 0], ' ',
			       (size_t)(256 - (y == g->y ? g->x : 0)));
	else {
		while (*p >= '0' && *p <= '9')
			p++;
		ck_assert_int_eq(*p, 'm');
		g->styles++;
	}
	return p + 1;
}

static void grid_put(struct grid *g, const char *p)
{
	while (*p) {
		unsigned char c = (unsigned char)*p++;

		if (c < ' ' && c != 27 && c != '\r' && c != '\n')
			ck_abort_msg("byte %d", c);
		if (c == 27) {
			p = grid_sequence(g, p);
		} else if (c == '\r') {
			g->x = 0;
		} else if (c == '\n') {
			ck_assert_int_lt(++g->y, g->lines);
		} else if ((c & 0xc0) != 0x80) {
			if (g->x >= g->columns)
				ck_abort_msg("beyond column %d", g->columns);
			g->cell[g->y][g->x++] = (char)(c < 0x80 ? c : 'U');
		}
	}
}

START_TEST(each_size_of_a_terminal_is_respected)
{
	static struct grid g;

	start("a job whose name is longer than a narrow terminal is wide", 50);
	job.as.text = SLICE_STR("something with a long description, longer than"
				" some terminals");
	screen.color = 1;
	rows.rows[0].mark = TOP_QUIET;
	for (int columns = 1; columns <= 200; columns += 11)
		for (int lines = 2; lines <= 60; lines += 7) {
			g = (struct grid){.columns = columns, .lines = lines};
			screen.columns = columns;
			screen.lines = lines;
			grid_put(&g, draw());
			ck_assert_int_eq(g.y, lines - 1);
		}
}
END_TEST

START_TEST(rows_scroll_and_the_last_page_is_full)
{
	static struct grid g = {.columns = 80, .lines = 24};

	start("run7", 100);
	screen.columns = 80;
	screen.lines = 24;
	screen.first = 40;
	grid_put(&g, draw());
	ck_assert_int_eq(memcmp(g.cell[3], "   40 ", 6), 0);
	ck_assert_int_eq(memcmp(g.cell[22], "   59 ", 6), 0);
	ck_assert_int_eq(memcmp(g.cell[23], "q quit", 6), 0);
	screen.first = 95;
	grid_put(&g, draw());
	ck_assert_int_eq(memcmp(g.cell[3], "   80 ", 6), 0);
	ck_assert_int_eq(memcmp(g.cell[22], "   99 ", 6), 0);
}
END_TEST

START_TEST(narrow_terminals_show_the_rank_and_what_it_does)
{
	static struct grid g = {.columns = 20, .lines = 10};

	start("run7", 3);
	screen.columns = 20;
	screen.lines = 10;
	grid_put(&g, draw());
	ck_assert_int_eq(memcmp(g.cell[2], " RANK DOES          ", 20), 0);
	ck_assert_int_eq(memcmp(g.cell[3], "    0 in call       ", 20), 0);
}
END_TEST

START_TEST(without_color_there_is_no_style)
{
	static struct grid g = {.columns = 80, .lines = 24};

	start("run7", 3);
	rows.rows[1].mark = TOP_SLOW;
	screen.columns = 80;
	screen.lines = 24;
	grid_put(&g, draw());
	ck_assert_int_eq(g.styles, 0);
	screen.color = 1;
	grid_put(&g, draw());
	ck_assert_int_gt(g.styles, 0);
}
END_TEST

/* a name, and how it is drawn */
static const struct {
	const char *name, *shown;
} names[] = {
	{"a\033[2Jb", "'a?[2Jb'"},   {"\r\n\t", "'?\?\?'"},
	{"\302\233" "1m", "'?1m'"}, /* C1's CSI */
	{"\377\300\200", "'?\?\?'"},   {"\303\244", "'\303\244'"},
	{"\342\200\256x", "'?x'"}, /* right to left */
	{"\355\240\200", "'?\?\?'"}, /* half of a pair */
	{"\346\227\245", "'\346\227\245'"},
};

START_TEST(text_of_other_hosts_cannot_act_on_the_terminal)
{
	start(names[_i].name, 1);
	rows.rows[0].as.call = SLICE_STR(names[_i].name);
	rows.rows[0].host = SLICE_STR(names[_i].name);
	ck_assert_ptr_nonnull(strstr(draw(), names[_i].shown));
	for (const char *p = out.data; *p; p++)
		if (*p != '\n' && (unsigned char)*p < ' ')
			ck_abort_msg("byte %d", *p);
}
END_TEST

START_TEST(thousand_ranks_are_one_screen)
{
	static struct grid g = {.columns = 120, .lines = 40};

	start("run7", 4096);
	screen.columns = 120;
	screen.lines = 40;
	grid_put(&g, draw());
	ck_assert_uint_lt(out.len, 40 * 160);
}
END_TEST

/* ---- the last lines of a rank ---- */

static struct job_output output;

static void show_output(const char *stdout_text, const char *stderr_text,
			const char *why)
{
	const struct wire_node_dump m = {
		.host = SLICE_STR("h2"), .text = SLICE_STR(why),
		.out = SLICE_STR(stdout_text), .err = SLICE_STR(stderr_text),
	};

	job_output_release(&output);
	ck_assert_int_eq(job_output_init(&output, 5, &m), 0);
	screen.output = &output;
}

/* What follows the only row. */
static const char *draw_below(void)
{
	const char *at = strstr(draw(), "\n    0     1 h2 ");

	ck_assert_ptr_nonnull(at);
	return strchr(at + 1, '\n') + 1;
}

START_TEST(the_last_lines_follow_the_rows)
{
	start("run7", 1);
	show_output("one\ntwo\n", "", "");
	ck_assert_str_eq(draw_below(),
			 "rank 5 on h2: last lines of stdout\none\ntwo\n");
	show_output("one\n", "two\nnot ended", "");
	ck_assert_str_eq(draw_below(),
			 "rank 5 on h2: last lines of stdout\none\n"
			 "rank 5 on h2: last lines of stderr\ntwo\n"
			 "not ended\n");
	show_output("", "", "");
	ck_assert_str_eq(draw_below(), "rank 5 on h2: no output so far\n");
	show_output("", "", "it is gone");
	ck_assert_str_eq(draw_below(), "rank 5 on h2: no lines\nit is gone\n");
}
END_TEST

START_TEST(they_take_at_most_half_of_the_room_and_the_newest_lines)
{
	static struct grid g = {.columns = 80, .lines = 24};

	start("run7", 100);
	screen.columns = 80;
	screen.lines = 24;
	show_output("o1\no2\no3\no4\no5\no6\no7\no8\no9\n",
		    "e1\ne2\ne3\ne4\ne5\ne6\ne7\ne8\ne9\n", "");
	grid_put(&g, draw());
	ck_assert_int_eq(memcmp(g.cell[12], "    9 ", 6), 0);
	ck_assert_int_eq(memcmp(g.cell[13], "rank 5 on h2: ", 14), 0);
	ck_assert_int_eq(memcmp(g.cell[14], "o6", 2), 0);
	ck_assert_int_eq(memcmp(g.cell[17], "o9", 2), 0);
	ck_assert_int_eq(memcmp(g.cell[18], "rank 5 on h2: ", 14), 0);
	ck_assert_int_eq(memcmp(g.cell[19], "e6", 2), 0);
	ck_assert_int_eq(memcmp(g.cell[22], "e9", 2), 0);
	ck_assert_int_eq(memcmp(g.cell[23], "q quit", 6), 0);
	/* a short stream leaves its room to the other */
	show_output("o1\no2\no3\no4\no5\no6\no7\no8\no9\n", "e1\n", "");
	grid_put(&g, draw());
	ck_assert_int_eq(memcmp(g.cell[14], "o3", 2), 0);
	ck_assert_int_eq(memcmp(g.cell[20], "o9", 2), 0);
	ck_assert_int_eq(memcmp(g.cell[22], "e1", 2), 0);
	/* and both what they do not need to the rows */
	show_output("o1\n", "", "");
	grid_put(&g, draw());
	ck_assert_int_eq(memcmp(g.cell[20], "   17 ", 6), 0);
	ck_assert_int_eq(memcmp(g.cell[22], "o1", 2), 0);
}
END_TEST

START_TEST(they_fit_any_terminal)
{
	static struct grid g;

	start("run7", 30);
	job.as.text = job.as.cause = SLICE_STR("something");
	show_output("o1\no2\no3\no4\no5\no6\no7\no8\n\xff\x7f\n",
		    "a long line, longer than a narrow terminal has columns\n",
		    "why");
	screen.columns = 20;
	for (int lines = 2; lines < 40; lines++) {
		g = (struct grid){.columns = 20, .lines = lines};
		screen.lines = lines;
		grid_put(&g, draw());
		ck_assert_int_eq(g.y, lines - 1);
		ck_assert_int_eq(memcmp(g.cell[0], "job 'run7'", 10), 0);
	}
}
END_TEST

#define COUNT(a) (int)(sizeof(a) / sizeof(*(a)))

int main(void)
{
	TCase *c = tcase_create("top_screen");

	tcase_add_test(c, plain_text_has_all_columns);
	tcase_add_test(c, a_job_of_several_programs_has_a_column_of_roles);
	tcase_add_test(c, unknown_values_are_dashes);
	tcase_add_test(c, what_a_job_waits_for_and_its_last_end_are_shown);
	tcase_add_test(c, each_size_of_a_terminal_is_respected);
	tcase_add_test(c, rows_scroll_and_the_last_page_is_full);
	tcase_add_test(c, narrow_terminals_show_the_rank_and_what_it_does);
	tcase_add_test(c, without_color_there_is_no_style);
	tcase_add_loop_test(c, text_of_other_hosts_cannot_act_on_the_terminal,
			    0, COUNT(names));
	tcase_add_test(c, thousand_ranks_are_one_screen);
	tcase_add_test(c, the_last_lines_follow_the_rows);
	tcase_add_test(
		c, they_take_at_most_half_of_the_room_and_the_newest_lines);
	tcase_add_test(c, they_fit_any_terminal);
	return run_case(c);
}
