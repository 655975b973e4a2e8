/* helper_link.c: a pair of sockets and a child. */
#include "launcher/pmix/helper_link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/pmix/pmix_helper.h"
#include "launcher/worker/spawn.h"

enum { READ_BYTES = 64 << 10 };

static void helper_link_on_ready(uv_poll_t *p, int status, int events);

static void helper_link_fail(struct helper_link *l, const struct err *why)
{
	if (l->has_failed || l->is_closing)
		return;
	l->has_failed = 1;
	l->events->on_failed(l, why);
}

static void helper_link_watch(struct helper_link *l)
{
	int rc = uv_poll_start(&l->poll,
			       l->out.len && !l->is_closing
				       ? UV_READABLE | UV_WRITABLE
				       : UV_READABLE,
			       helper_link_on_ready);
	struct err e = ERR_INIT;

	if (rc < 0) {
		loop_check(rc, &e, "cannot watch the socket of MPI's helper");
		helper_link_fail(l, &e);
	}
}

/* ---- frames from it ---- */

static void helper_link_take(struct helper_link *l)
{
	struct err e = ERR_INIT;
	size_t at = 0;
	long n;

	do {
		struct pmix_frame f;

		n = pmix_frame_cut(SLICE(l->in.data + at, l->in.len - at), &f,
				   &e);
		if (n > 0)
			l->events->on_frame(l, &f);
		at += n > 0 ? (size_t)n : 0;
	} while (n > 0 && !l->is_closing);
	buf_consume(&l->in, at);
	if (n < 0)
		helper_link_fail(l, &e);
}

static void helper_link_on_poll_closed(uv_handle_t *h)
{
	struct helper_link *l = h->data;

	close(l->fd);
	/* it closes its end by exiting; ECHILD: it was reaped already */
	if (l->pid)
		waitpid(l->pid, NULL, 0);
	buf_release(&l->in);
	buf_release(&l->out);
	l->events->on_closed(l);
}

/* It has ended. Its owner hears of it when the process is reaped, and closes
 * then, if it has not closed before. */
static void helper_link_end(struct helper_link *l)
{
	l->is_at_end = 1;
	uv_poll_stop(&l->poll);
	if (l->is_closing)
		uv_close((uv_handle_t *)&l->poll, helper_link_on_poll_closed);
}

/* error: 0 at the end; ECONNRESET if the helper did not read all before. */
static void helper_link_lose(struct helper_link *l, int error)
{
	struct err e = ERR_INIT;

	if (error && error != ECONNRESET) {
		err_set(&e, -error, "cannot read from MPI's helper: %s",
			strerror(error));
		helper_link_fail(l, &e);
	}
	helper_link_end(l);
}

/* 0: there is no more to read for now. */
static int helper_link_read(struct helper_link *l)
{
	struct err e = ERR_INIT;
	char *to = buf_reserve(&l->in, READ_BYTES);
	ssize_t n;

	if (!to) {
		err_no_memory(&e, "a message of MPI's helper");
		helper_link_fail(l, &e);
		helper_link_end(l);
		return 0;
	}
	n = recv(l->fd, to, READ_BYTES, MSG_DONTWAIT);
	if (n > 0) {
		l->in.len += (size_t)n;
		if (l->is_closing)
			buf_reset(&l->in);
		else
			helper_link_take(l);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		helper_link_lose(l, n ? errno : 0);
	}
	return n > 0;
}

void helper_link_poll(struct helper_link *l)
{
	while (!l->is_at_end && !l->is_closing && helper_link_read(l))
		;
}

/* ---- frames to it ---- */

/* The helper ends at the end of its input: with EPIPE it has ended already, and
 * its owner learns that when the process is reaped. */
static void helper_link_stop_sending(struct helper_link *l, int error)
{
	struct err e = ERR_INIT;

	buf_reset(&l->out);
	shutdown(l->fd, SHUT_WR);
	if (error == EPIPE || error == ECONNRESET)
		return;
	err_set(&e, -error, "cannot write to MPI's helper: %s",
		strerror(error));
	helper_link_fail(l, &e);
}

static void helper_link_flush(struct helper_link *l)
{
	ssize_t n = 1;

	while (l->out.len && n > 0) {
		n = send(l->fd, l->out.data, l->out.len,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0)
			buf_consume(&l->out, (size_t)n);
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		helper_link_stop_sending(l, errno);
	if (!l->is_at_end)
		helper_link_watch(l);
}

void helper_link_send(struct helper_link *l, const struct pmix_frame *f)
{
	struct err e = ERR_INIT;

	if (l->is_closing)
		return;
	pmix_frame_put(&l->out, f);
	if (l->out.failed) {
		err_no_memory(&e, "a message to MPI's helper");
		helper_link_fail(l, &e);
		return;
	}
	helper_link_flush(l);
}

static void helper_link_on_ready(uv_poll_t *p, int status, int events)
{
	struct helper_link *l = p->data;

	if (events & UV_WRITABLE)
		helper_link_flush(l);
	if (status < 0 || events & (UV_READABLE | UV_DISCONNECT))
		helper_link_read(l);
}

/* ---- from start to end ---- */

static pid_t helper_link_spawn(int end, struct err *e)
{
	extern char **environ;
	static char name[] = "ddprun", command[] = PMIX_HELPER_COMMAND;
	char *argv[] = {name, command, NULL};
	struct spawn order = {
		.path = "/proc/self/exe",
		.argv = argv,
		.envp = environ,
		.in = end,
		.out = STDERR_FILENO,
		.err = STDERR_FILENO,
		.keep = {-1, -1},
		.survives = 1, /* it removes its files */
	};

	return spawn_process(&order, e);
}

int helper_link_start(struct helper_link *l, uv_loop_t *loop,
		      const struct helper_link_events *events, void *owner,
		      struct err *e)
{
	int fds[2], rc;

	*l = (struct helper_link){.owner = owner, .events = events};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set(e, -errno, "cannot create a pair of sockets for "
			       "MPI's helper: %s", strerror(errno));
	rc = helper_link_spawn(fds[1], e);
	close(fds[1]);
	l->pid = rc;
	l->fd = fds[0];
	if (rc > 0)
		rc = loop_check(uv_poll_init(loop, &l->poll, l->fd), e,
				"cannot watch the socket of MPI's helper");
	if (rc < 0) {
		close(l->fd); /* a helper ends with it */
		return rc;
	}
	l->poll.data = l;
	buf_init(&l->in, PMIX_FRAME_MAX + READ_BYTES);
	buf_init(&l->out, 2 * PMIX_FRAME_MAX);
	helper_link_watch(l);
	return 0;
}

int helper_link_is_dead(const struct helper_link *l, int *status)
{
	siginfo_t how = {.si_pid = 0};

	if (!l->pid || l->is_closing ||
	    waitid(P_PID, (id_t)l->pid, &how, WEXITED | WNOHANG | WNOWAIT) <
		    0 ||
	    how.si_pid != l->pid)
		return 0;
	*status = how.si_code == CLD_EXITED ? how.si_status << 8
					    : how.si_status;
	return 1;
}

void helper_link_close(struct helper_link *l)
{
	if (l->is_closing)
		return;
	l->is_closing = 1;
	buf_reset(&l->out);
	if (l->is_at_end)
		uv_close((uv_handle_t *)&l->poll, helper_link_on_poll_closed);
	else if (shutdown(l->fd, SHUT_WR) < 0)
		helper_link_end(l); /* the helper ends when fd is closed */
	else
		helper_link_watch(l);
}
