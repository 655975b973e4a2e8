/* report.c: the failure page. */
#include "launcher/report.h"

#include <signal.h>
#include <stdio.h>

#include "base/signal_name.h"

enum { RULE_COLUMNS = 78 };

/* What people usually need to know next; NULL where nothing is usual. */
static const char *hint(int code, int signal)
{
	switch (signal) {
	case SIGKILL:
		return "not sent by ddprun: often the kernel out of memory "
		       "(see dmesg)";
	case SIGSEGV:
	case SIGBUS:
		return "a bad memory access in the program or a library";
	case SIGABRT:
		return "the program gave up itself: see its last lines";
	case SIGXCPU:
		return "the CPU time limit (ulimit -t)";
	case SIGXFSZ:
		return "the file size limit (ulimit -f)";
	case 0:
		break;
	default:
		return NULL;
	}
	if (code == 137)
		return "137 is how a shell reports SIGKILL";
	if (code == 127)
		return "127 is how a shell reports a missing program";
	return NULL;
}

static void rule(struct buf *out, const char *title)
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

/* Programs write escape codes and the like; a page must not obey them. */
static void put_clean(struct buf *out, struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];

		if (c == '\t' || c >= 0x80 || (c >= 0x20 && c < 0x7f))
			buf_put(out, &text.data[i], 1);
		else if (c != '\r')
			buf_printf(out, "\\x%02x", c);
	}
}

static void put_tail(struct buf *out, struct slice tail)
{
	if (tail.len == 0) {
		buf_printf(out, "|  last lines   (nothing on stderr)\n");
		return;
	}
	buf_printf(out, "|  last lines of its stderr:\n");
	while (tail.len) {
		const char *end = memchr(tail.data, '\n', tail.len);
		size_t n = end ? (size_t)(end - tail.data) : tail.len;

		buf_printf(out, "|    ");
		put_clean(out, SLICE(tail.data, n));
		buf_put(out, "\n", 1);
		n += end != NULL;
		tail = SLICE(tail.data + n, tail.len - n);
	}
}

static void put_cause(struct buf *out, int code, int signal)
{
	char name[SIGNAL_NAME_MAX];
	const char *why = hint(code, signal);

	if (signal)
		buf_printf(out, "|  cause        killed by signal %d (%s)\n",
			   signal, signal_name(signal, name));
	else
		buf_printf(out, "|  cause        exited with code %d\n", code);
	if (why)
		buf_printf(out, "|               (%s)\n", why);
}

static void put_worker(struct buf *out, const struct report *r)
{
	const struct wire_end *end = r->end;

	rule(out, "first failure");
	buf_printf(out, "|  rank         %d of %u (local rank %u)\n", end->rank,
		   r->world_size, end->local_rank);
	buf_printf(out, "|  node         %u, host %.*s\n", end->node_rank,
		   SLICE_FMT(end->host));
	buf_printf(out, "|  pid          %lld\n", (long long)end->pid);
	put_cause(out, end->code, end->signal);
	buf_printf(out, "|  ran for      %llu.%03llu s\n",
		   (unsigned long long)(end->ran_ms / 1000),
		   (unsigned long long)(end->ran_ms % 1000));
	buf_printf(out, "|  attempt      %u of %u\n", r->attempt + 1,
		   r->max_restarts + 1);
	put_tail(out, end->tail);
	buf_printf(out, "|  ddprun exits with %d\n", end->exit_code);
	rule(out, "");
}

void report_put(struct buf *out, const struct report *r)
{
	const struct wire_end *end = r->end;

	buf_printf(out, "ddprun: job '%s' %s: ", r->job,
		   end->verdict == WIRE_ENDED ? "ended" : "failed");
	put_clean(out, end->text);
	buf_put(out, "\n", 1);
	if (end->rank >= 0)
		put_worker(out, r);
}
