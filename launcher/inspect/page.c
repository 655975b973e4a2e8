/* page.c: the child that writes a page, its pipe and its time. */
#include "launcher/inspect/page.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/signal_name.h"
#include "launcher/inspect/look.h"
#include "launcher/worker/spawn.h"

enum {
	AT_ONCE_MAX = 8,
	READ_BYTES = 64 << 10,
	WHY_MAX = 256,
	CALLS_MAX = 4 << 20,
};

/* It is told when its pipe has ended and its status is known: either may come
 * first. It goes when its handles have. */
struct page {
	struct pages *all; /* NULL: nobody wants to know any more */
	struct page *next, **pprev;
	uint32_t number;
	uint32_t timeout_ms;
	pid_t pid; /* 0: it has ended */
	int status;
	int ended; /* the pipe */
	int handles;
	int cut;
	uv_pipe_t pipe;
	uv_timer_t timer;
	struct buf text;
	char why[WHY_MAX]; /* why we ended it; "" */
};

static void on_handle_closed(uv_handle_t *h)
{
	struct page *p = h->data;

	if (--p->handles)
		return;
	buf_release(&p->text);
	free(p);
}

static void page_drop(struct page *p)
{
	*p->pprev = p->next;
	if (p->next)
		p->next->pprev = p->pprev;
	p->all->n--;
	p->all = NULL;
	uv_close((uv_handle_t *)&p->pipe, on_handle_closed);
	uv_close((uv_handle_t *)&p->timer, on_handle_closed);
}

static void kill_writer(struct page *p, const char *why)
{
	if (!p->why[0])
		snprintf(p->why, sizeof(p->why), "%s", why);
	if (p->pid)
		kill(p->pid, SIGKILL);
}

/* What it wrote before it failed says why. */
static void say_how_it_ended(struct page *p, struct wire_page *m)
{
	char name[SIGNAL_NAME_MAX];

	if (p->why[0] || p->status == 0)
		return;
	if (WIFSIGNALED(p->status)) {
		snprintf(p->why, sizeof(p->why), "who wrote it was ended by %s",
			 signal_name(WTERMSIG(p->status), name));
		return;
	}
	while (m->page.len && m->page.data[m->page.len - 1] == '\n')
		m->page.len--;
	snprintf(p->why, sizeof(p->why), "%.*s", SLICE_FMT(m->page));
	m->page.len = 0;
}

/* ---- how far its ranks are ---- */

static void put_call(struct buf *out, const struct look_worker *w,
		     uint32_t comm, uint32_t *n)
{
	const struct flight_op *op = look_last_in(w, comm);
	char words[FLIGHT_CALL_MAX] = "";
	struct wire_call c = {.rank = w->rank, .comm = comm};

	if (op) {
		c.number = op->call.number + 1;
		flight_op_text(w->view, op, words);
	}
	c.words = SLICE_STR(words);
	wire_put_call_item(out, &c);
	*n += 1;
}

/* Our own recorder is read, and nobody waited for. */
static struct wire_items put_calls(struct buf *out)
{
	struct look *l = malloc(sizeof(*l));
	struct err e = ERR_INIT;
	uint32_t n = 0;

	if (!l || look_init(l, NULL, getpid(), &e) < 0) {
		free(l);
		return (struct wire_items){0, SLICE("", 0)};
	}
	for (size_t i = 0; i < l->n; i++) {
		const struct look_worker *w = &l->workers[i];

		put_call(out, w, 0, &n);
		for (int k = 0; w->view && k < w->view->ncomms; k++) {
			if (w->view->comms[k].id)
				put_call(out, w, w->view->comms[k].id, &n);
		}
	}
	look_release(l);
	free(l);
	if (out->failed || n > WIRE_KEYS_MAX)
		return (struct wire_items){0, SLICE("", 0)};
	return (struct wire_items){n, SLICE(out->data, out->len)};
}

static void tell_if_done(struct page *p)
{
	struct wire_page m = {.number = p->number,
			      .page = SLICE(p->text.data, p->text.len)};
	struct buf calls = BUF_INIT(CALLS_MAX);
	struct pages *all = p->all;

	if (!all || !p->ended || p->pid)
		return;
	say_how_it_ended(p, &m);
	m.text = SLICE_STR(p->why);
	m.calls = put_calls(&calls);
	/* first: on_page may close all pages. p lives until its handles have
	 * closed, which the loop does */
	page_drop(p);
	all->on_page(all->owner, &m);
	buf_release(&calls);
}

/* ---- what the child does ---- */

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	static char space[READ_BYTES];

	*b = uv_buf_init(space, sizeof(space));
}

/* All of a page that has room; what is cut ends with a line. */
static void take(struct page *p, const char *data, size_t n)
{
	size_t room = p->text.max - p->text.len;

	if (p->cut)
		return;
	buf_put(&p->text, data, n < room ? n : room);
	if (n <= room)
		return;
	p->cut = 1;
	kill_writer(p, "it is cut at 1 MiB; --no-stacks makes it shorter");
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct page *p = s->data;

	if (n > 0)
		take(p, b->base, (size_t)n);
	if (n >= 0)
		return;
	uv_read_stop(s);
	p->ended = 1;
	tell_if_done(p);
}

static void on_timer(uv_timer_t *t)
{
	struct page *p = t->data;
	char why[WHY_MAX];

	snprintf(why, sizeof(why), "it is not complete: not done within %g s; "
		 "see --timeout and --no-stacks", p->timeout_ms / 1000.0);
	kill_writer(p, why);
}

int pages_reaped(struct pages *all, pid_t pid, int status)
{
	for (struct page *p = all->list; p; p = p->next) {
		if (p->pid != pid)
			continue;
		p->pid = 0;
		p->status = status;
		tell_if_done(p);
		return 1;
	}
	return 0;
}

/* ---- starting it ---- */

static pid_t spawn_writer(int out, const struct wire_look *look, struct err *e)
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

static void page_new(struct pages *all, const struct wire_look *look, int in,
		     pid_t pid, struct page *p)
{
	struct err e = ERR_INIT;
	int rc;

	*p = (struct page){.all = all, .number = look->number, .pid = pid,
			   .timeout_ms = look->timeout_ms, .handles = 2,
			   .text = BUF_INIT(WIRE_PAGE_MAX)};
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
		rc = uv_read_start((uv_stream_t *)&p->pipe, on_alloc, on_read);
	if (rc < 0) { /* its end is told when it is reaped */
		loop_check(rc, &e, "no dump");
		kill_writer(p, e.text);
		p->ended = 1;
	}
	uv_timer_start(&p->timer, on_timer, p->timeout_ms, 0);
}

static int start(struct pages *all, const struct wire_look *look, struct err *e)
{
	struct page *p;
	int ends[2];
	pid_t pid;

	if (all->n >= AT_ONCE_MAX)
		return err_set(e, -EAGAIN, "%d dumps of it are under way",
			       AT_ONCE_MAX);
	p = malloc(sizeof(*p));
	if (!p || pipe2(ends, O_CLOEXEC) < 0) {
		int rc = p ? -errno : -ENOMEM;

		free(p);
		return err_set(e, rc, "no dump: %s", strerror(-rc));
	}
	pid = spawn_writer(ends[1], look, e);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		free(p);
		return pid;
	}
	page_new(all, look, ends[0], pid, p);
	return 0;
}

void pages_start(struct pages *all, const struct wire_look *look)
{
	struct wire_page m = {.number = look->number};
	struct err e = ERR_INIT;

	if (start(all, look, &e) == 0)
		return;
	m.text = SLICE_STR(e.text);
	all->on_page(all->owner, &m);
}

void pages_init(struct pages *p, uv_loop_t *loop, pages_on_page *on_page,
		void *owner)
{
	*p = (struct pages){.loop = loop, .on_page = on_page, .owner = owner};
}

void pages_close(struct pages *all)
{
	while (all->list) {
		struct page *p = all->list;

		kill_writer(p, "");
		page_drop(p);
	}
}
