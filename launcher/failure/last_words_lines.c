/* last_words_lines.c: a worker's last lines, without the prefixes,
 * margins and boxes around them; and which lines only follow the sentence that
 * counts: banners, usage, backtraces. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "launcher/failure/last_words_internal.h"

enum {
	PREFIX_MAX = 120,
	ESC = 0x1b,
	METER_BYTES = 40,
	RULE_BYTES = 10,
};

static const char traceback_line[] = "Traceback (most recent call last):";

/* torch.distributed prefixes each line of a traceback with "[rank3]: ". */
static struct slice last_words_without_rank(struct slice s)
{
	size_t n = strlen("[rank");

	if (!slice_begins(s, "[rank"))
		return s;
	while (n < s.len && isdigit((unsigned char)s.data[n]))
		n++;
	if (n == strlen("[rank") || !slice_begins(slice_skip(s, n), "]:"))
		return s;
	n += strlen("]:");
	if (n < s.len && s.data[n] == ' ')
		n++;
	return slice_skip(s, n);
}

/* The lines of an exception group have a margin: "  | ", or deeper. */
static struct slice last_words_without_margin(struct slice s)
{
	size_t n = 0;

	while (n < s.len && s.data[n] == ' ')
		n++;
	if (n < 2 || n + 1 >= s.len || s.data[n] != '|' ||
	    s.data[n + 1] != ' ')
		return s;
	return slice_skip(s, n + 2);
}

/* "  +-+------- 2 -------", between the exceptions of a group. */
static int last_words_is_rule(struct slice s)
{
	size_t n = 0;

	while (n < s.len && s.data[n] == ' ')
		n++;
	s = slice_skip(s, n);
	return n >= 2 && (slice_begins(s, "+-+--") || slice_begins(s, "+----"));
}

/* How many bytes at the front of s look like prefix, with whatever digits; 0
 * if s differs. Loggers prefix each line of a traceback so. */
static size_t last_words_like(struct slice s, struct slice prefix)
{
	size_t n = 0;

	for (size_t i = 0; i < prefix.len; i++) {
		if (isdigit((unsigned char)prefix.data[i])) {
			if (i && isdigit((unsigned char)prefix.data[i - 1]))
				continue;
			if (n >= s.len || !isdigit((unsigned char)s.data[n]))
				return 0;
			while (n < s.len && isdigit((unsigned char)s.data[n]))
				n++;
		} else if (n < s.len && s.data[n] == prefix.data[i]) {
			n++;
		} else {
			return 0;
		}
	}
	return n;
}

/* Takes the prefix of a traceback from each of its lines. */
static void last_words_strip_prefix(struct last_words_lines *ls)
{
	struct slice prefix = SLICE_STR("");

	for (int i = 0; i < ls->n; i++) {
		struct slice *s = &ls->line[i];
		const char *at = slice_find(*s, traceback_line);

		if (at && at - s->data <= PREFIX_MAX)
			prefix = SLICE(s->data, (size_t)(at - s->data));
		else if (at) /* behind a progress bar */
			*s = slice_skip(*s, (size_t)(at - s->data));
		if (prefix.len && last_words_like(*s, prefix) < s->len)
			*s = slice_skip(*s, last_words_like(*s, prefix));
	}
}

/* A character that draws a box: U+2500 to U+257F, UTF-8. */
static int last_words_is_drawn(const char *c)
{
	return c[0] == '\xe2' && (c[1] == '\x94' || c[1] == '\x95');
}

/* "╭─ Error ───╮": the title of a box says less than what is in it. */
static int last_words_is_title(struct slice s)
{
	static const char *const corners[] = {"╭", "┌", "┏", "╔"};

	if (s.len < 6 || !last_words_is_drawn(s.data + s.len - 3) ||
	    slice_has(s, "Traceback"))
		return 0;
	for (size_t i = 0; i < sizeof(corners) / sizeof(*corners); i++)
		if (slice_begins(s, corners[i]))
			return 1;
	return 0;
}

/* "│ No such option │", "|   internal error in X   |", "*  bad key  *" */
static struct slice last_words_without_box(struct slice s)
{
	struct slice in = s;
	int is_box = 0;
	size_t n;

	while (in.len >= 3 && last_words_is_drawn(in.data + in.len - 3)) {
		in.len -= 3;
		is_box = 1;
	}
	n = 0;
	while (n < in.len && in.data[n] == ' ')
		n++;
	if (!is_box && in.len > n + 1 && strchr("|*", in.data[n]) &&
	    in.data[in.len - 1] == in.data[n] && in.data[n + 1] == ' ') {
		in.len--;
		n++;
		is_box = 1;
	}
	if (!is_box)
		return s;
	in = slice_skip(in, n);
	while (in.len && (in.data[0] == ' ' || (in.len >= 3 &&
						last_words_is_drawn(in.data))))
		in = slice_skip(in, in.data[0] == ' ' ? 1 : 3);
	while (in.len && isspace((unsigned char)in.data[in.len - 1]))
		in.len--;
	return in;
}

/* Without the numbers of a meter, which curl does not end with a newline. */
static struct slice last_words_without_meter(struct slice s)
{
	size_t n = 0;

	while (n < s.len && (isdigit((unsigned char)s.data[n]) ||
			     strchr(" \t-:.%", s.data[n])))
		n++;
	return n >= METER_BYTES && n < s.len ? slice_skip(s, n) : s;
}

/* How many bytes the escape sequence at c has (ECMA-48): colours and movements,
 * "ESC [ ... letter"; titles and links, "ESC ] ... BEL" or "ESC ] ... ESC \\";
 * others, "ESC letter". */
static size_t last_words_escape(const char *c, size_t n)
{
	size_t i = 2;

	if (n < 2 || (c[1] != '[' && c[1] != ']'))
		return n < 2 ? n : 2;
	if (c[1] == '[') {
		while (i < n && (unsigned char)c[i] < 0x40 && c[i] != '\n')
			i++;
		return i < n && c[i] != '\n' ? i + 1 : i;
	}
	while (i < n && c[i] != '\a' && c[i] != ESC && c[i] != '\n')
		i++;
	if (i + 1 < n && c[i] == ESC && c[i + 1] == '\\')
		return i + 2;
	return i < n && c[i] == '\a' ? i + 1 : i;
}

/* The end of text without escape sequences, and without what a backspace
 * erases. */
static struct slice last_words_plain(struct last_words_lines *ls,
				     struct slice text)
{
	size_t n = 0, at;

	if (!text.len || (!memchr(text.data, ESC, text.len) &&
			  !memchr(text.data, '\b', text.len)))
		return text;
	at = text.len > PLAIN_MAX ? text.len - PLAIN_MAX : 0;
	while (at < text.len) {
		if (text.data[at] == '\b') {
			n -= n && ls->plain[n - 1] != '\n';
			at++;
		} else if (text.data[at] == ESC) {
			at += last_words_escape(text.data + at, text.len - at);
		} else {
			ls->plain[n++] = text.data[at++];
		}
	}
	return SLICE(ls->plain, n);
}

/* "/w/train.py:12: UserWarning: TEXT", of Python's warnings module, which puts
 * the line of the program below it. */
static int last_words_is_warning(struct slice s)
{
	static const char sign[] = "Warning: ";
	const char *at = slice_find(s, sign);

	while (at && at > s.data && isalnum((unsigned char)at[-1]))
		at--;
	return at && at - s.data > 3 && memcmp(at - 2, ": ", 2) == 0 &&
	       isdigit((unsigned char)at[-3]);
}

/* Line i becomes line n. */
static void last_words_move(struct last_words_lines *ls, int n, int i)
{
	ls->line[n] = ls->line[i];
	ls->gap[n] = ls->gap[i];
}

static void last_words_drop_warnings(struct last_words_lines *ls)
{
	int n = 0;

	for (int i = 0; i < ls->n; i++) {
		if (!last_words_is_warning(ls->line[i]))
			last_words_move(ls, n++, i);
		else if (i + 1 < ls->n &&
			 last_words_is_indented(ls->line[i + 1]))
			i++;
	}
	ls->n = n;
}

void last_words_split(struct last_words_lines *ls, struct slice text)
{
	int is_group, n = LINES_MAX;
	size_t end;

	memset(ls->gap, 0, sizeof(ls->gap));
	text = last_words_plain(ls, text);
	is_group = slice_has(text, "+-----------------------------");
	end = text.len;
	while (end > 0 && n > 0) {
		size_t at = end;
		struct slice s;

		while (at > 0 && text.data[at - 1] != '\n')
			at--;
		s = last_words_without_rank(SLICE(text.data + at, end - at));
		while (s.len && isspace((unsigned char)s.data[s.len - 1]))
			s.len--;
		if (is_group)
			s = last_words_is_rule(s) ? SLICE_STR("")
				: last_words_without_margin(s);
		if (s.len && last_words_is_title(s))
			s = SLICE_STR("");
		s = last_words_without_meter(last_words_without_box(s));
		if (s.len)
			ls->line[--n] = s;
		else if (n < LINES_MAX)
			ls->gap[n] |= GAP_BLANK;
		end = at ? at - 1 : 0;
	}
	ls->n = LINES_MAX - n;
	memmove(ls->line, ls->line + n, ls->n * sizeof(*ls->line));
	memmove(ls->gap, ls->gap + n, ls->n * sizeof(*ls->gap));
	last_words_strip_prefix(ls);
	last_words_drop_warnings(ls);
}

/* ---- what only follows ---- */

/* "[node3:812] TEXT", as Open MPI begins its lines */
static struct slice last_words_without_host(struct slice s)
{
	const char *end = memchr(s.data, ']', s.len);

	if (s.data[0] != '[' || !end || end + 2 >= s.data + s.len ||
	    !memchr(s.data, ':', (size_t)(end - s.data)))
		return s;
	return slice_skip(s, (size_t)(end + 2 - s.data));
}

/* "[0x40a191]"; "solver.x  0000000000CF0159  MAIN__  12  x.f90", Intel's */
static int last_words_is_address(struct slice s)
{
	size_t n = 0, digits = 0;

	if (slice_begins(s, "[0x"))
		return 1;
	if (slice_begins(s, "Image  "))
		return 1;
	while (n < s.len && s.data[n] != ' ')
		n++;
	while (n < s.len && s.data[n] == ' ')
		n++;
	while (n + digits < s.len &&
	       isxdigit((unsigned char)s.data[n + digits]))
		digits++;
	return n && digits == 16;
}

/* "--------" */
static int last_words_is_ruled(struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (isalnum((unsigned char)s.data[i]) ||
		    (unsigned char)s.data[i] >= 0x80)
			return 0;
	return 1;
}

/* "------ Error Exit ------" */
static int last_words_is_titled(struct slice s)
{
	static const char side[] = "-----";
	size_t n = strlen(side);

	return s.len >= RULE_BYTES && slice_begins(s, side) &&
	       slice_begins(slice_skip(s, s.len - n), side);
}

/* The gap that a rule makes, or 0. */
static unsigned char last_words_rule(struct slice s)
{
	static const char *const words[] = {"error", "exception", "fatal",
					    "abort", "fail"};

	if (s.len < RULE_BYTES)
		return 0;
	if (last_words_is_ruled(s))
		return GAP_RULE;
	if (!last_words_is_titled(s))
		return 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		for (size_t at = 0; at + strlen(words[i]) <= s.len; at++)
			if (!strncasecmp(s.data + at, words[i],
					 strlen(words[i])))
				return GAP_RULE | GAP_ERROR;
	return GAP_RULE;
}

/* "+ exit 1", "++ pwd": what a shell runs, after set -x */
static int last_words_is_command(struct slice s)
{
	size_t n = 0;

	while (n < s.len && s.data[n] == '+')
		n++;
	return n && n < s.len && s.data[n] == ' ';
}

/* Fortran's "STOP 123", and "ERROR STOP" without a sentence */
static int last_words_is_stop(struct slice s)
{
	if (slice_begins(s, "ERROR "))
		s = slice_skip(s, strlen("ERROR "));
	if (!slice_begins(s, "STOP"))
		return 0;
	for (size_t i = strlen("STOP"); i < s.len; i++)
		if (s.data[i] != ' ' && !isdigit((unsigned char)s.data[i]))
			return 0;
	return 1;
}

/* A line that comes after whatever is wrong. */
static int last_words_is_after(struct slice s)
{
	static const char *const begins[] = {
		/* MPI libraries, when a program has called MPI_Abort */
		"MPI_ABORT was invoked on rank", "with errorcode ",
		"NOTE: invoking MPI_ABORT", "You may or may not see output",
		"exactly when Open MPI kills",
		"aborting job:", "In: PMI_Abort(",
		/* Open MPI's signal handler */
		"*** Process received signal", "*** End of error message",
		"Signal: ", "Signal code: ", "Failing at address: ",
		/* programs that end */
		"Aborted", "Aborting", "Program terminated", "exit status ",
		"FOAM exiting", "FOAM parallel run exiting", "stopping ...",
		"Traceback functionality not available", "wandb: ",
		"Set the environment variable HYDRA_FULL_ERROR",
		"For more information", "Try '", "Run '", "See ", "SIGABRT",
		"Last command: ", "In source file ", "Exiting because ",
		"GPU core dump ",
	};

	s = last_words_without_host(s);
	while (s.len > 1 && last_words_is_indented(s))
		s = slice_skip(s, 1);
	for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++)
		if (slice_begins(s, begins[i]))
			return 1;
	/* MATLAB's frames; what points to other lines */
	if ((slice_begins(s, "Error in ") && slice_has(s, " (line ")) ||
	    slice_has(s, "ook above") ||
	    slice_has(s, "application called MPI_Abort("))
		return 1;
	return last_words_is_address(s) || last_words_is_command(s) ||
	       last_words_is_stop(s);
}

void last_words_drop_after(struct last_words_lines *ls)
{
	static const char usage[] = "usage:";
	unsigned char gap = 0;
	int n = 0, is_usage = 0;

	for (int i = 0; i < ls->n; i++) {
		struct slice s = ls->line[i];

		is_usage = (is_usage && last_words_is_indented(s)) ||
			   (s.len >= strlen(usage) &&
			    !strncasecmp(s.data, usage, strlen(usage)));
		gap |= ls->gap[i];
		if (is_usage || last_words_is_after(s) ||
		    last_words_rule(s) || last_words_is_ruled(s)) {
			gap |= GAP_BLANK;
			/* as long as the line above: it underlines that */
			if (!i || s.len != ls->line[i - 1].len)
				gap |= last_words_rule(s);
			continue;
		}
		last_words_move(ls, n, i);
		ls->gap[n++] = gap;
		gap = 0;
	}
	ls->n = n;
	if (n < LINES_MAX)
		ls->gap[n] = gap;
}
