/* terminal.c: raw mode, keys and the window's size. */
#include "launcher/worker/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/worker/spawn.h"

enum { RETRY_MS = 300 }; /* in the background of the terminal */

static int terminal_is_in_foreground(const struct terminal *t)
{
	pid_t group = tcgetpgrp(t->fd);

	/* it may be another session's terminal */
	return group < 0 || group == getpgrp();
}

/* Keys come as they are typed, and none is a signal. Output is still processed:
 * other ranks' lines end with \n alone. */
static void terminal_make_raw(struct terminal *t)
{
	struct termios raw = t->saved;

	if (t->is_raw || !terminal_is_in_foreground(t))
		return;
	cfmakeraw(&raw);
	raw.c_oflag = t->saved.c_oflag;
	if (t->guard)
		guard_note_terminal(t->guard, &t->saved);
	t->is_raw = tcsetattr(t->fd, TCSANOW, &raw) == 0;
}

static void terminal_restore(struct terminal *t)
{
	if (t->is_raw)
		tcsetattr(t->fd, TCSANOW, &t->saved);
	t->is_raw = 0;
	if (t->guard)
		guard_note_terminal(t->guard, NULL);
}

static void terminal_on_resized(uv_signal_t *h, int number)
{
	struct terminal *t = h->data;

	if (t->is_lent)
		t->events->on_resized(t->owner);
}

struct winsize terminal_size(const struct terminal *t)
{
	struct winsize size = {0};

	if (ioctl(t->fd < 0 ? STDIN_FILENO : t->fd, TIOCGWINSZ, &size) < 0)
		return (struct winsize){0};
	return size;
}

/* ---- keys ---- */

void terminal_watch(uv_poll_t *poll, int events, uv_poll_cb on_ready)
{
	int rc = uv_poll_start(poll, events, on_ready);

	if (rc < 0)
		log_warn("--tty: keys no longer reach the worker: %s",
			 uv_strerror(rc));
	uv_unref((uv_handle_t *)poll);
}

static void terminal_on_retry(uv_timer_t *timer)
{
	struct terminal *t = timer->data;

	if (!t->is_lent)
		return;
	terminal_make_raw(t);
	t->events->on_resized(t->owner);
	terminal_listen(t);
}

static void terminal_on_keys(uv_poll_t *poll, int status, int events)
{
	struct terminal *t = poll->data;
	char keys[TERMINAL_KEYS];
	ssize_t n;

	if (!t->is_lent) {
		uv_poll_stop(poll);
		return;
	}
	n = read(t->fd, keys, sizeof(keys));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) { /* in the background, or the terminal hung up */
		uv_poll_stop(poll);
		if (n < 0 && errno == EIO && !terminal_is_in_foreground(t))
			uv_timer_start(&t->retry, terminal_on_retry, RETRY_MS,
				       0);
		uv_unref((uv_handle_t *)&t->retry);
		return;
	}
	if (!t->events->on_keys(t->owner, keys, (size_t)n))
		uv_poll_stop(poll);
}

void terminal_listen(struct terminal *t)
{
	if (t->is_lent)
		terminal_watch(&t->keys, UV_READABLE, terminal_on_keys);
}

/* ---- from start to end ---- */

static int terminal_failed(struct err *e, const char *what)
{
	int rc = -errno;

	return err_set(e, rc, "--tty: cannot %s: %s", what, strerror(-rc));
}

static int terminal_begin(struct terminal *t, struct err *e)
{
	int rc;

	/* not the inherited descriptor, as in writer.c */
	t->fd = open("/proc/self/fd/0", O_RDWR | O_NONBLOCK | O_NOCTTY |
		     O_CLOEXEC);
	if (t->fd < 0)
		return terminal_failed(e, "open the terminal");
	if (tcgetattr(t->fd, &t->saved) < 0)
		return terminal_failed(e, "read the terminal's settings");
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
		rc = uv_signal_start(&t->resized, terminal_on_resized,
				     SIGWINCH);
	uv_unref((uv_handle_t *)&t->resized);
	return loop_check(rc, e, "--tty: cannot watch the terminal");
}

void terminal_init(struct terminal *t, uv_loop_t *loop, struct guard *guard,
		   const struct terminal_events *events, void *owner)
{
	*t = (struct terminal){.loop = loop, .guard = guard, .events = events,
			       .owner = owner, .fd = -1};
}

int terminal_lend(struct terminal *t, struct err *e)
{
	int rc = t->begun ? 0 : terminal_begin(t, e);

	if (rc < 0)
		return rc;
	t->is_lent = 1;
	t->events->on_resized(t->owner);
	terminal_make_raw(t);
	terminal_listen(t);
	return 0;
}

void terminal_take_back(struct terminal *t)
{
	if (!t->is_lent)
		return;
	t->is_lent = 0;
	uv_poll_stop(&t->keys);
	uv_timer_stop(&t->retry);
	terminal_restore(t);
}

void terminal_suspend(struct terminal *t)
{
	if (t->is_lent)
		terminal_restore(t);
}

void terminal_continue(struct terminal *t)
{
	if (t->is_lent)
		terminal_on_retry(&t->retry);
}

static void terminal_on_closed(uv_handle_t *h)
{
	struct terminal *t = h->data;

	close(t->fd);
	t->fd = -1;
}

void terminal_close(struct terminal *t)
{
	terminal_take_back(t);
	if (t->has_keys)
		uv_close((uv_handle_t *)&t->keys, NULL);
	if (t->begun) {
		uv_close((uv_handle_t *)&t->retry, NULL);
		uv_close((uv_handle_t *)&t->resized, terminal_on_closed);
	} else if (t->fd >= 0) {
		close(t->fd);
		t->fd = -1;
	}
	t->begun = t->has_keys = 0;
}
