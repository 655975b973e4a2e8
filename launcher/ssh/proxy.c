/* proxy.c: handles the frames that come from the head. */
#include "launcher/ssh/ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "launcher/failure/exit_code.h"
#include "launcher/membership/server_supervisor.h"
#include "launcher/ssh/proxy_internal.h"
#include "launcher/ssh/remote_tree.h"
#include "launcher/worker/signals.h"
#include "launcher/worker/spawn.h"

enum {
	PAUSE_BYTES = 1 << 20,
	JOB_MS = 60000,    /* until the job arrives */
	MARGIN_MS = 10000, /* beyond the grace period, which the agent keeps */
	SERVER_MS = 8000,
	PINGS = 5, /* per silent_ms */
	HIGH_FD = 10,
};

struct proxy {
	uv_loop_t loop;
	struct remote_pipe pipe;
	struct signals signals;
	uv_timer_t ping, late;
	struct build_id build;
	struct proxy_job job;
	uint32_t host, silent_ms, grace_ms;
	int has_job;
	struct remote_agent agent;
	int was_started, agent_runs;
	int lends_terminal; /* with a window of this size */
	struct remote_window window;
	struct server_supervisor supervisor;
	struct remote_tree tree;
	int has_tree, tree_gone;
	int ending, over;
};

static void proxy_send(struct proxy *r, uint8_t type, struct slice body)
{
	remote_pipe_send(&r->pipe, type, r->host, body);
}

static void proxy_send_u32(struct proxy *r, uint8_t type, uint32_t n)
{
	struct buf b = BUF_INIT(4);

	buf_put_u32(&b, n);
	remote_pipe_send_buf(&r->pipe, type, r->host, &b);
	buf_release(&b);
}

/* Pauses the sources while too much is queued. */
static void proxy_throttle(struct proxy *r)
{
	int paused = remote_pipe_pending(&r->pipe) > PAUSE_BYTES;

	remote_agent_pause(&r->agent, paused);
	if (r->has_tree)
		remote_tree_pause(&r->tree, paused);
}

/* ---- the end ---- */

static void proxy_check_done(struct proxy *r)
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

static void proxy_on_late(uv_timer_t *t)
{
	struct proxy *r = t->data;

	remote_agent_signal(&r->agent, SIGKILL);
	if (r->supervisor.server.pid)
		kill(r->supervisor.server.pid, SIGKILL);
}

/* The head does not want this host any more: ends all that runs here. */
static void proxy_end(struct proxy *r, const char *why)
{
	uint64_t ms = (uint64_t)r->grace_ms + MARGIN_MS;

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
	uv_timer_start(&r->late, proxy_on_late, ms, 0);
	uv_timer_stop(&r->ping);
	if (r->has_tree)
		remote_tree_release(&r->tree, ms);
	proxy_check_done(r);
}

/* A message that makes no sense: ends the connection. */
static void proxy_reject(struct proxy *r, const char *what)
{
	struct err e = ERR_INIT;

	err_set(&e, ERR_PROTOCOL,
		"unexpected data over ssh, not from ddprun (%s)", what);
	remote_pipe_break(&r->pipe, &e);
}

/* ---- the agent ---- */

static void proxy_on_text(struct remote_agent *a, uint8_t type,
			  struct slice text)
{
	struct proxy *r = a->owner;

	proxy_send(r, type, text);
	proxy_throttle(r);
}

static void proxy_send_ack(struct proxy *r, int is_read)
{
	const char mark = (char)is_read;

	proxy_send(r, REMOTE_STDIN_ACK, SLICE(&mark, 1));
}

static void proxy_on_ack(struct remote_agent *a, int is_read)
{
	proxy_send_ack(a->owner, is_read);
}

static void proxy_on_agent_gone(struct remote_agent *a, int code)
{
	struct proxy *r = a->owner;

	r->agent_runs = 0;
	/* other nodes may need the server while the head waits for them */
	server_supervisor_node_gone(&r->supervisor);
	proxy_send_u32(r, REMOTE_EXIT, (uint32_t)code);
	proxy_check_done(r);
}

static const struct remote_agent_events agent_events = {
	.on_text = proxy_on_text,
	.on_ack = proxy_on_ack,
	.on_gone = proxy_on_agent_gone,
};

static void proxy_send_failure(struct proxy *r, const struct err *e)
{
	struct buf b = BUF_INIT(ERR_TEXT_MAX + 64);

	buf_put_u32(&b, (uint32_t)exit_code_of(e));
	buf_printf(&b, "%s", e->text);
	remote_pipe_send_buf(&r->pipe, REMOTE_FAILED, r->host, &b);
	buf_release(&b);
}

static void proxy_start_agent(struct proxy *r, struct slice body)
{
	char text[SOCK_TEXT_MAX];
	struct reader b;
	struct err e = ERR_INIT;
	uint32_t place;

	reader_init(&b, body);
	place = reader_u32(&b);
	if (b.bad) {
		proxy_reject(r, "START");
		return;
	}
	if (!r->has_job || r->was_started || r->ending)
		return;
	r->was_started = 1; /* even if it fails: its pipes may still exist */
	snprintf(text, sizeof(text), "%.*s", (int)reader_left(&b), b.p);
	r->agent = (struct remote_agent){
		.owner = r, .events = &agent_events,
		.has_terminal = r->lends_terminal, .window = r->window};
	if (!r->build.self[0])
		err_set(&e, -ENOENT, "ddprun cannot find its own file there "
			"(/proc/self/exe); is /proc mounted?");
	if (e.code < 0 || remote_agent_start(&r->agent, &r->loop, r->build.self,
			       proxy_job_argv(&r->job, text), place,
			       &r->job.auth, &e) < 0)
		proxy_send_failure(r, &e);
	else
		r->agent_runs = 1;
}

/* ---- the server ---- */

/* The list begins with "PORT ADDRESS", 0 and "" if they are not given. */
static int proxy_choose_address(const struct remote_list *list,
				struct sock_addr *a, struct err *e)
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
		proxy_job_address(&others, a);
	}
	sock_addr_set_port(a, (uint16_t)port);
	return 0;
}

static int proxy_start_server(struct proxy *r, int fd, struct err *e)
{
	const struct rdzv_options *o = &r->job.trial.rdzv;
	const struct server_supervisor_options order = {
		.fds = &fd, .n = 1, .job = o->job, .journal = o->journal,
		.web = o->web};
	struct auth own = r->job.auth;
	int rc = own.methods ? 0 : auth_choose(&own, o->auth_text,
					       o->token_file, e);

	if (rc < 0)
		close(fd);
	else
		rc = server_supervisor_start(&r->supervisor, &order, &own, e);
	if (rc == 0 && r->supervisor.auth.methods == WIRE_NO_PROOF)
		log_warn("--auth none: anyone who can reach the job's server "
			 "can join the job, read its store and end it");
	auth_wipe(&own);
	return rc;
}

static void proxy_handle_serve(struct proxy *r, struct slice body)
{
	const struct remote_list list = {body};
	char text[SOCK_TEXT_MAX];
	struct sock_addr a;
	struct err e = ERR_INIT;
	int fd = -1, rc = -EINVAL;

	if (!r->has_job || r->supervisor.server.pid ||
	    (body.len && body.data[body.len - 1])) {
		proxy_reject(r, "SERVE");
		return;
	}
	rc = proxy_choose_address(&list, &a, &e);
	if (rc == 0)
		fd = rc = sock_listen(&a, &e);
	if (rc >= 0)
		rc = proxy_start_server(r, fd, &e);
	if (rc < 0)
		proxy_send_failure(r, &e);
	else
		proxy_send(r, REMOTE_SERVING,
			   SLICE_STR(sock_addr_text(&a, text)));
}

/* ---- the job ---- */

static void proxy_on_ping(uv_timer_t *t)
{
	struct proxy *r = t->data;

	proxy_send(r, REMOTE_PING, SLICE("", 0));
	if (uv_now(&r->loop) - r->pipe.heard_ms >= r->silent_ms)
		proxy_end(r, "the head is silent");
}

static void proxy_set_silence(struct proxy *r, uint32_t ms)
{
	r->silent_ms = ms;
	uv_timer_start(&r->ping, proxy_on_ping, ms / PINGS + 1, ms / PINGS + 1);
}

static void proxy_handle_job(struct proxy *r, const struct remote_frame *f)
{
	struct remote_job job;
	struct remote_ready answer;
	struct err e = ERR_INIT;
	struct buf b = BUF_INIT(64 << 10);

	if (r->has_job || remote_job_get(f->body, &job) < 0) {
		proxy_reject(r, "JOB");
		return;
	}
	r->has_job = 1;
	r->host = f->host;
	r->grace_ms = job.grace_ms;
	r->lends_terminal = job.lends_terminal;
	r->window = job.window;
	proxy_set_silence(r, job.silent_ms);
	proxy_job_prepare(&r->job, &job, &answer, &e);
	remote_ready_put(&b, &answer);
	remote_pipe_send_buf(&r->pipe, REMOTE_READY, r->host, &b);
	buf_release(&b);
	/* the check may have taken longer than silent_ms */
	uv_update_time(&r->loop);
	r->pipe.heard_ms = uv_now(&r->loop);
}

/* ---- the hosts behind this one ---- */

static void proxy_on_tree_frame(struct remote_tree *t,
				const struct remote_frame *f)
{
	struct proxy *r = t->owner;

	if (f->bytes.len)
		remote_pipe_send_bytes(&r->pipe, f->bytes);
	else
		remote_pipe_send(&r->pipe, f->type, f->host, f->body);
	proxy_throttle(r);
}

static void proxy_on_tree_gone(struct remote_tree *t)
{
	struct proxy *r = t->owner;

	r->tree_gone = 1;
	proxy_check_done(r);
}

static const struct remote_tree_events tree_events = {
	.on_frame = proxy_on_tree_frame,
	.on_gone = proxy_on_tree_gone,
};

static void proxy_handle_branch(struct proxy *r, const struct remote_frame *f)
{
	struct remote_branch b;
	struct err e = ERR_INIT;

	if (r->ending)
		return;
	if (r->has_tree || remote_branch_get(f->body, &b) < 0) {
		proxy_reject(r, "BRANCH");
		return;
	}
	r->host = f->host;
	r->has_tree = 1;
	remote_tree_init(&r->tree, &tree_events, r);
	if (remote_tree_start(&r->tree, &r->loop, &b, &e) < 0)
		remote_pipe_break(&r->pipe, &e);
}

/* ---- frames ---- */

static void proxy_on_frame(struct remote_pipe *p, const struct remote_frame *f)
{
	struct proxy *r = p->owner;
	uint32_t number;

	if (r->has_tree && remote_tree_has(&r->tree, f->host)) {
		remote_tree_send(&r->tree, f->host, f->type, f->body);
		return;
	}
	switch (f->type) {
	case REMOTE_JOB:
		proxy_handle_job(r, f);
		break;
	case REMOTE_BRANCH:
		proxy_handle_branch(r, f);
		break;
	case REMOTE_SERVE:
		proxy_handle_serve(r, f->body);
		break;
	case REMOTE_START:
		proxy_start_agent(r, f->body);
		break;
	case REMOTE_SIGNAL:
		if (remote_u32_get(f->body, &number) == 0)
			remote_agent_signal(&r->agent, (int)number);
		else
			proxy_reject(r, "SIGNAL");
		break;
	case REMOTE_STDIN:
		if (r->agent_runs)
			remote_agent_write(&r->agent, f->body);
		else
			proxy_send_ack(r, 0);
		break;
	case REMOTE_WINDOW:
		if (remote_window_get(f->body, &r->window) == 0)
			remote_agent_resize(&r->agent, &r->window);
		else
			proxy_reject(r, "WINDOW");
		break;
	case REMOTE_PING:
		break;
	default:
		proxy_reject(r, "a host's own message");
		break;
	}
}

static void proxy_on_end(struct remote_pipe *p, const struct err *why)
{
	/* ssh forwards our stderr to the head's user */
	if (why->code)
		log_error("error: %s", why->text);
	proxy_end(p->owner, why->code ? why->text : "end of stdin");
}

static void proxy_on_sent(struct remote_pipe *p)
{
	proxy_throttle(p->owner);
}

static const struct remote_pipe_events pipe_events = {
	.on_frame = proxy_on_frame,
	.on_end = proxy_on_end,
	.on_sent = proxy_on_sent,
};

/* ---- signals ---- */

static void proxy_on_reaped(void *arg, pid_t pid, int status,
			    const struct rusage *usage)
{
	struct proxy *r = arg;
	struct err e = ERR_INIT;
	enum server_end how;

	if (remote_agent_reaped(&r->agent, pid, status) ||
	    (r->has_tree && remote_tree_reaped(&r->tree, pid, status)))
		return;
	how = server_supervisor_reaped(&r->supervisor, pid, status, &e);
	if (how == SERVER_LOST) {
		log_error("error: %s", e.text);
		proxy_send(r, REMOTE_SERVER_LOST, SLICE("", 0));
	}
	if (how == SERVER_LOST || how == SERVER_ENDED)
		proxy_check_done(r);
}

static void proxy_on_child(void *owner)
{
	struct proxy *r = owner;
	int stopped;

	reap_children(proxy_on_reaped, r);
	stopped = remote_agent_stopped(&r->agent);
	if (stopped >= 0)
		proxy_send_u32(r, REMOTE_STOPPED,
			       stopped ? (uint32_t)r->agent.pid : 0);
}

static void proxy_on_signal(void *owner, int number)
{
	struct proxy *r = owner;

	if (r->agent_runs)
		remote_agent_signal(&r->agent, number);
	else
		proxy_end(r, "a signal");
}

static void proxy_on_suspend(void *owner)
{
}

static const struct signals_events signals_events = {
	.on_child = proxy_on_child,
	.on_end = proxy_on_signal,
	.on_forward = proxy_on_signal,
	.on_suspend = proxy_on_suspend,
	.on_continue = proxy_on_suspend,
};

/* ---- from start to end ---- */

/* Moves ssh's pipes to other descriptors, so that a stray print cannot corrupt
 * a frame. */
static int proxy_take_stdio(int *in, int *out)
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

static int proxy_run(struct proxy *r, struct err *e)
{
	static const char greeting[] = "\2ddprun far\3";
	static const char not_ssh[] = "stdin and stdout are not pipes from ssh";
	struct signal_set ending, none = {0};
	int in, out, rc = loop_check(proxy_take_stdio(&in, &out), e, not_ssh);

	if (rc < 0)
		return rc;
	signal_set_parse(&ending, "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "", NULL);
	rc = loop_check(loop_init(&r->loop), e,
			"cannot create an event loop");
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
	proxy_set_silence(r, JOB_MS);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	uv_loop_close(&r->loop);
	proxy_job_release(&r->job);
	if (r->has_tree)
		remote_tree_free(&r->tree);
	return 0;
}

int proxy_main(int argc, char **argv)
{
	static struct proxy r = {.supervisor = SERVER_SUPERVISOR_INIT};
	struct err e = ERR_INIT;
	int rc;

	build_id_init(&r.build);
	if (argc < 2 || strcmp(argv[1], r.build.id) != 0) {
		log_error("error: this ddprun is build %s", r.build.id);
		return PROXY_OTHER_BUILD;
	}
	if (argc > 2 && strcmp(argv[2], "check") == 0)
		return 0;
	rc = proxy_run(&r, &e);
	if (rc == 0)
		return 0;
	log_error("error: %s", e.text);
	return EXIT_OS;
}
