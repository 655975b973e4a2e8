/* remote_end.c: frames in, and what they do here. */
#include "launcher/ssh/remote_end.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "launcher/membership/server_supervisor.h"
#include "launcher/config/exit_code.h"
#include "launcher/worker/reap.h"
#include "launcher/ssh/remote_agent.h"
#include "launcher/ssh/remote_job.h"
#include "launcher/ssh/remote_tree.h"
#include "launcher/worker/signals.h"

enum {
	PAUSE_BYTES = 1 << 20,
	JOB_MS = 60000,   /* at most, until the job is there */
	BEYOND_MS = 10000, /* the agent keeps the grace time itself */
	SERVER_MS = 8000,
	PINGS = 5,
	HIGH_FD = 10,
};

struct remote_end {
	uv_loop_t loop;
	struct remote_pipe pipe;
	struct signals signals;
	uv_timer_t ping, late;
	struct build_id build;
	struct remote_job_here job;
	uint32_t host, silent_ms, grace_ms;
	int has_job;
	struct remote_agent agent;
	int was_started, agent_runs;
	struct server_supervisor supervisor;
	struct remote_tree tree;
	int has_tree, tree_gone;
	int ending, over;
};

static void tell(struct remote_end *r, uint8_t type, struct slice body)
{
	remote_pipe_send(&r->pipe, type, r->host, body);
}

static void send_u32(struct remote_end *r, uint8_t type, uint32_t n)
{
	struct buf b = BUF_INIT(4);

	buf_put_u32(&b, n);
	remote_pipe_send_buf(&r->pipe, type, r->host, &b);
	buf_release(&b);
}

/* What is not out yet is bounded by who writes it. */
static void pace(struct remote_end *r)
{
	int paused = remote_pipe_pending(&r->pipe) > PAUSE_BYTES;

	remote_agent_pause(&r->agent, paused);
	if (r->has_tree)
		remote_tree_pause(&r->tree, paused);
}

/* ---- the end ---- */

static void finish(struct remote_end *r)
{
	if (!r->ending || r->over || r->agent_runs ||
	    r->supervisor.server.pid || (r->has_tree && !r->tree_gone))
		return;
	r->over = 1;
	remote_pipe_close(&r->pipe);
	signals_close(&r->signals);
	uv_close((uv_handle_t *)&r->ping, NULL);
	uv_close((uv_handle_t *)&r->late, NULL);
}

static void on_late(uv_timer_t *t)
{
	struct remote_end *r = t->data;

	remote_agent_signal(&r->agent, SIGKILL);
	if (r->supervisor.server.pid)
		kill(r->supervisor.server.pid, SIGKILL);
}

/* All that runs here has to go: nobody is there who wants it. */
static void end(struct remote_end *r, const char *why)
{
	uint64_t ms = (uint64_t)r->grace_ms + BEYOND_MS;

	if (r->ending)
		return;
	log_debug("remote end: %s", why);
	r->ending = 1;
	r->pipe.out_gone = 1;
	remote_agent_pause(&r->agent, 0);
	remote_agent_abandon(&r->agent);
	server_supervisor_stop(&r->supervisor);
	if (!r->agent_runs)
		ms = SERVER_MS;
	uv_timer_start(&r->late, on_late, ms, 0);
	uv_timer_stop(&r->ping);
	if (r->has_tree)
		remote_tree_release(&r->tree, ms);
	finish(r);
}

/* What came makes no sense, and is not waited for. */
static void garbled(struct remote_end *r, const char *what)
{
	struct err e = ERR_INIT;

	err_set(&e, ERR_PROTOCOL, "what came over ssh is not ddprun's (%s)",
		what);
	remote_pipe_break(&r->pipe, &e);
}

/* ---- the agent ---- */

static void on_text(struct remote_agent *a, uint8_t type, struct slice text)
{
	struct remote_end *r = a->owner;

	tell(r, type, text);
	pace(r);
}

static void took(struct remote_end *r, int is_read)
{
	const char mark = (char)is_read;

	tell(r, REMOTE_TOOK, SLICE(&mark, 1));
}

static void on_took(struct remote_agent *a, int is_read)
{
	took(a->owner, is_read);
}

static void on_agent_gone(struct remote_agent *a, int code)
{
	struct remote_end *r = a->owner;

	r->agent_runs = 0;
	/* other nodes may come to it as long as the head waits for them */
	server_supervisor_node_gone(&r->supervisor);
	send_u32(r, REMOTE_EXIT, (uint32_t)code);
	finish(r);
}

static const struct remote_agent_events agent_events = {
	.on_text = on_text, .on_took = on_took, .on_gone = on_agent_gone,
};

static void fail(struct remote_end *r, const struct err *e)
{
	struct buf b = BUF_INIT(ERR_TEXT_MAX + 64);

	buf_put_u32(&b, (uint32_t)exit_code_of(e));
	buf_printf(&b, "%s", e->text);
	remote_pipe_send_buf(&r->pipe, REMOTE_FAILED, r->host, &b);
	buf_release(&b);
}

static void start(struct remote_end *r, struct slice body)
{
	char text[SOCK_TEXT_MAX];
	struct reader b;
	struct err e = ERR_INIT;
	uint32_t place;

	reader_init(&b, body);
	place = reader_u32(&b);
	if (b.bad) {
		garbled(r, "START");
		return;
	}
	if (!r->has_job || r->was_started || r->ending)
		return;
	r->was_started = 1; /* or failed to: its pipes may still be there */
	snprintf(text, sizeof(text), "%.*s", (int)reader_left(&b), b.p);
	r->agent = (struct remote_agent){.owner = r, .events = &agent_events};
	if (!r->build.self[0])
		err_set(&e, -ENOENT, "ddprun cannot find its own file there "
			"(/proc/self/exe); is /proc mounted?");
	if (e.code < 0 || remote_agent_start(&r->agent, &r->loop, r->build.self,
			       remote_job_argv(&r->job, text), place,
			       &r->job.auth, &e) < 0)
		fail(r, &e);
	else
		r->agent_runs = 1;
}

/* ---- the server ---- */

/* Its address and port may be given: "ADDRESS PORT" is the first of the list,
 * "" and 0 where not. */
static int choose_address(const struct remote_list *list, struct sock_addr *a,
			  struct err *e)
{
	struct endpoint given = {.port = 0};
	size_t at = 0;
	const char *first = remote_list_next(list, &at);
	unsigned port = 0;
	struct remote_list others;

	if (!first || sscanf(first, "%u", &port) != 1 || port > 65535)
		return err_set(e, ERR_PROTOCOL, "no address to listen on");
	first = strchr(first, ' ');
	others.texts = SLICE(list->texts.data + at, list->texts.len - at);
	if (first && first[1]) {
		snprintf(given.host, sizeof(given.host), "%s", first + 1);
		if (sock_resolve(&given, a, 1, e) < 0)
			return e->code;
	} else {
		remote_job_address(&others, a);
	}
	sock_addr_set_port(a, (uint16_t)port);
	return 0;
}

static int start_server(struct remote_end *r, int fd, struct err *e)
{
	const struct config *c = &r->job.config;
	const struct server_supervisor_options order = {
		.fds = &fd, .n = 1, .job = c->job, .journal = c->journal};
	struct auth own = r->job.auth;
	int rc = own.methods ? 0 : auth_choose(&own, c->auth_text,
					       c->token_file, e);

	if (rc < 0)
		close(fd);
	else
		rc = server_supervisor_start(&r->supervisor, &order, &own, e);
	if (rc == 0 && r->supervisor.auth.methods == WIRE_NO_PROOF)
		log_warn("--auth none: whoever reaches the job's server can "
			 "join it, read what it stores there and end it");
	auth_wipe(&own);
	return rc;
}

static void serve(struct remote_end *r, struct slice body)
{
	const struct remote_list list = {body};
	char text[SOCK_TEXT_MAX];
	struct sock_addr a;
	struct err e = ERR_INIT;
	int fd = -1, rc = -EINVAL;

	if (!r->has_job || r->supervisor.server.pid ||
	    (body.len && body.data[body.len - 1])) {
		garbled(r, "SERVE");
		return;
	}
	rc = choose_address(&list, &a, &e);
	if (rc == 0)
		fd = rc = sock_listen(&a, &e);
	if (rc >= 0)
		rc = start_server(r, fd, &e);
	if (rc < 0)
		fail(r, &e);
	else
		tell(r, REMOTE_SERVING, SLICE_STR(sock_addr_text(&a, text)));
}

/* ---- the job ---- */

static void on_ping(uv_timer_t *t)
{
	struct remote_end *r = t->data;

	tell(r, REMOTE_PING, SLICE("", 0));
	if (uv_now(&r->loop) - r->pipe.heard_ms >= r->silent_ms)
		end(r, "nothing is heard of who started this");
}

static void set_silence(struct remote_end *r, uint32_t ms)
{
	r->silent_ms = ms;
	uv_timer_start(&r->ping, on_ping, ms / PINGS + 1, ms / PINGS + 1);
}

static void take_job(struct remote_end *r, const struct remote_frame *f)
{
	struct remote_job job;
	struct remote_ready answer;
	struct err e = ERR_INIT;
	struct buf b = BUF_INIT(64 << 10);

	if (r->has_job || remote_job_get(f->body, &job) < 0) {
		garbled(r, "JOB");
		return;
	}
	r->has_job = 1;
	r->host = f->host;
	r->grace_ms = job.grace_ms;
	set_silence(r, job.silent_ms);
	remote_job_prepare(&r->job, &job, &answer, &e);
	remote_ready_put(&b, &answer);
	remote_pipe_send_buf(&r->pipe, REMOTE_READY, r->host, &b);
	buf_release(&b);
	/* looking may have taken longer than silence may last */
	uv_update_time(&r->loop);
	r->pipe.heard_ms = uv_now(&r->loop);
}

/* ---- the hosts behind this one ---- */

static void on_tree_frame(struct remote_tree *t, const struct remote_frame *f)
{
	struct remote_end *r = t->owner;

	if (f->bytes.len)
		remote_pipe_send_bytes(&r->pipe, f->bytes);
	else
		remote_pipe_send(&r->pipe, f->type, f->host, f->body);
	pace(r);
}

static void on_tree_gone(struct remote_tree *t)
{
	struct remote_end *r = t->owner;

	r->tree_gone = 1;
	finish(r);
}

static const struct remote_tree_events tree_events = {
	.on_frame = on_tree_frame, .on_gone = on_tree_gone,
};

static void branch(struct remote_end *r, const struct remote_frame *f)
{
	struct remote_branch b;
	struct err e = ERR_INIT;

	if (r->ending)
		return;
	if (r->has_tree || remote_branch_get(f->body, &b) < 0) {
		garbled(r, "BRANCH");
		return;
	}
	r->host = f->host;
	r->has_tree = 1;
	remote_tree_init(&r->tree, &tree_events, r);
	if (remote_tree_start(&r->tree, &r->loop, &b, &e) < 0)
		remote_pipe_break(&r->pipe, &e);
}

/* ---- frames ---- */

static void on_frame(struct remote_pipe *p, const struct remote_frame *f)
{
	struct remote_end *r = p->owner;
	uint32_t number;

	if (r->has_tree && remote_tree_has(&r->tree, f->host)) {
		remote_tree_send(&r->tree, f->host, f->type, f->body);
		return;
	}
	switch (f->type) {
	case REMOTE_JOB:
		take_job(r, f);
		break;
	case REMOTE_BRANCH:
		branch(r, f);
		break;
	case REMOTE_SERVE:
		serve(r, f->body);
		break;
	case REMOTE_START:
		start(r, f->body);
		break;
	case REMOTE_SIGNAL:
		if (remote_u32_get(f->body, &number) == 0)
			remote_agent_signal(&r->agent, (int)number);
		else
			garbled(r, "SIGNAL");
		break;
	case REMOTE_STDIN:
		if (r->agent_runs)
			remote_agent_write(&r->agent, f->body);
		else
			took(r, 0);
		break;
	case REMOTE_PING:
		break;
	default:
		garbled(r, "a host's own message");
		break;
	}
}

static void on_end(struct remote_pipe *p, const struct err *why)
{
	/* ssh passes it on to whoever typed the command */
	if (why->code)
		log_error("error: %s", why->text);
	end(p->owner, why->code ? why->text : "stdin is at its end");
}

static void on_sent(struct remote_pipe *p)
{
	pace(p->owner);
}

static const struct remote_pipe_events pipe_events = {
	.on_frame = on_frame, .on_end = on_end, .on_sent = on_sent,
};

/* ---- signals ---- */

static void take_death(void *arg, pid_t pid, int status,
		       const struct rusage *usage)
{
	struct remote_end *r = arg;
	struct err e = ERR_INIT;
	enum server_end how;

	if (remote_agent_reaped(&r->agent, pid, status) ||
	    (r->has_tree && remote_tree_reaped(&r->tree, pid, status)))
		return;
	how = server_supervisor_reaped(&r->supervisor, pid, status, &e);
	if (how == SERVER_LOST) {
		log_error("error: %s", e.text);
		tell(r, REMOTE_UNSERVED, SLICE("", 0));
	}
	if (how == SERVER_LOST || how == SERVER_ENDED)
		finish(r);
}

static void on_child(void *owner)
{
	struct remote_end *r = owner;
	int stopped;

	reap_children(take_death, r);
	stopped = remote_agent_stopped(&r->agent);
	if (stopped >= 0)
		send_u32(r, REMOTE_STOPPED,
			 stopped ? (uint32_t)r->agent.pid : 0);
}

static void on_signal(void *owner, int number)
{
	struct remote_end *r = owner;

	if (r->agent_runs)
		remote_agent_signal(&r->agent, number);
	else
		end(r, "a signal");
}

static void on_suspend(void *owner)
{
}

static const struct signals_events signals_events = {
	.on_child = on_child, .on_end = on_signal, .on_forward = on_signal,
	.on_suspend = on_suspend, .on_continue = on_suspend,
};

/* ---- from start to end ---- */

/* ssh's pipes get numbers of their own: what prints by mistake tears no frame.
 */
static int take_stdio(int *in, int *out)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	*in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, HIGH_FD);
	*out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, HIGH_FD);
	if (*in < 0 || *out < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return -errno;
	close(null);
	return 0;
}

static int run(struct remote_end *r, struct err *e)
{
	static const char greeting[] = "\2ddprun far\3";
	static const char not_ssh[] = "stdin and stdout are not ssh's";
	struct signal_set ending, none = {0};
	int in, out, rc = loop_check(take_stdio(&in, &out), e, not_ssh);

	if (rc < 0)
		return rc;
	signal_set_parse(&ending, "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "", NULL);
	rc = loop_check(uv_loop_init(&r->loop), e, "cannot make an event loop");
	if (rc < 0)
		return rc;
	r->pipe.owner = r;
	r->pipe.events = &pipe_events;
	rc = signals_start(&r->signals, &r->loop, &ending, &none, &none,
			   &signals_events, r, e);
	if (rc == 0)
		rc = loop_check(file_write_all(out, greeting,
					       sizeof(greeting) - 1), e,
				not_ssh);
	if (rc == 0)
		rc = loop_check(remote_pipe_open(&r->pipe, &r->loop, in, out,
						 1), e, not_ssh);
	if (rc < 0)
		return rc;
	uv_timer_init(&r->loop, &r->ping);
	uv_timer_init(&r->loop, &r->late);
	r->ping.data = r->late.data = r;
	set_silence(r, JOB_MS);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	uv_loop_close(&r->loop);
	remote_job_release(&r->job);
	if (r->has_tree)
		remote_tree_free(&r->tree);
	return 0;
}

int remote_end_main(int argc, char **argv)
{
	static struct remote_end r = {.supervisor = SERVER_SUPERVISOR_INIT};
	struct err e = ERR_INIT;
	int rc;

	build_id_init(&r.build);
	if (argc < 3 || strcmp(argv[2], r.build.id) != 0) {
		log_error("error: this ddprun is of build %s", r.build.id);
		return REMOTE_END_OTHER;
	}
	if (argc > 3 && strcmp(argv[3], "check") == 0)
		return 0;
	rc = run(&r, &e);
	if (rc == 0)
		return 0;
	log_error("error: %s", e.text);
	return EXIT_OS;
}
