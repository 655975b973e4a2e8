/* log_line.c: looks for the usual forms at each place of the line's start. */
#include "launcher/logs/log_line.h"

#include <string.h>
#include <strings.h>

enum { LEVEL_WITHIN = 100, TIME_WITHIN = 64 };

static int line_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int line_is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Whether s fits the pattern, where d is a digit and each other character
 * itself. */
static int line_fits(struct slice s, size_t at, const char *pattern)
{
	for (; *pattern; pattern++, at++) {
		if (at >= s.len)
			return 0;
		if (*pattern == 'd' ? !line_is_digit(s.data[at])
				    : s.data[at] != *pattern)
			return 0;
	}
	return 1;
}

static int line_number(struct slice s, size_t at, int digits)
{
	int n = 0;

	while (digits-- > 0)
		n = n * 10 + (s.data[at++] - '0');
	return n;
}

/* ---- levels ---- */

static const struct {
	const char *word;
	enum line_level level;
} line_words[] = {
	{"DEBUG", LINE_DEBUG},	    {"INFO", LINE_INFO},
	{"WARNING", LINE_WARNING},  {"WARN", LINE_WARNING},
	{"ERROR", LINE_ERROR},	    {"FATAL", LINE_FATAL},
	{"CRITICAL", LINE_FATAL},   {"error:", LINE_ERROR},
	{"warning:", LINE_WARNING}, {"Warning:", LINE_WARNING},
};

enum line_level line_level_named(const char *name)
{
	for (size_t i = 0; i < sizeof(line_words) / sizeof(*line_words); i++)
		if (!strcasecmp(name, line_words[i].word))
			return line_words[i].level;
	return LINE_UNKNOWN;
}

/* "W1129 18:43:53" */
static int line_is_glog(struct slice s, size_t at)
{
	return at + 1 < s.len && memchr("IWEF", s.data[at], 4) &&
	       line_fits(s, at + 1, "dddd dd:dd:dd") &&
	       (at == 0 || !line_is_letter(s.data[at - 1]));
}

static int line_has_word(struct slice s, size_t at, const char *word)
{
	size_t n = strlen(word);
	char after;

	if (n > s.len - at || memcmp(s.data + at, word, n) != 0)
		return 0;
	/* "UserWarning:" counts; "TERRORS" does not */
	if (at && word[n - 1] != ':' && line_is_letter(s.data[at - 1]))
		return 0;
	after = at + n < s.len ? s.data[at + n] : ' ';
	return word[n - 1] == ':' || !line_is_letter(after);
}

enum line_level line_level_of(struct slice s)
{
	static const char traceback[] = "Traceback (most recent call last)";
	static const enum line_level letters[] = {
		['I'] = LINE_INFO, ['W'] = LINE_WARNING, ['E'] = LINE_ERROR,
		['F'] = LINE_FATAL};

	if (s.len > LEVEL_WITHIN)
		s.len = LEVEL_WITHIN;
	for (size_t at = 0; at < s.len; at++) {
		if (line_is_glog(s, at))
			return letters[(int)s.data[at]];
		for (size_t i = 0; i < sizeof(line_words) / sizeof(*line_words);
		     i++)
			if (line_has_word(s, at, line_words[i].word))
				return line_words[i].level;
		if (line_has_word(s, at, traceback))
			return LINE_ERROR;
	}
	return LINE_UNKNOWN;
}

/* ---- times ---- */

/* ",123" or ".123456789", into ns; *at is moved behind it. */
static int64_t line_fraction(struct slice s, size_t *at)
{
	int64_t ns = 0, unit = 100000000;
	size_t i = *at;

	if (i + 1 >= s.len || (s.data[i] != '.' && s.data[i] != ',') ||
	    !line_is_digit(s.data[i + 1]))
		return 0;
	for (i++; i < s.len && line_is_digit(s.data[i]); i++, unit /= 10)
		ns += unit * (s.data[i] - '0');
	*at = i;
	return ns;
}

/* Sets *offset to the seconds that the zone at `at` is ahead of UTC; 0: there
 * is no zone. */
static int line_zone(struct slice s, size_t at, int *offset)
{
	int colon, sign;

	*offset = 0;
	if (at < s.len && s.data[at] == 'Z')
		return 1;
	if (at >= s.len || (s.data[at] != '+' && s.data[at] != '-'))
		return 0;
	colon = line_fits(s, at + 1, "dd:dd");
	if (!colon && !line_fits(s, at + 1, "dddd"))
		return 0;
	sign = s.data[at] == '-' ? -1 : 1;
	*offset = sign * (line_number(s, at + 1, 2) * 3600 +
			  line_number(s, at + 3 + (size_t)colon, 2) * 60);
	return 1;
}

/* The time of day at `at`, "dd:dd:dd", on the day in t; to its end. */
static int64_t line_time_at(struct slice s, size_t at, struct tm *t)
{
	int64_t seconds, ns;
	int offset;

	t->tm_hour = line_number(s, at, 2);
	t->tm_min = line_number(s, at + 3, 2);
	t->tm_sec = line_number(s, at + 6, 2);
	if (t->tm_hour > 23 || t->tm_min > 59 || t->tm_sec > 60)
		return -1;
	at += 8;
	ns = line_fraction(s, &at);
	if (line_zone(s, at, &offset)) {
		seconds = timegm(t) - offset;
	} else {
		t->tm_isdst = -1;
		seconds = mktime(t);
	}
	return seconds < 0 ? -1 : seconds * 1000000000 + ns;
}

static int64_t line_date_at(struct slice s, size_t at)
{
	struct tm t = {.tm_year = line_number(s, at, 4) - 1900,
		       .tm_mon = line_number(s, at + 5, 2) - 1,
		       .tm_mday = line_number(s, at + 8, 2)};

	if (t.tm_year < 70 || t.tm_mon < 0 || t.tm_mon > 11 || t.tm_mday < 1 ||
	    t.tm_mday > 31)
		return -1;
	return line_time_at(s, at + 11, &t);
}

int64_t line_time_of(struct slice s, time_t near)
{
	struct tm t;

	for (size_t at = 0; at < s.len && at < TIME_WITHIN; at++) {
		if (at && (line_is_digit(s.data[at - 1]) ||
			   s.data[at - 1] == ':'))
			continue;
		if (line_fits(s, at, "dddd-dd-dd dd:dd:dd") ||
		    line_fits(s, at, "dddd-dd-ddTdd:dd:dd") ||
		    line_fits(s, at, "dddd/dd/dd dd:dd:dd"))
			return line_date_at(s, at);
		if (line_is_glog(s, at) && localtime_r(&near, &t)) {
			t.tm_mon = line_number(s, at + 1, 2) - 1;
			t.tm_mday = line_number(s, at + 3, 2);
			return line_time_at(s, at + 6, &t);
		}
		if (line_fits(s, at, "dd:dd:dd") && localtime_r(&near, &t) &&
		    (at + 8 >= s.len || s.data[at + 8] != ':'))
			return line_time_at(s, at, &t);
	}
	return -1;
}
