/* console.c: two writers, and when to stop. */
#include "launcher/ssh/console.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum { FULL_BYTES = 1 << 20, ROOM_BYTES = 512 << 10 };

static size_t pending(const struct console *c)
{
	return writer_pending(&c->writers[0]) + writer_pending(&c->writers[1]);
}

static void set_full(struct console *c, int full)
{
	if (c->full == full)
		return;
	c->full = full;
	c->on_full(c->arg, full);
}

static void close_when_drained(struct console *c)
{
	if (c->closing != 1 || pending(c))
		return;
	c->closing = 2;
	log_set_sink(NULL, NULL);
	writer_close(&c->writers[0]);
	writer_close(&c->writers[1]);
}

static void on_room(void *arg)
{
	struct console *c = arg;

	if (!c->closing && pending(c) <= ROOM_BYTES)
		set_full(c, 0);
	close_when_drained(c);
}

static void tell_lost(struct console *c)
{
	int why = c->out->broken;

	if (!why || why == EPIPE || c->told_lost)
		return;
	c->told_lost = 1;
	log_warn("cannot write to stdout: %s; the job goes on, what its workers"
		 " print there is lost", strerror(why));
}

void console_put(struct console *c, int is_stderr, struct slice text)
{
	struct writer *w = is_stderr ? c->err : c->out;

	writer_put(w, text.data, text.len);
	writer_flush(w);
	tell_lost(c);
	if (!c->closing && pending(c) > FULL_BYTES)
		set_full(c, 1);
}

static void log_sink(void *arg, const char *line, unsigned long len)
{
	console_put(arg, 1, SLICE(line, len));
}

static int is_same_file(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 &&
	       sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

void console_init(struct console *c, uv_loop_t *loop,
		  void (*on_full)(void *arg, int full), void *arg)
{
	*c = (struct console){.on_full = on_full, .arg = arg};
	writer_init(&c->writers[0], loop, STDOUT_FILENO);
	c->out = c->err = &c->writers[0];
	/* two queues would tear each other's lines */
	if (is_same_file(STDOUT_FILENO, STDERR_FILENO)) {
		c->writers[1] = (struct writer){.kind = WRITER_PLAIN};
	} else {
		writer_init(&c->writers[1], loop, STDERR_FILENO);
		c->err = &c->writers[1];
	}
	for (int i = 0; i < 2; i++) {
		c->writers[i].on_room = on_room;
		c->writers[i].arg = c;
	}
	log_set_sink(log_sink, c);
}

void console_close(struct console *c)
{
	if (c->closing)
		return;
	c->closing = 1;
	writer_flush(c->out);
	writer_flush(c->err);
	close_when_drained(c);
}

void console_abandon(struct console *c)
{
	for (int i = 0; i < 2; i++) {
		c->writers[i].broken = EPIPE;
		c->writers[i].sent = c->writers[i].queue.len;
	}
	close_when_drained(c);
}

void console_release(struct console *c)
{
	log_set_sink(NULL, NULL);
	writer_release(&c->writers[0]);
	writer_release(&c->writers[1]);
}
