/* remote.c: the hosts' states, and what the head makes of them. */
#include "launcher/ssh/remote.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/signal_name.h"
#include "launcher/config/exit_code.h"
#include "launcher/config/host_choice.h"
#include "launcher/ssh/console.h"
#include "launcher/ssh/remote_check.h"
#include "launcher/ssh/remote_input.h"
#include "launcher/ssh/remote_order.h"
#include "launcher/ssh/remote_tree.h"
#include "launcher/ssh/remote_wait.h"
#include "launcher/worker/reap.h"
#include "launcher/worker/signals.h"
#include "launcher/worker/spawn.h"

enum {
	PAGE_MAX = 1 << 20,
	LEAVE_MS = 15000, /* far sides have nothing left to end by then */
	QUICK_MS = 1000,
};

struct remote {
	const struct config *config;
	struct remote_order order;
	uv_loop_t loop;
	struct console console;
	struct signals signals;
	struct remote_tree tree;
	struct remote_input input;
	struct remote_wait wait;
	struct remote_host *hosts;
	uint32_t n, waiting; /* waiting: neither ready nor failed */
	uint32_t first;      /* who has the server */
	int started, ending, gone;
	int signals_seen;
	int code; /* -1: what the hosts say */
	int noise_told;
	struct buf page;
};

static const char *name_of(const struct remote *r, uint32_t i)
{
	return host_list_name(&r->config->hosts, i);
}

static void tell(struct remote *r, uint32_t i, uint8_t type, struct slice body)
{
	remote_tree_send(&r->tree, i, type, body);
}

static void tell_buf(struct remote *r, uint32_t i, uint8_t type,
		     const struct buf *body)
{
	remote_tree_send_buf(&r->tree, i, type, body);
}

/* What it says makes no sense: nobody waits for what it meant. */
static void garbled(struct remote *r, uint32_t i)
{
	remote_tree_break(&r->tree, i, "it broke the protocol between ddpruns; "
			  "is it another build?");
}

static uint32_t count(const struct remote *r, enum remote_host_state state)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->n; i++)
		n += r->hosts[i].state == state;
	return n;
}

/* ---- the end ---- */

static void end(struct remote *r, int code, uint64_t ms)
{
	if (r->code < 0)
		r->code = code;
	if (r->ending)
		return;
	r->ending = 1;
	remote_wait_stop(&r->wait);
	remote_input_close(&r->input);
	remote_tree_pause(&r->tree, 0);
	remote_tree_release(&r->tree, ms);
}

static void on_tree_gone(struct remote_tree *t)
{
	struct remote *r = t->owner;

	r->gone = 1;
	if (r->page.len > 1)
		console_put(&r->console, 1, SLICE(r->page.data + 1,
						  r->page.len - 1));
	console_close(&r->console);
	remote_wait_close(&r->wait);
	signals_unref_child(&r->signals);
}

static int exit_code(const struct remote *r)
{
	return r->code >= 0 ? r->code : remote_wait_code(&r->wait);
}

/* Nobody runs any more. */
static void end_if_done(struct remote *r)
{
	if (r->started && !count(r, HOST_RUNNING))
		end(r, exit_code(r), LEAVE_MS);
	else if (r->started)
		remote_wait_look(&r->wait);
}

static void signal_host(void *owner, uint32_t i, int number)
{
	struct buf b = BUF_INIT(4);

	buf_put_u32(&b, (uint32_t)number);
	tell_buf(owner, i, REMOTE_SIGNAL, &b);
	buf_release(&b);
}

static void signal_all(struct remote *r, int number)
{
	for (uint32_t i = 0; i < r->n; i++) {
		if (r->hosts[i].state == HOST_RUNNING)
			signal_host(r, i, number);
	}
}

/* ---- all hosts together, before anything starts ---- */

static void start_all(struct remote *r, struct slice endpoint)
{
	const char *dir = r->config->output.log_dir;
	struct buf b = BUF_INIT(REMOTE_BODY_MAX);
	struct err e = ERR_INIT;
	uint32_t place = 0;

	r->started = 1;
	r->wait.first = r->first;
	for (uint32_t i = 0; i < r->n; i++) {
		if (r->hosts[i].state != HOST_READY)
			continue;
		r->hosts[i].state = HOST_RUNNING;
		buf_reset(&b);
		buf_put_u32(&b, place++);
		buf_put(&b, endpoint.data, endpoint.len);
		tell_buf(r, i, REMOTE_START, &b);
	}
	buf_release(&b);
	if (dir && strcmp(dir, "/dev/null") != 0)
		log_info("the logs are in %s on each host", dir);
	if (remote_input_start(&r->input, r->hosts, r->n, &e) < 0)
		log_warn("%s; the workers read nothing", e.text);
}

/* One host has nobody to meet, and needs no server. */
static void serve(struct remote *r)
{
	struct buf b = BUF_INIT(REMOTE_BODY_MAX);

	remote_order_serve(&r->order, r->hosts, r->first, &b);
	tell_buf(r, r->first, REMOTE_SERVE, &b);
	buf_release(&b);
}

static void all_known(struct remote *r)
{
	uint32_t ready = count(r, HOST_READY);

	if (r->config->host_check) {
		end(r, remote_check_print(r->hosts, r->n, r->config), QUICK_MS);
		return;
	}
	for (r->first = 0; r->hosts[r->first].state != HOST_READY;)
		r->first++;
	if (ready == 1 && r->config->max_nodes == 1)
		start_all(r, SLICE("", 0));
	else
		serve(r);
}

/* Before the start: what one host cannot is the job's end, unless enough are
 * left of those that may come and go. */
static void cannot(struct remote *r, uint32_t i, int code, struct slice text)
{
	struct remote_host *h = &r->hosts[i];
	int enough;

	h->code = (uint32_t)code;
	h->state = HOST_FAILED;
	h->why = strndup(text.data, text.len);
	enough = host_choice_can_lose(r->config) &&
		 count(r, HOST_FAILED) + r->config->min_nodes <= r->n;
	if (r->config->host_check) {
		/* its line comes with the others' */
	} else if (enough) {
		log_warn("host %s: %.*s; the job starts without it",
			 name_of(r, i), SLICE_FMT(text));
	} else {
		log_error("error: host %s: %.*s", name_of(r, i),
			  SLICE_FMT(text));
		end(r, code, QUICK_MS);
		return;
	}
	if (--r->waiting == 0)
		all_known(r);
}

static void take_open(struct remote *r, uint32_t i, struct slice body)
{
	struct remote_host *h = &r->hosts[i];
	struct buf b = BUF_INIT(2 * REMOTE_BODY_MAX);
	struct err e = ERR_INIT;

	h->state = HOST_OPEN;
	h->copied = body.len && body.data[0];
	h->asked_ms = remote_check_now();
	if (remote_order_job(&r->order, i, &b, &e) < 0) {
		log_error("error: %s", e.text);
		end(r, EXIT_OS, QUICK_MS);
	} else {
		tell_buf(r, i, REMOTE_JOB, &b);
	}
	buf_release(&b);
}

static void take_ready(struct remote *r, uint32_t i, struct slice body)
{
	struct remote_host *h = &r->hosts[i];
	struct remote_ready ready;

	if (h->state != HOST_OPEN)
		return;
	if (remote_ready_get(body, &ready) < 0)
		garbled(r, i);
	else if (remote_check_take(h, &ready) < 0) {
		log_error("error: out of memory");
		end(r, EXIT_OS, QUICK_MS);
	} else if (ready.code) {
		cannot(r, i, (int)ready.code, ready.text);
	} else {
		h->state = HOST_READY;
		if (--r->waiting == 0)
			all_known(r);
	}
}

/* ---- while it runs ---- */

/* Whether the job goes on without a host that it has just lost. */
static int goes_on(const struct remote *r, uint32_t lost)
{
	return host_choice_can_lose(r->config) && lost != r->first &&
	       count(r, HOST_FAILED) + r->config->min_nodes <= r->n;
}

/* The others hear of it from the server, which says so with the job's own
 * words; they are only pushed if they do not. */
static void lose(struct remote *r, uint32_t i, struct slice text)
{
	r->hosts[i].state = HOST_FAILED;
	if (goes_on(r, i)) {
		log_warn("host %s: %.*s; the job goes on without it",
			 name_of(r, i), SLICE_FMT(text));
	} else {
		log_error("error: host %s: %.*s; ending the job",
			  name_of(r, i), SLICE_FMT(text));
		if (r->code < 0)
			r->code = EXIT_LOST;
		remote_wait_push(&r->wait);
	}
	remote_input_lost(&r->input, i);
	end_if_done(r);
}

static void take_lost(struct remote *r, uint32_t i, struct slice text)
{
	if (r->ending || r->hosts[i].state == HOST_DONE ||
	    r->hosts[i].state == HOST_FAILED)
		return;
	if (r->started) {
		lose(r, i, text);
		return;
	}
	r->waiting += r->hosts[i].state == HOST_READY;
	cannot(r, i, EXIT_LOST, text);
}

static void take_failed(struct remote *r, uint32_t i, struct slice body)
{
	struct reader b;
	uint32_t code;

	reader_init(&b, body);
	code = reader_u32(&b);
	if (b.bad)
		garbled(r, i);
	if (b.bad || r->ending)
		return;
	log_error("error: host %s: %.*s", name_of(r, i), (int)reader_left(&b),
		  b.p);
	end(r, (int)code, LEAVE_MS + (uint64_t)r->order.grace_ms);
}

static void take_exit(struct remote *r, uint32_t i, struct slice body)
{
	struct remote_host *h = &r->hosts[i];

	if (h->state != HOST_RUNNING)
		return;
	if (remote_u32_get(body, &h->code) < 0) {
		garbled(r, i);
		return;
	}
	h->state = HOST_DONE;
	remote_input_lost(&r->input, i);
	remote_wait_exited(&r->wait, i);
	end_if_done(r);
}

static void take_stopped(struct remote *r, uint32_t i, struct slice body)
{
	uint32_t pid;

	if (remote_u32_get(body, &pid) < 0)
		garbled(r, i);
	else if (r->hosts[i].state == HOST_RUNNING && !r->ending)
		remote_wait_stopped(&r->wait, i, pid);
}

static void on_limit(void *owner)
{
	end(owner, exit_code(owner), LEAVE_MS);
}

static const struct remote_wait_events wait_events = {
	.signal = signal_host, .on_limit = on_limit,
};

/* One page for all: the one of the host where it began knows most. */
static void take_page(struct remote *r, struct slice page)
{
	if (r->page.len && (r->page.data[0] == '1' || page.data[0] != '1'))
		return;
	buf_reset(&r->page);
	buf_put(&r->page, page.data, page.len);
}

static void take_words(struct remote *r, uint32_t i, struct slice line)
{
	struct buf b = BUF_INIT(REMOTE_BODY_MAX);

	buf_printf(&b, "%s: %.*s\n", name_of(r, i), SLICE_FMT(line));
	console_put(&r->console, 1, SLICE(b.data, b.len));
	buf_release(&b);
}

static void take_noise(struct remote *r, uint32_t i, struct slice text)
{
	const char *end = memchr(text.data, '\n', text.len);
	int n = (int)(end ? (size_t)(end - text.data) : text.len);

	if (r->noise_told++)
		return;
	log_warn("host %s: a start-up file of the shell there prints to stdout "
		 "('%.*s'%s); that is left out", name_of(r, i),
		 n < 60 ? n : 60, text.data,
		 (size_t)n + 1 < text.len ? " and more" : "");
}

static void on_frame(struct remote_tree *t, const struct remote_frame *f)
{
	struct remote *r = t->owner;

	if (f->host >= r->n)
		return;
	switch (f->type) {
	case REMOTE_OPEN:
		take_open(r, f->host, f->body);
		break;
	case REMOTE_READY:
		take_ready(r, f->host, f->body);
		break;
	case REMOTE_SERVING:
		if (!r->started && !r->ending && f->host == r->first)
			start_all(r, f->body);
		break;
	case REMOTE_TOOK:
		remote_input_took(&r->input, f->host,
				  f->body.len && f->body.data[0]);
		break;
	case REMOTE_OUT:
	case REMOTE_ERR:
		console_put(&r->console, f->type == REMOTE_ERR, f->body);
		remote_wait_heard(&r->wait);
		break;
	case REMOTE_PAGE:
		if (f->body.len)
			take_page(r, f->body);
		break;
	case REMOTE_WORDS:
		take_words(r, f->host, f->body);
		break;
	case REMOTE_NOISE:
		take_noise(r, f->host, f->body);
		break;
	case REMOTE_FAILED:
		take_failed(r, f->host, f->body);
		break;
	case REMOTE_EXIT:
		take_exit(r, f->host, f->body);
		break;
	case REMOTE_STOPPED:
		take_stopped(r, f->host, f->body);
		break;
	case REMOTE_UNSERVED:
		r->wait.unserved = 1;
		break;
	case REMOTE_LOST:
		take_lost(r, f->host, f->body);
		break;
	default:
		garbled(r, f->host);
		break;
	}
}

static const struct remote_tree_events tree_events = {
	.on_frame = on_frame, .on_gone = on_tree_gone,
};

static void on_full(void *arg, int full)
{
	struct remote *r = arg;

	remote_tree_pause(&r->tree, full && !r->ending);
	remote_wait_hold(&r->wait, full);
}

static void on_input(void *arg, uint32_t host, struct slice bytes)
{
	tell(arg, host, REMOTE_STDIN, bytes);
}

/* ---- signals ---- */

static void take_death(void *arg, pid_t pid, int status,
		       const struct rusage *usage)
{
	struct remote *r = arg;

	remote_tree_reaped(&r->tree, pid, status);
}

static void on_child(void *owner)
{
	reap_children(take_death, owner);
}

static void on_end_signal(void *owner, int number)
{
	struct remote *r = owner;
	char name[SIGNAL_NAME_MAX];
	uint32_t running = count(r, HOST_RUNNING);
	int first = !r->signals_seen++;

	if (first && r->code < 0) {
		r->code = 128 + number;
		log_info("got %s: ending the job on %u host%s (again kills its "
			 "workers at once)", signal_name(number, name),
			 running, running == 1 ? "" : "s");
	}
	if (r->gone)
		console_abandon(&r->console);
	else if (!running || r->signals_seen > 2)
		end(r, r->code, QUICK_MS);
	else
		signal_all(r, number);
}

static void on_forward(void *owner, int number)
{
	signal_all(owner, number);
}

/* Only this ddprun stops: nodes that stop lose their leases. */
static void on_suspend(void *owner)
{
	const struct remote *r = owner;

	log_warn("stopping; the hosts go on, and end the job unless this goes "
		 "on within %g s", r->order.silent_ms / 1000.0);
	kill(getpid(), SIGSTOP);
}

static void on_continue(void *owner)
{
}

static const struct signals_events signals_events = {
	.on_child = on_child, .on_end = on_end_signal,
	.on_forward = on_forward, .on_suspend = on_suspend,
	.on_continue = on_continue,
};

/* ---- from start to end ---- */

static void free_hosts(struct remote *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		remote_check_free(&r->hosts[i]);
	free(r->hosts);
}

static int run_loop(struct remote *r, const struct remote_branch *branch,
		    struct err *e)
{
	const struct signal_set none = {0};
	int rc = loop_check(uv_loop_init(&r->loop), e,
			    "cannot make an event loop");

	if (rc < 0) {
		log_error("error: %s", e->text);
		return EXIT_OS;
	}
	console_init(&r->console, &r->loop, on_full, r);
	rc = signals_start(&r->signals, &r->loop, &r->config->ending,
			   &r->config->forwarded, &none, &signals_events, r, e);
	r->wait = (struct remote_wait){
		.config = r->config, .events = &wait_events, .owner = r,
		.hosts = r->hosts, .n = r->n};
	remote_wait_init(&r->wait, &r->loop);
	remote_input_init(&r->input, &r->loop, r->config->stdin_rank, on_input,
			  r);
	host_choice_say(r->config);
	remote_tree_init(&r->tree, &tree_events, r);
	if (rc == 0)
		rc = remote_tree_start(&r->tree, &r->loop, branch, e);
	if (rc < 0) {
		log_error("error: %s", e->text);
		end(r, EXIT_OS, 0);
	}
	uv_run(&r->loop, UV_RUN_DEFAULT);
	signals_close(&r->signals);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	uv_loop_close(&r->loop);
	console_release(&r->console);
	remote_tree_free(&r->tree);
	return r->code >= 0 ? r->code : EXIT_INTERNAL;
}

static int fail(const struct err *e)
{
	log_error("error: %s", e->text);
	return exit_code_of(e);
}

int remote_run(const struct config *c, char **argv)
{
	static struct remote r;
	struct remote_branch branch;
	struct buf texts;
	struct err e = ERR_INIT;
	int code;

	r = (struct remote){.config = c, .n = c->hosts.count,
			    .waiting = c->hosts.count, .code = -1};
	buf_init(&r.page, PAGE_MAX);
	r.hosts = calloc(r.n, sizeof(*r.hosts));
	if (!r.hosts)
		err_set(&e, -ENOMEM, "no memory for %u hosts", (unsigned)r.n);
	if (!r.hosts || remote_order_init(&r.order, c, argv, &e) < 0 ||
	    remote_order_branch(&r.order, &texts, &branch, &e) < 0) {
		free(r.hosts);
		return fail(&e);
	}
	if (c->dry_run) {
		remote_check_dry_run(c, &branch);
		code = 0;
	} else {
		code = run_loop(&r, &branch, &e);
	}
	buf_release(&texts);
	buf_release(&r.page);
	remote_order_release(&r.order);
	free_hosts(&r);
	return code;
}
