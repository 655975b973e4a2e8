/* tty.c: the pseudo-terminal of --tty, and the terminal that it stands for. */
#include "launcher/worker/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/worker/spawn.h"

enum {
	KEYS_MAX = 4096,  /* read at once, and kept until the worker reads */
	RETRY_MS = 300,   /* in the background of the terminal */
	ESCAPE_KEY = 29,  /* Ctrl-] */
};

/* The worker's end; freed when its handle is closed. */
struct tty_link {
	struct tty *tty;
	int fd; /* the pseudo-terminal's master side, ours to write to */
	uv_poll_t room;
	char keys[KEYS_MAX];
	size_t len, sent;
};

/* ---- our terminal ---- */

static int tty_is_in_foreground(const struct tty *t)
{
	pid_t group = tcgetpgrp(t->fd);

	/* it may be another session's terminal */
	return group < 0 || group == getpgrp();
}

/* Keys come as they are typed, and none is a signal. Output is still processed:
 * other ranks' lines end with \n alone. */
static void tty_make_raw(struct tty *t)
{
	struct termios raw = t->saved;

	if (t->is_raw || !tty_is_in_foreground(t))
		return;
	cfmakeraw(&raw);
	raw.c_oflag = t->saved.c_oflag;
	guard_note_terminal(t->guard, &t->saved);
	t->is_raw = tcsetattr(t->fd, TCSANOW, &raw) == 0;
}

static void tty_restore(struct tty *t)
{
	if (t->is_raw)
		tcsetattr(t->fd, TCSANOW, &t->saved);
	t->is_raw = 0;
	guard_note_terminal(t->guard, NULL);
}

static void tty_copy_size(const struct tty *t)
{
	struct winsize size;

	if (t->link && ioctl(t->fd, TIOCGWINSZ, &size) == 0)
		ioctl(t->link->fd, TIOCSWINSZ, &size);
}

static void tty_on_resized(uv_signal_t *h, int number)
{
	tty_copy_size(h->data);
}

/* ---- keys ---- */

static void tty_on_keys(uv_poll_t *poll, int status, int events);

/* Watches, but does not keep the loop alive. */
static void tty_watch(uv_poll_t *poll, int events, uv_poll_cb on_ready)
{
	int rc = uv_poll_start(poll, events, on_ready);

	if (rc < 0)
		log_warn("--tty: keys no longer reach the worker: %s",
			 uv_strerror(rc));
	uv_unref((uv_handle_t *)poll);
}

static void tty_listen(struct tty *t)
{
	tty_watch(&t->keys, UV_READABLE, tty_on_keys);
}

static void tty_on_room(uv_poll_t *poll, int status, int events);

/* 1 if the worker's terminal took all keys. */
static int tty_send_keys(struct tty_link *l)
{
	while (l->sent < l->len) {
		ssize_t n = write(l->fd, l->keys + l->sent, l->len - l->sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			tty_watch(&l->room, UV_WRITABLE, tty_on_room);
			return 0;
		}
		if (n < 0)
			break; /* it has closed its terminal */
		l->sent += (size_t)n;
	}
	l->len = l->sent = 0;
	return 1;
}

static void tty_on_room(uv_poll_t *poll, int status, int events)
{
	struct tty_link *l = poll->data;

	uv_poll_stop(poll);
	if (tty_send_keys(l) && l->tty->link == l)
		tty_listen(l->tty);
}

/* Whether the worker's terminal would make a signal of Ctrl-Z. A program that
 * reads single keys has switched that off. */
static int tty_suspends(const struct tty_link *l, char key)
{
	struct termios at;

	return tcgetattr(l->fd, &at) == 0 && (at.c_lflag & ISIG) &&
	       key == (char)at.c_cc[VSUSP] && key != _POSIX_VDISABLE;
}

/* Takes the keys that are ddprun's out of the n that were read. */
static size_t tty_take_own_keys(struct tty_link *l, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		/* signals of ours: the handlers run from the loop */
		if (l->keys[i] == ESCAPE_KEY)
			kill(getpid(), SIGINT);
		else if (tty_suspends(l, l->keys[i]))
			kill(getpid(), SIGTSTP);
		else
			l->keys[kept++] = l->keys[i];
	}
	return kept;
}

static void tty_on_retry(uv_timer_t *timer)
{
	struct tty *t = timer->data;

	if (!t->link)
		return;
	tty_make_raw(t);
	tty_copy_size(t);
	tty_listen(t);
}

static void tty_on_keys(uv_poll_t *poll, int status, int events)
{
	struct tty *t = poll->data;
	struct tty_link *l = t->link;
	ssize_t n;

	if (!l) {
		uv_poll_stop(poll);
		return;
	}
	n = read(t->fd, l->keys, KEYS_MAX);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) { /* in the background, or the terminal hung up */
		uv_poll_stop(poll);
		if (n < 0 && errno == EIO && !tty_is_in_foreground(t))
			uv_timer_start(&t->retry, tty_on_retry, RETRY_MS, 0);
		uv_unref((uv_handle_t *)&t->retry);
		return;
	}
	l->len = tty_take_own_keys(l, (size_t)n);
	l->sent = 0;
	if (!tty_send_keys(l))
		uv_poll_stop(poll);
}

/* ---- the worker's terminal ---- */

static int tty_failed(struct err *e, const char *what)
{
	int rc = -errno;

	return err_set(e, rc, "--tty: cannot %s: %s", what, strerror(-rc));
}

/* Once: our terminal, and its handles. */
static int tty_begin(struct tty *t, struct err *e)
{
	int rc;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return err_set(e, ERR_USAGE, "--tty %ld: standard input or "
			       "output of this ddprun, which starts rank %ld, "
			       "is not a terminal; start it in one (srun "
			       "--pty, ssh -t, docker run -it)", t->rank,
			       t->rank);
	/* not the inherited descriptor, as in writer.c */
	t->fd = open("/proc/self/fd/0", O_RDWR | O_NONBLOCK | O_NOCTTY |
		     O_CLOEXEC);
	if (t->fd < 0)
		return tty_failed(e, "open the terminal");
	if (tcgetattr(t->fd, &t->saved) < 0)
		return tty_failed(e, "read the terminal's settings");
	spawn_remember_signal(SIGTTIN);
	spawn_remember_signal(SIGTTOU);
	spawn_remember_signal(SIGWINCH);
	signal(SIGTTIN, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	t->keys.data = t->retry.data = t->resized.data = t;
	rc = loop_check(uv_signal_init(t->loop, &t->resized), e,
			"--tty: cannot watch the window's size");
	if (rc < 0)
		return rc;
	t->begun = 1;
	uv_timer_init(t->loop, &t->retry);
	rc = uv_poll_init(t->loop, &t->keys, t->fd);
	t->has_keys = rc == 0;
	if (rc == 0)
		rc = uv_signal_start(&t->resized, tty_on_resized, SIGWINCH);
	uv_unref((uv_handle_t *)&t->resized);
	return loop_check(rc, e, "--tty: cannot watch the terminal");
}

static int tty_make_pair(const struct tty *t, int *master, int *worker,
			 struct err *e)
{
	char path[64];

	*worker = -1;
	*master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*master < 0)
		return tty_failed(e, "open a pseudo-terminal (/dev/ptmx)");
	if (grantpt(*master) == 0 && unlockpt(*master) == 0 &&
	    ptsname_r(*master, path, sizeof(path)) == 0)
		*worker = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*worker >= 0 && tcsetattr(*worker, TCSANOW, &t->saved) == 0 &&
	    fcntl(*master, F_SETFL, O_RDWR | O_NONBLOCK) == 0)
		return 0;
	tty_failed(e, "open a pseudo-terminal (is /dev/pts mounted?)");
	close(*master);
	if (*worker >= 0)
		close(*worker);
	*master = *worker = -1;
	return e->code;
}

static void tty_on_link_closed(uv_handle_t *h)
{
	struct tty_link *l = h->data;

	close(l->fd);
	free(l);
}

/* Takes fd, also after an error. */
static int tty_make_link(struct tty *t, int fd, struct err *e)
{
	struct tty_link *l = calloc(1, sizeof(*l));
	int rc = UV_ENOMEM;

	if (l && fd >= 0)
		rc = uv_poll_init(t->loop, &l->room, fd);
	if (rc < 0) {
		free(l);
		if (fd >= 0)
			close(fd);
		return loop_check(rc, e, "--tty: cannot watch the worker's "
				  "terminal");
	}
	l->tty = t;
	l->fd = fd;
	l->room.data = l;
	t->link = l;
	return 0;
}

int tty_open(struct tty *t, uint32_t rank, int *worker, int *ours,
	     struct err *e)
{
	int rc = 0;

	*worker = *ours = -1;
	if (t->rank == TTY_NONE || (uint32_t)t->rank != rank)
		return 0;
	tty_gone(t, rank); /* the last worker, which was given up */
	if (!t->begun)
		rc = tty_begin(t, e);
	if (rc == 0)
		rc = tty_make_pair(t, ours, worker, e);
	if (rc < 0)
		return rc;
	rc = tty_make_link(t, fcntl(*ours, F_DUPFD_CLOEXEC, 3), e);
	if (rc < 0) {
		close(*ours);
		close(*worker);
		*worker = *ours = -1;
		return rc;
	}
	tty_copy_size(t);
	tty_make_raw(t);
	tty_listen(t);
	return 0;
}

void tty_gone(struct tty *t, uint32_t rank)
{
	if (!t->link || (uint32_t)t->rank != rank)
		return;
	uv_poll_stop(&t->keys);
	uv_timer_stop(&t->retry);
	uv_close((uv_handle_t *)&t->link->room, tty_on_link_closed);
	t->link = NULL;
	tty_restore(t);
}

/* ---- the whole ---- */

void tty_init(struct tty *t, uv_loop_t *loop, struct guard *guard, long rank)
{
	*t = (struct tty){.loop = loop, .guard = guard, .rank = rank,
			  .fd = -1};
}

void tty_suspend(struct tty *t)
{
	if (t->link)
		tty_restore(t);
}

void tty_continue(struct tty *t)
{
	if (t->link)
		tty_on_retry(&t->retry);
}

static void tty_on_closed(uv_handle_t *h)
{
	struct tty *t = h->data;

	close(t->fd);
	t->fd = -1;
}

void tty_close(struct tty *t)
{
	if (t->link)
		tty_gone(t, (uint32_t)t->rank);
	if (t->has_keys)
		uv_close((uv_handle_t *)&t->keys, NULL);
	if (t->begun) {
		uv_close((uv_handle_t *)&t->retry, NULL);
		uv_close((uv_handle_t *)&t->resized, tty_on_closed);
	} else if (t->fd >= 0) {
		close(t->fd);
		t->fd = -1;
	}
	t->begun = t->has_keys = 0;
}
