/* worker_group.c: starts, signals and reaps the group of workers on this
 * node. */
#include "launcher/worker/worker_group.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sock.h"
#include "launcher/worker/socket_owner.h"

enum { OUT_TAIL_BYTES = 4 << 10 };

int worker_group_init(struct worker_group *g, uv_loop_t *loop,
		      struct output *output, struct input *input,
		      struct tty *tty, struct guard *guard, uint32_t n,
		      struct err *e)
{
	*g = (struct worker_group){.loop = loop, .output = output,
				   .input = input, .tty = tty,
				   .guard = guard, .n = n, .dev_null = -1};
	g->workers = calloc(n, sizeof(*g->workers));
	if (!g->workers)
		return err_no_memory(e, "%u workers", n);
	for (uint32_t i = 0; i < n; i++) {
		struct worker *w = &g->workers[i];

		w->group = g;
		w->local_rank = i;
		w->out.of.fd = w->err.of.fd = -1;
		tail_init(&w->tail, TAIL_BYTES);
		tail_init(&w->out_tail, OUT_TAIL_BYTES);
	}
	g->dev_null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (g->dev_null < 0)
		return err_set(e, -errno, "cannot open /dev/null: %s",
			       strerror(errno));
	return 0;
}

void worker_group_release(struct worker_group *g)
{
	for (uint32_t i = 0; g->workers && i < g->n; i++) {
		tail_release(&g->workers[i].tail);
		tail_release(&g->workers[i].out_tail);
	}
	free(g->workers);
	if (g->dev_null >= 0)
		close(g->dev_null);
	g->workers = NULL;
}

int worker_group_was_stopped(const struct worker_group *g)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (g->workers[i].stopped)
			return 1;
	return 0;
}

uint32_t worker_rank(const struct worker *w)
{
	return w->group->base_rank + w->local_rank;
}

static void worker_group_check_closed(struct worker_group *g)
{
	if (!g->closing || g->open_streams)
		return;
	g->closing = 0;
	g->on_closed(g);
}

static void worker_group_on_stream_closed(void *arg)
{
	struct worker_group *g = arg;

	g->open_streams--;
	worker_group_check_closed(g);
}

static int worker_open_stream(struct worker *w, struct redirect *o,
			      int is_stderr, struct err *e)
{
	const struct stream_setup setup = {
		.fd = o->pipe, .file = o->file, .is_stderr = is_stderr,
		.shown = o->shown, .rank = worker_rank(w),
		.local_rank = w->local_rank,
		.tail = is_stderr ? &w->tail : &w->out_tail,
		.on_closed = worker_group_on_stream_closed, .arg = w->group,
	};
	int rc;

	if (o->pipe < 0) /* the worker writes to its file itself */
		return 0;
	rc = stream_open(is_stderr ? &w->err : &w->out, w->group->output,
			 &setup);
	if (rc < 0)
		return err_set(e, rc, "cannot watch a worker's pipe: %s",
			       strerror(-rc));
	o->pipe = -1; /* the stream has taken them */
	o->file = LOG_WRITER_NONE;
	w->group->open_streams++;
	return 0;
}

/* The worker's terminal is the other end of ours, which the stream takes on
 * success. All bytes are shown as they are; the file of its stdout, if it has
 * one, gets them as well. */
static int worker_open_terminal(struct worker *w, struct redirect redirects[2],
				int ours, struct err *e)
{
	struct stream_setup setup = {
		.fd = ours, .file = redirects[0].file, .is_terminal = 1,
		.rank = worker_rank(w), .local_rank = w->local_rank,
		.tail = &w->tail, .on_closed = worker_group_on_stream_closed,
		.arg = w->group,
	};
	int rc = stream_open(&w->out, w->group->output, &setup);

	if (rc < 0)
		return err_set(e, rc, "cannot watch a worker's terminal: %s",
			       strerror(-rc));
	redirects[0].file = LOG_WRITER_NONE;
	w->group->open_streams++;
	return 0;
}

static int worker_open_redirects(struct worker *w, struct redirect redirects[2],
				 struct err *e)
{
	int rc = redirect_open(&redirects[0], &w->group->redirect_rules,
			       w->local_rank, worker_rank(w), 0, e);

	if (rc < 0)
		return rc;
	rc = redirect_open(&redirects[1], &w->group->redirect_rules,
			   w->local_rank, worker_rank(w), 1, e);
	if (rc < 0)
		redirect_close(&redirects[0]);
	return rc;
}

/* Opens its three streams. in is -1 for none; ours is the other end of a
 * terminal, or -1. The caller closes all of them. */
static int worker_open_files(struct worker *w, struct redirect redirects[2],
			     int *in, int *ours, struct err *e)
{
	struct worker_group *g = w->group;
	int rc = worker_open_redirects(w, redirects, e);

	if (rc == 0)
		rc = tty_open(g->tty, worker_rank(w), in, ours, e);
	if (rc == 0 && *ours < 0)
		rc = input_open(g->input, worker_rank(w), in, e);
	return rc;
}

static int worker_open_streams(struct worker *w, struct redirect redirects[2],
			       int *ours, struct err *e)
{
	int rc;

	if (*ours >= 0) {
		rc = worker_open_terminal(w, redirects, *ours, e);
		*ours = rc == 0 ? -1 : *ours;
		return rc;
	}
	rc = worker_open_stream(w, &redirects[0], 0, e);
	return rc == 0 ? worker_open_stream(w, &redirects[1], 1, e) : rc;
}

static int worker_start(struct worker *w, struct spawn *s, struct err *e)
{
	struct worker_group *g = w->group;
	struct redirect redirects[2] = {REDIRECT_NONE, REDIRECT_NONE};
	int in = -1, ours = -1;
	int rc = worker_open_files(w, redirects, &in, &ours, e);

	if (rc < 0)
		goto out;
	s->has_terminal = ours >= 0;
	s->in = in >= 0 ? in : g->dev_null;
	s->out = ours >= 0 ? in : redirects[0].child;
	s->err = ours >= 0 ? in : redirects[1].child;
	s->pid = guard_slot(g->guard, w->local_rank);
	guard_note_pipes(g->guard, w->local_rank,
			 ours >= 0 ? -1 : redirects[0].pipe,
			 ours >= 0 ? -1 : redirects[1].pipe);
	w->started_ns = clock_ns();
	w->pid = g->start ? g->start(g, s, e) : spawn_process(s, e);
	if (w->pid < 0) {
		rc = w->pid;
		goto out;
	}
	w->running = 1;
	w->stopped = w->killed = w->had = 0;
	g->running++;
	rc = worker_open_streams(w, redirects, &ours, e);
out:
	if (in >= 0)
		close(in);
	if (ours >= 0)
		close(ours);
	if (rc < 0)
		tty_gone(g->tty, worker_rank(w));
	redirect_close(&redirects[0]);
	redirect_close(&redirects[1]);
	return rc;
}

static int worker_start_planned(struct worker *w, struct plan *plan,
				uint64_t open_files, struct err *e)
{
	struct worker_group *g = w->group;
	struct spawn s = {.keep = {-1, -1}, .open_files = open_files,
			  .locks = g->locks, .timer_slack = g->timer_slack,
			  .as_started = 1};
	struct plan_worker planned;

	tail_clear(&w->tail);
	tail_clear(&w->out_tail);
	plan_worker(plan, w->local_rank, &planned);
	s.path = planned.path;
	s.argv = planned.argv;
	s.envp = planned.envp;
	s.cpus = planned.cpus;
	if (g->socket)
		s.keep[0] = s.keep_as = g->socket(g, w->local_rank);
	return worker_start(w, &s, e);
}

int worker_group_start(struct worker_group *g, struct plan *plan,
		       uint64_t open_files, struct err *e)
{
	g->base_rank = plan->base_rank;
	g->at = 0;
	for (uint32_t i = 0; i < g->n; i++) {
		int rc;

		g->workers[i].restarts = 0;
		rc = worker_start_planned(&g->workers[i], plan, open_files, e);
		if (rc < 0)
			return rc;
		g->on_started(g);
	}
	input_unread(g->input);
	return 0;
}

int worker_start_again(struct worker *w, struct plan *plan, uint64_t open_files,
		       struct err *e)
{
	struct worker_group *g = w->group;
	int rc;

	guard_signal(*guard_slot(g->guard, w->local_rank), SIGKILL);
	*guard_slot(g->guard, w->local_rank) = 0;
	/* the last words of processes that it left behind */
	stream_drain(&w->out);
	stream_drain(&w->err);
	stream_close(&w->out);
	stream_close(&w->err);
	w->restarts++;
	rc = worker_start_planned(w, plan, open_files, e);
	if (rc < 0 && w->running)
		guard_signal(*guard_slot(g->guard, w->local_rank), SIGKILL);
	return rc;
}

/* Signals the worker's process group, in which an ended worker may have left
 * processes, and the worker itself if it moved to another group. 0, or -EPERM
 * if it runs as another user. */
static int worker_send_signal(struct worker *w, int signal)
{
	int probe = 0;

	guard_signal(*guard_slot(w->group->guard, w->local_rank), signal);
	if (!w->running)
		return 0;
	/* our child, and not reaped: the kernel has not reused the pid */
	if (getpgid(w->pid) != w->pid)
		probe = signal;
	return kill(w->pid, probe) < 0 && errno == EPERM ? -EPERM : 0;
}

/* Counts a worker that we cannot kill as ended. */
static void worker_give_up(struct worker *w)
{
	struct worker_group *g = w->group;

	w->running = 0;
	w->ended_ns = clock_ns();
	w->ran_ms = (w->ended_ns - w->started_ns) / 1000000;
	w->status = w->signal = SIGKILL;
	w->code = 0;
	g->running--;
	input_gone(g->input, worker_rank(w));
	tty_gone(g->tty, worker_rank(w));
	*guard_slot(g->guard, w->local_rank) = 0;
}

void worker_stop(struct worker *w, int signal)
{
	struct worker_group *g = w->group;
	int rc = worker_send_signal(w, signal);

	/* a suspended worker would not act on the signal */
	if (signal != SIGKILL)
		worker_send_signal(w, SIGCONT);
	w->had = signal;
	if (w->running) {
		w->stopped = 1;
		w->killed = signal == SIGKILL;
	}
	if (rc < 0 && signal == SIGKILL)
		worker_give_up(w);
	if (rc < 0)
		g->on_denied(g, w, signal);
}

void worker_group_stop(struct worker_group *g, int signal)
{
	for (uint32_t i = 0; i < g->n; i++)
		worker_stop(&g->workers[i], signal);
}

void worker_group_relay(struct worker_group *g, int signal)
{
	for (uint32_t i = 0; i < g->n; i++)
		worker_send_signal(&g->workers[i], signal);
}

struct worker *worker_group_find(struct worker_group *g, pid_t pid)
{
	/* workers tend to end in the order in which they were started */
	for (uint32_t i = 0; i < g->n; i++) {
		struct worker *w = &g->workers[(g->at + i) % g->n];

		if (w->running && w->pid == pid) {
			g->at = (g->at + i + 1) % g->n;
			return w;
		}
	}
	return NULL;
}

struct worker *worker_group_find_socket(struct worker_group *g, uint64_t inode,
					pid_t *pid)
{
	struct socket_search s;

	socket_search_init(&s, inode);
	/* workers first: usually one has it, and so may what it forked */
	for (uint32_t i = 0; i < g->n; i++) {
		*pid = g->workers[i].pid;
		if (g->workers[i].running && socket_search_in(&s, *pid))
			return &g->workers[i];
	}
	for (uint32_t i = 0; i < g->n; i++) {
		if (!g->workers[i].running)
			continue;
		*pid = socket_search_under(&s, g->workers[i].pid);
		if (*pid)
			return &g->workers[i];
	}
	return NULL;
}

void worker_group_exited(struct worker_group *g, struct worker *w, int status,
			 const struct rusage *usage)
{
	w->running = 0;
	w->ended_ns = clock_ns();
	w->status = status;
	w->ran_ms = (w->ended_ns - w->started_ns) / 1000000;
	w->code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	w->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	w->core = WIFSIGNALED(status) && WCOREDUMP(status);
	w->max_rss_kib = (uint64_t)usage->ru_maxrss; /* Linux: KiB */
	g->running--;
	input_gone(g->input, worker_rank(w));
	tty_gone(g->tty, worker_rank(w));
	*guard_slot(g->guard, w->local_rank) =
		kill(-w->pid, 0) < 0 && errno == ESRCH ? 0 : -w->pid;
	stream_drain(&w->out);
	stream_drain(&w->err);
	if (!w->tail.lines)
		logdir_tail(g->redirect_rules.dir, w->local_rank, &w->tail);
	if (!w->out_tail.lines && (w->code || w->signal == SIGABRT) &&
	    logdir_read_tail(g->redirect_rules.dir, w->local_rank, 0,
			     &w->out_tail) < 0)
		tail_clear(&w->out_tail); /* its stderr's warns */
}

void worker_group_close(struct worker_group *g)
{
	input_end_round(g->input);
	for (uint32_t i = 0; i < g->n; i++) {
		*guard_slot(g->guard, i) = 0;
		guard_note_pipes(g->guard, i, -1, -1);
		/* the last output of processes that workers left behind */
		stream_drain(&g->workers[i].out);
		stream_drain(&g->workers[i].err);
		stream_close(&g->workers[i].out);
		stream_close(&g->workers[i].err);
	}
	g->closing = 1;
	worker_group_check_closed(g);
}

/* ---- the workers' ports ---- */

int worker_ports_reserve(struct worker_ports *p, uint32_t n, struct err *e)
{
	struct worker_ports new = {
		.ports = calloc(n, sizeof(*new.ports)),
		.fds = calloc(n, sizeof(*new.fds)),
	};
	int rc = 0;

	if (!new.ports || !new.fds)
		rc = err_no_memory(e, "the workers' ports");
	while (rc == 0 && new.n < n) {
		int fd = sock_reserve_port(&new.ports[new.n], e);

		if (fd < 0)
			rc = fd;
		else
			new.fds[new.n++] = fd;
	}
	if (rc < 0) {
		worker_ports_release(&new);
		return rc;
	}
	worker_ports_release(p);
	*p = new;
	return 0;
}

void worker_ports_release(struct worker_ports *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		close(p->fds[i]);
	free(p->ports);
	free(p->fds);
	*p = (struct worker_ports){.n = 0};
}
