/* remote_agent.c: its pipes. */
#include "launcher/ssh/remote_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/signal_name.h"
#include "launcher/config/remote_node.h"
#include "launcher/ssh/remote_frame.h"
#include "launcher/worker/spawn.h"

enum {
	PIECE = 64 << 10,
	LONG_LINE = 256 << 10, /* is told in pieces */
	PAGE_MAX = 512 << 10,
	STRAGGLER_MS = 1000,
	PAGE_FD = 3, /* the first of those that it gets besides 0 to 2: */
	SECRET_FD,
	TOLD_FD,
	FREE_FD, /* ours lie above them */
};

static const uint8_t types[] = {REMOTE_OUT, REMOTE_ERR, REMOTE_PAGE};

/* ---- what it writes ---- */

static void on_done(uv_handle_t *h)
{
	struct remote_agent *a = h->data;

	a->events->on_gone(a, a->code);
}

static void part_gone(struct remote_agent *a)
{
	if (--a->parts)
		return;
	for (int i = 0; i < REMOTE_AGENT_OUTS; i++)
		buf_release(&a->outs[i].text);
	close(a->told_fd);
	uv_close((uv_handle_t *)&a->straggler, on_done);
}

static void on_out_closed(uv_handle_t *h)
{
	part_gone(h->data);
}

static void tell(struct remote_agent *a, int i, size_t n)
{
	struct buf *text = &a->outs[i].text;

	if (n)
		a->events->on_text(a, types[i], SLICE(text->data, n));
	buf_consume(text, n);
}

static void tell_lines(struct remote_agent *a, int i)
{
	struct buf *text = &a->outs[i].text;
	char *end = text->len ? memrchr(text->data, '\n', text->len) : NULL;

	if (types[i] == REMOTE_PAGE)
		return;
	if (end)
		tell(a, i, (size_t)(end - text->data) + 1);
	else if (text->len > LONG_LINE)
		tell(a, i, text->len);
}

static void end(struct remote_agent *a, int i)
{
	struct remote_agent_out *o = &a->outs[i];

	if (o->ended)
		return;
	o->ended = 1;
	if (o->text.len && o->text.data[o->text.len - 1] != '\n')
		buf_put(&o->text, "\n", 1);
	tell(a, i, o->text.len);
	uv_close((uv_handle_t *)&o->pipe, on_out_closed);
}

/* What is written there from here on is lost: no reader has its other end. */
static void cannot_read(struct remote_agent *a, int i, int rc)
{
	log_error("error: cannot read on what the ddprun of this host writes: "
		  "%s; the lines that follow are lost", err_name(rc));
	end(a, i);
}

static int index_of(const struct remote_agent *a, const void *pipe)
{
	int i = 0;

	while (i < REMOTE_AGENT_OUTS - 1 && pipe != &a->outs[i].pipe)
		i++;
	return i;
}

static char spare[PIECE];

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	struct remote_agent *a = h->data;
	struct buf *text = &a->outs[index_of(a, h)].text;

	b->base = buf_reserve(text, PIECE);
	b->len = PIECE;
	if (text->failed) { /* of memory: lines may be torn, but none is lost */
		*b = uv_buf_init(spare, sizeof(spare));
		text->failed = 0;
	}
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct remote_agent *a = s->data;
	int i = index_of(a, s);

	if (n > 0 && b->base == spare) {
		tell(a, i, a->outs[i].text.len);
		a->events->on_text(a, types[i], SLICE(spare, (size_t)n));
	} else if (n > 0) {
		a->outs[i].text.len += (size_t)n;
		tell_lines(a, i);
	} else if (n == UV_EOF) {
		end(a, i);
	} else if (n < 0) {
		cannot_read(a, i, (int)n);
	}
}

static void on_straggler(uv_timer_t *t)
{
	struct remote_agent *a = t->data;

	for (int i = 0; i < REMOTE_AGENT_OUTS; i++)
		end(a, i);
}

void remote_agent_pause(struct remote_agent *a, int paused)
{
	int rc = 0;

	if (a->paused == paused || !a->parts)
		return;
	a->paused = paused;
	for (int i = 0; i < REMOTE_AGENT_OUTS; i++) {
		uv_stream_t *s = (uv_stream_t *)&a->outs[i].pipe;

		if (a->outs[i].ended)
			continue;
		if (paused)
			uv_read_stop(s);
		else
			rc = uv_read_start(s, on_alloc, on_read);
		if (rc < 0 && rc != UV_EALREADY)
			cannot_read(a, i, rc);
	}
	/* it waits for who reads, and so does its end */
	if (!a->pid && paused)
		uv_timer_stop(&a->straggler);
	else if (!a->pid)
		uv_timer_start(&a->straggler, on_straggler, STRAGGLER_MS, 0);
}

/* ---- what it reads ---- */

static void on_in_closed(uv_handle_t *h)
{
	struct remote_agent *a = h->data;

	buf_release(&a->writing);
	part_gone(a);
}

static void close_in(struct remote_agent *a)
{
	if (!a->in_open)
		return;
	a->in_open = 0;
	uv_close((uv_handle_t *)&a->in, on_in_closed);
}

static void on_written(uv_write_t *w, int status)
{
	struct remote_agent *a = w->data;

	buf_reset(&a->writing);
	if (status < 0)
		close_in(a);
	a->events->on_took(a, status == 0);
}

void remote_agent_write(struct remote_agent *a, struct slice bytes)
{
	uv_buf_t b;

	if (!bytes.len)
		close_in(a);
	if (!a->in_open || a->writing.len) {
		a->events->on_took(a, 0);
		return;
	}
	buf_put(&a->writing, bytes.data, bytes.len);
	b = uv_buf_init(a->writing.data, (unsigned)a->writing.len);
	a->write.data = a;
	if (a->writing.failed ||
	    uv_write(&a->write, (uv_stream_t *)&a->in, &b, 1, on_written) < 0) {
		close_in(a);
		a->events->on_took(a, 0);
	}
}

/* ---- from start to end ---- */

/* Four pipes: what it reads, then its outs. */
struct ends {
	int ours[1 + REMOTE_AGENT_OUTS], theirs[1 + REMOTE_AGENT_OUTS];
};

static void close_all(const int *fds)
{
	for (int i = 0; i <= REMOTE_AGENT_OUTS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

static int open_ends(struct ends *n, struct err *e)
{
	int rc = 0;

	memset(n, -1, sizeof(*n));
	for (int i = 0; i <= REMOTE_AGENT_OUTS && rc == 0; i++) {
		int fds[2];

		if (pipe2(fds, O_CLOEXEC) < 0) {
			rc = -errno;
			break;
		}
		n->ours[i] = fds[i == 0];
		/* above the numbers that it gets there */
		n->theirs[i] = fcntl(fds[i != 0], F_DUPFD_CLOEXEC, FREE_FD);
		rc = n->theirs[i] < 0 ? -errno : 0;
		close(fds[i != 0]);
	}
	if (rc == 0)
		return 0;
	close_all(n->ours);
	close_all(n->theirs);
	return err_set(e, rc, "no pipes for ddprun: %s", strerror(-rc));
}

/* The loop has it from here on, and it is no end of ours any more. */
static int hand_over(uv_pipe_t *pipe, int *fd)
{
	int rc = uv_pipe_open(pipe, *fd);

	if (rc == 0)
		*fd = -1;
	return rc;
}

/* Nothing runs: they go in the loop's next turn. */
static void drop_pipes(struct remote_agent *a)
{
	uv_close((uv_handle_t *)&a->in, NULL);
	for (int i = 0; i < REMOTE_AGENT_OUTS; i++)
		uv_close((uv_handle_t *)&a->outs[i].pipe, NULL);
	a->parts = a->in_open = 0;
}

static int open_pipes(struct remote_agent *a, uv_loop_t *loop, struct ends *n,
		      struct err *e)
{
	int rc;

	uv_pipe_init(loop, &a->in, 0);
	a->in.data = a;
	a->in_open = 1;
	a->parts = 2 + REMOTE_AGENT_OUTS;
	buf_init(&a->writing, REMOTE_BODY_MAX);
	for (int i = 0; i < REMOTE_AGENT_OUTS; i++) {
		struct remote_agent_out *o = &a->outs[i];

		uv_pipe_init(loop, &o->pipe, 0);
		o->pipe.data = a;
		buf_init(&o->text, (types[i] == REMOTE_PAGE ? PAGE_MAX
							    : LONG_LINE) +
					   2 * PIECE);
	}
	rc = hand_over(&a->in, &n->ours[0]);
	for (int i = 0; i < REMOTE_AGENT_OUTS && rc == 0; i++) {
		uv_pipe_t *pipe = &a->outs[i].pipe;

		rc = hand_over(pipe, &n->ours[1 + i]);
		if (rc == 0)
			rc = uv_read_start((uv_stream_t *)pipe, on_alloc,
					   on_read);
	}
	if (rc == 0)
		return 0;
	drop_pipes(a);
	return err_set(e, rc, "no pipes for ddprun: %s", err_name(rc));
}

/* The end of a pipe that the secret is in; -1: there is none. */
static int put_secret(const struct auth *auth, int *out, struct err *e)
{
	unsigned char bytes[AUTH_BYTES];
	int fds[2], rc = 0;

	*out = -1;
	if (!auth->methods)
		return 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(e, -errno, "no pipe for ddprun: %s",
			       strerror(errno));
	auth_to_bytes(bytes, auth);
	rc = file_write_all(fds[1], bytes, sizeof(bytes));
	proof_wipe(bytes, sizeof(bytes));
	/* above the numbers that it gets there */
	*out = fcntl(fds[0], F_DUPFD_CLOEXEC, FREE_FD);
	if (rc == 0 && *out < 0)
		rc = -errno;
	close(fds[0]);
	close(fds[1]);
	return rc < 0 ? err_set(e, rc, "no pipe for ddprun: %s",
				strerror(-rc)) : 0;
}

/* Its environment says which node it is. */
static int name_node(uint32_t node, int has_secret, struct err *e)
{
	char text[64];

	snprintf(text, sizeof(text), "%u %d %d %d", node, PAGE_FD,
		 has_secret ? SECRET_FD : -1, TOLD_FD);
	if (setenv(REMOTE_NODE, text, 1) < 0)
		return err_set(e, -errno, "cannot set " REMOTE_NODE ": %s",
			       strerror(errno));
	return 0;
}

/* Its pipes are open before it is there: it never runs unread. */
static int start(struct remote_agent *a, uv_loop_t *loop, struct spawn *order,
		 struct err *e)
{
	extern char **environ;
	struct ends n;
	int rc = open_ends(&n, e);

	if (rc < 0)
		return rc;
	rc = open_pipes(a, loop, &n, e);
	if (rc == 0) {
		order->envp = environ;
		order->in = n.theirs[0];
		order->out = n.theirs[1];
		order->err = n.theirs[2];
		order->keep[0] = n.theirs[3];
		rc = spawn_process(order, e);
		if (rc < 0)
			drop_pipes(a);
	}
	close_all(n.ours);
	close_all(n.theirs);
	return rc;
}

/* What it looks at when a signal comes: whether that is the job's. */
static int open_told(struct remote_agent *a, struct err *e)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	a->told_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FREE_FD);
	if (a->told_fd < 0)
		err_set(e, -errno, "no eventfd for ddprun: %s",
			strerror(errno));
	if (fd >= 0)
		close(fd);
	return a->told_fd < 0 ? e->code : 0;
}

int remote_agent_start(struct remote_agent *a, uv_loop_t *loop,
		       const char *path, char **argv, uint32_t node,
		       const struct auth *auth, struct err *e)
{
	struct spawn order = {.path = path, .argv = argv, .keep_as = PAGE_FD,
			      .as_started = 1};
	int secret, rc = put_secret(auth, &secret, e);

	if (rc == 0)
		rc = open_told(a, e);
	if (rc == 0)
		rc = name_node(node, secret >= 0, e);
	order.keep[1] = secret;
	order.more = &a->told_fd;
	order.nmore = 1;
	if (rc == 0)
		rc = start(a, loop, &order, e);
	if (secret >= 0)
		close(secret);
	if (rc < 0)
		return rc;
	a->pid = rc;
	uv_timer_init(loop, &a->straggler);
	a->straggler.data = a;
	return 0;
}

void remote_agent_signal(struct remote_agent *a, int number)
{
	if (!a->pid)
		return;
	/* first; it fails where it holds no more, and that is as good */
	if (eventfd_write(a->told_fd, 1) < 0)
		log_debug("the far ddprun already knows of a signal");
	if (kill(a->pid, number) == 0 && number != SIGKILL)
		a->told |= 1ull << number;
}

void remote_agent_abandon(struct remote_agent *a)
{
	if (!a->pid)
		return;
	for (int i = 0; i < REMOTE_AGENT_OUTS; i++) {
		if (types[i] == REMOTE_PAGE)
			end(a, i);
	}
	remote_agent_signal(a, SIGTERM);
	remote_agent_signal(a, SIGCONT); /* else it would not hear that */
}

int remote_agent_stopped(const struct remote_agent *a)
{
	siginfo_t how = {.si_pid = 0};

	if (!a->pid || waitid(P_PID, (id_t)a->pid, &how,
			      WSTOPPED | WCONTINUED | WNOHANG) < 0 ||
	    how.si_pid != a->pid)
		return -1;
	return how.si_code != CLD_CONTINUED;
}

/* It catches what it can be told by, unless it has only just begun: this was
 * none of the job's doing. */
static int was_killed(const struct remote_agent *a, pid_t pid, int number)
{
	char name[SIGNAL_NAME_MAX];

	if (a->told >> number & 1)
		return 128 + number;
	log_error("error: the ddprun of this host (pid %d) was killed by %s: "
		  "the node is lost", (int)pid, signal_name(number, name));
	return EX_UNAVAILABLE;
}

int remote_agent_reaped(struct remote_agent *a, pid_t pid, int status)
{
	if (!a->pid || pid != a->pid)
		return 0;
	a->pid = 0;
	a->code = WIFSIGNALED(status) ? was_killed(a, pid, WTERMSIG(status))
				      : WEXITSTATUS(status);
	close_in(a);
	if (!a->paused)
		uv_timer_start(&a->straggler, on_straggler, STRAGGLER_MS, 0);
	part_gone(a);
	return 1;
}
