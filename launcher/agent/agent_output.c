/* agent_output.c: answers the question for the last lines of a worker's output,
 * from memory or, where the worker writes to a file itself, from that file. */
#include <errno.h>
#include <string.h>

#include "base/file_wait.h"
#include "launcher/agent/agent_internal.h"

enum { UNFINISHED_MAX = 4 << 10 };

/* Reads the file of a stream that does not pass through this agent. */
static void agent_output_read_file(const struct agent *a,
				   const struct worker *w, int is_stderr,
				   struct tail *t, struct buf *text)
{
	const char *name = is_stderr ? "stderr" : "stdout";
	char path[LOGDIR_PATH_MAX], server[FILE_WAIT_SERVER_MAX];
	int rc;

	logdir_stream(&a->logdir, w->local_rank, is_stderr, path);
	if (!*path && w->running && !is_stderr && w->out.of.fd < 0)
		buf_printf(text, "its stdout is discarded: the options neither "
			   "show it nor write it to a file");
	if (!*path)
		return;
	rc = logdir_read_tail(&a->logdir, w->local_rank, is_stderr, t);
	if (rc == -ETIMEDOUT)
		buf_printf(text, "its %s, %s, cannot be read: its file system "
			   "(%s) does not answer", name, path,
			   file_wait_server(path, server));
	else if (rc < 0)
		buf_printf(text, "%sits %s, %s, cannot be read: %s",
			   text->len ? "; " : "", name, path, strerror(-rc));
}

/* Appends the last lines of a stream. text gets a reason why they are not
 * complete. */
static void agent_output_put(struct buf *out, const struct agent *a,
			     const struct worker *w, int is_stderr,
			     uint32_t lines, struct buf *text)
{
	const struct tail *kept = is_stderr ? &w->tail : &w->out_tail;
	struct slice rest = stream_unfinished(is_stderr ? &w->err : &w->out);
	struct tail read;
	struct slice last;

	tail_init(&read, TAIL_BYTES);
	if (!kept->lines && !rest.len)
		agent_output_read_file(a, w, is_stderr, &read, text);
	lines -= rest.len != 0;
	last = tail_last(tail_text(kept->lines ? kept : &read), lines);
	buf_put(out, last.data, last.len);
	if (rest.len > UNFINISHED_MAX)
		rest = SLICE(rest.data + rest.len - UNFINISHED_MAX,
			     UNFINISHED_MAX);
	buf_put(out, rest.data, rest.len);
	tail_release(&read);
}

void agent_on_output(struct member *m, const struct wire_dump_request *q)
{
	struct wire_dump_reply reply = {.number = q->number};
	struct agent *a = m->owner;
	struct buf out = BUF_INIT(TAIL_BYTES + UNFINISHED_MAX);
	struct buf err = BUF_INIT(TAIL_BYTES + UNFINISHED_MAX);
	uint32_t local = q->rank - a->group.base_rank;
	struct buf text = BUF_INIT(WIRE_TEXT_MAX);

	if (local >= a->group.n) {
		buf_printf(&text, "rank %u is no longer on this host", q->rank);
	} else {
		const struct worker *w = &a->group.workers[local];

		agent_output_put(&out, a, w, 0, q->lines, &text);
		agent_output_put(&err, a, w, 1, q->lines, &text);
	}
	reply.text = SLICE(text.data, text.len);
	reply.out = SLICE(out.data, out.len);
	reply.err = SLICE(err.data, err.len);
	member_send_page(m, &reply);
	buf_release(&out);
	buf_release(&err);
	buf_release(&text);
}
