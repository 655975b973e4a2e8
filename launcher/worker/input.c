/* input.c: passes standard input on to workers. */
#include "launcher/worker/input.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/worker/spawn.h"

enum {
	PIECE = 64 << 10, /* a pipe's size */
	RETRY_MS = 500,
};

struct input_pipe {
	struct input *in;
	struct input_pipe *next;
	uint32_t rank;
	int fd;        /* the write end */
	int live;      /* its worker runs */
	size_t sent;   /* how many of input.bytes it got */
	uv_poll_t poll;
};

static void input_pump(struct input *in);

/* ---- to the workers ---- */

static void input_on_pipe_closed(uv_handle_t *h)
{
	struct input_pipe *p = h->data;

	close(p->fd);
	free(p);
}

/* Closes the pipe: its reader gets an end of file. */
static void input_drop_pipe(struct input_pipe *p)
{
	struct input_pipe **at = &p->in->pipes;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	uv_close((uv_handle_t *)&p->poll, input_on_pipe_closed);
}

static void input_on_room(uv_poll_t *poll, int status, int events)
{
	struct input_pipe *p = poll->data;

	uv_poll_stop(poll);
	input_pump(p->in);
}

/* 1 if the pipe got all bytes, or its worker closed its stdin. */
static int input_fill_pipe(struct input_pipe *p)
{
	struct input *in = p->in;
	ssize_t n = 0;

	while (p->sent < in->len) {
		n = write(p->fd, in->bytes + p->sent,
			  in->len - p->sent);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		p->sent += (size_t)n;
	}
	if (n >= 0)
		return 1;
	if (errno == EAGAIN) {
		int rc = uv_poll_start(&p->poll, UV_WRITABLE | UV_DISCONNECT,
				       input_on_room);

		uv_unref((uv_handle_t *)&p->poll);
		if (rc == 0)
			return 0;
		log_warn("rank %u no longer reads standard input: %s", p->rank,
			 uv_strerror(rc));
	}
	input_drop_pipe(p);
	return 1;
}

static int input_send_all(struct input *in)
{
	struct input_pipe *next;
	int done = 1;

	for (struct input_pipe *p = in->pipes; p; p = next) {
		next = p->next;
		/* an ended worker's pipe is kept for its successor */
		done &= p->live ? input_fill_pipe(p) : p->sent == in->len;
	}
	if (done) {
		in->len = 0;
		for (struct input_pipe *p = in->pipes; p; p = p->next)
			p->sent = 0;
	}
	return done;
}

/* ---- from our stdin ---- */

static void input_end(struct input *in)
{
	in->ended = 1;
	while (in->pipes)
		input_drop_pipe(in->pipes);
}

static int input_is_in_background(const struct input *in)
{
	pid_t group = tcgetpgrp(in->fd);

	return in->is_terminal && group >= 0 && group != getpgrp();
}

static void input_on_retry(uv_timer_t *t)
{
	input_pump(t->data);
}

static void input_on_readable(uv_poll_t *poll, int status, int events)
{
	struct input *in = poll->data;

	uv_poll_stop(poll);
	input_pump(in);
}

static void input_read_failed(struct input *in, int why)
{
	log_warn("cannot read standard input: %s; the workers get end of file",
		 strerror(why));
	input_end(in);
}

static void input_wait(struct input *in)
{
	int rc = uv_poll_start(&in->poll, UV_READABLE, input_on_readable);

	uv_unref((uv_handle_t *)&in->poll);
	if (rc < 0)
		input_read_failed(in, -rc);
}

/* 1 if there are bytes to send now. */
static int input_read(struct input *in)
{
	ssize_t n;

	do {
		n = read(in->fd, in->bytes, PIECE);
	} while (n < 0 && errno == EINTR); /* FUSE ignores SA_RESTART */
	if (n > 0) {
		in->len = (size_t)n;
		return 1;
	}
	if (n < 0 && errno == EAGAIN && !in->is_plain) {
		input_wait(in);
	} else if (n < 0 && (errno == EAGAIN ||
			     (errno == EIO && input_is_in_background(in)))) {
		/* Retry by timer: a file cannot be polled, and SIGTTIN is
		 * ignored, so a read in the background of a terminal fails
		 * instead of stopping us. */
		uv_timer_start(&in->retry, input_on_retry, RETRY_MS, 0);
		uv_unref((uv_handle_t *)&in->retry);
	} else if (n < 0 && errno != EIO) { /* EIO: the terminal hung up */
		input_read_failed(in, errno);
	} else {
		input_end(in);
	}
	return 0;
}

static int input_has_reader(const struct input *in)
{
	for (const struct input_pipe *p = in->pipes; p; p = p->next) {
		if (p->live)
			return 1;
	}
	return 0;
}

/* Passes on as much as it can without waiting; from a file one piece at a time,
 * so that the loop runs in between. */
static void input_pump(struct input *in)
{
	if (!input_send_all(in) || in->ended ||
	    !(in->unread || input_has_reader(in)))
		return;
	if (in->is_plain) {
		if (input_read(in))
			uv_timer_start(&in->retry, input_on_retry, 0, 0);
	} else if (input_read(in) && input_send_all(in)) {
		input_wait(in);
	}
}

/* ---- the descriptor ---- */

/* Reopens stdin: O_NONBLOCK on the inherited descriptor would affect every
 * process that shares it (as in writer.c). */
static int input_reopen(struct input *in)
{
	int fd = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY |
		      O_CLOEXEC);

	return fd >= 0 ? fd : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
}

static int input_begin(struct input *in, struct err *e)
{
	struct stat st;
	int flags, rc;

	in->begun = 1;
	in->bytes = malloc(PIECE);
	if (!in->bytes || fstat(STDIN_FILENO, &st) < 0)
		return err_set(e, in->bytes ? -errno : -ENOMEM,
			       "cannot read standard input: %s",
			       strerror(in->bytes ? errno : ENOMEM));
	in->is_plain = !in->is_terminal && !S_ISFIFO(st.st_mode) &&
		       !S_ISSOCK(st.st_mode);
	/* a file is not reopened: that would start at its beginning */
	in->fd = in->is_plain ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
			      : input_reopen(in);
	if (in->fd < 0)
		return err_set(e, -errno, "cannot read standard input: %s",
			       strerror(errno));
	if (in->is_terminal) {
		spawn_remember_signal(SIGTTIN);
		signal(SIGTTIN, SIG_IGN);
	}
	if (!in->is_plain) {
		flags = fcntl(in->fd, F_GETFL);
		rc = uv_poll_init(in->loop, &in->poll, in->fd);
		if (flags >= 0 && !(flags & O_NONBLOCK))
			fcntl(in->fd, F_SETFL, flags);
		if (rc < 0) {
			close(in->fd);
			in->fd = -1;
			return loop_check(rc, e, "cannot watch standard input");
		}
	}
	uv_timer_init(in->loop, &in->retry);
	in->retry.data = in->poll.data = in;
	return 0;
}

static int input_add_pipe(struct input *in, uint32_t rank, int *fd,
			  struct err *e)
{
	struct input_pipe *p = calloc(1, sizeof(*p));
	int ends[2], rc;

	if (!p || pipe2(ends, O_CLOEXEC) < 0) {
		err_set(e, p ? -errno : -ENOMEM,
			"cannot create a pipe for a worker's stdin: %s",
			strerror(p ? errno : ENOMEM));
		free(p);
		return e ? e->code : ERR_SYSTEM;
	}
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	*p = (struct input_pipe){.in = in, .next = in->pipes, .rank = rank,
				 .fd = ends[1], .live = 1, .sent = in->len};
	rc = uv_poll_init(in->loop, &p->poll, p->fd);
	if (rc < 0) {
		close(ends[0]);
		close(ends[1]);
		free(p);
		return loop_check(rc, e, "cannot watch a worker's stdin");
	}
	in->pipes = p;
	p->poll.data = p;
	*fd = ends[0];
	return 0;
}

/* ---- for the round ---- */

void input_init(struct input *in, uv_loop_t *loop, long rank)
{
	*in = (struct input){.loop = loop, .rank = rank, .fd = -1, .kept = -1};
	if (rank == INPUT_NONE)
		return;
	in->is_terminal = isatty(STDIN_FILENO);
	in->pumped = rank == INPUT_ALL || in->is_terminal;
}

static int input_open_kept(struct input *in, uint32_t rank, int *fd,
			   struct err *e)
{
	int rc;

	if (in->kept < 0) {
		rc = input_add_pipe(in, rank, &in->kept, e);
		if (rc < 0)
			return rc;
	} else if (in->pipes) {
		in->pipes->live = 1;
	}
	*fd = fcntl(in->kept, F_DUPFD_CLOEXEC, 3);
	return 0;
}

void input_unread(struct input *in)
{
	struct err e = ERR_INIT;

	if (!in->is_copy || in->rank == INPUT_NONE || in->is_terminal ||
	    in->given || in->unread || in->ended)
		return;
	if (!in->begun && input_begin(in, &e) < 0)
		log_warn("%s", e.text);
	if (in->fd < 0 || in->is_plain) /* a file belongs to this node alone */
		return;
	in->unread = 1;
	input_pump(in);
}

static void input_end_unread(struct input *in)
{
	if (in->unread)
		uv_poll_stop(&in->poll);
	in->unread = 0;
}

int input_open(struct input *in, uint32_t rank, int *fd, struct err *e)
{
	int rc = 0;

	*fd = -1;
	if (in->rank == INPUT_NONE ||
	    (in->rank != INPUT_ALL && (uint32_t)in->rank != rank))
		return 0;
	input_end_unread(in);
	in->given = 1;
	if (!in->pumped) {
		*fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return 0;
	}
	if (!in->begun)
		rc = input_begin(in, e);
	if (rc == 0 && in->rank != INPUT_ALL)
		rc = input_open_kept(in, rank, fd, e);
	else if (rc == 0 && !in->ended)
		rc = input_add_pipe(in, rank, fd, e);
	/* read from the loop, when all workers have their pipes */
	if (rc == 0 && !in->ended) {
		uv_timer_start(&in->retry, input_on_retry, 0, 0);
		uv_unref((uv_handle_t *)&in->retry);
	}
	return rc;
}

void input_gone(struct input *in, uint32_t rank)
{
	struct input_pipe *p = in->pipes;

	while (p && p->rank != rank)
		p = p->next;
	if (!p)
		return;
	p->live = 0;
	if (in->kept >= 0) {
		uv_poll_stop(&p->poll);
		return;
	}
	input_drop_pipe(p);
	in->given = in->pipes != NULL;
	input_unread(in);
	/* the other workers may have waited only for this one */
	input_pump(in);
}

void input_end_round(struct input *in)
{
	input_end_unread(in);
	in->given = 0;
	while (in->kept < 0 && in->pipes)
		input_drop_pipe(in->pipes);
}

static void input_on_closed(uv_handle_t *h)
{
	struct input *in = h->data;

	if (in->fd >= 0)
		close(in->fd);
	in->fd = -1;
}

void input_close(struct input *in)
{
	while (in->pipes)
		input_drop_pipe(in->pipes);
	if (in->kept >= 0)
		close(in->kept);
	in->kept = -1;
	if (in->begun && in->fd >= 0) {
		uv_close((uv_handle_t *)&in->retry, NULL);
		if (in->is_plain)
			input_on_closed((uv_handle_t *)&in->retry);
		else
			uv_close((uv_handle_t *)&in->poll, input_on_closed);
	}
	free(in->bytes);
	in->bytes = NULL;
}
