/* last_words.c: the order in which the kinds of sentences count. */
#include <signal.h>
#include <string.h>

#include "launcher/failure/last_words_internal.h"

int last_words_is_indented(struct slice s)
{
	return s.data[0] == ' ' || s.data[0] == '\t';
}

/* A UTF-8 character's second byte, or a later one */
static int last_words_is_inside(char c)
{
	return (c & 0xc0) == 0x80;
}

void last_words_put_cut(struct buf *out, struct slice s)
{
	static const char omitted[] = " ... ";
	size_t head = LAST_WORDS_MAX - LAST_WORDS_END - strlen(omitted), at;

	if (s.len <= LAST_WORDS_MAX) {
		buf_put(out, s.data, s.len);
		return;
	}
	at = s.len - LAST_WORDS_END;
	while (head && last_words_is_inside(s.data[head]))
		head--;
	while (at < s.len && last_words_is_inside(s.data[at]))
		at++;
	buf_put(out, s.data, head);
	buf_put(out, omitted, strlen(omitted));
	buf_put(out, s.data + at, s.len - at);
}

/* The last line that one of these formats marks; with_exceptions: or that
 * begins with an exception's name. */
int last_words_put_marked(struct buf *out,
				 const struct last_words_lines *ls,
				 int with_exceptions)
{
	for (int i = ls->n - 1; i >= 0; i--) {
		if (!last_words_put_mark(out, ls, i)) {
			if (!with_exceptions ||
			    !last_words_is_exception(ls->line[i]))
				continue;
			last_words_put_cut(out, ls->line[i]);
			last_words_put_message(out, ls, i, ls->n);
		}
		last_words_put_root(out, ls, i);
		return 1;
	}
	return 0;
}

static int last_words_is_crash(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE ||
	       signal == SIGILL || signal == SIGTRAP;
}

/* What --preflight wrote before the program began says nothing of its end. */
static int last_words_is_check(struct slice line)
{
	static const char name[] = "ddprun-check: ";

	return line.len >= sizeof(name) - 1 &&
	       memcmp(line.data, name, sizeof(name) - 1) == 0;
}

/* The kinds of sentences, the strongest first. is_likely: words that need not
 * be about an error count as well. 1 unless only the last line may say why. */
static int last_words_put_clear_of(struct buf *out,
				   const struct last_words_lines *ls, int code,
				   int signal, int is_likely)
{
	if (signal && signal != SIGABRT && signal != SIGINT &&
	    !last_words_is_crash(signal))
		return 1;
	if (signal == SIGINT) { /* Python ends so, too, after its traceback */
		last_words_put_traceback(out, ls, 1);
		return 1;
	}
	return !ls->n || last_words_put_fatal_python(out, ls, signal) ||
	       last_words_is_crash(signal) || last_words_put_timeout(out, ls) ||
	       last_words_put_traceback(out, ls, code > 1) ||
	       last_words_put_marked(out, ls, code <= 1) ||
	       last_words_put_sign(out, ls, is_likely);
}

/* The line that says most, if it is about an error or need not be. */
static void last_words_put_line(struct buf *out,
				const struct last_words_lines *ls,
				int must_be_error)
{
	struct slice last = last_words_line(ls);

	if (last_words_is_check(last) ||
	    (must_be_error && !last_words_is_error(last)))
		return;
	while (last_words_is_indented(last))
		last = slice_skip(last, 1);
	last_words_put_cut(out, last);
}

void last_words_put_clear(struct buf *out, struct slice tail, int code,
			  int signal)
{
	struct last_words_lines ls;

	last_words_split(&ls, tail);
	last_words_drop_after(&ls);
	if (!last_words_put_clear_of(out, &ls, code, signal, 0))
		last_words_put_line(out, &ls, 1);
}

void last_words_put_likely(struct buf *out, struct slice tail, int code,
			   int signal)
{
	struct last_words_lines ls;

	last_words_split(&ls, tail);
	last_words_drop_after(&ls);
	last_words_put_clear_of(out, &ls, code, signal, 1);
}

void last_words_put(struct buf *out, struct slice tail, int code, int signal)
{
	struct last_words_lines ls;

	last_words_split(&ls, tail);
	last_words_drop_after(&ls);
	if (!ls.n)
		last_words_split(&ls, tail);
	if (!last_words_put_clear_of(out, &ls, code, signal, 1))
		last_words_put_line(out, &ls, 0);
}

void last_words_put_abort(struct buf *out, struct slice tail)
{
	static const char fatal[] = "Fatal error in ",
			  stack[] = ", error stack:";
	struct last_words_lines ls;
	struct slice s;
	const char *at;
	int i;

	last_words_split(&ls, tail);
	for (i = ls.n - 1; i >= 0; i--)
		if (slice_begins(ls.line[i], "Abort(") ||
		    slice_begins(ls.line[i], "application called MPI_Abort("))
			break;
	s = i < 0 ? SLICE_STR("") : ls.line[i];
	at = slice_find(s, fatal);
	if (at) {
		s = slice_skip(s, (size_t)(at - s.data));
		at = slice_find(s, stack);
		s.len = at ? (size_t)(at - s.data) : s.len;
		last_words_put_cut(out, s);
		return;
	}
	if (i >= 0)
		ls.n = i;
	last_words_drop_after(&ls);
	if (ls.n && !last_words_put_traceback(out, &ls, 1) &&
	    !last_words_put_marked(out, &ls, 1))
		last_words_put_cut(out, last_words_line(&ls));
}

/* What torch's c10d says while it goes on trying to connect: "[W1130
 * 10:38:59.114 TCPStore.cpp:340] [c10d] ...: The client socket has timed out
 * after 8000ms while trying to connect to (h1, 1)." and a backtrace. */
static void last_words_put_c10d(struct buf *out,
				const struct last_words_lines *ls)
{
	static const char sentence[] = "The client socket has ";
	struct slice s;
	const char *at;

	for (int i = ls->n - 1; i >= 0; i--) {
		s = ls->line[i];
		if (slice_begins(s, "frame #") ||
		    slice_begins(s, "<omitting ") ||
		    slice_begins(s, "Exception raised from "))
			continue;
		at = slice_find(s, sentence);
		if (at && slice_has(s, "[c10d]") &&
		    slice_has(s, " to connect to "))
			last_words_put_cut(
				out, slice_skip(s, (size_t)(at - s.data)));
		return;
	}
}

void last_words_put_error(struct buf *out, struct slice tail)
{
	struct last_words_lines ls;

	last_words_split(&ls, tail);
	if (ls.n && !last_words_put_traceback(out, &ls, 1) &&
	    !last_words_put_marked(out, &ls, 0))
		last_words_put_c10d(out, &ls);
}
