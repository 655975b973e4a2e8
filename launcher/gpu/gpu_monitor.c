/* gpu_monitor.c: a pipe, a limit, and the lines that come. */
#include "launcher/gpu/gpu_monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/gpu/gpu_helper.h"
#include "launcher/worker/spawn.h"
#include "launcher/worker/sweep.h"

enum {
	FIRST_MS = 120000, /* without persistence mode, the driver loads */
	LIMIT_MS = 30000,  /* without a line */
	READ_BYTES = 16 << 10,
};

/* ---- failures of the helper ---- */

/* Only the first reason counts. */
static void gpu_monitor_fail(struct gpu_monitor *m, const char *why)
{
	if (!m->has_failed && !m->is_closing)
		log_warn("the health of this node's GPUs is not watched: %s",
			 why);
	m->has_failed = 1;
}

/* DDP_TEST_GPU_LIMIT_MS is for tests. */
static uint64_t gpu_monitor_limit_ms(const struct gpu_monitor *m)
{
	const char *text = getenv("DDP_TEST_GPU_LIMIT_MS");
	long ms = text ? strtol(text, NULL, 10) : 0;

	if (ms > 0 && ms < INT_MAX)
		return (uint64_t)ms;
	return m->has_answered ? LIMIT_MS : FIRST_MS;
}

static void gpu_monitor_on_limit(uv_timer_t *t)
{
	struct gpu_monitor *m = t->data;

	gpu_monitor_fail(m, "a call of NVML has not returned in time: the "
			    "driver hangs, or a GPU does (see dmesg)");
	if (m->pid)
		kill(m->pid, SIGKILL);
}

static void gpu_monitor_await(struct gpu_monitor *m)
{
	uv_timer_start(&m->limit, gpu_monitor_on_limit, gpu_monitor_limit_ms(m),
		       0);
	uv_unref((uv_handle_t *)&m->limit);
}

/* ---- its lines ---- */

static void gpu_monitor_on_finding(void *owner, const struct gpu_finding *f)
{
	struct gpu_monitor *m = owner;

	if (f->is_new && (!m->has_cause || f->severity > m->cause.severity)) {
		m->cause = *f;
		m->has_cause = 1;
	}
	m->on_finding(m->owner, f);
}

static void gpu_monitor_take(struct gpu_monitor *m, struct slice text)
{
	struct gpu_line line;

	if (gpu_line_parse(text, &line) < 0) {
		log_debug("the helper for GPUs sent '%.*s'", SLICE_FMT(text));
		return;
	}
	switch (line.kind) {
	case GPU_LINE_RECORD:
		gpu_findings_add(m->findings, &line.record);
		break;
	case GPU_LINE_XID:
		gpu_findings_xid(m->findings, line.index, line.xid,
				 line.instance);
		break;
	case GPU_LINE_END:
		gpu_findings_compare(m->findings);
		m->on_read(m->owner);
		break;
	case GPU_LINE_NOTE:
		log_warn("%s", line.text);
		break;
	case GPU_LINE_FAIL:
		gpu_monitor_fail(m, line.text);
		break;
	}
}

static void gpu_monitor_take_lines(struct gpu_monitor *m)
{
	size_t at = 0;
	char *end;

	while (at < m->in.len &&
	       (end = memchr(m->in.data + at, '\n', m->in.len - at))) {
		size_t n = (size_t)(end - m->in.data) - at;

		gpu_monitor_take(m, SLICE(m->in.data + at, n));
		at += n + 1;
	}
	buf_consume(&m->in, at);
	m->has_answered |= at != 0;
	if (at && m->pid)
		gpu_monitor_await(m);
}

/* The pipe has ended. The owner learns how the process ended when it is
 * reaped. */
static void gpu_monitor_end(struct gpu_monitor *m)
{
	if (m->fd < 0)
		return;
	if (m->is_open)
		uv_poll_stop(&m->poll);
	uv_timer_stop(&m->limit);
	close(m->fd);
	m->fd = -1;
}

/* 0: there is no more to read for now. */
static int gpu_monitor_read(struct gpu_monitor *m)
{
	char *to = buf_reserve(&m->in, READ_BYTES);
	ssize_t n = to ? read(m->fd, to, READ_BYTES) : 0;

	if (n > 0) {
		m->in.len += (size_t)n;
		gpu_monitor_take_lines(m);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		gpu_monitor_end(m);
	}
	return n > 0;
}

void gpu_monitor_poll(struct gpu_monitor *m)
{
	while (m->findings && m->fd >= 0 && gpu_monitor_read(m))
		;
}

static void gpu_monitor_on_readable(uv_poll_t *p, int status, int events)
{
	gpu_monitor_poll(p->data);
}

/* ---- from start to end ---- */

void gpu_monitor_init(struct gpu_monitor *m, uv_loop_t *loop)
{
	m->loop = loop;
	m->fd = -1;
	uv_timer_init(loop, &m->limit);
	m->limit.data = m;
	buf_init(&m->in, 2 * READ_BYTES);
}

static int gpu_monitor_may_have_gpus(void)
{
	static const char *const files[] = {"/dev/nvidiactl", "/dev/dxg"};
	const char *wanted = getenv("DDP_GPU_HEALTH");

	if (wanted && strcmp(wanted, "0") == 0)
		return 0;
	if (getenv("DDP_NVML_LIB"))
		return 1;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (access(files[i], F_OK) == 0)
			return 1;
	return 0;
}

static pid_t gpu_monitor_spawn(int out, struct err *e)
{
	extern char **environ;
	static char name[] = "ddprun", command[] = GPU_HELPER_COMMAND;
	char *argv[] = {name, command, NULL};
	struct spawn order = {
		.path = "/proc/self/exe", .argv = argv, .envp = environ,
		.out = out, .err = STDERR_FILENO, .keep = {-1, -1},
	};
	pid_t pid;

	order.in = spawn_no_input(e);
	if (order.in < 0)
		return order.in;
	pid = spawn_process(&order, e);
	close(order.in);
	return pid;
}

static int gpu_monitor_open(struct gpu_monitor *m, struct err *e)
{
	int fds[2], rc;

	m->findings = calloc(1, sizeof(*m->findings));
	if (!m->findings)
		return err_no_memory(e, "GPUs");
	m->findings->owner = m;
	m->findings->on_finding = gpu_monitor_on_finding;
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_set(e, -errno, "pipe2: %s", strerror(errno));
	m->fd = fds[0];
	fcntl(fds[1], F_SETFL, 0); /* the helper waits for room */
	rc = gpu_monitor_spawn(fds[1], e);
	close(fds[1]);
	if (rc < 0)
		return rc;
	m->pid = rc;
	sweep_leave(m->pid); /* it outlives the workers */
	rc = loop_check(uv_poll_init(m->loop, &m->poll, m->fd), e,
			"cannot watch the helper for GPUs");
	if (rc < 0)
		return rc;
	m->is_open = 1;
	m->poll.data = m;
	rc = uv_poll_start(&m->poll, UV_READABLE, gpu_monitor_on_readable);
	return loop_check(rc, e, "cannot watch the helper for GPUs");
}

void gpu_monitor_begin(struct gpu_monitor *m)
{
	struct err e = ERR_INIT;

	if (m->findings)
		gpu_findings_begin(m->findings);
	m->has_cause = 0;
	if (m->has_begun)
		return;
	m->has_begun = 1;
	if (!gpu_monitor_may_have_gpus())
		return;
	if (gpu_monitor_open(m, &e) < 0) {
		gpu_monitor_fail(m, e.text);
		return;
	}
	uv_unref((uv_handle_t *)&m->poll);
	gpu_monitor_await(m);
}

const struct gpu_finding *gpu_monitor_cause(const struct gpu_monitor *m,
					    enum gpu_severity least)
{
	return m->has_cause && m->cause.severity >= least ? &m->cause : NULL;
}

const struct gpu_record *gpu_monitor_next(const struct gpu_monitor *m,
					  const struct gpu_record *after)
{
	uint32_t i = after ? after->index + 1 : 0;

	for (; m->findings && i < GPU_WATCHED_MAX; i++)
		if (m->findings->gpus[i].is_known)
			return &m->findings->gpus[i].last;
	return NULL;
}

int gpu_monitor_reaped(struct gpu_monitor *m, pid_t pid, int status)
{
	char text[80];

	if (!m->pid || pid != m->pid)
		return 0;
	gpu_monitor_poll(m);
	gpu_monitor_end(m);
	sweep_reaped(pid);
	m->pid = 0;
	if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), "NVML crashed (signal %d)",
			 WTERMSIG(status));
	else
		snprintf(text, sizeof(text), "its helper exited with code %d",
			 WEXITSTATUS(status));
	if (status)
		gpu_monitor_fail(m, text);
	return 1;
}

void gpu_monitor_close(struct gpu_monitor *m)
{
	m->is_closing = 1;
	gpu_monitor_end(m);
	if (m->pid) {
		kill(m->pid, SIGKILL);
		waitpid(m->pid, NULL, WNOHANG);
	}
	if (m->is_open)
		uv_close((uv_handle_t *)&m->poll, NULL);
	uv_close((uv_handle_t *)&m->limit, NULL);
}

void gpu_monitor_release(struct gpu_monitor *m)
{
	buf_release(&m->in);
	free(m->findings);
	m->findings = NULL;
}
