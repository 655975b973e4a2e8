/* remote_link.c: an ssh from its start to its end. */
#include "launcher/ssh/remote_link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "launcher/plan/program.h"
#include "launcher/worker/spawn.h"

enum {
	PIECE = 4096,
	FILE_MAX = 128 << 20,
	DRAIN_MS = 500,
	DETAIL_MAX = 500,
	PINGS = 5, /* per silent_ms */
};

/* ---- its end ---- */

static void remote_link_explain(const struct remote_link *l, struct err *e)
{
	const struct ssh_end n = {
		.program = l->how->program, .status = l->status,
		.opened = l->open,
		.timeout_s = l->timed_out,
		.lines = SLICE(l->lines.data, l->lines.len),
	};

	if (l->broken.code)
		*e = l->broken;
	else if (!l->released)
		ssh_command_explain(&n, e);
}

static void remote_link_on_timer_closed(uv_handle_t *h)
{
	struct remote_link *l = h->data;
	struct err e = ERR_INIT;

	remote_link_explain(l, &e);
	buf_release(&l->lines);
	l->events->on_down(l, &e);
}

/* A link has three parts: the process, its stdout and its stderr. It is down
 * when all have ended, so that no output is lost. */
static void remote_link_part_gone(struct remote_link *l)
{
	if (--l->parts == 0)
		uv_close((uv_handle_t *)&l->timer, remote_link_on_timer_closed);
}

static void remote_link_on_err_closed(uv_handle_t *h)
{
	remote_link_part_gone(h->data);
}

static void remote_link_on_pipe_closed(struct remote_pipe *p)
{
	remote_link_part_gone(p->owner);
}

static void remote_link_kill(struct remote_link *l)
{
	if (l->pid && !l->killed)
		kill(l->pid, SIGKILL);
	l->killed = 1;
}

static void remote_link_on_late(uv_timer_t *t)
{
	remote_link_kill(t->data);
}

/* A background ssh (ControlPersist) may keep the pipes open: close them. */
static void remote_link_on_drain_over(uv_timer_t *t)
{
	struct remote_link *l = t->data;

	remote_pipe_close(&l->pipe);
	if (!uv_is_closing((uv_handle_t *)&l->err))
		uv_close((uv_handle_t *)&l->err, remote_link_on_err_closed);
}

/* ssh has closed its end, or has broken the protocol. */
static void remote_link_on_end(struct remote_pipe *p, const struct err *why)
{
	struct remote_link *l = p->owner;

	if (why->code && !l->released && !l->broken.code) {
		l->broken = *why;
		remote_link_kill(l);
	}
	remote_pipe_close(p);
	/* an ssh that has closed its stdout is of no use */
	if (l->pid && !uv_is_closing((uv_handle_t *)&l->timer))
		uv_timer_start(&l->timer, remote_link_on_late, 2000, 0);
}

/* ---- stderr ---- */

static void remote_link_report_lines(struct remote_link *l)
{
	struct slice s = SLICE(l->lines.data, l->lines.len);

	while (s.len) {
		struct slice line = slice_next_line(&s);

		if (line.len)
			l->events->on_line(l, line);
	}
	buf_reset(&l->lines);
}

static void remote_link_on_err_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	struct remote_link *l = h->data;

	if (l->lines.len > REMOTE_LINK_LINES)
		buf_consume(&l->lines, l->lines.len - REMOTE_LINK_LINES);
	b->base = buf_reserve(&l->lines, PIECE);
	b->len = b->base ? PIECE : 0;
}

static void remote_link_on_err(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct remote_link *l = s->data;

	if (n > 0) {
		l->lines.len += (size_t)n;
		if (l->open && l->lines.data[l->lines.len - 1] == '\n')
			remote_link_report_lines(l);
	} else if (n < 0) {
		uv_close((uv_handle_t *)s, remote_link_on_err_closed);
	}
}

/* ---- before the frames ---- */

static void remote_link_fail(struct remote_link *l, const char *what,
			     struct slice detail, const char *todo)
{
	if (detail.len > DETAIL_MAX)
		detail.len = DETAIL_MAX;
	if (!l->broken.code)
		err_set(&l->broken, ERR_REMOTE, "%s%.*s%s", what,
			SLICE_FMT(detail), todo);
	remote_link_kill(l);
}

static void remote_link_send_file(struct remote_link *l, struct slice name)
{
	const struct build_id *build = l->how->build;
	int is_server = name.len == 7 && memcmp(name.data, "ddprdzv", 7) == 0;
	struct buf text = BUF_INIT(FILE_MAX);
	struct err e = ERR_INIT;

	if (is_server && !build->server[0])
		remote_link_fail(l, "it has no ddprun of this build, and there "
				 "is no ddprdzv beside '",
				 SLICE_STR(build->self), "' to copy there "
				 "together with it; install ddprun there");
	else if (build_id_read(is_server ? build->server : "/proc/self/exe",
			       &text, &e) < 0)
		remote_link_fail(l, "", SLICE_STR(e.text), "");
	else
		remote_pipe_send_bytes(&l->pipe, SLICE(text.data, text.len));
	buf_release(&text);
}

static void remote_link_handle_noise(struct remote_link *l, struct slice text)
{
	if (!text.len || l->has_noise)
		return;
	l->has_noise = 1;
	l->events->on_noise(l, text);
}

static void remote_link_on_silence(uv_timer_t *t);

static void remote_link_set_open(struct remote_link *l)
{
	uint32_t ms = l->silent_ms / PINGS;

	l->open = 1;
	buf_reset(&l->lines);
	uv_timer_start(&l->timer, remote_link_on_silence, ms, ms);
	l->events->on_open(l);
}

static void remote_link_handle_record(struct remote_link *l,
				      const struct remote_record *r)
{
	switch (r->word) {
	case REMOTE_FAR:
		remote_link_set_open(l);
		break;
	case REMOTE_COPIED:
		l->copied = 1;
		break;
	case REMOTE_NEED:
		remote_link_send_file(l, r->rest);
		break;
	case REMOTE_MACHINE:
		remote_link_fail(l, "it has no ddprun, and cannot run this "
				 "one: its machine is ", r->rest,
				 "; install ddprun there");
		break;
	case REMOTE_FAIL:
		remote_link_fail(l, "it has no ddprun of this build, and one "
				 "cannot be copied to ", r->rest, "; make room "
				 "there, set XDG_CACHE_HOME there to a folder "
				 "that can be written, or install ddprun");
		break;
	case REMOTE_MORE:
		break;
	}
}

static void remote_link_on_bytes(struct remote_pipe *p)
{
	struct remote_link *l = p->owner;
	struct remote_record r = {.word = REMOTE_NEED};

	while (!l->open && r.word != REMOTE_MORE) {
		remote_record_find(SLICE(p->rx.data, p->rx.len), &r);
		remote_link_handle_noise(l, SLICE(p->rx.data, r.noise));
		remote_link_handle_record(l, &r);
		buf_consume(&p->rx, r.size);
	}
	if (l->open)
		remote_pipe_frames(p);
}

static void remote_link_on_frame(struct remote_pipe *p,
				 const struct remote_frame *f)
{
	struct remote_link *l = p->owner;

	if (f->type != REMOTE_PING && !l->released)
		l->events->on_frame(l, f);
}

static const struct remote_pipe_events pipe_events = {
	.on_bytes = remote_link_on_bytes,
	.on_frame = remote_link_on_frame,
	.on_end = remote_link_on_end,
	.on_closed = remote_link_on_pipe_closed,
};

/* ---- time ---- */

static void remote_link_on_timeout(uv_timer_t *t)
{
	struct remote_link *l = t->data;

	l->timed_out = (double)uv_timer_get_repeat(t) / 1000;
	uv_timer_stop(t);
	remote_link_kill(l);
}

static void remote_link_on_silence(uv_timer_t *t)
{
	struct remote_link *l = t->data;
	uint64_t now = uv_now(t->loop);

	remote_pipe_send(&l->pipe, REMOTE_PING, l->host, SLICE("", 0));
	if (l->pipe.paused || now - l->pipe.heard_ms < l->silent_ms)
		return;
	uv_timer_stop(t);
	err_set(&l->broken, ERR_REMOTE,
		"the connection is lost: no data for %g s",
		l->silent_ms / 1000.0);
	remote_link_kill(l);
}

/* ---- starting ---- */

struct remote_link_ends {
	int ours[3], theirs[3];
};

static void remote_link_close_fds(int *fds)
{
	for (int i = 0; i < 3; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

static int remote_link_open_ends(struct remote_link_ends *n, struct err *e)
{
	int rc = 0;

	for (int i = 0; i < 3; i++)
		n->ours[i] = n->theirs[i] = -1;
	for (int i = 0; i < 3 && rc == 0; i++) {
		int fds[2];

		rc = pipe2(fds, O_CLOEXEC) < 0 ? -errno : 0;
		if (rc == 0) {
			n->ours[i] = fds[i == 0];
			n->theirs[i] = fds[i != 0];
		}
	}
	if (rc == 0)
		return 0;
	remote_link_close_fds(n->ours);
	remote_link_close_fds(n->theirs);
	return err_set(e, rc, "cannot create pipes for ssh: %s", strerror(-rc));
}

static pid_t remote_link_spawn(const struct remote_link *l,
			       const struct remote_link_ends *n, struct err *e)
{
	extern char **environ;
	struct ssh_command c;
	struct program p;
	struct err why = ERR_INIT;
	const struct program_how how = {.no_python = 1};
	struct spawn order = {
		.envp = environ, .in = n->theirs[0], .out = n->theirs[1],
		.err = n->theirs[2], .keep = {-1, -1},
	};
	int rc = ssh_command_init(&c, l->how, l->name, e);

	if (rc < 0)
		return rc;
	rc = program_find(&p, c.argv, &how, &why);
	if (rc < 0) {
		err_set(e, rc, "%s%s", why.text,
			rc == -ENOMEM ? ""
				      : "; ddprun reaches hosts with it (--ssh "
					"PROGRAM names another)");
	} else {
		order.path = p.path;
		order.argv = c.argv;
		rc = spawn_process(&order, e);
		program_release(&p);
	}
	ssh_command_release(&c);
	return rc;
}

int remote_link_start(struct remote_link *l, uv_loop_t *loop,
		      const struct ssh_options *how, uint32_t timeout_ms,
		      uint32_t silent_ms, struct err *e)
{
	struct remote_link_ends n;
	int rc = remote_link_open_ends(&n, e);

	if (rc < 0)
		return rc;
	l->how = how;
	l->silent_ms = silent_ms;
	rc = remote_link_spawn(l, &n, e);
	remote_link_close_fds(n.theirs);
	if (rc < 0) {
		remote_link_close_fds(n.ours);
		return rc;
	}
	l->pid = rc;
	l->parts = 3;
	buf_init(&l->lines, REMOTE_LINK_LINES + 2 * PIECE);
	uv_timer_init(loop, &l->timer);
	uv_pipe_init(loop, &l->err, 0);
	l->timer.data = l->err.data = l->pipe.owner = l;
	l->pipe.events = &pipe_events;
	uv_timer_start(&l->timer, remote_link_on_timeout, timeout_ms,
		       timeout_ms);
	/* a failure here is reported when the killed process is reaped */
	if (remote_pipe_open(&l->pipe, loop, n.ours[1], n.ours[0], 0) < 0)
		remote_link_kill(l);
	if (uv_pipe_open(&l->err, n.ours[2]) < 0 ||
	    uv_read_start((uv_stream_t *)&l->err, remote_link_on_err_alloc,
			  remote_link_on_err) < 0) {
		remote_link_kill(l);
		uv_close((uv_handle_t *)&l->err, remote_link_on_err_closed);
	}
	return 0;
}

void remote_link_send(struct remote_link *l, uint8_t type, uint32_t host,
		      struct slice body)
{
	if (l->open)
		remote_pipe_send(&l->pipe, type, host, body);
}

void remote_link_send_buf(struct remote_link *l, uint8_t type, uint32_t host,
			  const struct buf *body)
{
	if (l->open)
		remote_pipe_send_buf(&l->pipe, type, host, body);
}

void remote_link_break(struct remote_link *l, const char *why)
{
	struct err e = ERR_INIT;

	err_set(&e, ERR_PROTOCOL, "%s", why);
	remote_pipe_break(&l->pipe, &e);
}

void remote_link_pause(struct remote_link *l, int paused)
{
	if (l->open)
		remote_pipe_pause(&l->pipe, paused);
}

void remote_link_release(struct remote_link *l, uint64_t ms)
{
	if (l->released || !l->pid)
		return;
	l->released = 1;
	remote_pipe_pause(&l->pipe, 0);
	remote_pipe_hang_up(&l->pipe);
	if (!l->open)
		remote_link_kill(l);
	uv_timer_start(&l->timer, remote_link_on_late, ms, 0);
}

int remote_link_reaped(struct remote_link *l, pid_t pid, int status)
{
	if (!l->pid || pid != l->pid)
		return 0;
	l->pid = 0;
	l->status = status;
	remote_pipe_pause(&l->pipe, 0);
	uv_timer_start(&l->timer, remote_link_on_drain_over, DRAIN_MS, 0);
	remote_link_part_gone(l);
	return 1;
}
