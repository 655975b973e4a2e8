/* tty.c: the pseudo-terminal of --tty. */
#include "launcher/worker/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

/* The worker's end; freed when its handle is closed. */
struct tty_link {
	struct tty *tty;
	int fd; /* the pseudo-terminal's master side, ours to write to */
	uv_poll_t room;
	char keys[TERMINAL_KEYS]; /* kept until the worker reads */
	size_t len, sent;
};

/* ---- keys ---- */

static void tty_on_room(uv_poll_t *poll, int status, int events);

/* 1 if the worker's terminal took all keys. */
static int tty_send_keys(struct tty_link *l)
{
	while (l->sent < l->len) {
		ssize_t n = write(l->fd, l->keys + l->sent, l->len - l->sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			terminal_watch(&l->room, UV_WRITABLE, tty_on_room);
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
		terminal_listen(&l->tty->own);
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
		if (l->keys[i] == TERMINAL_ESCAPE)
			kill(getpid(), SIGINT);
		else if (tty_suspends(l, l->keys[i]))
			kill(getpid(), SIGTSTP);
		else
			l->keys[kept++] = l->keys[i];
	}
	return kept;
}

static int tty_on_keys(void *owner, char *keys, size_t n)
{
	struct tty *t = owner;
	struct tty_link *l = t->link;

	memcpy(l->keys, keys, n);
	l->len = t->note_fd ? n : tty_take_own_keys(l, n);
	l->sent = 0;
	return tty_send_keys(l);
}

static void tty_on_resized(void *owner)
{
	const struct tty *t = owner;
	struct winsize size = terminal_size(&t->own);

	if (size.ws_row || size.ws_col)
		ioctl(t->link->fd, TIOCSWINSZ, &size);
}

static const struct terminal_events terminal_events = {
	.on_keys = tty_on_keys, .on_resized = tty_on_resized,
};

/* ---- the worker's terminal ---- */

static int tty_failed(struct err *e, const char *what)
{
	int rc = -errno;

	return err_set(e, rc, "--tty: cannot %s: %s", what, strerror(-rc));
}

static int tty_check(const struct tty *t, struct err *e)
{
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		return 0;
	return err_set(e, ERR_USAGE, "--tty %ld: standard input or output of "
		       "this ddprun, which starts rank %ld, is not a terminal; "
		       "start it in one (ssh -t, docker run -it; srun --pty "
		       "for the first node; in salloc, ddprun without srun for "
		       "any rank)", t->rank, t->rank);
}

/* The worker's settings are those of our terminal. A far one is raw: there they
 * are the system's, for UTF-8. */
static int tty_set_up(const struct tty *t, int worker)
{
	struct termios at = t->own.saved;

	if (t->note_fd || !t->own.begun) {
		if (tcgetattr(t->note_fd ? worker : STDIN_FILENO, &at) < 0)
			return -1;
	}
	if (t->note_fd)
		at.c_iflag |= IUTF8;
	return tcsetattr(worker, TCSANOW, &at);
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
	if (*worker >= 0 && tty_set_up(t, *worker) == 0 &&
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

/* Noted for the head; without a reader the job ends soon. */
static void tty_note(const struct tty *t, char is_lent)
{
	if (t->note_fd && write(t->note_fd, &is_lent, 1) < 0)
		log_debug("--tty: %s", strerror(errno));
}

int tty_open(struct tty *t, uint32_t rank, int *worker, int *ours,
	     struct err *e)
{
	int rc;

	*worker = *ours = -1;
	if (t->rank == TTY_NONE || (uint32_t)t->rank != rank)
		return 0;
	tty_gone(t, rank); /* the last worker, which was given up */
	rc = tty_check(t, e);
	if (rc == 0)
		rc = tty_make_pair(t, ours, worker, e);
	if (rc < 0)
		return rc;
	rc = tty_make_link(t, fcntl(*ours, F_DUPFD_CLOEXEC, 3), e);
	if (rc == 0)
		rc = terminal_lend(&t->own, e);
	if (rc == 0) {
		tty_note(t, '1');
		return 0;
	}
	tty_gone(t, rank);
	close(*ours);
	close(*worker);
	*worker = *ours = -1;
	return rc;
}

void tty_gone(struct tty *t, uint32_t rank)
{
	if (!t->link || (uint32_t)t->rank != rank)
		return;
	terminal_take_back(&t->own);
	uv_close((uv_handle_t *)&t->link->room, tty_on_link_closed);
	t->link = NULL;
	tty_note(t, '0');
}

/* ---- the whole ---- */

void tty_init(struct tty *t, uv_loop_t *loop, struct guard *guard, long rank,
	      int note_fd)
{
	*t = (struct tty){.loop = loop, .rank = rank, .note_fd = note_fd};
	terminal_init(&t->own, loop, guard, &terminal_events, t);
}

void tty_suspend(struct tty *t)
{
	terminal_suspend(&t->own);
}

void tty_continue(struct tty *t)
{
	terminal_continue(&t->own);
}

void tty_close(struct tty *t)
{
	if (t->link)
		tty_gone(t, (uint32_t)t->rank);
	terminal_close(&t->own);
}
