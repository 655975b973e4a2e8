/* launch.c: the states of the hosts, and what the head does about them. */
#include "launcher/ssh/ssh.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/failure/exit_code.h"
#include "launcher/ssh/launch_internal.h"
#include "launcher/ssh/remote_host.h"
#include "launcher/ssh/remote_tree.h"
#include "launcher/worker/signals.h"
#include "launcher/worker/spawn.h"

enum {
	PAGE_MAX = 1 << 20,
	LEAVE_MS = 15000, /* for the far sides to end what they run */
	QUICK_MS = 1000,  /* if they run nothing yet */
};

struct launch {
	const struct remote_options *options;
	struct remote_spec spec;
	uv_loop_t loop;
	struct relay relay;
	struct signals signals;
	struct remote_tree tree;
	struct remote_input input;
	struct remote_wait wait;
	struct remote_host *hosts;
	uint32_t n, pending; /* pending: neither ready nor failed */
	uint32_t first;      /* the host of the server */
	int started, ending, tree_gone;
	int signals_seen;
	int code; /* -1: derived from those of the hosts */
	int noise_logged;
	struct buf page;
};

static const char *launch_host_name(const struct launch *l, uint32_t i)
{
	return host_list_name(l->options->hosts, i);
}

/* A message that makes no sense: the host is lost. */
static void launch_reject(struct launch *l, uint32_t i)
{
	remote_tree_break(&l->tree, i, "it violated the protocol between "
			  "ddpruns; is it another build?");
}

static uint32_t launch_count(const struct launch *l,
			     enum remote_host_state state)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->n; i++)
		n += l->hosts[i].state == state;
	return n;
}

/* ---- the end ---- */

static void launch_end(struct launch *l, int code, uint64_t ms)
{
	if (l->code < 0)
		l->code = code;
	if (l->ending)
		return;
	l->ending = 1;
	remote_wait_stop(&l->wait);
	remote_input_close(&l->input);
	remote_tree_pause(&l->tree, 0);
	remote_tree_release(&l->tree, ms);
}

static void launch_on_tree_gone(struct remote_tree *t)
{
	struct launch *l = t->owner;

	l->tree_gone = 1;
	if (l->page.len > 1)
		relay_put(&l->relay, 1, SLICE(l->page.data + 1,
					      l->page.len - 1));
	relay_close(&l->relay);
	remote_wait_close(&l->wait);
	signals_unref_child(&l->signals);
}

static int launch_exit_code(const struct launch *l)
{
	return l->code >= 0 ? l->code : remote_wait_code(&l->wait);
}

/* Ends the launch once no host runs any more. */
static void launch_check_done(struct launch *l)
{
	if (l->started && !launch_count(l, HOST_RUNNING))
		launch_end(l, launch_exit_code(l), LEAVE_MS);
	else if (l->started)
		remote_wait_check(&l->wait);
}

static void launch_signal_host(void *owner, uint32_t i, int number)
{
	struct launch *l = owner;
	struct buf b = BUF_INIT(4);

	buf_put_u32(&b, (uint32_t)number);
	remote_tree_send_buf(&l->tree, i, REMOTE_SIGNAL, &b);
	buf_release(&b);
}

static void launch_signal_all(struct launch *l, int number)
{
	for (uint32_t i = 0; i < l->n; i++) {
		if (l->hosts[i].state == HOST_RUNNING)
			launch_signal_host(l, i, number);
	}
}

/* ---- all hosts together, before anything starts ---- */

static void launch_start_all(struct launch *l, struct slice endpoint)
{
	const char *dir = l->options->log_dir;
	struct buf b = BUF_INIT(REMOTE_BODY_MAX);
	struct err e = ERR_INIT;
	uint32_t place = 0;

	l->started = 1;
	l->wait.first = l->first;
	for (uint32_t i = 0; i < l->n; i++) {
		if (l->hosts[i].state != HOST_READY)
			continue;
		l->hosts[i].state = HOST_RUNNING;
		buf_reset(&b);
		buf_put_u32(&b, place++);
		buf_put(&b, endpoint.data, endpoint.len);
		remote_tree_send_buf(&l->tree, i, REMOTE_START, &b);
	}
	buf_release(&b);
	if (dir && strcmp(dir, "/dev/null") != 0)
		log_info("the logs are in %s on each host", dir);
	if (remote_input_start(&l->input, l->hosts, l->n, &e) < 0)
		log_warn("%s; the workers get no input", e.text);
}

/* Starts the server, unless there is only one host: it has none to meet. */
static void launch_start_server(struct launch *l)
{
	struct buf b = BUF_INIT(REMOTE_BODY_MAX);

	remote_spec_serve(&l->spec, l->hosts, l->first, &b);
	remote_tree_send_buf(&l->tree, l->first, REMOTE_SERVE, &b);
	buf_release(&b);
}

static void launch_all_checked(struct launch *l)
{
	uint32_t ready = launch_count(l, HOST_READY);

	if (l->options->host_check) {
		launch_end(l,
			   remote_host_print_check(l->hosts, l->n, l->options),
			   QUICK_MS);
		return;
	}
	for (l->first = 0; l->hosts[l->first].state != HOST_READY;)
		l->first++;
	if (ready == 1 && l->options->max_nodes == 1)
		launch_start_all(l, SLICE("", 0));
	else
		launch_start_server(l);
}

/* A host failed before the start. That ends the job, unless an elastic job has
 * enough hosts left. */
static void launch_host_failed(struct launch *l, uint32_t i, int code,
			       struct slice text)
{
	struct remote_host *h = &l->hosts[i];
	int enough;

	h->code = (uint32_t)code;
	h->state = HOST_FAILED;
	h->why = strndup(text.data, text.len);
	enough = l->options->can_lose &&
		 launch_count(l, HOST_FAILED) + l->options->min_nodes <= l->n;
	if (l->options->host_check) {
		/* its line is printed with the others */
	} else if (enough) {
		log_warn("host %s: %.*s; the job starts without it",
			 launch_host_name(l, i), SLICE_FMT(text));
	} else {
		log_error("error: host %s: %.*s", launch_host_name(l, i),
			  SLICE_FMT(text));
		launch_end(l, code, QUICK_MS);
		return;
	}
	if (--l->pending == 0)
		launch_all_checked(l);
}

static void launch_handle_open(struct launch *l, uint32_t i, struct slice body)
{
	struct remote_host *h = &l->hosts[i];
	struct buf b = BUF_INIT(2 * REMOTE_BODY_MAX);
	struct err e = ERR_INIT;

	h->state = HOST_OPEN;
	h->copied = body.len && body.data[0];
	h->asked_ms = remote_host_unix_ms();
	if (remote_spec_job(&l->spec, i, &b, &e) < 0) {
		log_error("error: %s", e.text);
		launch_end(l, EXIT_OS, QUICK_MS);
	} else {
		remote_tree_send_buf(&l->tree, i, REMOTE_JOB, &b);
	}
	buf_release(&b);
}

static void launch_handle_ready(struct launch *l, uint32_t i, struct slice body)
{
	struct remote_host *h = &l->hosts[i];
	struct remote_ready ready;

	if (h->state != HOST_OPEN)
		return;
	if (remote_ready_get(body, &ready) < 0)
		launch_reject(l, i);
	else if (remote_host_set_ready(h, &ready) < 0) {
		log_error("error: out of memory");
		launch_end(l, EXIT_OS, QUICK_MS);
	} else if (ready.code) {
		launch_host_failed(l, i, (int)ready.code, ready.text);
	} else {
		h->state = HOST_READY;
		if (--l->pending == 0)
			launch_all_checked(l);
	}
}

/* ---- while it runs ---- */

/* 1 if the job continues without a host that was just lost. */
static int launch_can_lose(const struct launch *l, uint32_t lost)
{
	return l->options->can_lose && lost != l->first &&
	       launch_count(l, HOST_FAILED) + l->options->min_nodes <= l->n;
}

/* The server tells the other hosts why the job ends; the head signals them only
 * if it does not. */
static void launch_lose_host(struct launch *l, uint32_t i, struct slice text)
{
	l->hosts[i].state = HOST_FAILED;
	if (launch_can_lose(l, i)) {
		log_warn("host %s: %.*s; the job continues without it",
			 launch_host_name(l, i), SLICE_FMT(text));
	} else {
		log_error("error: host %s: %.*s; ending the job",
			  launch_host_name(l, i), SLICE_FMT(text));
		if (l->code < 0)
			l->code = EXIT_LOST;
		remote_wait_expect_end(&l->wait);
	}
	remote_input_host_lost(&l->input, i);
	launch_check_done(l);
}

static void launch_handle_lost(struct launch *l, uint32_t i, struct slice text)
{
	if (l->ending || l->hosts[i].state == HOST_DONE ||
	    l->hosts[i].state == HOST_FAILED)
		return;
	if (l->started) {
		launch_lose_host(l, i, text);
		return;
	}
	l->pending += l->hosts[i].state == HOST_READY;
	launch_host_failed(l, i, EXIT_LOST, text);
}

static void launch_handle_failed(struct launch *l, uint32_t i,
				 struct slice body)
{
	struct reader b;
	uint32_t code;

	reader_init(&b, body);
	code = reader_u32(&b);
	if (b.bad)
		launch_reject(l, i);
	if (b.bad || l->ending)
		return;
	log_error("error: host %s: %.*s", launch_host_name(l, i),
		  (int)reader_left(&b), b.p);
	launch_end(l, (int)code, LEAVE_MS + (uint64_t)l->spec.grace_ms);
}

static void launch_handle_exit(struct launch *l, uint32_t i, struct slice body)
{
	struct remote_host *h = &l->hosts[i];

	if (h->state != HOST_RUNNING)
		return;
	if (remote_u32_get(body, &h->code) < 0) {
		launch_reject(l, i);
		return;
	}
	h->state = HOST_DONE;
	remote_input_host_lost(&l->input, i);
	remote_wait_exited(&l->wait, i);
	launch_check_done(l);
}

static void launch_handle_stopped(struct launch *l, uint32_t i,
				  struct slice body)
{
	uint32_t pid;

	if (remote_u32_get(body, &pid) < 0)
		launch_reject(l, i);
	else if (l->hosts[i].state == HOST_RUNNING && !l->ending)
		remote_wait_stopped(&l->wait, i, pid);
}

static void launch_on_limit(void *owner)
{
	launch_end(owner, launch_exit_code(owner), LEAVE_MS);
}

static const struct remote_wait_events wait_events = {
	.signal = launch_signal_host, .on_limit = launch_on_limit,
};

/* Shows one page only, preferably that of the host of the first failure, which
 * knows most. */
static void launch_handle_page(struct launch *l, struct slice page)
{
	if (l->page.len && (l->page.data[0] == '1' || page.data[0] != '1'))
		return;
	buf_reset(&l->page);
	buf_put(&l->page, page.data, page.len);
}

static void launch_handle_line(struct launch *l, uint32_t i, struct slice line)
{
	struct buf b = BUF_INIT(REMOTE_BODY_MAX);

	buf_printf(&b, "%s: %.*s\n", launch_host_name(l, i), SLICE_FMT(line));
	relay_put(&l->relay, 1, SLICE(b.data, b.len));
	buf_release(&b);
}

static void launch_handle_noise(struct launch *l, uint32_t i, struct slice text)
{
	struct slice line = slice_next_line(&text);

	if (l->noise_logged++)
		return;
	log_warn("host %s: a start-up file of the shell there prints to stdout "
		 "('%.*s'%s); ignored", launch_host_name(l, i),
		 line.len < 60 ? (int)line.len : 60, line.data,
		 text.len ? " and more" : "");
}

static void launch_on_frame(struct remote_tree *t, const struct remote_frame *f)
{
	struct launch *l = t->owner;

	if (f->host >= l->n)
		return;
	switch (f->type) {
	case REMOTE_OPEN:
		launch_handle_open(l, f->host, f->body);
		break;
	case REMOTE_READY:
		launch_handle_ready(l, f->host, f->body);
		break;
	case REMOTE_SERVING:
		if (!l->started && !l->ending && f->host == l->first)
			launch_start_all(l, f->body);
		break;
	case REMOTE_STDIN_ACK:
		remote_input_acknowledge(&l->input, f->host,
					 f->body.len && f->body.data[0]);
		break;
	case REMOTE_OUT:
	case REMOTE_ERR:
		relay_put(&l->relay, f->type == REMOTE_ERR, f->body);
		remote_wait_heard(&l->wait);
		break;
	case REMOTE_TTY:
		relay_put_raw(&l->relay, f->body);
		break;
	case REMOTE_LENT:
		remote_input_lend(&l->input, f->host, f->body);
		break;
	case REMOTE_PAGE:
		if (f->body.len)
			launch_handle_page(l, f->body);
		break;
	case REMOTE_SSH_LINE:
		launch_handle_line(l, f->host, f->body);
		break;
	case REMOTE_NOISE:
		launch_handle_noise(l, f->host, f->body);
		break;
	case REMOTE_FAILED:
		launch_handle_failed(l, f->host, f->body);
		break;
	case REMOTE_EXIT:
		launch_handle_exit(l, f->host, f->body);
		break;
	case REMOTE_STOPPED:
		launch_handle_stopped(l, f->host, f->body);
		break;
	case REMOTE_SERVER_LOST:
		l->wait.server_lost = 1;
		break;
	case REMOTE_LOST:
		launch_handle_lost(l, f->host, f->body);
		break;
	default:
		launch_reject(l, f->host);
		break;
	}
}

static const struct remote_tree_events tree_events = {
	.on_frame = launch_on_frame, .on_gone = launch_on_tree_gone,
};

static void launch_on_full(void *arg, int full)
{
	struct launch *l = arg;

	remote_tree_pause(&l->tree, full && !l->ending);
	remote_wait_set_held(&l->wait, full);
}

static void launch_on_input(void *arg, uint32_t host, uint8_t type,
			    struct slice bytes)
{
	struct launch *l = arg;

	remote_tree_send(&l->tree, host, type, bytes);
}

/* ---- signals ---- */

static void launch_on_reaped(void *arg, pid_t pid, int status,
			     const struct rusage *usage)
{
	struct launch *l = arg;

	remote_tree_reaped(&l->tree, pid, status);
}

static void launch_on_child(void *owner)
{
	reap_children(launch_on_reaped, owner);
}

static void launch_on_end_signal(void *owner, int number)
{
	struct launch *l = owner;
	char name[SIGNAL_NAME_MAX];
	uint32_t running = launch_count(l, HOST_RUNNING);
	int first = !l->signals_seen++;

	if (first && l->code < 0) {
		l->code = 128 + number;
		log_info("got %s: ending the job on %u host%s (a second signal "
			 "kills its workers at once)",
			 signal_name(number, name), running,
			 running == 1 ? "" : "s");
	}
	if (l->tree_gone)
		relay_abandon(&l->relay);
	else if (!running || l->signals_seen > 2)
		launch_end(l, l->code, QUICK_MS);
	else
		launch_signal_all(l, number);
}

static void launch_on_forward(void *owner, int number)
{
	launch_signal_all(owner, number);
}

/* Stops only this ddprun: nodes that stop would lose their leases. */
static void launch_on_suspend(void *owner)
{
	struct launch *l = owner;

	log_warn("stopping; the hosts continue, but end the job unless this "
		 "ddprun continues within %g s", l->spec.silent_ms / 1000.0);
	terminal_suspend(&l->input.terminal);
	kill(getpid(), SIGSTOP);
}

static void launch_on_continue(void *owner)
{
	terminal_continue(&((struct launch *)owner)->input.terminal);
}

static const struct signals_events signals_events = {
	.on_child = launch_on_child, .on_end = launch_on_end_signal,
	.on_forward = launch_on_forward, .on_suspend = launch_on_suspend,
	.on_continue = launch_on_continue,
};

/* ---- from start to end ---- */

static void launch_free_hosts(struct launch *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		remote_host_release(&l->hosts[i]);
	free(l->hosts);
}

static int launch_run_loop(struct launch *l, const struct remote_branch *branch,
			   struct err *e)
{
	const struct signal_set none = {0};
	int rc = loop_check(loop_init(&l->loop), e,
			    "cannot create an event loop");

	if (rc < 0) {
		log_error("error: %s", e->text);
		return EXIT_OS;
	}
	relay_init(&l->relay, &l->loop, launch_on_full, l);
	rc = signals_start(&l->signals, &l->loop, &l->options->ending,
			   &l->options->forwarded, &none, &signals_events, l,
			   e);
	l->wait = (struct remote_wait){
		.options = l->options, .events = &wait_events, .owner = l,
		.hosts = l->hosts, .n = l->n};
	remote_wait_init(&l->wait, &l->loop);
	remote_input_init(&l->input, &l->loop, l->options->stdin_rank,
			  launch_on_input, l);
	remote_tree_init(&l->tree, &tree_events, l);
	if (rc == 0)
		rc = remote_tree_start(&l->tree, &l->loop, branch, e);
	if (rc < 0) {
		log_error("error: %s", e->text);
		launch_end(l, EXIT_OS, 0);
	}
	uv_run(&l->loop, UV_RUN_DEFAULT);
	signals_close(&l->signals);
	uv_run(&l->loop, UV_RUN_DEFAULT);
	uv_loop_close(&l->loop);
	relay_release(&l->relay);
	remote_tree_free(&l->tree);
	return l->code >= 0 ? l->code : EXIT_INTERNAL;
}

static int launch_fail(const struct err *e)
{
	log_error("error: %s", e->text);
	return exit_code_of(e);
}

int launch_run(const struct remote_options *o, char **argv)
{
	static struct launch l;
	struct remote_branch branch;
	struct buf texts;
	struct err e = ERR_INIT;
	int code;

	l = (struct launch){.options = o, .n = o->hosts->count,
			    .pending = o->hosts->count, .code = -1};
	buf_init(&l.page, PAGE_MAX);
	l.hosts = calloc(l.n, sizeof(*l.hosts));
	if (!l.hosts)
		err_no_memory(&e, "%u hosts", l.n);
	if (!l.hosts || remote_spec_init(&l.spec, o, argv, &e) < 0 ||
	    remote_spec_branch(&l.spec, &texts, &branch, &e) < 0) {
		free(l.hosts);
		return launch_fail(&e);
	}
	if (o->dry_run) {
		remote_host_print_dry_run(o, &branch);
		code = 0;
	} else {
		code = launch_run_loop(&l, &branch, &e);
	}
	buf_release(&texts);
	buf_release(&l.page);
	remote_spec_release(&l.spec);
	launch_free_hosts(&l);
	return code;
}
