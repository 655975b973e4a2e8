/* output.c: from the workers' pipes to the launcher's outputs. */
#include "launcher/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum {
	PIECE_BYTES = 64 << 10,
	DRAIN_MAX = 1 << 20, /* a pipe holds no more, but one can be refilled */
	PAUSE_BYTES = 1 << 20,
	RESUME_BYTES = 512 << 10,
};

static void on_readable(uv_poll_t *poll, int status, int events);

static size_t pending(const struct output *o)
{
	return writer_pending(&o->writers[0]) + writer_pending(&o->writers[1]);
}

static void pause_reading(struct output *o, int paused)
{
	if (o->paused == paused)
		return;
	o->paused = paused;
	for (struct stream *s = o->streams; s; s = s->next) {
		if (paused)
			uv_poll_stop(&s->poll);
		else
			uv_poll_start(&s->poll, UV_READABLE, on_readable);
	}
}

static void close_when_drained(struct output *o)
{
	if (o->closing != 1 || pending(o))
		return;
	o->closing = 2;
	log_set_sink(NULL, NULL);
	writer_close(&o->writers[0]);
	writer_close(&o->writers[1]);
}

static void on_room(void *arg)
{
	struct output *o = arg;

	if (o->paused && pending(o) <= RESUME_BYTES)
		pause_reading(o, 0);
	close_when_drained(o);
}

/* A reader that left has what it wanted; a full disk is worth a line. */
static void tell_lost(struct output *o)
{
	int why = o->out->broken;

	if (!why || why == EPIPE || o->told_lost)
		return;
	o->told_lost = 1;
	log_warn("cannot write to stdout: %s; the job goes on, what its workers"
		 " print there is lost", strerror(why));
}

static void flush(struct output *o)
{
	writer_flush(o->out);
	tell_lost(o);
	if (o->err != o->out)
		writer_flush(o->err);
	if (!o->closing && pending(o) > PAUSE_BYTES)
		pause_reading(o, 1);
}

static void log_sink(void *arg, const char *line, unsigned long len)
{
	output_print(arg, line, len);
}

static int is_same_file(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 &&
	       sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

int output_init(struct output *o, uv_loop_t *loop)
{
	*o = (struct output){.loop = loop};
	o->piece = malloc(PIECE_BYTES);
	if (!o->piece)
		return -ENOMEM;
	writer_init(&o->writers[0], loop, STDOUT_FILENO);
	o->out = o->err = &o->writers[0];
	/* the second one has nothing to do then, but is always there */
	if (is_same_file(STDOUT_FILENO, STDERR_FILENO)) {
		o->writers[1] = (struct writer){.kind = WRITER_PLAIN};
	} else {
		writer_init(&o->writers[1], loop, STDERR_FILENO);
		o->err = &o->writers[1];
	}
	for (int i = 0; i < 2; i++) {
		o->writers[i].on_room = on_room;
		o->writers[i].arg = o;
	}
	log_set_sink(log_sink, o);
	return 0;
}

void output_close(struct output *o)
{
	if (o->closing)
		return;
	o->closing = 1;
	writer_set_status(o->out, SLICE("", 0), SLICE("", 0));
	flush(o);
	close_when_drained(o);
}

void output_abandon(struct output *o)
{
	for (int i = 0; i < 2; i++) {
		o->writers[i].broken = EPIPE;
		o->writers[i].sent = o->writers[i].queue.len;
	}
	close_when_drained(o);
}

void output_release(struct output *o)
{
	log_set_sink(NULL, NULL);
	writer_release(&o->writers[0]);
	writer_release(&o->writers[1]);
	free(o->piece);
}

void output_print(struct output *o, const char *text, size_t n)
{
	writer_put(o->err, text, n);
	flush(o);
}

void output_terminal(const struct output *o, int *columns, int *rows)
{
	*columns = o->out->columns;
	*rows = o->out->columns ? o->out->rows : 0;
}

static void on_line(void *arg, struct slice text, int flags)
{
	struct stream *s = arg;
	struct writer *w = s->writer;

	if (w->columns && memchr(text.data, '\r', text.len))
		text = lines_last_segment(text);
	writer_put(w, s->prefix, strlen(s->prefix));
	if (flags & LINES_BEGUN)
		writer_put(w, "... ", 4);
	writer_put(w, text.data, text.len);
	writer_put(w, flags & LINES_OPEN ? " ...\n" : "\n",
		   flags & LINES_OPEN ? 5 : 1);
	if (s->tail)
		tail_add(s->tail, lines_last_segment(text));
}

/* Its line was ended, and stands above now. */
static void forget_redrawn(struct stream *s)
{
	if (s->output->redrawn != s)
		return;
	s->output->redrawn = NULL;
	writer_set_status(s->writer, SLICE("", 0), SLICE("", 0));
}

static void show_redrawn(struct stream *s)
{
	struct slice text;

	if (!s->writer->columns)
		return;
	text = lines_redrawn(&s->lines);
	if (text.data) {
		writer_set_status(s->writer, SLICE_STR(s->prefix), text);
		s->output->redrawn = s;
	} else {
		forget_redrawn(s);
	}
}

/* What read(2) said: more than 0, 0 at the end, -EAGAIN. */
static long read_piece(struct stream *s)
{
	struct output *o = s->output;
	ssize_t n;

	do {
		n = read(s->fd, o->piece, PIECE_BYTES);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n > 0)
		lines_feed(&s->lines, SLICE(o->piece, (size_t)n), on_line, s);
	return n;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct stream *s = poll->data;
	long n = read_piece(s);

	if (n == -EAGAIN)
		return;
	if (n > 0)
		show_redrawn(s);
	else
		stream_close(s);
	flush(s->output);
}

int stream_open(struct stream *s, struct output *o, int fd, int is_stderr,
		uint32_t rank, struct tail *tail, void (*on_closed)(void *arg),
		void *arg)
{
	int rc;

	*s = (struct stream){.output = o, .fd = -1, .tail = tail, .arg = arg};
	rc = uv_poll_init(o->loop, &s->poll, fd);
	if (rc < 0)
		return rc;
	lines_init(&s->lines);
	s->poll.data = s;
	s->fd = fd;
	s->writer = is_stderr ? o->err : o->out;
	s->on_closed = on_closed;
	snprintf(s->prefix, sizeof(s->prefix), "[%u] ", rank);
	s->next = o->streams;
	if (s->next)
		s->next->prev = s;
	o->streams = s;
	if (!o->paused)
		uv_poll_start(&s->poll, UV_READABLE, on_readable);
	return 0;
}

void stream_drain(struct stream *s)
{
	long n = 1, sum = 0;

	if (s->fd < 0)
		return;
	while (sum < DRAIN_MAX && (n = read_piece(s)) > 0)
		sum += n;
	lines_end(&s->lines, on_line, s);
	forget_redrawn(s);
	if (n == 0)
		stream_close(s);
	flush(s->output);
}

static void on_stream_closed(uv_handle_t *h)
{
	struct stream *s = h->data;

	s->on_closed(s->arg);
}

void stream_close(struct stream *s)
{
	if (s->fd < 0)
		return;
	lines_end(&s->lines, on_line, s);
	forget_redrawn(s);
	lines_release(&s->lines);
	if (s->prev)
		s->prev->next = s->next;
	else
		s->output->streams = s->next;
	if (s->next)
		s->next->prev = s->prev;
	uv_close((uv_handle_t *)&s->poll, on_stream_closed);
	close(s->fd);
	s->fd = -1;
}
