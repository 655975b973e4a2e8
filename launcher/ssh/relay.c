/* relay.c: two writers, and back pressure. */
#include "launcher/ssh/relay.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum { FULL_BYTES = 1 << 20, ROOM_BYTES = 512 << 10 };

static size_t relay_pending(const struct relay *r)
{
	return writer_pending(&r->writers[0]) + writer_pending(&r->writers[1]);
}

static void relay_set_full(struct relay *r, int full)
{
	if (r->full == full)
		return;
	r->full = full;
	r->on_full(r->arg, full);
}

static void relay_close_when_drained(struct relay *r)
{
	if (r->closing != 1 || relay_pending(r))
		return;
	r->closing = 2;
	log_set_sink(NULL, NULL);
	writer_close(&r->writers[0]);
	writer_close(&r->writers[1]);
}

static void relay_on_room(void *arg)
{
	struct relay *r = arg;

	if (!r->closing && relay_pending(r) <= ROOM_BYTES)
		relay_set_full(r, 0);
	relay_close_when_drained(r);
}

static void relay_warn_lost(struct relay *r)
{
	int why = r->out->broken;

	if (!why || why == EPIPE || r->has_warned)
		return;
	r->has_warned = 1;
	log_warn("cannot write to stdout: %s; the job continues, but what its "
		 "workers print is lost",
		 strerror(why));
}

void relay_put(struct relay *r, int is_stderr, struct slice text)
{
	struct writer *w = is_stderr ? r->err : r->out;

	writer_put(w, text.data, text.len);
	writer_flush(w);
	relay_warn_lost(r);
	if (!r->closing && relay_pending(r) > FULL_BYTES)
		relay_set_full(r, 1);
}

static void relay_on_log_line(void *arg, const char *line, unsigned long len)
{
	relay_put(arg, 1, SLICE(line, len));
}

static int relay_is_same_file(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 &&
	       sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

void relay_init(struct relay *r, uv_loop_t *loop,
		void (*on_full)(void *arg, int full), void *arg)
{
	*r = (struct relay){.on_full = on_full, .arg = arg};
	writer_init(&r->writers[0], loop, STDOUT_FILENO);
	r->out = r->err = &r->writers[0];
	/* one queue for one file, or lines would interleave */
	if (relay_is_same_file(STDOUT_FILENO, STDERR_FILENO)) {
		r->writers[1] = (struct writer){.kind = WRITER_PLAIN};
	} else {
		writer_init(&r->writers[1], loop, STDERR_FILENO);
		r->err = &r->writers[1];
	}
	for (int i = 0; i < 2; i++) {
		r->writers[i].on_room = relay_on_room;
		r->writers[i].arg = r;
	}
	log_set_sink(relay_on_log_line, r);
}

void relay_close(struct relay *r)
{
	if (r->closing)
		return;
	r->closing = 1;
	writer_flush(r->out);
	writer_flush(r->err);
	relay_close_when_drained(r);
}

void relay_abandon(struct relay *r)
{
	for (int i = 0; i < 2; i++) {
		r->writers[i].broken = EPIPE;
		r->writers[i].sent = r->writers[i].queue.len;
	}
	relay_close_when_drained(r);
}

void relay_release(struct relay *r)
{
	log_set_sink(NULL, NULL);
	writer_release(&r->writers[0]);
	writer_release(&r->writers[1]);
}
