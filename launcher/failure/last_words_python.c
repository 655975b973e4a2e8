/* last_words_python.c: Python's tracebacks, chains of them, and what its
 * faulthandler prints. */
#include <ctype.h>
#include <signal.h>
#include <string.h>

#include "launcher/failure/last_words_internal.h"

/* '  File "/w/train.py", line 25, in main': 1, the path and the line. */
static int last_words_frame(struct slice s, struct slice *path,
			    struct slice *line)
{
	static const char between[] = "\", line ";
	const char *quote;
	size_t n = 0;

	if (!last_words_is_indented(s))
		return 0;
	while (n < s.len && isspace((unsigned char)s.data[n]))
		n++;
	s = slice_skip(s, n);
	if (!slice_begins(s, "File \""))
		return 0;
	s = slice_skip(s, strlen("File \""));
	quote = slice_find(s, between);
	if (!quote)
		return 0;
	*path = SLICE(s.data, (size_t)(quote - s.data));
	s = slice_skip(s, path->len + strlen(between));
	for (n = 0; n < s.len && isdigit((unsigned char)s.data[n]); n++)
		;
	*line = SLICE(s.data, n);
	return n > 0;
}

/* The interpreter's own files and installed packages are not to blame. */
static int last_words_is_library(struct slice path)
{
	return slice_has(path, "/site-packages/") ||
	       slice_has(path, "/dist-packages/") ||
	       slice_has(path, "/lib/python") || slice_begins(path, "<");
}

/* " (train.py:25)": among the frames at and next to line at, in the direction
 * step from the innermost one, the first that is the user's, else the
 * innermost. */
static void last_words_put_place(struct buf *out,
				 const struct last_words_lines *ls, int at,
				 int step)
{
	struct slice path, line, best_path = SLICE_STR(""), best_line;
	const char *slash;

	for (; at >= 0 && at < ls->n && last_words_is_indented(ls->line[at]);
	     at += step) {
		if (!last_words_frame(ls->line[at], &path, &line))
			continue;
		if (best_path.len && last_words_is_library(path))
			continue;
		best_path = path;
		best_line = line;
		if (!last_words_is_library(path))
			break;
	}
	if (!best_path.len)
		return;
	slash = memrchr(best_path.data, '/', best_path.len);
	if (slash)
		best_path = slice_skip(best_path,
				       (size_t)(slash + 1 - best_path.data));
	buf_printf(out, " (%.*s:%.*s)", SLICE_FMT(best_path),
		   SLICE_FMT(best_line));
}

/* "Name" or "Name: message", Name being an identifier with dots; of a class in
 * a function, "f.<locals>.Name". The length of Name, or 0. */
static size_t last_words_exception(struct slice s)
{
	static const char locals[] = ".<locals>.";
	size_t n = 0, m = strlen(locals);

	while (n < s.len && (isalnum((unsigned char)s.data[n]) ||
			     s.data[n] == '_' || s.data[n] == '.'))
		n += n && s.len - n > m && !memcmp(s.data + n, locals, m) ? m
									  : 1;
	if (n == 0 || isdigit((unsigned char)s.data[0]) ||
	    (n < s.len && s.data[n] != ':'))
		return 0;
	return n;
}

/* An exception whose name differs from ordinary words. */
int last_words_is_exception(struct slice s)
{
	static const char *const ends[] = {"Error", "Exception", "Interrupt",
					   "Exit", "Iteration"};
	size_t n = last_words_exception(s);

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t m = strlen(ends[i]);

		if (n >= m && memcmp(s.data + n - m, ends[i], m) == 0)
			return 1;
	}
	return 0;
}

/* Exceptions that only report that another process has failed, or follow from
 * that. */
static int last_words_is_second_hand(struct slice s)
{
	static const char *const words[] = {
		" exited unexpectedly", "returned non-zero exit status",
		"root cause above", "initialization failed. See",
		"ChildFailedError:",
		"terminated abruptly",
		/* a child, when pickling has failed in its parent */
		"EOFError: Ran out of input", "pickle data was truncated",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (slice_has(s, words[i]))
			return 1;
	return 0;
}

/* "RuntimeError: DataLoader worker (pid 812) is killed by signal: Killed.": the
 * exception that follows from it says less. So does a report about another
 * process. The line of the first-hand exception before at, or -1. */
static int last_words_find_first_hand(const struct last_words_lines *ls, int at)
{
	int other = -1;

	for (int i = at; i >= 0; i--) {
		if (!last_words_is_exception(ls->line[i]) ||
		    last_words_is_second_hand(ls->line[i]))
			continue;
		if (slice_has(ls->line[i], ") is killed by signal: "))
			return i;
		if (i < at && other < 0)
			other = i;
	}
	return slice_has(ls->line[at], " exited unexpectedly") ? -1 : other;
}

/* The rest of the message of the exception in line at, if it is not in that
 * line. A message that begins with an empty line: the first line about an
 * error, else the next. One whose first line ends with a colon, as that of
 * torch's load_state_dict: the next line, if it is indented. */
void last_words_put_message(struct buf *out,
				   const struct last_words_lines *ls, int at,
				   int n)
{
	struct slice s = ls->line[at], next;
	int sign = -1;

	if (at + 1 >= n || s.data[s.len - 1] != ':')
		return;
	if (last_words_exception(s) + 1 == s.len)
		sign = last_words_first_sign(ls, at + 1, n);
	else if (!last_words_is_indented(ls->line[at + 1]))
		return;
	next = ls->line[sign >= 0 ? sign : at + 1];
	while (next.len && last_words_is_indented(next))
		next = slice_skip(next, 1);
	buf_printf(out, " ");
	last_words_put_cut(out, next);
}

/* What Python prints above the traceback of an exception that does not end the
 * process. */
static int last_words_is_survived(struct slice s)
{
	static const char *const begins[] = {
		"Exception in thread ", "Exception ignored in",
		"Error in atexit._run_exitfuncs:", "--- Logging error ---",
	};

	for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++)
		if (slice_begins(s, begins[i]))
			return 1;
	return 0;
}

/* How many lines there are before the exceptions that do not end the process,
 * if the main thread has raised one before them; else all. */
static int last_words_before_survived(const struct last_words_lines *ls)
{
	int n = ls->n;

	for (int i = ls->n - 1; i >= 0; i--) {
		if (last_words_is_survived(ls->line[i]))
			n = i;
		else if (slice_begins(ls->line[i], "Traceback (") &&
			 (i == 0 || !last_words_is_survived(ls->line[i - 1])))
			return n;
	}
	return ls->n;
}

/* The logging module prints "Call stack:", with frames, after the exception
 * that stopped it. */
static int last_words_before_call_stack(const struct last_words_lines *ls,
					int n)
{
	for (int i = n - 1; i >= 0; i--) {
		if (slice_begins(ls->line[i], "Call stack:"))
			return i;
		if (slice_begins(ls->line[i], "Traceback ("))
			break;
	}
	return n;
}

/* Whether the frame in line at belongs to a traceback, whose beginning may be
 * lost. TensorFlow and torch.compile show a part of a graph with frames. */
static int last_words_is_traceback(const struct last_words_lines *ls, int at)
{
	while (at >= 0 && last_words_is_indented(ls->line[at]))
		at--;
	return at < 0 || slice_has(ls->line[at], "Traceback (") ||
	       !(slice_has(ls->line[at], "(most recent call") ||
		 slice_begins(ls->line[at], "from user code:"));
}

/* The line of the exception that the traceback with that frame follows from:
 * of Y in "raise X from Y"; of Y if X was raised while Y was handled, and Y is
 * what the system says is wrong; or -1. */
static int last_words_cause_of(const struct last_words_lines *ls, int frame)
{
	static const char follows[] = "The above exception was the direct "
				      "cause of the following exception:";
	static const char handles[] = "During handling of the above "
				      "exception, another exception occurred:";
	int at = frame, is_handled;

	while (at >= 0 && last_words_is_indented(ls->line[at]))
		at--;
	if (at < 2 || !slice_begins(ls->line[at], "Traceback ("))
		return -1;
	is_handled = slice_begins(ls->line[at - 1], handles);
	if (!is_handled && !slice_begins(ls->line[at - 1], follows))
		return -1;
	for (at -= 2; at > 0; at--)
		if (last_words_exception(ls->line[at]) &&
		    last_words_is_indented(ls->line[at - 1]))
			break;
	return is_handled && at > 0 && !last_words_is_error(ls->line[at]) ? -1
									  : at;
}

/* Appends "; caused by TEXT" if the traceback with that frame, whose exception
 * is in line at, ends a chain of them: the first exception of the chain; or if
 * it only reports that a thread has died: what that thread has raised. */
static void last_words_put_first(struct buf *out,
				 const struct last_words_lines *ls, int frame,
				 int at)
{
	int first = -1, next = last_words_cause_of(ls, frame);

	while (next > 0) {
		first = next;
		next = last_words_cause_of(ls, next - 1);
	}
	if (slice_has(ls->line[at], " thread exited unexpectedly"))
		for (first = at - 1; first >= 0; first--)
			if (last_words_is_exception(ls->line[first]))
				break;
	if (first < 0)
		return;
	buf_printf(out, "; caused by ");
	last_words_put_cut(out, ls->line[first]);
}

/* NCCL's errors end with "Last error:", and a line that says more. */
static void last_words_put_last_error(struct buf *out,
				      const struct last_words_lines *ls,
				      int at, int n)
{
	static const char last[] = "Last error:";

	for (; at + 1 < n; at++) {
		if (ls->line[at].len != strlen(last) ||
		    !slice_begins(ls->line[at], last))
			continue;
		buf_printf(out, "; last error: ");
		last_words_put_cut(out, ls->line[at + 1]);
		return;
	}
}

/* The exception behind the last frame of the last traceback. */
int last_words_put_traceback(struct buf *out,
				    const struct last_words_lines *ls,
				    int must_be_last)
{
	struct slice path, line;
	int n = last_words_before_survived(ls), frame, at;
	int first_hand = -1;

	n = last_words_before_call_stack(ls, n);
	for (frame = n - 1; frame >= 0; frame--)
		if (last_words_frame(ls->line[frame], &path, &line) &&
		    last_words_is_traceback(ls, frame))
			break;
	if (frame < 0)
		return 0;
	for (at = frame + 1; at < n; at++)
		if (!last_words_is_indented(ls->line[at]))
			break;
	if (at >= n || !last_words_exception(ls->line[at]) ||
	    (must_be_last && at != n - 1))
		return 0;
	if (last_words_is_second_hand(ls->line[at]))
		first_hand = last_words_find_first_hand(ls, at);
	last_words_put_cut(out, ls->line[first_hand >= 0 ? first_hand : at]);
	if (first_hand < 0)
		last_words_put_message(out, ls, at, n);
	if (first_hand > 0 && !slice_has(ls->line[at], " exited unexpectedly"))
		frame = first_hand - 1;
	last_words_put_place(out, ls, frame, -1);
	if (first_hand < 0) {
		last_words_put_first(out, ls, frame, at);
		last_words_put_last_error(out, ls, at, n);
	}
	return 1;
}

/* ---- Python's faulthandler ---- */

/* Its frames follow, the innermost one first. What it says of an abort is only
 * "Aborted": the words before it count, with the frame. */
int last_words_put_fatal_python(struct buf *out,
				       const struct last_words_lines *ls,
				       int signal)
{
	static const char fatal[] = "Fatal Python error: ";
	struct last_words_lines before = *ls;
	struct slice path, line;
	int at, frame;

	for (at = ls->n - 1; at >= 0; at--)
		if (slice_begins(ls->line[at], fatal))
			break;
	if (at < 0)
		return 0;
	before.n = at;
	if (signal != SIGABRT || !last_words_put_marked(out, &before, 0))
		last_words_put_cut(out, ls->line[at]);
	for (frame = at + 1; frame < ls->n; frame++)
		if (last_words_frame(ls->line[frame], &path, &line))
			break;
	last_words_put_place(out, ls, frame, 1);
	return 1;
}

/* faulthandler.dump_traceback_later: "Timeout (0:00:01)!", then the threads,
 * the main thread last. */
int last_words_put_timeout(struct buf *out,
				  const struct last_words_lines *ls)
{
	struct slice path, line;
	int at, thread;

	for (at = ls->n - 1; at >= 0; at--)
		if (slice_begins(ls->line[at], "Timeout (") &&
		    slice_has(ls->line[at], ")!"))
			break;
	if (at < 0)
		return 0;
	for (int i = at + 1; i < ls->n; i++)
		if (!last_words_frame(ls->line[i], &path, &line) &&
		    !slice_has(ls->line[i], "Thread 0x") &&
		    !slice_has(ls->line[i], "Current thread 0x"))
			return 0; /* it went on */
	for (thread = ls->n - 1; thread > at; thread--)
		if (!last_words_is_indented(ls->line[thread]))
			break;
	last_words_put_cut(out, ls->line[at]);
	last_words_put_place(out, ls, thread + 1, 1);
	return 1;
}

/* ---- frames ---- */

/* "main (/w/train.py:25): step(x)"; at is the frame's line. */
static void last_words_put_frame(struct buf *out,
				 const struct last_words_lines *ls, int at)
{
	static const char in[] = ", in ";
	struct slice path, line, s = ls->line[at], next;
	const char *name = slice_find(s, in);

	last_words_frame(s, &path, &line);
	if (name)
		s = slice_skip(s, (size_t)(name - s.data) + strlen(in));
	else
		s = SLICE_STR("?");
	buf_printf(out, "%.*s (%.*s:%.*s)", SLICE_FMT(s), SLICE_FMT(path),
		   SLICE_FMT(line));
	next = at + 1 < ls->n ? ls->line[at + 1] : SLICE_STR("");
	if (next.len && last_words_is_indented(next) &&
	    !last_words_frame(next, &path, &line)) {
		while (next.len && isspace((unsigned char)next.data[0]))
			next = slice_skip(next, 1);
		buf_printf(out, ": %.*s", SLICE_FMT(next));
	}
	buf_put(out, "\n", 1);
}

int last_words_put_stack(struct buf *out, struct slice traceback)
{
	struct last_words_lines ls;
	struct slice path, line;
	int n = 0;

	last_words_split(&ls, traceback);
	for (int library = 0; library < 2; library++) {
		for (int at = ls.n - 1; at >= 0; at--) {
			if (!last_words_frame(ls.line[at], &path, &line) ||
			    last_words_is_library(path) != library)
				continue;
			last_words_put_frame(out, &ls, at);
			n++;
		}
	}
	return n;
}

void last_words_put_python_place(struct buf *out, struct slice frames)
{
	struct last_words_lines ls = {.n = 0};

	while (frames.len && ls.n < LINES_MAX) {
		struct slice line = slice_next_line(&frames);

		if (line.len && last_words_is_indented(line))
			ls.line[ls.n++] = line;
	}
	last_words_put_place(out, &ls, 0, 1);
}
