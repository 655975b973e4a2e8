/* last_words_marks.c: what C, C++, Fortran, R, Go, Rust, Julia, Java, libraries
 * and sanitizers print before a process ends, and the backtraces after that. */
#include <ctype.h>
#include <string.h>

#include "launcher/failure/last_words_internal.h"

enum {
	PLACE_MAX = 120, /* bytes: the first line has room for 300 */
	CLEAN_UP_LINES = 4,
	WHAT_LINES = 3,
	HEADING_MAX = 100, /* letters of a line that are looked at */
};

/* "prog: w.c:62: main: Assertion `x' failed.": without "prog: "; without all
 * that is before the assertion if it is long, as in templates of C++. */
static int last_words_put_assertion(struct buf *out, struct slice s)
{
	static const char sign[] = ": Assertion ", bare[] = "Assertion `";
	const char *at = slice_find(s, sign), *colon;

	if (!slice_has(s, ": Assertion `") && !slice_has(s, ": Assertion '")) {
		at = slice_find(s, bare);
		if (!at || !slice_has(s, "' failed"))
			return 0;
		last_words_put_cut(out, slice_skip(s, (size_t)(at - s.data)));
		return 1;
	}
	colon = slice_find(s, ": ");
	if (at - colon > PLACE_MAX)
		colon = at;
	last_words_put_cut(out, slice_skip(s, (size_t)(colon + 2 - s.data)));
	return 1;
}

/* Appends the first line from line i on that is about an error, else line i. */
static void last_words_put_first_of(struct buf *out,
				    const struct last_words_lines *ls, int i)
{
	int sign = last_words_first_sign(ls, i, ls->n);

	if (i < ls->n)
		last_words_put_cut(out, ls->line[sign >= 0 ? sign : i]);
}

/* "terminate called after throwing an instance of 'X'", "  what():  TEXT"; or,
 * after a line that says why, "terminate called without an active exception".
 */
static int last_words_put_terminate(struct buf *out,
				    const struct last_words_lines *ls, int i)
{
	const struct slice none = SLICE_STR("");
	struct slice last = i > 0 ? ls->line[i - 1] : none, s = ls->line[i];
	struct slice next = i + 1 < ls->n ? ls->line[i + 1] : none;
	static const char thrown[] =
		"terminate called after throwing an instance of ";
	static const char what[] = "  what():";
	static const char called[] = "pure virtual method called";

	if (!slice_begins(s, "terminate called "))
		return 0;
	if (slice_begins(last, called)) {
		last_words_put_cut(out, last);
		return 1;
	}
	if (!slice_begins(s, thrown) || !slice_begins(next, what)) {
		last_words_put_cut(out, s);
		return 1;
	}
	s = slice_skip(s, strlen(thrown));
	buf_printf(out, "terminate called after throwing %.*s: ", SLICE_FMT(s));
	next = slice_skip(next, strlen(what));
	if (!next.len) {
		last_words_put_first_of(out, ls, i + 2);
		return 1;
	}
	while (next.data[0] == ' ')
		next = slice_skip(next, 1);
	last_words_put_cut(out, next);
	/* "SOLVER.hpp:88:": the reason is in one of the lines that follow */
	for (int at = i + 2; next.data[next.len - 1] == ':' && at < ls->n &&
			     at < i + 2 + WHAT_LINES; at++) {
		buf_printf(out, " ");
		last_words_put_cut(out, ls->line[at]);
	}
	return 1;
}

/* "[h:812] *** An error occurred in MPI_Recv", ..., "*** MPI_ERR_TRUNCATE:
 * message truncated", "*** MPI_ERRORS_ARE_FATAL (...": Open MPI's */
static int last_words_put_ompi(struct buf *out,
			       const struct last_words_lines *ls, int i)
{
	static const char call[] = "*** An error occurred in ",
			  none[] = "*** on a NULL communicator",
			  unknown[] = "*** Unknown error",
			  fatal[] = "*** MPI_ERRORS_ARE_FATAL", star[] = "*** ";
	struct slice s = ls->line[i];
	const char *at = slice_find(s, call);
	size_t begin = at ? (size_t)(at - s.data) + strlen(star) : 0;
	int first = i;

	if (!at)
		return 0;
	while (++i < ls->n && !slice_has(ls->line[i], fatal))
		s = ls->line[i];
	/* the box above has the reason */
	if ((slice_has(s, none) || slice_has(s, unknown)) &&
	    last_words_put_box(out, ls, first, 0))
		return 1;
	last_words_put_cut(out, slice_skip(ls->line[first], begin));
	at = slice_find(s, star);
	if (i < ls->n && at && !slice_has(s, call)) {
		buf_printf(out, ": ");
		last_words_put_cut(out, slice_skip(s, (size_t)(at - s.data) +
							      strlen(star)));
	}
	return 1;
}

static int last_words_is_panic(struct slice s)
{
	return slice_begins(s, "thread '") && slice_has(s, " panicked at ");
}

/* Rust's message is in the next line from 1.73 on. If it is about another
 * thread that has panicked, "Any { .. }", that thread's counts. */
static int last_words_put_panic(struct buf *out,
				const struct last_words_lines *ls, int at)
{
	static const char other[] = "Any { .. }";
	struct slice s = ls->line[at];
	struct slice next = at + 1 < ls->n ? ls->line[at + 1] : SLICE_STR("");

	if (!last_words_is_panic(s))
		return 0;
	if (slice_has(s, other) || slice_has(next, other))
		for (int i = at - 1; i >= 0; i--)
			if (last_words_is_panic(ls->line[i]))
				return last_words_put_panic(out, ls, i);
	last_words_put_cut(out, s);
	if (s.data[s.len - 1] == ':' && next.len) {
		buf_printf(out, " ");
		last_words_put_cut(out, next);
	}
	return 1;
}

/* A line that only a program that ends prints. */
static int last_words_is_mark(struct slice s)
{
	static const char *const begins[] = {
		"panic: ", "fatal error: ", "Fatal error: ", "Fatal error in ",
		"Exception in thread ", "Unhandled exception. ",
		"ERROR: LoadError: ", "ERROR STOP", "Fortran runtime error: ",
		"forrtl: severe (", "forrtl: error (", "Runtime Error: ",
		"FIO-F-", /* nvfortran's */
		"** (", /* Elixir's: "** (RuntimeError) TEXT" */
		"fatal Fortran runtime error", "Kokkos::abort: ",
		"OMP: Error #", "*** stack smashing detected ***",
		"free(): ", "malloc(): ", "realloc(): ", "munmap_chunk(): ",
		"double free or corruption", "corrupted size vs. ",
		"corrupted double-linked list",
	};

	for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++)
		if (slice_begins(s, begins[i]))
			return 1;
	return slice_has(s, "Check failed: ") ||
	       slice_has(s, "Assertion failed: ") ||
	       (slice_has(s, "_ASSERT(") && slice_has(s, " failed"));
}

/* "At line 6 of file /w/x.f90", "Fortran runtime error: TEXT" */
static int last_words_put_fortran(struct buf *out, struct slice before,
				  struct slice s)
{
	static const char at_line[] = "At line ", of_file[] = " of file ";
	const char *file = slice_find(before, of_file), *slash;
	struct slice line, path;

	if (!slice_begins(s, "Fortran runtime error: "))
		return 0;
	last_words_put_cut(out, s);
	if (!slice_begins(before, at_line) || !file)
		return 1;
	line = slice_skip(before, strlen(at_line));
	line.len = (size_t)(file - line.data);
	path = slice_skip(before,
			  (size_t)(file - before.data) + strlen(of_file));
	slash = memrchr(path.data, '/', path.len);
	if (slash)
		path = slice_skip(path, (size_t)(slash + 1 - path.data));
	for (size_t i = 0; i < path.len; i++)
		if (path.data[i] == ' ')
			path.len = i;
	buf_printf(out, " (%.*s:%.*s)", SLICE_FMT(path), SLICE_FMT(line));
	return 1;
}

/* R: "Error in f(x) : ", "  TEXT"; or "Error: TEXT" */
static int last_words_put_r(struct buf *out, struct slice s, struct slice next)
{
	if (!slice_begins(s, "Error in ") || !slice_has(s, " :"))
		return 0;
	last_words_put_cut(out, s);
	if (s.data[s.len - 1] != ':' || !next.len)
		return 1;
	while (last_words_is_indented(next))
		next = slice_skip(next, 1);
	buf_printf(out, " ");
	last_words_put_cut(out, next);
	return 1;
}

/* ---- backtraces that follow the words ---- */

/* "#1  0x7f12 in main", " 0  /lib/libucs.so.0(...)", "    @  0x7f12 main",
 * "        at /w/x.f90:6" */
static int last_words_is_frame(struct slice s)
{
	int is_indented = last_words_is_indented(s);
	size_t n = 0;

	if (s.len > 1 && s.data[0] == '#')
		return isdigit((unsigned char)s.data[1]);
	while (n < s.len && isspace((unsigned char)s.data[n]))
		n++;
	s = slice_skip(s, n);
	if (!is_indented || !s.len)
		return 0;
	if (slice_has(s, " called at ") && slice_has(s, " line "))
		return 1; /* Perl's */
	if (slice_begins(s, "at ") || slice_begins(s, "from ") ||
	    slice_begins(s, "@ ") || slice_begins(s, "[<") ||
	    slice_begins(s, "0x"))
		return 1;
	for (n = 0; n < s.len && isdigit((unsigned char)s.data[n]); n++)
		;
	if (n == 0 || n + 1 >= s.len || s.data[n] != ' ')
		return 0;
	while (n < s.len && s.data[n] == ' ')
		n++;
	return n < s.len && !isdigit((unsigned char)s.data[n]);
}

int last_words_is_heading(struct slice s)
{
	static const char *const words[] = {
		"CallStack (from ", "ompilation aborted", "Execution halted",
	};
	char letters[HEADING_MAX + 1];
	size_t n = 0;

	for (size_t i = 0; i < s.len && n < HEADING_MAX; i++)
		if (isalpha((unsigned char)s.data[i]))
			letters[n++] = (char)tolower((unsigned char)s.data[i]);
	letters[n] = '\0';
	if (strstr(letters, "stacktrace") || strstr(letters, "backtrace"))
		return 1;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (slice_has(s, words[i]))
			return 1;
	return 0;
}

/* A line of a backtrace, "=======", or what node ends with. */
int last_words_is_trace(struct slice s)
{
	size_t letters = 0;

	for (size_t i = 0; i < s.len; i++)
		letters += isalnum((unsigned char)s.data[i]) ||
			   (unsigned char)s.data[i] >= 0x80;
	return !letters || last_words_is_frame(s) || last_words_is_heading(s) ||
	       slice_begins(s, "Node.js v");
}

/* Up from the parts of a value that is printed in several lines, to its first
 * one, which ends with "{". */
static int last_words_up_to_value(const struct last_words_lines *ls, int i)
{
	for (int at = i; at >= 0; at--) {
		struct slice s = ls->line[at];

		if (s.data[s.len - 1] == '{')
			return at;
		if (!last_words_is_indented(s))
			break;
	}
	return i;
}

/* "kaldi::Log(int) const", "main", "Frame 3: hypre_MGRCycle", "lib.so(+0x1f)":
 * a frame, if it is below a heading. */
static int last_words_is_symbol(struct slice s)
{
	return !memchr(s.data, ' ', s.len) || slice_has(s, "::") ||
	       slice_has(s, "+0x") || slice_begins(s, "Frame ");
}

/* The last line before a heading that only frames follow; the last if there is
 * no such heading. */
static int last_words_before_trace(const struct last_words_lines *ls)
{
	for (int i = ls->n - 1; i > 0; i--) {
		if (last_words_is_heading(ls->line[i]))
			return i - 1;
		if (!last_words_is_indented(ls->line[i]) &&
		    !last_words_is_symbol(ls->line[i]))
			break;
	}
	return ls->n - 1;
}

int last_words_is_error(struct slice s)
{
	static const char *const words[] = {
		"No such file or directory", "Permission denied",
		"Operation not permitted", "No space left on device",
		"Read-only file system", "Input/output error",
		"Cannot allocate memory", "Is a directory", "Not a directory",
		"Too many open files", "Disk quota exceeded",
		"Stale file handle", "Connection refused",
		"Connection reset", "Connection timed out",
		"No route to host", "Name or service not known",
		"Exec format error", "Device or resource busy",
		"command not found", ": not found", "ERROR: ", "fatal: ",
		"FATAL: ", NULL,
	};

	for (int i = 0; words[i]; i++)
		if (slice_has(s, words[i]))
			return !slice_has(s, "arning");
	return 0;
}

/* A program may say that it cleans up after it has said what is wrong: the last
 * of a few lines that is about an error, or -1. */
static int last_words_find_error(const struct last_words_lines *ls, int from)
{
	for (int i = from; i >= 0 && i > from - CLEAN_UP_LINES; i--)
		if (last_words_is_error(ls->line[i]))
			return i;
	return -1;
}

int last_words_end(const struct last_words_lines *ls)
{
	int i = last_words_before_trace(ls);

	while (i >= 0 && last_words_is_trace(ls->line[i]))
		i--;
	return i >= 0 ? i + 1 : ls->n;
}

struct slice last_words_line(const struct last_words_lines *ls)
{
	static const char ucx[] = "==== backtrace ";
	int i = last_words_before_trace(ls), is_ucx, error;

	while (i > 0 && last_words_is_trace(ls->line[i]))
		i--;
	is_ucx = i + 1 < ls->n && slice_begins(ls->line[i + 1], ucx);
	/* the first of its lines has the error, the others what it was doing */
	while (is_ucx && i > 0 && ls->line[i].data[0] == '[' &&
	       ls->line[i - 1].data[0] == '[')
		i--;
	if (last_words_is_trace(ls->line[i]))
		return ls->line[ls->n - 1];
	i = last_words_up_to_value(ls, i);
	while (i > 0 && last_words_is_trace(ls->line[i]))
		i--;
	error = last_words_find_error(ls, i);
	return ls->line[error >= 0 && !is_ucx ? error : i];
}

static int last_words_put_summary(struct buf *out, struct slice s)
{
	static const char summary[] = "SUMMARY: ";

	if (!slice_begins(s, summary) || !slice_has(s, "Sanitizer: "))
		return 0;
	last_words_put_cut(out, slice_skip(s, strlen(summary)));
	return 1;
}

int last_words_put_mark(struct buf *out, const struct last_words_lines *ls,
			int i)
{
	const struct slice none = SLICE_STR("");
	struct slice s = ls->line[i];
	struct slice before = i > 0 ? ls->line[i - 1] : none;
	struct slice next = i + 1 < ls->n ? ls->line[i + 1] : none;

	if (last_words_put_summary(out, s) ||
	    last_words_put_assertion(out, s) ||
	    last_words_put_terminate(out, ls, i) ||
	    last_words_put_ompi(out, ls, i) ||
	    last_words_put_panic(out, ls, i) ||
	    last_words_put_fortran(out, before, s) ||
	    last_words_put_r(out, s, next))
		return 1;
	if (last_words_is_mark(s))
		last_words_put_cut(out, s);
	return last_words_is_mark(s);
}
