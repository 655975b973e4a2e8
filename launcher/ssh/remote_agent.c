/* remote_agent.c: the agent's pipes, signals and end. */
#include "launcher/ssh/proxy_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <termios.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "launcher/env/launch_env.h"
#include "launcher/ssh/remote_frame.h"
#include "launcher/worker/spawn.h"

enum {
	PIECE = 64 << 10,
	/* a longer line is reported in pieces; as LINES_MAX, with a prefix */
	LONG_LINE = (1 << 20) + 1024,
	PAGE_MAX = 512 << 10,
	DRAIN_MS = 1000,
	PAGE_FD = 3, /* the descriptors that it gets besides 0 to 2: */
	SECRET_FD,
	SIGNAL_FD,
	LENT_FD,
	FREE_FD, /* ours are at least this */
};

static const uint8_t types[] = {REMOTE_OUT, REMOTE_ERR, REMOTE_PAGE,
				REMOTE_LENT};

/* ---- its output ---- */

static void remote_agent_on_done(uv_handle_t *h)
{
	struct remote_agent *a = h->data;

	a->events->on_gone(a, a->code);
}

static void remote_agent_part_gone(struct remote_agent *a)
{
	if (--a->parts)
		return;
	for (int i = 0; i < REMOTE_AGENT_OUTS; i++)
		buf_release(&a->outs[i].text);
	close(a->signal_fd);
	uv_close((uv_handle_t *)&a->drain, remote_agent_on_done);
}

static void remote_agent_on_out_closed(uv_handle_t *h)
{
	remote_agent_part_gone(h->data);
}

static void remote_agent_report(struct remote_agent *a, int i, size_t n)
{
	struct buf *text = &a->outs[i].text;

	if (n)
		a->events->on_text(a, types[i], SLICE(text->data, n));
	buf_consume(text, n);
}

/* Reports what a worker with the terminal prints, prompts too. */
static void remote_agent_report_tty(struct remote_agent *a)
{
	struct buf *text = &a->outs[0].text;

	if (!text->len)
		return;
	a->line_open = text->data[text->len - 1] != '\n';
	a->events->on_text(a, REMOTE_TTY, SLICE(text->data, text->len));
	buf_reset(text);
}

static void remote_agent_report_lent(struct remote_agent *a, int i)
{
	struct buf *text = &a->outs[i].text;

	if (!text->len)
		return;
	a->is_lent = text->data[text->len - 1] == '1';
	if (a->is_lent)
		remote_agent_report_tty(a);
	remote_agent_report(a, i, text->len);
}

static void remote_agent_report_lines(struct remote_agent *a, int i)
{
	struct buf *text = &a->outs[i].text;
	char *end = text->len ? memrchr(text->data, '\n', text->len) : NULL;

	if (types[i] == REMOTE_PAGE)
		return;
	if (types[i] == REMOTE_LENT)
		remote_agent_report_lent(a, i);
	else if (i == 0 && (a->is_lent || a->line_open))
		remote_agent_report_tty(a);
	else if (end)
		remote_agent_report(a, i, (size_t)(end - text->data) + 1);
	else if (text->len > LONG_LINE)
		remote_agent_report(a, i, text->len);
}

static void remote_agent_end_out(struct remote_agent *a, int i)
{
	struct remote_agent_out *o = &a->outs[i];

	if (o->ended)
		return;
	o->ended = 1;
	if (o->text.len && types[i] != REMOTE_LENT &&
	    o->text.data[o->text.len - 1] != '\n')
		buf_put(&o->text, "\n", 1);
	remote_agent_report(a, i, o->text.len);
	uv_close((uv_handle_t *)&o->pipe, remote_agent_on_out_closed);
}

/* Nobody reads this pipe any more: later output is lost. */
static void remote_agent_read_failed(struct remote_agent *a, int i, int rc)
{
	log_error("error: cannot read the output of this host's ddprun: %s; "
		  "the lines that follow are lost", err_name(rc));
	remote_agent_end_out(a, i);
}

static int remote_agent_out_index(const struct remote_agent *a,
				  const void *pipe)
{
	int i = 0;

	while (i < REMOTE_AGENT_OUTS - 1 && pipe != &a->outs[i].pipe)
		i++;
	return i;
}

static char spare[PIECE];

static void remote_agent_on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	struct remote_agent *a = h->data;
	struct buf *text = &a->outs[remote_agent_out_index(a, h)].text;

	b->base = buf_reserve(text, PIECE);
	b->len = PIECE;
	if (text->failed) { /* no memory: lines may be split, none is lost */
		*b = uv_buf_init(spare, sizeof(spare));
		text->failed = 0;
	}
}

static void remote_agent_on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct remote_agent *a = s->data;
	int i = remote_agent_out_index(a, s);

	if (n > 0 && b->base == spare) {
		remote_agent_report(a, i, a->outs[i].text.len);
		a->events->on_text(a, types[i], SLICE(spare, (size_t)n));
	} else if (n > 0) {
		a->outs[i].text.len += (size_t)n;
		remote_agent_report_lines(a, i);
	} else if (n == UV_EOF || (n == UV_EIO && a->has_terminal && i == 0)) {
		remote_agent_end_out(a, i);
	} else if (n < 0) {
		remote_agent_read_failed(a, i, (int)n);
	}
}

static void remote_agent_on_drain_over(uv_timer_t *t)
{
	struct remote_agent *a = t->data;

	for (int i = 0; i < REMOTE_AGENT_OUTS; i++)
		remote_agent_end_out(a, i);
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
			rc = uv_read_start(s, remote_agent_on_alloc,
					   remote_agent_on_read);
		if (rc < 0 && rc != UV_EALREADY)
			remote_agent_read_failed(a, i, rc);
	}
	/* while paused, its end waits for the reader as well */
	if (!a->pid && paused)
		uv_timer_stop(&a->drain);
	else if (!a->pid)
		uv_timer_start(&a->drain, remote_agent_on_drain_over, DRAIN_MS,
			       0);
}

/* ---- its input ---- */

static void remote_agent_on_in_closed(uv_handle_t *h)
{
	struct remote_agent *a = h->data;

	buf_release(&a->writing);
	remote_agent_part_gone(a);
}

static void remote_agent_close_in(struct remote_agent *a)
{
	if (!a->in_open)
		return;
	a->in_open = 0;
	uv_close((uv_handle_t *)&a->in, remote_agent_on_in_closed);
}

static void remote_agent_on_written(uv_write_t *w, int status)
{
	struct remote_agent *a = w->data;

	buf_reset(&a->writing);
	if (status < 0)
		remote_agent_close_in(a);
	a->events->on_ack(a, status == 0);
}

void remote_agent_write(struct remote_agent *a, struct slice bytes)
{
	uv_buf_t b;

	if (!bytes.len)
		remote_agent_close_in(a);
	if (!a->in_open || a->writing.len) {
		a->events->on_ack(a, 0);
		return;
	}
	buf_put(&a->writing, bytes.data, bytes.len);
	b = uv_buf_init(a->writing.data, (unsigned)a->writing.len);
	a->write.data = a;
	if (a->writing.failed || uv_write(&a->write, (uv_stream_t *)&a->in, &b,
					  1, remote_agent_on_written) < 0) {
		remote_agent_close_in(a);
		a->events->on_ack(a, 0);
	}
}

/* ---- its terminal ---- */

static void remote_agent_set_size(int fd, const struct remote_window *w)
{
	const struct winsize size = {.ws_row = (unsigned short)w->rows,
				     .ws_col = (unsigned short)w->columns};

	if (w->rows && w->columns)
		ioctl(fd, TIOCSWINSZ, &size);
}

void remote_agent_resize(struct remote_agent *a, const struct remote_window *w)
{
	uv_os_fd_t fd;

	if (!a->pid || !a->has_terminal || a->outs[0].ended ||
	    uv_fileno((uv_handle_t *)&a->outs[0].pipe, &fd) < 0)
		return;
	remote_agent_set_size(fd, w);
	/* the terminal controls no session, so the kernel signals nobody */
	kill(a->pid, SIGWINCH);
}

/* Raw: the agent passes keys on to the worker's own terminal, whose output the
 * head's terminal shows. */
static int remote_agent_open_terminal(int *master, int *worker,
				      const struct remote_window *w)
{
	struct termios raw;
	char path[64];
	int fd = -1, rc;

	*master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*master >= 0 && grantpt(*master) == 0 && unlockpt(*master) == 0 &&
	    ptsname_r(*master, path, sizeof(path)) == 0)
		fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	*worker = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FREE_FD);
	rc = *worker < 0 || tcgetattr(fd, &raw) < 0 ? -errno : 0;
	if (rc == 0) {
		cfmakeraw(&raw);
		rc = tcsetattr(fd, TCSANOW, &raw) < 0 ? -errno : 0;
		remote_agent_set_size(*master, w);
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

/* ---- from start to end ---- */

/* Its stdin, then its outs. */
struct remote_agent_ends {
	int ours[1 + REMOTE_AGENT_OUTS], theirs[1 + REMOTE_AGENT_OUTS];
};

static void remote_agent_close_fds(const int *fds)
{
	for (int i = 0; i <= REMOTE_AGENT_OUTS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

/* One terminal is stdin and stdout. */
static int remote_agent_open_console(const struct remote_agent *a,
				     struct remote_agent_ends *n)
{
	int rc = remote_agent_open_terminal(&n->ours[1], &n->theirs[1],
					    &a->window);

	if (rc < 0)
		return rc;
	n->ours[0] = fcntl(n->ours[1], F_DUPFD_CLOEXEC, FREE_FD);
	n->theirs[0] = fcntl(n->theirs[1], F_DUPFD_CLOEXEC, FREE_FD);
	return n->ours[0] < 0 || n->theirs[0] < 0 ? -errno : 0;
}

static int remote_agent_open_ends(const struct remote_agent *a,
				  struct remote_agent_ends *n, struct err *e)
{
	int rc = 0;

	memset(n, -1, sizeof(*n));
	if (a->has_terminal)
		rc = remote_agent_open_console(a, n);
	for (int i = 0; i <= REMOTE_AGENT_OUTS && rc == 0; i++) {
		int fds[2];

		if (n->ours[i] >= 0)
			continue;
		if (pipe2(fds, O_CLOEXEC) < 0) {
			rc = -errno;
			break;
		}
		n->ours[i] = fds[i == 0];
		/* above the descriptors that it gets */
		n->theirs[i] = fcntl(fds[i != 0], F_DUPFD_CLOEXEC, FREE_FD);
		rc = n->theirs[i] < 0 ? -errno : 0;
		close(fds[i != 0]);
	}
	if (rc == 0)
		return 0;
	remote_agent_close_fds(n->ours);
	remote_agent_close_fds(n->theirs);
	return err_set(e, rc, "cannot create pipes%s for ddprun: %s",
		       a->has_terminal ? " and a terminal (--tty)" : "",
		       strerror(-rc));
}

/* Gives the descriptor to the loop, which closes it. */
static int remote_agent_hand_over(uv_pipe_t *pipe, int *fd)
{
	int rc = uv_pipe_open(pipe, *fd);

	if (rc == 0)
		*fd = -1;
	return rc;
}

/* The agent does not run: closes the pipes in the loop's next iteration. */
static void remote_agent_drop_pipes(struct remote_agent *a)
{
	uv_close((uv_handle_t *)&a->in, NULL);
	for (int i = 0; i < REMOTE_AGENT_OUTS; i++)
		uv_close((uv_handle_t *)&a->outs[i].pipe, NULL);
	a->parts = a->in_open = 0;
}

static int remote_agent_open_pipes(struct remote_agent *a, uv_loop_t *loop,
				   struct remote_agent_ends *n, struct err *e)
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
	rc = remote_agent_hand_over(&a->in, &n->ours[0]);
	for (int i = 0; i < REMOTE_AGENT_OUTS && rc == 0; i++) {
		uv_pipe_t *pipe = &a->outs[i].pipe;

		rc = remote_agent_hand_over(pipe, &n->ours[1 + i]);
		if (rc == 0)
			rc = uv_read_start((uv_stream_t *)pipe,
					   remote_agent_on_alloc,
					   remote_agent_on_read);
	}
	if (rc == 0)
		return 0;
	remote_agent_drop_pipes(a);
	return err_set(e, rc, "cannot create pipes for ddprun: %s",
		       err_name(rc));
}

/* Makes a pipe with the secret in it; *out is its read end, -1: no secret. */
static int remote_agent_put_secret(const struct auth *auth, int *out,
				   struct err *e)
{
	unsigned char bytes[AUTH_BYTES];
	int fds[2], rc = 0;

	*out = -1;
	if (!auth->methods)
		return 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(e, -errno, "cannot create a pipe for ddprun: %s",
			       strerror(errno));
	auth_to_bytes(bytes, auth);
	rc = file_write_all(fds[1], bytes, sizeof(bytes));
	proof_wipe(bytes, sizeof(bytes));
	/* above the descriptors that it gets */
	*out = fcntl(fds[0], F_DUPFD_CLOEXEC, FREE_FD);
	if (rc == 0 && *out < 0)
		rc = -errno;
	close(fds[0]);
	close(fds[1]);
	return rc < 0 ? err_set(e, rc, "cannot create a pipe for ddprun: %s",
				strerror(-rc)) : 0;
}

/* Puts its node number and descriptors into its environment. */
static int remote_agent_set_node(uint32_t node, int has_secret, struct err *e)
{
	char text[64];

	snprintf(text, sizeof(text), "%u %d %d %d %d", node, PAGE_FD,
		 has_secret ? SECRET_FD : -1, SIGNAL_FD, LENT_FD);
	if (setenv(SSH_ENV_NODE, text, 1) < 0)
		return err_set(e, -errno, "cannot set " SSH_ENV_NODE ": %s",
			       strerror(errno));
	return 0;
}

/* Opens the pipes first, so that the agent never runs without a reader. */
static int remote_agent_spawn(struct remote_agent *a, uv_loop_t *loop,
			      struct spawn *order, struct err *e)
{
	extern char **environ;
	struct remote_agent_ends n;
	int more[2], rc = remote_agent_open_ends(a, &n, e);

	if (rc < 0)
		return rc;
	rc = remote_agent_open_pipes(a, loop, &n, e);
	if (rc == 0) {
		order->envp = environ;
		order->in = n.theirs[0];
		order->out = n.theirs[1];
		order->err = n.theirs[2];
		order->keep[0] = n.theirs[3];
		more[0] = a->signal_fd;
		more[1] = n.theirs[4];
		order->more = more;
		order->nmore = 2;
		rc = spawn_process(order, e);
		if (rc < 0)
			remote_agent_drop_pipes(a);
	}
	remote_agent_close_fds(n.ours);
	remote_agent_close_fds(n.theirs);
	return rc;
}

/* When a signal comes, the agent checks this eventfd: has the head sent it? */
static int remote_agent_open_signal_fd(struct remote_agent *a, struct err *e)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	a->signal_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FREE_FD);
	if (a->signal_fd < 0)
		err_set(e, -errno, "cannot create an eventfd for ddprun: %s",
			strerror(errno));
	if (fd >= 0)
		close(fd);
	return a->signal_fd < 0 ? e->code : 0;
}

int remote_agent_start(struct remote_agent *a, uv_loop_t *loop,
		       const char *path, char **argv, uint32_t node,
		       const struct auth *auth, struct err *e)
{
	struct spawn order = {.path = path, .argv = argv, .keep_as = PAGE_FD,
			      .as_started = 1};
	int secret, rc = remote_agent_put_secret(auth, &secret, e);

	if (rc == 0)
		rc = remote_agent_open_signal_fd(a, e);
	if (rc == 0)
		rc = remote_agent_set_node(node, secret >= 0, e);
	order.keep[1] = secret;
	if (rc == 0)
		rc = remote_agent_spawn(a, loop, &order, e);
	if (secret >= 0)
		close(secret);
	if (rc < 0)
		return rc;
	a->pid = rc;
	uv_timer_init(loop, &a->drain);
	a->drain.data = a;
	return 0;
}

void remote_agent_signal(struct remote_agent *a, int number)
{
	if (!a->pid)
		return;
	/* before the signal; a counter at its limit is set as well */
	if (eventfd_write(a->signal_fd, 1) < 0)
		log_debug("the agent has not read the last signal mark yet");
	if (kill(a->pid, number) == 0 && number != SIGKILL)
		a->signals_sent |= 1ull << number;
}

void remote_agent_abandon(struct remote_agent *a)
{
	if (!a->pid)
		return;
	for (int i = 0; i < REMOTE_AGENT_OUTS; i++) {
		if (types[i] == REMOTE_PAGE)
			remote_agent_end_out(a, i);
	}
	/* It may be stopped. After SIGTERM, SIGCONT could come at its end and
	 * cancel the SIGSTOP with which LeakSanitizer or gdb attaches. */
	remote_agent_signal(a, SIGCONT);
	remote_agent_signal(a, SIGTERM);
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

/* The exit code of an agent that was killed. It catches the signals that we
 * send, except just after its start; any other was sent by somebody else. */
static int remote_agent_killed_code(const struct remote_agent *a, pid_t pid,
				    int number)
{
	char name[SIGNAL_NAME_MAX];

	if (a->signals_sent >> number & 1)
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
	a->code = WIFSIGNALED(status)
			  ? remote_agent_killed_code(a, pid, WTERMSIG(status))
			  : WEXITSTATUS(status);
	remote_agent_close_in(a);
	if (!a->paused)
		uv_timer_start(&a->drain, remote_agent_on_drain_over, DRAIN_MS,
			       0);
	remote_agent_part_gone(a);
	return 1;
}
