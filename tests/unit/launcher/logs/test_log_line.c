/* test_log_line.c: times and levels of the lines that programs write. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "launcher/logs/log_line.h"
#include "tests/unit/run_case.h"

/* 2026-11-29 12:00:00 UTC */
enum { NEAR = 1795953600 };

static void begin(void)
{
	setenv("TZ", "UTC-2", 1); /* two hours ahead */
	tzset();
}

static int64_t time_of(const char *text)
{
	return line_time_of(SLICE_STR(text), NEAR);
}

/* A time of this day in UTC, in ns. */
static int64_t at(int hour, int minute, int second, int ms)
{
	int64_t day = NEAR - NEAR % 86400;

	return ((day + hour * 3600 + minute * 60 + second) * 1000 + ms) *
	       1000000;
}

START_TEST(times_with_a_date)
{
	ck_assert_int_eq(time_of("2026-11-29 10:20:30,123 INFO x"),
			 at(8, 20, 30, 123));
	ck_assert_int_eq(time_of("[2026-11-29T10:20:30.5Z] x"),
			 at(10, 20, 30, 500));
	ck_assert_int_eq(time_of("2026-11-29 10:20:30+05:30 x"),
			 at(4, 50, 30, 0));
	ck_assert_int_eq(time_of("INFO 2026/11/29 10:20:30 -0100"),
			 at(8, 20, 30, 0));
	ck_assert_int_eq(time_of("2026-11-29 10:20:30-0100"),
			 at(11, 20, 30, 0));
}
END_TEST

START_TEST(times_without_a_year_or_a_day)
{
	ck_assert_int_eq(time_of("I1129 10:20:30.250000 12 x.cc:3] x"),
			 at(8, 20, 30, 250));
	ck_assert_int_eq(time_of("[rank0]:[W1129 10:20:30.250000000 x"),
			 at(8, 20, 30, 250));
	ck_assert_int_eq(time_of("10:20:30 x"), at(8, 20, 30, 0));
}
END_TEST

START_TEST(other_lines_have_no_time)
{
	static const char *const lines[] = {
		"", "x", "2026-11-29", "2026-11-29 10:20", "eta 1:02:03",
		"2026-13-29 10:20:30", "2026-11-29 24:20:30", "25:20:30",
		"110:20:30", "10:20:30:40", "X1129 10:20:3",
		("a line whose time is far from its beginning, and so no time "
		 "of it: 2026-11-29 10:20:30"),
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		ck_assert_msg(time_of(lines[i]) == -1, "%s", lines[i]);
}
END_TEST

START_TEST(levels)
{
	static const struct {
		const char *line;
		enum line_level level;
	} list[] = {
		{"2026-11-29 10:20:30,123 DEBUG x", LINE_DEBUG},
		{"INFO:root:step", LINE_INFO},
		{"[WARNING] odd", LINE_WARNING},
		{"W1129 10:20:30.25 12 x.cc:3] odd", LINE_WARNING},
		{"x.py:3: UserWarning: odd", LINE_WARNING},
		{"train.c:3: error: bad", LINE_ERROR},
		{"Traceback (most recent call last):", LINE_ERROR},
		{"E1129 10:20:30 1 x] bad", LINE_ERROR},
		{"CRITICAL bad", LINE_FATAL},
		{"F1129 10:20:30 1 x] bad", LINE_FATAL},
		{"TERRORS and INFORMATION", LINE_UNKNOWN},
		{"NO_ERROR", LINE_UNKNOWN},
		{"step 3 loss 0.5", LINE_UNKNOWN},
		{"", LINE_UNKNOWN},
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++)
		ck_assert_msg(line_level_of(SLICE_STR(list[i].line)) ==
				      list[i].level, "%s", list[i].line);
	ck_assert_int_eq(line_level_named("warn"), LINE_WARNING);
	ck_assert_int_eq(line_level_named("Critical"), LINE_FATAL);
	ck_assert_int_eq(line_level_named("loud"), LINE_UNKNOWN);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("log_line");

	tcase_add_checked_fixture(c, begin, NULL);
	tcase_add_test(c, times_with_a_date);
	tcase_add_test(c, times_without_a_year_or_a_day);
	tcase_add_test(c, other_lines_have_no_time);
	tcase_add_test(c, levels);
	return run_case(c);
}
