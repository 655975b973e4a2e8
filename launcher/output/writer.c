/* writer.c: writes the launcher's own outputs. */
#include "launcher/output/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum {
	QUEUE_MAX = 256 << 20, /* back-pressure keeps it at about 1 MiB */
	KEEP_BYTES = 128 << 10,
	STATUS_MAX = 4096,
};

#define ERASE_LINE "\r\x1b[K"

/* Reopens fd as non-blocking. Setting O_NONBLOCK on the inherited descriptor
 * would also change it for our parent and for every worker that shares it. */
static void writer_reopen(struct writer *w)
{
	char path[32];
	struct stat st;
	int fd;

	if (fstat(w->fd, &st) < 0 || S_ISREG(st.st_mode) || S_ISBLK(st.st_mode))
		return;
	if (S_ISSOCK(st.st_mode)) {
		w->kind = WRITER_SOCKET;
		return;
	}
	if (S_ISCHR(st.st_mode) && !isatty(w->fd))
		return; /* /dev/null and the like */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", w->fd);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	w->kind = fd < 0 ? WRITER_SHARED : WRITER_OWN;
	if (fd >= 0)
		w->fd = fd;
}

static void writer_measure(struct writer *w)
{
	struct winsize size;

	w->columns = 0;
	if (!isatty(w->fd))
		return;
	w->columns = 80;
	w->rows = 24;
	if (ioctl(w->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
		w->columns = size.ws_col;
		w->rows = size.ws_row;
	}
}

int writer_wants_color(const char *no_color, const char *term)
{
	return !(no_color && *no_color) && term && *term &&
	       strcmp(term, "dumb") != 0 && strncmp(term, "vt1", 3) != 0;
}

int writer_init(struct writer *w, uv_loop_t *loop, int fd)
{
	int rc;

	*w = (struct writer){.fd = fd, .kind = WRITER_PLAIN};
	buf_init(&w->queue, QUEUE_MAX);
	buf_init(&w->status, STATUS_MAX);
	writer_reopen(w);
	writer_measure(w);
	w->has_color = w->columns && writer_wants_color(getenv("NO_COLOR"),
							getenv("TERM"));
	if (w->kind == WRITER_PLAIN)
		return 0;
	if (w->kind != WRITER_OWN) {
		/* libuv sets O_NONBLOCK on what it polls. The flag belongs to
		 * the open file, which we may share, so restore it at once */
		int flags = fcntl(fd, F_GETFL);

		rc = uv_poll_init(loop, &w->poll, fd);
		if (flags >= 0 && !(flags & O_NONBLOCK))
			fcntl(fd, F_SETFL, flags);
	} else {
		rc = uv_poll_init(loop, &w->poll, w->fd);
	}
	if (rc < 0) { /* it cannot be polled: write it plainly */
		if (w->kind == WRITER_OWN)
			close(w->fd);
		w->fd = fd;
		w->kind = WRITER_PLAIN;
		return 0;
	}
	w->poll.data = w;
	return 0;
}

static void writer_on_closed(uv_handle_t *h)
{
	struct writer *w = h->data;

	if (w->kind == WRITER_OWN)
		close(w->fd);
	w->fd = -1;
}

void writer_close(struct writer *w)
{
	if (w->kind != WRITER_PLAIN && w->poll.data)
		uv_close((uv_handle_t *)&w->poll, writer_on_closed);
}

void writer_release(struct writer *w)
{
	buf_release(&w->queue);
	buf_release(&w->status);
}

size_t writer_pending(const struct writer *w)
{
	return w->queue.len - w->sent;
}

/* Waits for room: the inherited descriptor may be non-blocking. */
static ssize_t writer_put_plain(int fd, const char *p, size_t n)
{
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	ssize_t sent;

	while ((sent = write(fd, p, n)) < 0 && errno == EAGAIN)
		poll(&room, 1, -1);
	return sent;
}

static ssize_t writer_put_some(struct writer *w, const char *p, size_t n)
{
	switch (w->kind) {
	case WRITER_SOCKET:
		return send(w->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	case WRITER_SHARED:
		/* a pipe that polls as writable takes PIPE_BUF bytes */
		return write(w->fd, p, n < PIPE_BUF ? n : PIPE_BUF);
	case WRITER_PLAIN:
		return writer_put_plain(w->fd, p, n);
	default:
		return write(w->fd, p, n);
	}
}

static void writer_drop(struct writer *w)
{
	w->sent = 0;
	if (w->queue.cap > KEEP_BYTES)
		buf_release(&w->queue);
	else
		buf_reset(&w->queue);
}

/* Sends until it would block; returns 1 if something is left. */
static int writer_send_queue(struct writer *w, int once)
{
	while (writer_pending(w)) {
		ssize_t n = writer_put_some(w, w->queue.data + w->sent,
					    writer_pending(w));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 1;
		if (n < 0) {
			/* the reader closed, or the disk is full: the job
			 * continues without this output */
			w->broken = errno;
			writer_drop(w);
			return 0;
		}
		w->sent += (size_t)n;
		if (once && writer_pending(w))
			return 1;
	}
	writer_drop(w);
	return 0;
}

/* Draws the status line only when the queue is empty, so that a slow terminal
 * shows the newest one, not all. */
static int writer_send_all(struct writer *w)
{
	int once = w->kind == WRITER_SHARED;

	if (writer_send_queue(w, once))
		return 1;
	if (!w->status.len || w->status_shown || w->broken)
		return 0;
	buf_put(&w->queue, w->status.data, w->status.len);
	w->status_shown = 1;
	return once || writer_send_queue(w, once);
}

static void writer_on_writable(uv_poll_t *poll, int status, int events)
{
	struct writer *w = poll->data;

	/* write(2) will report the same error */
	if (!writer_send_all(w)) {
		uv_poll_stop(&w->poll);
		w->polling = 0;
	} else if (w->sent > w->queue.len / 2) {
		buf_consume(&w->queue, w->sent);
		w->sent = 0;
	}
	if (w->on_room)
		w->on_room(w->arg);
}

void writer_flush(struct writer *w)
{
	int left, rc;

	if (w->polling || !(writer_pending(w) || w->status.len))
		return;
	/* only the poll knows whether a shared one would block */
	left = w->kind == WRITER_SHARED || writer_send_all(w);
	if (!left || w->kind == WRITER_PLAIN)
		return;
	rc = uv_poll_start(&w->poll, UV_WRITABLE, writer_on_writable);
	w->polling = rc == 0;
	if (rc < 0) {
		w->broken = -rc;
		writer_drop(w);
	}
}

/* Out of memory to queue the text: writes the queue and the text now. The loop
 * waits for the reader, but not forever. */
static void writer_put_at_once(struct writer *w, struct slice text)
{
	enum { WAIT_MS = 1000 };
	struct pollfd p = {.fd = w->fd, .events = POLLOUT};
	size_t sent = 0;

	w->queue.failed = 0;
	while (writer_pending(w) && writer_send_queue(w, 0))
		if (poll(&p, 1, WAIT_MS) <= 0)
			return;
	while (sent < text.len && !w->broken) {
		ssize_t n = writer_put_some(w, text.data + sent,
					    text.len - sent);

		if (n >= 0)
			sent += (size_t)n;
		else if (errno != EINTR && errno != EAGAIN)
			w->broken = errno;
		else if (errno == EAGAIN && poll(&p, 1, WAIT_MS) <= 0)
			return;
	}
}

/* The cursor is on an empty line, as far as we know. */
static void writer_begin_line(struct writer *w)
{
	if (w->is_open)
		buf_put(&w->queue, "\n", 1);
	w->is_open = 0;
	if (w->status_shown)
		buf_put(&w->queue, ERASE_LINE, sizeof(ERASE_LINE) - 1);
	w->status_shown = 0;
}

void writer_put_raw(struct writer *w, struct slice bytes)
{
	if (w->broken || !bytes.len)
		return;
	buf_put(&w->queue, bytes.data, bytes.len);
	w->is_open = bytes.data[bytes.len - 1] != '\n';
	if (w->queue.failed)
		writer_put_at_once(w, bytes);
}

void writer_put(struct writer *w, const char *data, size_t n)
{
	if (w->broken)
		return;
	writer_begin_line(w);
	buf_put(&w->queue, data, n);
	if (w->queue.failed)
		writer_put_at_once(w, SLICE(data, n));
}

static char *writer_append(char *to, const char *from, size_t n)
{
	memcpy(to, from, n);
	return to + n;
}

void writer_put_line(struct writer *w, struct slice prefix, const char *begin,
		     struct slice text, const char *end)
{
	size_t begins = strlen(begin), ends = strlen(end);
	size_t n = prefix.len + begins + text.len + ends;
	char *to;

	if (w->broken)
		return;
	writer_begin_line(w);
	to = buf_reserve(&w->queue, n);
	if (!to) {
		writer_put_at_once(w, prefix);
		writer_put_at_once(w, SLICE_STR(begin));
		writer_put_at_once(w, text);
		writer_put_at_once(w, SLICE_STR(end));
		return;
	}
	if (prefix.len)
		to = writer_append(to, prefix.data, prefix.len);
	to = writer_append(to, begin, begins);
	if (text.len)
		to = writer_append(to, text.data, text.len);
	writer_append(to, end, ends);
	w->queue.len += n;
}

/* Counts columns as bytes that begin a UTF-8 character. */
static void writer_put_narrow(struct buf *out, struct slice text, int *columns)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];

		if (c == 0x1b) { /* ESC [ ... letter */
			while (i + 1 < text.len &&
			       !((text.data[i + 1] | 0x20) >= 'a' &&
				 (text.data[i + 1] | 0x20) <= 'z'))
				i++;
			i++;
			continue;
		}
		if (c < 0x20 || c == 0x7f)
			continue;
		if ((c & 0xc0) != 0x80 && (*columns)-- <= 0)
			return;
		buf_put(out, &text.data[i], 1);
	}
}

void writer_set_status(struct writer *w, struct slice prefix, struct slice text)
{
	int columns;

	if (!w->columns || w->broken)
		return;
	if (w->status_shown) {
		buf_put(&w->queue, ERASE_LINE, sizeof(ERASE_LINE) - 1);
		w->status_shown = 0;
	}
	buf_reset(&w->status);
	if (!text.len)
		return;
	writer_measure(w); /* people resize their terminals */
	columns = w->columns - 1;
	writer_put_narrow(&w->status, prefix, &columns);
	writer_put_narrow(&w->status, text, &columns);
	w->status.failed = 0;
}

/* ---- stdout and stderr of this process ---- */

static int writer_pair_is_one_file(void)
{
	struct stat a, b;

	return fstat(STDOUT_FILENO, &a) == 0 && fstat(STDERR_FILENO, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

void writer_pair_init(struct writer_pair *p, uv_loop_t *loop,
		      void (*on_room)(void *arg), void *arg)
{
	*p = (struct writer_pair){.has_warned = 0};
	writer_init(&p->writers[0], loop, STDOUT_FILENO);
	p->out = p->err = &p->writers[0];
	/* the second writer is then idle, but must exist */
	if (writer_pair_is_one_file()) {
		p->writers[1] = (struct writer){.kind = WRITER_PLAIN};
	} else {
		writer_init(&p->writers[1], loop, STDERR_FILENO);
		p->err = &p->writers[1];
	}
	for (int i = 0; i < 2; i++) {
		p->writers[i].on_room = on_room;
		p->writers[i].arg = arg;
	}
}

size_t writer_pair_pending(const struct writer_pair *p)
{
	return writer_pending(&p->writers[0]) + writer_pending(&p->writers[1]);
}

static void writer_pair_warn(struct writer_pair *p)
{
	int why = p->out->broken;

	if (!why || why == EPIPE || p->has_warned)
		return;
	p->has_warned = 1;
	log_warn("cannot write to stdout: %s; the job continues, but what its "
		 "workers print is lost",
		 strerror(why));
}

void writer_pair_flush(struct writer_pair *p)
{
	writer_flush(p->out);
	writer_pair_warn(p);
	if (p->err != p->out)
		writer_flush(p->err);
}

void writer_pair_abandon(struct writer_pair *p)
{
	for (int i = 0; i < 2; i++) {
		p->writers[i].broken = EPIPE;
		p->writers[i].sent = p->writers[i].queue.len;
	}
}

void writer_pair_close(struct writer_pair *p)
{
	writer_close(&p->writers[0]);
	writer_close(&p->writers[1]);
}

void writer_pair_release(struct writer_pair *p)
{
	writer_release(&p->writers[0]);
	writer_release(&p->writers[1]);
}
