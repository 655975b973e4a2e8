/* last_words_internal.h: shared by last_words.c (which sentence counts),
 * last_words_lines.c (what is a line), last_words_python.c (Python),
 * last_words_marks.c (other languages and libraries), last_words_signs.c (what
 * most programs share) and last_words_blocks.c (sentences of several lines).
 *
 * The first kind that is there counts: Python's fatal errors and tracebacks; a
 * line that only a program that ends prints (a mark); a line about an error (a
 * sign), the first of the last few; the last line. */
#ifndef LAUNCHER_LAST_WORDS_INTERNAL_H
#define LAUNCHER_LAST_WORDS_INTERNAL_H

#include "launcher/failure/last_words.h"

enum {
	LINES_MAX = 256, /* a traceback through many libraries */
	PLAIN_MAX = 16 << 10,
};

/* What may be between two lines. A rule, "--------", may have a title, which
 * may be about an error. */
enum { GAP_BLANK = 1, GAP_RULE = 2, GAP_ERROR = 4 };

struct last_words_lines {
	/* none is empty; they are parts of the text, or of plain */
	struct slice line[LINES_MAX];
	/* what was before the line, and is left out; that of line n is what
	 * follows the last line (if n < LINES_MAX) */
	unsigned char gap[LINES_MAX];
	int n;
	char plain[PLAIN_MAX]; /* the text, if a terminal's codes were in it */
};

/* last_words.c */
int last_words_is_indented(struct slice s);
/* Appends s, or both of its ends: at most LAST_WORDS_MAX bytes. */
void last_words_put_cut(struct buf *out, struct slice s);
/* Appends the sentence of the last line that is a mark; with_exceptions: or
 * that begins with the name of an exception of Python. 0: there is none. */
int last_words_put_marked(struct buf *out, const struct last_words_lines *ls,
			  int with_exceptions);

/* last_words_python.c */
/* Each appends its sentence, with its place " (FILE:LINE)"; 0: there is none.
 * The exception that a traceback ends with, and what it was raised from.
 * must_be_last: only if no line follows it. */
int last_words_put_traceback(struct buf *out, const struct last_words_lines *ls,
			     int must_be_last);
/* "Fatal Python error: ..." */
int last_words_put_fatal_python(struct buf *out,
				const struct last_words_lines *ls, int signal);
/* "Timeout (0:00:01)!" */
int last_words_put_timeout(struct buf *out, const struct last_words_lines *ls);
/* Whether s begins with the name of an exception, as "ValueError: " is. */
int last_words_is_exception(struct slice s);
/* Appends the message of the exception in line at, if it begins in another line
 * before n. */
void last_words_put_message(struct buf *out, const struct last_words_lines *ls,
			    int at, int n);

/* last_words_lines.c */
/* The last LINES_MAX lines that are not blank, without colours and the warnings
 * of Python. */
void last_words_split(struct last_words_lines *ls, struct slice text);
/* Drops the lines that only follow whatever is wrong. */
void last_words_drop_after(struct last_words_lines *ls);

/* last_words_blocks.c */
/* Appends the sentence that is below the heading in line i, after a space. */
void last_words_put_below(struct buf *out, const struct last_words_lines *ls,
			  int i);
/* Appends what is in the last box before line n, if at most max lines are
 * between and it is about an error; without a line between, whatever it is
 * about. 0: there is none. */
int last_words_put_box(struct buf *out, const struct last_words_lines *ls,
		       int n, int max);

/* last_words_marks.c */
/* "==== backtrace (tid: 812) ====", "stack traceback:" */
int last_words_is_heading(struct slice s);
/* A line of a backtrace, "=======", or what node ends with. */
int last_words_is_trace(struct slice s);
/* Appends the sentence of line i, with its neighbours if they are part of it.
 * 0: only a program that goes on prints such a line. */
int last_words_put_mark(struct buf *out, const struct last_words_lines *ls,
			int i);
/* The last line that is not part of a backtrace; if all are, the last. ls has
 * at least one line. */
struct slice last_words_line(const struct last_words_lines *ls);

/* How many lines there are before a backtrace at the end. */
int last_words_end(const struct last_words_lines *ls);

/* Whether it has what the C library says of a failed call, or what programs put
 * before their own sentence. */
int last_words_is_error(struct slice s);

/* last_words_signs.c */
/* Without "# ", "--> ", "*** ", CP2K's "\\___/ "; a rule has nothing else. */
struct slice last_words_without_marks(struct slice s);
/* Whether it has a word like "failed". */
int last_words_is_likely(struct slice s);
/* Whether line i does not continue the line before it: it is a line of a log or
 * of a backtrace, or about another error. */
int last_words_is_new(const struct last_words_lines *ls, int i);
/* Appends the sentence of the last lines that are about an error, with its
 * neighbour if that has the words. is_likely: a line also counts if it only has
 * a word like "failed". 0: there is none, or too much follows it. */
int last_words_put_sign(struct buf *out, const struct last_words_lines *ls,
			int is_likely);
/* The first of the lines from `from` on, and before n, that is about an error,
 * or -1. */
int last_words_first_sign(const struct last_words_lines *ls, int from, int n);
/* Appends "; caused by TEXT" if the lines after line i give the first cause of
 * a chain, as Java, Rust's anyhow and Julia's tasks do. */
void last_words_put_root(struct buf *out, const struct last_words_lines *ls,
			 int i);

#endif
