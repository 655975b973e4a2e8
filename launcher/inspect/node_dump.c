/* node_dump.c: the child that writes a dump, its pipe and its time limit. */
#include "launcher/inspect/node_dump.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/inspect/local_workers.h"
#include "launcher/inspect/rank_calls.h"
#include "launcher/worker/spawn.h"

enum {
	AT_ONCE_MAX = 8,
	READ_BYTES = 64 << 10,
	WHY_MAX = 256,
	CALLS_MAX = 4 << 20,
};

/* A dump is done when its pipe has ended and the child is reaped, in either
 * order. It is freed when its handles have closed. */
struct node_dump {
	struct node_dumps *all; /* NULL: its result is not wanted any more */
	struct node_dump *next, **pprev;
	uint32_t number;
	uint32_t timeout_ms;
	pid_t pid; /* 0: reaped */
	int status;
	int is_read; /* the pipe has ended */
	int handles;
	int is_cut;
	uv_pipe_t pipe;
	uv_timer_t timer;
	struct buf text;
	char why[WHY_MAX]; /* why we killed the child; or "" */
	struct rank_moments first; /* look at the workers' calls */
	uint64_t first_ms;
	int is_called; /* a worker was in one */
};

static void node_dump_on_handle_closed(uv_handle_t *h)
{
	struct node_dump *p = h->data;

	if (--p->handles)
		return;
	buf_release(&p->text);
	rank_moments_release(&p->first);
	free(p);
}

static void node_dump_remove(struct node_dump *p)
{
	*p->pprev = p->next;
	if (p->next)
		p->next->pprev = p->pprev;
	p->all->n--;
	p->all = NULL;
	uv_close((uv_handle_t *)&p->pipe, node_dump_on_handle_closed);
	uv_close((uv_handle_t *)&p->timer, node_dump_on_handle_closed);
}

static void node_dump_kill(struct node_dump *p, const char *why)
{
	if (!p->why[0])
		snprintf(p->why, sizeof(p->why), "%s", why);
	if (p->pid)
		kill(p->pid, SIGKILL);
}

/* The output of a child that failed says why. */
static void node_dump_set_error(struct node_dump *p, struct wire_dump_reply *m)
{
	char name[SIGNAL_NAME_MAX];

	if (p->why[0] || p->status == 0)
		return;
	if (WIFSIGNALED(p->status)) {
		snprintf(p->why, sizeof(p->why), "the process that wrote its "
			 "dump was killed by %s",
			 signal_name(WTERMSIG(p->status), name));
		return;
	}
	while (m->page.len && m->page.data[m->page.len - 1] == '\n')
		m->page.len--;
	snprintf(p->why, sizeof(p->why), "%.*s", SLICE_FMT(m->page));
	m->page.len = 0;
}

/* ---- the last collectives of its ranks ---- */

/* Read from our own recorder; waits for nothing. */
static struct local_workers *node_dump_workers(void)
{
	struct local_workers *l = malloc(sizeof(*l));
	struct err e = ERR_INIT;

	if (l && local_workers_init(l, NULL, getpid(), &e) == 0)
		return l;
	free(l);
	return NULL;
}

static void node_dump_free_workers(struct local_workers *l)
{
	local_workers_release(l);
	free(l);
}

static void node_dump_look_first(struct node_dump *p)
{
	struct local_workers *l = node_dump_workers();

	p->first_ms = clock_ms();
	if (!l)
		return;
	p->is_called = rank_moments_init(&p->first, l) != 0;
	node_dump_free_workers(l);
}

static struct wire_items node_dump_put_calls(struct node_dump *p,
					     struct buf *out)
{
	struct local_workers *l = node_dump_workers();
	uint32_t n = 0;

	if (l) {
		n = rank_calls_put(out, l, 0, l->n, &p->first);
		node_dump_free_workers(l);
	}
	if (out->failed || n > WIRE_KEYS_MAX)
		return (struct wire_items){0, SLICE("", 0)};
	return (struct wire_items){n, SLICE(out->data, out->len)};
}

static void node_dump_finish(struct node_dump *p)
{
	struct wire_dump_reply m = {.number = p->number,
				    .page = SLICE(p->text.data, p->text.len)};
	struct buf calls = BUF_INIT(CALLS_MAX);
	struct node_dumps *all = p->all;

	node_dump_set_error(p, &m);
	m.text = SLICE_STR(p->why);
	m.calls = node_dump_put_calls(p, &calls);
	/* first, for on_done may close all dumps; p lives until the loop has
	 * closed its handles */
	node_dump_remove(p);
	all->on_done(all->owner, &m);
	buf_release(&calls);
}

static void node_dump_on_second_look(uv_timer_t *t)
{
	node_dump_finish(t->data);
}

/* The second look at the calls is due some time after the first. */
static void node_dump_check_done(struct node_dump *p)
{
	uint64_t ms;

	if (!p->all || !p->is_read || p->pid)
		return;
	ms = clock_ms() - p->first_ms;
	if (p->is_called && ms < RANK_CALLS_MS)
		uv_timer_start(&p->timer, node_dump_on_second_look,
			       RANK_CALLS_MS - ms, 0);
	else
		node_dump_finish(p);
}

/* ---- reading from the child ---- */

static void node_dump_on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	static char space[READ_BYTES];

	*b = uv_buf_init(space, sizeof(space));
}

/* Keeps as much of the text as there is room for. */
static void node_dump_append(struct node_dump *p, const char *data, size_t n)
{
	size_t room = p->text.max - p->text.len;

	if (p->is_cut)
		return;
	buf_put(&p->text, data, n < room ? n : room);
	if (n <= room)
		return;
	p->is_cut = 1;
	node_dump_kill(p, "its dump is truncated at 1 MiB; --no-stacks makes "
		       "it shorter");
}

static void node_dump_on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct node_dump *p = s->data;

	if (n > 0)
		node_dump_append(p, b->base, (size_t)n);
	if (n >= 0)
		return;
	uv_read_stop(s);
	p->is_read = 1;
	node_dump_check_done(p);
}

static void node_dump_on_timer(uv_timer_t *t)
{
	struct node_dump *p = t->data;
	char why[WHY_MAX];

	snprintf(why, sizeof(why),
		 "its dump is incomplete: it was not done within %g s; see "
		 "--timeout and --no-stacks",
		 p->timeout_ms / 1000.0);
	node_dump_kill(p, why);
}

int node_dumps_reaped(struct node_dumps *all, pid_t pid, int status)
{
	for (struct node_dump *p = all->list; p; p = p->next) {
		if (p->pid != pid)
			continue;
		p->pid = 0;
		p->status = status;
		node_dump_check_done(p);
		return 1;
	}
	return 0;
}

/* ---- starting the child ---- */

static pid_t node_dump_spawn(int out, const struct wire_dump_request *look,
			     struct err *e)
{
	extern char **environ;
	static char name[] = "ddprun", dump[] = "dump", json[] = "--json",
		    no_stacks[] = "--no-stacks";
	char agent[32], last[32];
	char *argv[8] = {name, dump, agent, last};
	int n = 4;
	struct spawn order = {
		.path = "/proc/self/exe", .argv = argv, .envp = environ,
		.in = spawn_no_input(e),
		.out = out, .err = out, .keep = {-1, -1},
	};
	pid_t pid;

	snprintf(agent, sizeof(agent), "--agent=%d", (int)getpid());
	snprintf(last, sizeof(last), "--last=%u", look->last);
	if (look->json)
		argv[n++] = json;
	if (look->no_stacks)
		argv[n++] = no_stacks;
	pid = order.in < 0 ? order.in : spawn_process(&order, e);
	if (order.in >= 0)
		close(order.in);
	return pid;
}

static void node_dump_new(struct node_dumps *all,
			  const struct wire_dump_request *look, int in,
			  pid_t pid, struct node_dump *p)
{
	struct err e = ERR_INIT;
	int rc;

	*p = (struct node_dump){.all = all, .number = look->number, .pid = pid,
			   .timeout_ms = look->timeout_ms, .handles = 2,
			   .text = BUF_INIT(WIRE_DUMP_REPLY_MAX)};
	node_dump_look_first(p);
	p->next = all->list;
	if (p->next)
		p->next->pprev = &p->next;
	p->pprev = &all->list;
	all->list = p;
	all->n++;
	uv_pipe_init(all->loop, &p->pipe, 0);
	uv_timer_init(all->loop, &p->timer);
	p->pipe.data = p->timer.data = p;
	rc = uv_pipe_open(&p->pipe, in);
	if (rc < 0)
		close(in);
	else
		rc = uv_read_start((uv_stream_t *)&p->pipe, node_dump_on_alloc,
				   node_dump_on_read);
	if (rc < 0) { /* it is done when the child is reaped */
		loop_check(rc, &e, "cannot read its dump");
		node_dump_kill(p, e.text);
		p->is_read = 1;
	}
	uv_timer_start(&p->timer, node_dump_on_timer, p->timeout_ms, 0);
}

static int node_dump_start(struct node_dumps *all,
			   const struct wire_dump_request *look, struct err *e)
{
	struct node_dump *p;
	int ends[2];
	pid_t pid;

	if (all->n >= AT_ONCE_MAX)
		return err_set(e, -EAGAIN, "%d dumps of it are in progress; "
			       "try again", AT_ONCE_MAX);
	p = malloc(sizeof(*p));
	if (!p || pipe2(ends, O_CLOEXEC) < 0) {
		int rc = p ? -errno : -ENOMEM;

		free(p);
		return err_set(e, rc, "cannot dump it: %s", strerror(-rc));
	}
	pid = node_dump_spawn(ends[1], look, e);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		free(p);
		return pid;
	}
	node_dump_new(all, look, ends[0], pid, p);
	return 0;
}

void node_dumps_start(struct node_dumps *all,
		      const struct wire_dump_request *look)
{
	struct wire_dump_reply m = {.number = look->number};
	struct err e = ERR_INIT;

	if (node_dump_start(all, look, &e) == 0)
		return;
	m.text = SLICE_STR(e.text);
	all->on_done(all->owner, &m);
}

void node_dumps_init(struct node_dumps *p, uv_loop_t *loop,
		     node_dump_on_done *on_done, void *owner)
{
	*p = (struct node_dumps){.loop = loop, .on_done = on_done,
				 .owner = owner};
}

void node_dumps_close(struct node_dumps *all)
{
	while (all->list) {
		struct node_dump *p = all->list;

		node_dump_kill(p, "");
		node_dump_remove(p);
	}
}
