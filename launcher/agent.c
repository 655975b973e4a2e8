/* agent.c: the agent's states. Callbacks turn what happened into an event and
 * hand it to handle(), which is the only place that changes the state. */
#include "launcher/agent.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/signal_name.h"
#include "launcher/agent_state.h"
#include "launcher/exit_code.h"
#include "launcher/failure.h"
#include "launcher/guard.h"
#include "launcher/inferred.h"
#include "launcher/logdir.h"
#include "launcher/member.h"
#include "launcher/output.h"
#include "launcher/reap.h"
#include "launcher/restart_time.h"
#include "launcher/signals.h"
#include "launcher/spawn.h"
#include "launcher/sweep.h"
#include "launcher/worker.h"

enum {
	NOTICE_MS = 1000,      /* a stop that takes longer is announced */
	SERVER_GOES_MS = 8000, /* ddprdzv itself gives its members 5 s */
	ID_BYTES = 8,
};

#define MARK "DDP_AGENT_ID="

struct agent {
	const struct config *config;
	const struct plan_parts *parts; /* NULL: see unable */
	const struct agent_unable *unable;
	uint64_t open_files;
	uv_loop_t loop;
	struct output output;
	struct input input;
	struct logdir logdir;
	struct log_rules log_rules;
	struct guard guard;
	struct group group;
	struct member member;
	struct signals signals;
	uv_timer_t grace;
	enum agent_state state;
	int exit_code; /* -1: not known yet */
	int signal;    /* what EV_SIGNAL was */
	int stop_signal; /* what the workers are told */
	int noticed;   /* that stopping takes long */
	int dismissed; /* told to go, by so many signals */
	char cause[ERR_TEXT_MAX];
	struct failure failure;
	const struct wire_start *starting; /* while EV_START is handled */
	uint32_t round, attempt, world_size;
	struct restart_time times;
	struct sweep told; /* leftovers that had their signal */
	char mark[sizeof(MARK) + 2 * ID_BYTES]; /* "DDP_AGENT_ID=..." */
};

/* ---- actions ---- */

static const char *agent_id(const struct agent *a)
{
	return a->mark + sizeof(MARK) - 1;
}

static void handle(struct agent *a, enum agent_event ev, const char *why);

static void decide_exit(struct agent *a, int code, const char *cause)
{
	if (a->exit_code >= 0)
		return;
	a->exit_code = code;
	snprintf(a->cause, sizeof(a->cause), "%s", cause);
}

/* Orphans of the workers have become our children: they go, too. When nobody is
 * left the round is over on this node. */
static void sweep(struct agent *a)
{
	const pid_t ours[] = {a->guard.pid, member_server_pid(&a->member)};
	/* a shell's background commands ignore SIGINT and SIGQUIT */
	int signal = a->stop_signal == SIGKILL ? SIGKILL : SIGTERM;

	if (a->group.running || a->group.closing)
		return;
	if (sweep_children(&a->told, ours, 2, signal) == 0)
		group_close(&a->group);
}

static void on_grace(uv_timer_t *t)
{
	struct agent *a = t->data;
	double left = a->config->grace_s - NOTICE_MS / 1000.0;

	if (a->noticed || a->config->grace_s * 1000 <= NOTICE_MS) {
		handle(a, EV_GRACE, "the grace time is over");
		return;
	}
	a->noticed = 1;
	if (a->group.running)
		log_info("%s; waiting for %u worker%s to stop, killed in %g s",
			 a->cause, a->group.running,
			 a->group.running == 1 ? "" : "s", left);
	else
		log_info("%s; waiting for what the workers left behind to "
			 "stop, killed in %g s", a->cause, left);
	uv_timer_start(&a->grace, on_grace, (uint64_t)(left * 1000) + 1, 0);
}

static void stop_workers(struct agent *a)
{
	uint64_t ms = (uint64_t)(a->config->grace_s * 1000);

	a->noticed = 0;
	sweep_forget(&a->told);
	group_signal(&a->group, a->stop_signal);
	uv_timer_start(&a->grace, on_grace, ms < NOTICE_MS ? ms : NOTICE_MS, 0);
	sweep(a);
}

static void kill_workers(struct agent *a)
{
	if (a->group.running)
		log_info("killing %u worker%s", a->group.running,
			 a->group.running == 1 ? "" : "s");
	uv_timer_stop(&a->grace);
	a->stop_signal = SIGKILL;
	sweep_forget(&a->told);
	group_signal(&a->group, SIGKILL);
	sweep(a);
}

static void join(struct agent *a)
{
	a->times.empty = clock_ns();
	uv_timer_stop(&a->grace);
	a->stop_signal = SIGTERM;
	member_join(&a->member);
}

/* The last process to wait for is the server, which still tells other nodes.
 * Then there may be a reader who does not read what we have: it is waited for
 * as long as it takes, but no longer than the grace if we were told to go. */
static void watch_server(struct agent *a)
{
	if (member_server_pid(&a->member))
		return;
	signals_unref_child(&a->signals);
	uv_timer_stop(&a->grace);
	if (!a->dismissed)
		return;
	uv_timer_start(&a->grace, on_grace,
		       (uint64_t)(a->config->grace_s * 1000) + 1, 0);
	uv_unref((uv_handle_t *)&a->grace);
}

static void leave(struct agent *a)
{
	struct slice page = failure_tell(&a->failure);

	member_close(&a->member);
	input_close(&a->input);
	if (page.len)
		output_print(&a->output, page.data, page.len);
	output_close(&a->output);
	uv_timer_start(&a->grace, on_grace, SERVER_GOES_MS, 0);
	a->noticed = 1;
	watch_server(a);
}

/* Whoever is impatient, or too late. */
static void hurry(struct agent *a)
{
	if (member_server_pid(&a->member))
		kill(member_server_pid(&a->member), SIGKILL);
	if (a->dismissed)
		output_abandon(&a->output);
}

/* ---- the states ---- */

static void start_workers(struct agent *a);

static void (*const acts[])(struct agent *a) = {
	[ACT_NONE] = NULL, [ACT_JOIN] = join,
	[ACT_START_WORKERS] = start_workers, [ACT_STOP_WORKERS] = stop_workers,
	[ACT_KILL_WORKERS] = kill_workers, [ACT_LEAVE] = leave,
	[ACT_HURRY] = hurry,
};
static_assert(sizeof(acts) / sizeof(*acts) == ACTS, "what is done for each");

static void handle(struct agent *a, enum agent_event ev, const char *why)
{
	const struct agent_edge *edge = agent_edge(a->state, ev);

	if (!edge->known) {
		log_debug("agent: %s, %s ignored: %s",
			  agent_state_names[a->state], agent_event_names[ev],
			  why);
		return;
	}
	log_debug("agent: %s -> %s, %s: %s", agent_state_names[a->state],
		  agent_state_names[edge->next], agent_event_names[ev], why);
	a->state = edge->next;
	if (acts[edge->act])
		acts[edge->act](a);
}

/* ---- a round begins ---- */

static int make_plan(struct agent *a, const struct wire_start *start,
		     struct plan *plan, struct err *e)
{
	extern char **environ;
	char master[SOCK_HOST_MAX], server[SOCK_TEXT_MAX];
	struct environment_job job = {
		.job = a->config->job, .agent_id = agent_id(a),
		.master_addr = master, .master_port = start->master_port,
		.agent_store = start->agent_store,
		.rdzv = member_server_text(&a->member, server),
		.node_addr = a->member.addr_text, .role = a->config->role,
		.round = start->round, .attempt = start->attempt,
		.max_restarts = (uint32_t)a->config->max_restarts,
		.node_rank = start->node_rank, .nnodes = start->nnodes,
		.nproc = a->config->nproc, .world_size = start->world_size,
		.signals = a->config->signals_to_handle,
		.role_base_rank = start->role_base_rank,
		.role_world_size = start->role_world_size,
		.virtual_local_rank = a->config->virtual_local_rank,
		.worker_gpus = a->config->worker_gpus,
		.error_file = failure_error_file, .error_file_arg = &a->failure,
		.recorder = failure_recorder(&a->failure),
	};

	snprintf(master, sizeof(master), "%.*s",
		 SLICE_FMT(start->master_addr));
	output_terminal(&a->output, &job.columns, &job.rows);
	return plan_init(plan, a->parts, environ, &job, start->base_rank, e);
}

static void begin_output(struct agent *a, const struct wire_start *start)
{
	struct output_round round = {
		.base_rank = start->base_rank, .node_rank = start->node_rank,
		.world_size = start->world_size,
	};

	logdir_begin(&a->logdir, start->attempt, start->round);
	outlet_open_copies(&a->group.outlet_rules, round.copies);
	output_begin(&a->output, &round);
}

static void run_round(struct agent *a, const struct wire_start *start)
{
	struct plan plan;
	struct err e = ERR_INIT;
	char text[RESTART_TIME_TEXT_MAX];
	int rc;

	a->times.start = clock_ns();
	a->round = start->round;
	a->attempt = start->attempt;
	a->world_size = start->world_size;
	log_debug("round %u: node %u of %u, ranks %u to %u of %u",
		  start->round, start->node_rank, start->nnodes,
		  start->base_rank, start->base_rank + a->config->nproc - 1,
		  start->world_size);
	begin_output(a, start);
	failure_begin(&a->failure, start, agent_id(a), &a->member.rdzv.addr);
	rc = make_plan(a, start, &plan, &e);
	if (rc == 0) {
		rc = group_start(&a->group, &plan, a->open_files, &e);
		failure_started(&a->failure);
		plan_release(&plan);
	}
	if (rc < 0) /* the server ends the round for all nodes, and for us */
		member_failed(&a->member, start->round, 0, e.text);
	else if (a->times.ended)
		log_info("%s", restart_time_text(&a->times, clock_ns(), text));
}

/* ---- what the server decided ---- */

static void on_start(struct member *m, const struct wire_start *start)
{
	struct agent *a = m->owner;

	a->starting = start;
	handle(a, EV_START, "all nodes are there");
	a->starting = NULL;
}

static void start_workers(struct agent *a)
{
	if (a->parts)
		run_round(a, a->starting);
	else /* the whole job must know, and not only this terminal */
		member_failed(&a->member, a->starting->round,
			      a->unable->exit_code, a->unable->why.text);
}

static void on_end(struct member *m, const struct wire_end *end)
{
	struct agent *a = m->owner;
	char text[ERR_TEXT_MAX];

	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(end->text));
	a->times.ended = clock_ns();
	if (end->verdict == WIRE_RESTART || end->verdict == WIRE_REGROUP)
		failure_goes_on(&a->failure, end, a->attempt);
	if (a->exit_code < 0) /* else it is known already */
		snprintf(a->cause, sizeof(a->cause), "%s", text);
	if (end->verdict == WIRE_REGROUP) {
		log_info("regrouping: %s", text);
		handle(a, EV_RESTART, text);
		return;
	}
	if (end->verdict == WIRE_RESTART) {
		log_info("restarting (%u of %u): %s",
			 (uint32_t)a->config->max_restarts - end->restarts_left,
			 (uint32_t)a->config->max_restarts, text);
		handle(a, EV_RESTART, text);
		return;
	}
	if (m->spare)
		log_info("job '%s' is over, and this spare node was not "
			 "needed: %s", a->config->job, text);
	/* whoever got a signal knows why the job ends */
	if (a->exit_code < 0 && end->verdict != WIRE_SUCCESS)
		failure_ends(&a->failure, end, a->attempt, a->world_size);
	decide_exit(a, end->exit_code, text);
	handle(a, EV_END, text);
}

static void on_lost(struct member *m, const struct err *why)
{
	struct agent *a = m->owner;
	char text[ERR_TEXT_MAX + 40];

	snprintf(text, sizeof(text), "%s%s", why->text, a->group.running ?
		 "; stopping this node's workers" : "");
	if (a->exit_code < 0)
		failure_lost(text, exit_code_of(why));
	decide_exit(a, exit_code_of(why), why->text);
	handle(a, EV_LOST, why->text);
}

static const struct member_events member_events = {
	.on_start = on_start,
	.on_end = on_end,
	.on_lost = on_lost,
};

/* ---- what happened on this node ---- */

static void report_exit(struct agent *a, struct worker *w, int status)
{
	struct wire_exited x = {
		.round = a->round, .rank = group_rank(w),
		.local_rank = w->local_rank, .pid = w->pid, .code = w->code,
		.signal = w->signal, .ran_ms = w->ran_ms,
		.stopped = (uint8_t)w->stopped, .core = w->core,
		.max_rss_kib = w->max_rss_kib, .tail = tail_text(&w->tail),
	};
	char name[SIGNAL_NAME_MAX];

	if (w->signal)
		log_debug("worker %u (pid %d) was killed by %s", x.rank,
			  (int)w->pid, signal_name(w->signal, name));
	else
		log_debug("worker %u (pid %d) exited with code %d", x.rank,
			  (int)w->pid, w->code);
	if (status != 0 && !w->stopped)
		failure_examine(&a->failure, w, status, &x);
	member_exited(&a->member, &x);
	/* others wait for this one's news */
	if (status != 0 && !w->stopped)
		member_flush(&a->member);
}

static void take_death(void *arg, pid_t pid, int status,
		       const struct rusage *usage)
{
	struct agent *a = arg;
	struct worker *w = group_find(&a->group, pid);

	if (w) {
		group_exited(&a->group, w, status, usage);
		report_exit(a, w, status);
	} else if (member_reaped(&a->member, pid, status)) {
		if (a->state == LEAVING)
			watch_server(a);
	} else if (pid == a->guard.pid) {
		log_warn("the guard process (pid %d) is gone: workers that made"
			 " sessions of their own would outlive a kill -9",
			 (int)pid);
		a->guard.pid = -1;
	}
}

static void on_child(void *owner)
{
	struct agent *a = owner;

	reap_children(take_death, a);
	member_flush(&a->member);
	if (a->state == STOPPING || a->state == RESTARTING)
		sweep(a);
}

static void on_empty(struct group *g)
{
	handle(g->owner, EV_EMPTY, "no process of the round is left");
}

/* Thousands of workers may take longer to start than a lease lasts. */
static void on_alive(struct group *g)
{
	struct agent *a = g->owner;

	member_ping(&a->member);
}

static void on_end_signal(void *owner, int number)
{
	struct agent *a = owner;
	char name[SIGNAL_NAME_MAX], cause[64];

	signal_name(number, name);
	if (!a->dismissed++ && a->exit_code > 0 &&
	    inferred_is_echo(a->config, number))
		return;
	if (a->exit_code < 0) {
		snprintf(cause, sizeof(cause), "got %s", name);
		if (a->group.running)
			log_info("got %s: stopping %u worker%s (again kills "
				 "them at once)", name, a->group.running,
				 a->group.running == 1 ? "" : "s");
		else
			log_info("got %s: leaving", name);
		member_leave(&a->member, number, cause);
		decide_exit(a, 128 + number, cause);
		a->stop_signal = number;
	}
	handle(a, EV_SIGNAL, name);
}

static void on_forward(void *owner, int number)
{
	struct agent *a = owner;
	char name[SIGNAL_NAME_MAX];

	log_debug("got %s: passing it on to %u workers",
		  signal_name(number, name), a->group.running);
	group_relay(&a->group, number);
}

/* The workers are in process groups of their own, which Ctrl-Z does not reach.
 * SIGSTOP for us, too: what the shell waits for must not depend on whether our
 * process group is an orphan. */
static void on_suspend(void *owner)
{
	struct agent *a = owner;

	if (a->config->max_nodes > 1 && a->state != LEAVING)
		log_warn("stopping: the other nodes count this one as lost "
			 "unless it goes on within %g s (--heartbeat-timeout)",
			 a->config->heartbeat_s);
	group_relay(&a->group, SIGSTOP);
	kill(getpid(), SIGSTOP);
}

static void on_continue(void *owner)
{
	struct agent *a = owner;

	group_relay(&a->group, SIGCONT);
}

static const struct signals_events signals_events = {
	.on_child = on_child, .on_end = on_end_signal,
	.on_forward = on_forward, .on_suspend = on_suspend,
	.on_continue = on_continue,
};

/* ---- from start to end ---- */

static int make_mark(struct agent *a, struct err *e)
{
	memcpy(a->mark, MARK, sizeof(MARK));
	return random_hex(a->mark + sizeof(MARK) - 1, ID_BYTES, e);
}

static int run_loop(struct agent *a, struct err *e)
{
	/* before the signals: Ctrl-C must end a slow look-up */
	int rc = member_init(&a->member, &a->loop, a->config, agent_id(a),
			     &member_events, e);

	if (rc < 0)
		return rc;
	a->member.owner = a;
	signals_start(&a->signals, &a->loop, &a->config->ending,
		      &a->config->forwarded, &signals_events, a);
	uv_timer_init(&a->loop, &a->grace);
	a->grace.data = a;
	input_init(&a->input, &a->loop, a->config->stdin_rank);
	rc = group_init(&a->group, &a->loop, &a->output, &a->input, &a->guard,
			a->config->nproc, e);
	a->group.on_closed = on_empty;
	a->group.on_alive = on_alive;
	a->group.alive_ms = member_ping_ms(&a->member);
	a->group.owner = a;
	a->group.outlet_rules = (struct outlet_rules){
		.config = a->config, .log = &a->log_rules, .dir = &a->logdir};
	if (rc == 0) {
		join(a);
		/* while the server starts */
		failure_prepare(&a->failure);
		uv_run(&a->loop, UV_RUN_DEFAULT);
	} else {
		member_close(&a->member);
	}
	inferred_end_echoes(a->config);
	signals_close(&a->signals);
	uv_close((uv_handle_t *)&a->grace, NULL);
	return rc;
}

static int run_job(struct agent *a, struct err *e)
{
	int rc;

	/* what our workers orphan comes to us, wherever it went */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	uv_loop_init(&a->loop);
	rc = output_init(&a->output, &a->loop, a->config->nproc,
			 &a->log_rules, a->config->role);
	if (rc < 0) {
		err_set(e, rc, "out of memory for the workers' output");
		log_error("error: %s", e->text);
		uv_loop_close(&a->loop);
		return rc;
	}
	rc = run_loop(a, e);
	if (rc < 0)
		log_error("error: %s", e->text);
	output_close(&a->output);
	uv_run(&a->loop, UV_RUN_DEFAULT);
	uv_loop_close(&a->loop);
	group_release(&a->group);
	output_release(&a->output);
	return rc;
}

int agent_run(const struct config *config, const struct plan_parts *parts,
	      const struct agent_unable *unable, uint64_t open_files)
{
	struct agent a = {.config = config, .parts = parts, .unable = unable,
			  .open_files = open_files, .exit_code = -1,
			  .stop_signal = SIGTERM, .group.dev_null = -1};
	struct err e = ERR_INIT;
	int rc;

	failure_init(&a.failure, config, &a.logdir, &a.group);
	rc = make_mark(&a, &e);
	if (rc == 0)
		rc = log_rules_init(&a.log_rules, config, &e);
	if (rc == 0)
		rc = logdir_init(&a.logdir, config, &e);
	/* a fork: before there is a loop */
	if (rc == 0)
		rc = guard_start(&a.guard, config->nproc, a.mark,
				 logdir_private(&a.logdir), &e);
	if (rc < 0) {
		log_error("error: %s", e.text);
		logdir_release(&a.logdir);
	} else {
		rc = run_job(&a, &e);
		logdir_release(&a.logdir);
		guard_stop(&a.guard);
	}
	log_rules_release(&a.log_rules);
	failure_release(&a.failure);
	sweep_release(&a.told);
	if (rc < 0)
		return exit_code_of(&e);
	return a.exit_code >= 0 ? a.exit_code : EXIT_INTERNAL;
}
