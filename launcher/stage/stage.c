/* stage.c: the helper's pipes, and the lines that come. */
#include "launcher/stage/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "launcher/stage/stage_helper.h"
#include "launcher/worker/spawn.h"
#include "launcher/worker/sweep.h"

enum { READ_BYTES = 16 << 10, LINES_MAX = 64 << 10 };

/* ---- reports ---- */

static void stage_fail(struct stage *s, const char *why)
{
	if (s->has_result)
		return;
	s->has_result = 1;
	s->on_failed(s->owner, why);
}

static void stage_take(struct stage *s, struct slice line)
{
	struct stage_report r;
	char text[ERR_TEXT_MAX];

	if (stage_report_parse(&r, line) < 0) {
		log_debug("the stage helper sent '%.*s'", SLICE_FMT(line));
		return;
	}
	if (r.kind == 'E') {
		snprintf(text, sizeof(text), "%.*s", SLICE_FMT(r.text));
		stage_fail(s, text);
		return;
	}
	if (r.kind == 'A')
		s->has_result = 1;
	s->on_report(s->owner, &r);
}

static void stage_take_lines(struct stage *s)
{
	size_t at = 0;
	char *end;

	while (s->fd >= 0 && at < s->in.len &&
	       (end = memchr(s->in.data + at, '\n', s->in.len - at))) {
		size_t n = (size_t)(end - s->in.data) - at;

		stage_take(s, SLICE(s->in.data + at, n));
		at += n + 1;
	}
	if (s->fd >= 0)
		buf_consume(&s->in, at);
}

static void stage_end_reports(struct stage *s)
{
	if (s->fd < 0)
		return;
	if (s->has_poll)
		uv_poll_stop(&s->poll);
	close(s->fd);
	s->fd = -1;
}

/* 0: there is no more to read for now. */
static int stage_read(struct stage *s)
{
	char *to = buf_reserve(&s->in, READ_BYTES);
	ssize_t n = to ? read(s->fd, to, READ_BYTES) : 0;

	if (n > 0) {
		s->in.len += (size_t)n;
		stage_take_lines(s);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		stage_end_reports(s);
	}
	return n > 0 && s->fd >= 0;
}

static void stage_on_readable(uv_poll_t *p, int status, int events)
{
	struct stage *s = p->data;

	while (s->fd >= 0 && stage_read(s))
		;
}

/* ---- from start to end ---- */

static int stage_spawn(int in, int out, int listener, struct err *e)
{
	extern char **environ;
	static char name[] = "ddprun", command[] = STAGE_HELPER_COMMAND;
	char *argv[] = {name, command, NULL};
	const struct spawn order = {
		.path = "/proc/self/exe", .argv = argv, .envp = environ,
		.in = in, .out = out, .err = STDERR_FILENO,
		.keep = {listener, -1}, .keep_as = STAGE_LISTENER,
	};

	return spawn_process(&order, e);
}

/* An order is smaller than a pipe. */
static int stage_write_order(const struct stage_order *order, int *in,
			     struct err *e)
{
	struct buf text = BUF_INIT(STAGE_ORDER_MAX);
	int fds[2], rc;

	stage_order_put(&text, order);
	if (text.failed || pipe2(fds, O_CLOEXEC) < 0) {
		rc = text.failed ? text.failed : -errno;
	} else {
		*in = fds[0];
		fcntl(fds[1], F_SETFL, O_NONBLOCK);
		rc = file_write_all(fds[1], text.data, text.len);
		close(fds[1]);
		if (rc < 0)
			close(fds[0]);
	}
	if (text.data)
		proof_wipe(text.data, text.len);
	buf_release(&text);
	return rc < 0 ? err_set(e, rc, "--stage: cannot give the helper its "
				"order: %s", err_name(rc)) : 0;
}

int stage_start(struct stage *s, const struct stage_order *order, int listener,
		struct err *e)
{
	int fds[2], in = -1, rc;

	s->fd = -1;
	buf_init(&s->in, LINES_MAX);
	rc = stage_write_order(order, &in, e);
	if (rc < 0)
		return rc;
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		rc = err_set(e, -errno, "pipe2: %s", strerror(errno));
		close(in);
		return rc;
	}
	s->fd = fds[0];
	fcntl(fds[1], F_SETFL, 0); /* the helper waits for room */
	rc = stage_spawn(in, fds[1], listener, e);
	close(in);
	close(fds[1]);
	if (rc < 0)
		return rc;
	s->pid = rc;
	sweep_leave(s->pid); /* it is no worker's */
	rc = loop_check(uv_poll_init(s->loop, &s->poll, s->fd), e,
			"cannot watch the stage helper");
	if (rc < 0)
		return rc;
	s->has_poll = 1;
	s->poll.data = s;
	return loop_check(uv_poll_start(&s->poll, UV_READABLE,
					stage_on_readable), e,
			  "cannot watch the stage helper");
}

static void stage_on_poll_closed(uv_handle_t *h)
{
	struct stage *s = h->data;
	void (*closed)(struct stage *s) = s->closed;

	closed(s);
}

void stage_stop(struct stage *s, void (*closed)(struct stage *s))
{
	s->has_result = 1;
	stage_end_reports(s);
	if (s->pid)
		kill(s->pid, SIGKILL);
	buf_release(&s->in);
	s->closed = closed;
	if (s->has_poll)
		uv_close((uv_handle_t *)&s->poll, stage_on_poll_closed);
	else
		closed(s);
}

int stage_reaped(struct stage *s, pid_t pid, int status)
{
	char text[96];

	if (!s->pid || pid != s->pid)
		return 0;
	while (s->fd >= 0 && stage_read(s))
		;
	stage_end_reports(s);
	sweep_reaped(pid);
	s->pid = 0;
	if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), "--stage: the process that copies "
			 "was killed by signal %d", WTERMSIG(status));
	else
		snprintf(text, sizeof(text), "--stage: the process that copies "
			 "exited with code %d", WEXITSTATUS(status));
	stage_fail(s, text);
	return 1;
}
