/* report.c: the failure page as text. */
#include "launcher/failure/report.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "launcher/failure/exit_code.h"
#include "launcher/failure/last_words.h"

enum {
	RULE_COLUMNS = 78,
	TEXT_COLUMNS = 64, /* for the text after a label */
	MESSAGE_LINES = 3, /* an error file's message */
	STACK_LINES = 4,   /* its traceback, if it is not Python's */
	FRAMES_MAX = 64 << 10,
	TAIL_LINES_SHORT = 8, /* stderr, if there is such a message */
	VICTIMS = 4, KILLED = 2,
	ATTEMPTS_SHOWN = 10,
	ATTEMPT_CAUSE_MAX = 96,
};

#define INDENT "|               "

/* The usual cause of this signal, or "". */
static const char *report_signal_hint(int signal)
{
	switch (signal) {
	case SIGKILL:
		return "not sent by ddprun; often the kernel, out of memory: "
		       "see dmesg";
	case SIGTERM:
		return "not sent by ddprun";
	case SIGSEGV:
		return "a bad memory access in the program or a library";
	case SIGBUS:
		return "a bad memory access, a file that was truncated, or no "
		       "room left in /dev/shm";
	case SIGABRT:
		return "the program aborted itself: see its last lines";
	case SIGILL:
		return "an instruction that this processor does not have: "
		       "built for another one?";
	case SIGSYS:
		return "a system call that a seccomp filter forbids";
	case SIGXCPU:
		return "the CPU time limit (ulimit -t)";
	case SIGXFSZ:
		return "the file size limit (ulimit -f)";
	default:
		return "";
	}
}

static void report_put_rule(struct buf *out, const char *title)
{
	int n = 0;

	buf_put(out, "+", 1);
	if (*title) {
		n = (int)strlen(title) + 3;
		buf_printf(out, "- %s ", title);
	}
	for (; n < RULE_COLUMNS; n++)
		buf_put(out, "-", 1);
	buf_put(out, "\n", 1);
}

/* Escapes control characters, also those of Latin-1 in UTF-8: the terminal must
 * not obey a worker's text. */
static void report_put_clean(struct buf *out, struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];
		unsigned char next = i + 1 < text.len
					     ? (unsigned char)text.data[i + 1]
					     : 0;

		if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
			buf_printf(out, "\\u00%02x", next);
			i++;
		} else if (c == '\t' || c >= 0x80 || (c >= 0x20 && c < 0x7f)) {
			buf_put(out, &text.data[i], 1);
		} else if (c != '\r') {
			buf_printf(out, "\\x%02x", c);
		}
	}
}

/* The last max lines of text. */
static struct slice report_last_lines(struct slice text, int max)
{
	size_t at = text.len;

	if (at && text.data[at - 1] == '\n')
		at--;
	while (at > 0) {
		if (text.data[at - 1] == '\n' && --max == 0)
			break;
		at--;
	}
	return SLICE(text.data + at, text.len - at);
}

static void report_put_lines(struct buf *out, struct slice text)
{
	while (text.len) {
		buf_printf(out, "|    ");
		report_put_clean(out, slice_next_line(&text));
		buf_put(out, "\n", 1);
	}
}

static void report_put_tail(struct buf *out, struct slice tail)
{
	if (tail.len == 0) {
		buf_printf(out, "|  last lines   (nothing on stderr)\n");
		return;
	}
	buf_printf(out, "|  last lines of its stderr:\n");
	report_put_lines(out, tail);
}

/* How much of text fits in TEXT_COLUMNS; a line ends before a word. */
static size_t report_line_length(struct slice text)
{
	size_t n = TEXT_COLUMNS;

	if (text.len <= n)
		return text.len;
	while (n > 0 && text.data[n] != ' ')
		n--;
	if (n > 0)
		return n;
	while (n < text.len && text.data[n] != ' ') /* a long path */
		n++;
	return n;
}

static void report_put_wrapped(struct buf *out, const char *label,
			       struct slice text)
{
	while (text.len) {
		size_t n = report_line_length(text);

		buf_printf(out, "|  %-13s", label);
		report_put_clean(out, SLICE(text.data, n));
		buf_put(out, "\n", 1);
		while (n < text.len && text.data[n] == ' ')
			n++;
		text = SLICE(text.data + n, text.len - n);
		label = "";
	}
}

static void report_put_hint(struct buf *out, const struct wire_end *end)
{
	char name[SIGNAL_NAME_MAX], text[256];
	const char *usual = report_signal_hint(end->signal);
	int as_signal = end->code - 128;

	text[0] = '\0';
	/* the post-mortem knows better than the usual cause */
	if (end->signal == SIGKILL && end->why.len)
		usual = "";
	if (*usual)
		snprintf(text, sizeof(text), "(%s)", usual);
	else if (!end->signal && end->code == 127)
		snprintf(text, sizeof(text), "(127 is how a shell reports a "
			 "missing program)");
	else if (!end->signal && end->code == 126)
		snprintf(text, sizeof(text), "(126 is how a shell reports a "
			 "program that it may not execute)");
	else if (!end->signal && as_signal > 0 && as_signal < 32)
		snprintf(text, sizeof(text), "(%d is how a shell reports %s%s)",
			 end->code, signal_name(as_signal, name),
			 as_signal == SIGKILL ? ", often out of memory" : "");
	report_put_wrapped(out, "", SLICE_STR(text));
}

static void report_put_exit(struct buf *out, int code, int signal)
{
	char name[SIGNAL_NAME_MAX];

	if (signal)
		buf_printf(out, "killed by signal %d (%s)", signal,
			   signal_name(signal, name));
	else
		buf_printf(out, "exited with code %d", code);
}

static void report_put_memory(struct buf *out, uint64_t kib)
{
	if (kib >= 10240)
		buf_printf(out, "|  peak memory  %llu MiB\n",
			   (unsigned long long)(kib >> 10));
	else if (kib)
		buf_printf(out, "|  peak memory  %llu KiB\n",
			   (unsigned long long)kib);
}

static int report_contains(struct slice text, struct slice part)
{
	return part.len == 0 ||
	       memmem(text.data, text.len, part.data, part.len) != NULL;
}

/* Returns 0 if it is not a Python traceback. Through libraries such a traceback
 * is longer than the last lines of stderr. */
static int report_put_frames(struct buf *out, struct slice stack,
			     struct slice tail)
{
	struct buf frames = BUF_INIT(FRAMES_MAX);
	int n = last_words_put_stack(&frames, stack);
	const char *first = slice_find(stack, "  File ");
	struct slice from = SLICE_STR("");

	if (first) {
		from = SLICE(first, stack.len - (size_t)(first - stack.data));
		from = slice_next_line(&from);
	}
	if (n && !report_contains(tail, from)) {
		buf_printf(out, "|  its Python stack, the program's own frames "
			   "first:\n");
		report_put_lines(out, SLICE(frames.data, frames.len));
	}
	buf_release(&frames);
	return n;
}

/* The worker's own message, and its traceback unless stderr has it. */
static void report_put_error(struct buf *out, const struct error_file *error,
			     struct slice tail)
{
	struct slice message, first, stack;
	const char *label = "error";

	if (!error || !error->message)
		return;
	message = SLICE_STR(error->message);
	first = message;
	first = slice_next_line(&first);
	for (int i = 0; i < MESSAGE_LINES && message.len; i++) {
		report_put_wrapped(out, label, slice_next_line(&message));
		label = "";
	}
	if (message.len)
		buf_printf(out, INDENT "...\n");
	if (!error->callstack)
		return;
	stack = SLICE_STR(error->callstack);
	if (report_put_frames(out, stack, tail) || report_contains(tail, first))
		return;
	buf_printf(out, "|  the end of its traceback:\n");
	report_put_lines(out, report_last_lines(stack, STACK_LINES));
}

static int report_is_frame(struct slice line)
{
	return line.len > 0 && line.data[0] == '#';
}

/* Each line of the cause, but none twice: the worker's own words are shown
 * below. Not its stack. */
static void report_put_why(struct buf *out, const struct report *r)
{
	struct slice why = r->end->why;

	while (why.len) {
		struct slice line = slice_next_line(&why);

		if (!report_is_frame(line) &&
		    !report_contains(r->end->tail, line) &&
		    !(r->error && r->error->message &&
		      report_contains(SLICE_STR(r->error->message), line)))
			report_put_wrapped(out, "", line);
	}
}

int report_is_hang(const struct wire_end *end)
{
	return end->rank >= 0 && !end->code && !end->signal &&
	       end->exit_code == EXIT_HANGS;
}

static void report_put_stack(struct buf *out, const struct wire_end *end)
{
	struct slice why = end->why;
	int n = 0;

	while (why.len) {
		struct slice line = slice_next_line(&why);

		if (!report_is_frame(line))
			continue;
		if (n++ == 0)
			buf_printf(out, "|  its stack%s:\n",
				   report_is_hang(end) ? "" : " when it died");
		report_put_lines(out, line);
	}
}

static void report_put_first_failure(struct buf *out, const struct report *r)
{
	const struct wire_end *end = r->end;
	int has_message = r->error && r->error->message;
	struct slice tail =
		has_message ? report_last_lines(end->tail, TAIL_LINES_SHORT)
			    : end->tail;

	report_put_rule(out, "first failure");
	buf_printf(out, "|  rank         %d", end->rank);
	if (r->world_size)
		buf_printf(out, " of %u", r->world_size);
	buf_printf(out, " (local rank %u)\n", end->local_rank);
	if (r->role) {
		buf_printf(out, "|  role         %s, program ", r->role);
		report_put_clean(out, SLICE_STR(r->program));
		buf_put(out, "\n", 1);
	}
	buf_printf(out, "|  node         %u, host %.*s\n", end->node_rank,
		   SLICE_FMT(end->host));
	buf_printf(out, "|  pid          %lld\n", (long long)end->pid);
	buf_printf(out, "|  cause        ");
	if (end->code || end->signal)
		report_put_exit(out, end->code, end->signal);
	else if (report_is_hang(end))
		buf_printf(out, "hangs");
	else
		buf_printf(out, "left early with code 0");
	buf_put(out, "\n", 1);
	report_put_why(out, r);
	report_put_hint(out, end);
	report_put_wrapped(out, "last call", end->last);
	report_put_memory(out, end->max_rss_kib);
	buf_printf(out, "|  ran for      %llu.%03llu s\n",
		   (unsigned long long)(end->ran_ms / 1000),
		   (unsigned long long)(end->ran_ms % 1000));
	buf_printf(out, "|  attempt      %u of %u\n", r->attempt + 1,
		   r->max_restarts + 1);
	gpu_news_put(out, r->gpus, end->why, report_put_wrapped);
	report_put_stack(out, end);
	report_put_error(out, r->error, tail);
	report_put_tail(out, tail);
	if (end->log.len)
		report_put_wrapped(out, "full stderr", end->log);
	buf_printf(out, "|  ddprun exits with %d\n", end->exit_code);
}

/* ---- On this node ---- */

static uint32_t report_count(const struct report *r, enum report_fate fate)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->nworkers; i++)
		n += r->workers[i].fate == fate;
	return n;
}

static void report_put_worker(struct buf *out, const struct report *r,
			      const struct report_worker *w)
{
	long long ms = (long long)w->after_ms;

	buf_printf(out, "rank %u (%s%slocal rank %u), pid %lld: ", w->rank,
		   w->role ? w->role : "", w->role ? ", " : "", w->local_rank,
		   (long long)w->pid);
	if (w->fate == REPORT_KILLED) {
		buf_printf(out, "ignored the signal to stop");
		return;
	}
	report_put_exit(out, w->code, w->signal);
	if (r->first_is_here)
		buf_printf(out, ", %lld ms later", ms < 0 ? 0 : ms);
	else
		buf_printf(out, ", %lld ms %s this node learned of it",
			   ms < 0 ? -ms : ms, ms < 0 ? "before" : "after");
}

static void report_put_workers(struct buf *out, const struct report *r,
		     enum report_fate fate, const char *label, uint32_t max)
{
	uint32_t n = report_count(r, fate), shown = 0;

	for (uint32_t i = 0; i < r->nworkers && shown < max; i++) {
		if (r->workers[i].fate != fate)
			continue;
		buf_printf(out, "|  %-13s", shown ? "" : label);
		report_put_worker(out, r, &r->workers[i]);
		buf_put(out, "\n", 1);
		if (r->workers[i].last)
			report_put_wrapped(out, "",
					   SLICE_STR(r->workers[i].last));
		shown++;
	}
	if (n > shown)
		buf_printf(out, INDENT "and %u more\n", n - shown);
}

static void report_put_node(struct buf *out, const struct report *r)
{
	uint32_t stopped = report_count(r, REPORT_STOPPED);
	uint32_t done = report_count(r, REPORT_DONE);
	uint32_t others =
		report_count(r, REPORT_VICTIM) + report_count(r, REPORT_KILLED);

	if (others + stopped + done == 0 || (r->end->rank < 0 && !others))
		return;
	report_put_rule(out, "on this node");
	report_put_workers(out, r, REPORT_VICTIM, "victims", VICTIMS);
	report_put_workers(out, r, REPORT_KILLED, "killed", KILLED);
	if (stopped)
		buf_printf(out, "|  stopped      %u worker%s, by ddprun\n",
			   stopped, stopped == 1 ? "" : "s");
	if (done)
		buf_printf(out, "|  had ended    %u worker%s, with code 0\n",
			   done, done == 1 ? "" : "s");
}

static void report_put_attempt(struct buf *out, const struct attempt *a)
{
	time_t seconds = (time_t)(a->ended_ms / 1000);
	struct buf cause = BUF_INIT(ATTEMPT_CAUSE_MAX + 1);
	char when[32];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm);
	buf_printf(out, "|  attempt %-4u %s, ", a->attempt + 1, when);
	attempt_put_cause(&cause, a, ATTEMPT_CAUSE_MAX);
	report_put_clean(out, SLICE(cause.data, cause.len));
	buf_put(out, "\n", 1);
	buf_release(&cause);
	if (!a->swap || !*a->swap)
		return;
	buf_printf(out, "|  then         ");
	report_put_clean(out, SLICE_STR(a->swap));
	buf_put(out, "\n", 1);
}

/* A job without restarts has its one attempt on the page already. */
static void report_put_attempts(struct buf *out, const struct report *r)
{
	uint32_t n = r->nattempts, first;

	if (n == 0 || (n == 1 && r->attempts[0].attempt == 0))
		return;
	first = n > ATTEMPTS_SHOWN ? n - ATTEMPTS_SHOWN : 0;
	report_put_rule(out, "attempts");
	if (r->attempts[first].attempt)
		buf_printf(out, "|  (%u before %s)\n",
			   r->attempts[first].attempt,
			   n - first == 1 ? "this" : "these");
	for (uint32_t i = first; i < n; i++)
		report_put_attempt(out, &r->attempts[i]);
}

void report_put(struct buf *out, const struct report *r)
{
	const struct wire_end *end = r->end;
	size_t first_line;

	buf_printf(out, "ddprun: job '%s' %s: ", r->job,
		   end->verdict == WIRE_ENDED ? "ended" : "failed");
	report_put_clean(out, end->text);
	buf_put(out, "\n", 1);
	first_line = out->len;
	if (end->rank >= 0)
		report_put_first_failure(out, r);
	report_put_node(out, r);
	report_put_attempts(out, r);
	if (out->len > first_line)
		report_put_rule(out, "");
}

const char *report_fate_name(enum report_fate fate)
{
	static const char *const names[REPORT_FATES] = {
		[REPORT_FIRST] = "first_failure", [REPORT_VICTIM] = "victim",
		[REPORT_STOPPED] = "stopped", [REPORT_KILLED] = "killed",
		[REPORT_DONE] = "succeeded",
	};

	return names[fate];
}
