/* agent.c: a job from start to end. Callbacks turn what happened into an event
 * and pass it to agent_handle(), the only function that changes the state. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "launcher/agent/agent_internal.h"
#include "launcher/failure/exit_code.h"
#include "launcher/failure/failure.h"
#include "launcher/watch/loop_watchdog.h"
#include "launcher/worker/spawn.h"

/* ---- the states ---- */

void agent_handle(struct agent *a, enum agent_event ev, const char *why)
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
	if (agent_acts[edge->act])
		agent_acts[edge->act](a);
}

static void agent_on_grace(void *owner)
{
	agent_handle(owner, EV_GRACE, "the grace time is over");
}

static void agent_on_sweep(void *owner)
{
	agent_sweep(owner);
}

const char *agent_id(const struct agent *a)
{
	return a->mark + sizeof(AGENT_MARK) - 1;
}

/* ---- what the server decided ---- */

static void agent_on_start(struct member *m, const struct wire_start *start)
{
	struct agent *a = m->owner;

	if (a->rdzv->store_open && start->agent_store &&
	    start->node_rank == 0 && start->attempt + start->changes == 0)
		log_info("--store-open: anyone who can reach %.*s:%u can read "
			 "and write the values that workers store there",
			 SLICE_FMT(start->master_addr), start->master_port);
	agent_record_rendezvous(a, start);
	agent_mpi_warn(a, start);
	if (agent_stage_waits(a, start) || agent_preload_waits(a, start))
		return;
	a->starting = start;
	agent_handle(a, EV_START, "all nodes have joined");
	a->starting = NULL;
}

void agent_run_event(struct agent *a, const char *event, int64_t rank,
		     const char *text)
{
	const struct event_command_news n = {
		.event = event, .text = text, .round = a->round,
		.attempt = a->attempt, .rank = rank,
	};

	if (a->is_first)
		event_commands_run(&a->events, &n);
}

/* The server ends the job. */
static void agent_end_job(struct agent *a, const struct wire_end *end,
			  const char *text)
{
	if (member_is_spare(&a->member) && !a->stop.level)
		log_info("job '%s' is over, and this %s: %s", a->rdzv->job,
			 member_has_started(&a->member)
				 ? "node was a spare in the end"
				 : "spare node was not needed", text);
	agent_record_verdict(a, end);
	a->ended_as_asked = end->verdict == WIRE_ENDED && a->stop.level;
	if (end->verdict != WIRE_SUCCESS && !a->ended_as_asked)
		agent_run_event(a, "failed", -1, text);
	/* no page for users who stopped the job themselves */
	if (a->exit_code < 0 && end->verdict != WIRE_SUCCESS &&
	    !(a->ended_as_asked && (a->stop_signals ||
			   a->rdzv->env->shares_console)))
		failure_record_end(&a->failure, end, a->attempt, a->world_size);
	agent_decide_exit(a, end->exit_code, text);
	agent_handle(a, EV_END, text);
}

static void agent_on_end(struct member *m, const struct wire_end *end)
{
	struct agent *a = m->owner;
	char text[ERR_TEXT_MAX];

	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(end->text));
	a->times.ended = clock_ns();
	a->wait_ms = 0;
	exit_reports_flush(&a->exit_reports);
	agent_stage_end(a);
	if (a->exit_code < 0) /* else the cause is known already */
		snprintf(a->shutdown.cause, sizeof(a->shutdown.cause), "%s",
			 text);
	if (end->verdict == WIRE_RESTART || end->verdict == WIRE_REGROUP)
		agent_end_round(a, end, text);
	else
		agent_end_job(a, end, text);
}

/* Another node was asked to stop, and the server was lost before the job's end:
 * nothing has told this node's user yet why the job ends. */
static void agent_report_stop(const struct agent *a, const char *why)
{
	char text[sizeof(a->shutdown.cause) + ERR_TEXT_MAX + sizeof("; ")];

	if (a->exit_code >= 0 || a->stop_signals ||
	    a->rdzv->env->shares_console)
		return;
	snprintf(text, sizeof(text), "%s; %s", a->shutdown.cause, why);
	failure_report_lost(text, a->stop.exit_code);
}

static void agent_on_lost(struct member *m, const struct err *why)
{
	struct agent *a = m->owner;
	char text[ERR_TEXT_MAX + 40];

	snprintf(text, sizeof(text), "%s%s", why->text, a->group.running ?
		 "; stopping this node's workers" : "");
	exit_reports_flush(&a->exit_reports);
	if (a->stop.level) { /* the server's host was asked to stop as well */
		agent_report_stop(a, why->text);
		agent_decide_exit(a, a->stop.exit_code, NULL);
	}
	if (a->exit_code < 0)
		agent_run_event(a, "failed", -1, text);
	if (a->exit_code < 0)
		failure_report_lost(text, exit_code_of(why));
	agent_decide_exit(a, exit_code_of(why), why->text);
	agent_handle(a, EV_LOST, why->text);
}

static void agent_on_spare(struct member *m)
{
	struct agent *a = m->owner;

	input_unread(&a->input);
}

static void agent_on_waiting(struct member *m)
{
	struct agent *a = m->owner;
	char key[PROOF_HEX_SIZE];

	failure_publish_job(&a->failure, agent_id(a), member_server_addr(m),
			    member_job_key(m, key));
}

static int find_holder(struct member *m, uint64_t inode, uint32_t *rank,
		       pid_t *pid)
{
	struct agent *a = m->owner;
	const struct worker *w = worker_group_find_socket(&a->group, inode,
							  pid);

	if (w)
		*rank = worker_rank(w);
	return w != NULL;
}

static int agent_has_round(const struct agent *a)
{
	return a->state == RUNNING || a->state == NOTIFIED;
}

/* Without a server nobody else can end the job: it ends here once this node's
 * workers succeeded, or stopped as asked. */
static void agent_end_detached(struct agent *a)
{
	if (!member_is_detached(&a->member) || !agent_has_round(a) ||
	    a->group.running)
		return;
	exit_reports_flush(&a->exit_reports);
	if (!agent_has_round(a))
		return;
	if (worker_group_was_stopped(&a->group)) {
		agent_decide_exit(a, a->stop.exit_code, NULL);
		agent_handle(a, EV_END, "all workers stopped as asked");
		return;
	}
	log_warn("all workers of this node exited with code 0; the rendezvous "
		 "server is lost, so the result of the other nodes is unknown");
	agent_record_verdict(a, NULL);
	agent_decide_exit(a, 0, "all workers exited with code 0");
	agent_handle(a, EV_END, "all workers exited with code 0");
}

static void agent_on_detached(struct member *m)
{
	agent_end_detached(m->owner);
}

static const struct member_events member_events = {
	.on_start = agent_on_start,
	.on_spare = agent_on_spare,
	.on_waiting = agent_on_waiting,
	.find_holder = find_holder,
	.on_end = agent_on_end,
	.on_stop = agent_on_stop,
	.on_stalled = agent_on_stalled,
	.on_slow = agent_on_slow,
	.on_gpu_news = agent_on_gpu_news,
	.on_role_news = agent_on_role_news,
	.on_look = agent_on_look,
	.on_output = agent_on_output,
	.on_detached = agent_on_detached,
	.on_lost = agent_on_lost,
};

/* ---- what happened on this node ---- */

static void agent_worker_reaped(struct agent *a, struct worker *w, int status,
				const struct rusage *usage)
{
	status = agent_mpi_ended(a, w, status);
	worker_group_exited(&a->group, w, status, usage);
	exit_reports_add(&a->exit_reports, w);
}

static void agent_server_reaped(struct agent *a)
{
	if (a->state == LEAVING)
		agent_watch_server(a);
}

/* Asks each room whether it started this process. 1: one did. */
static int agent_helper_reaped(struct agent *a, pid_t pid, int status,
			       const struct rusage *usage)
{
	return agent_mpi_reaped(a, pid, status) ||
	       preload_reaped(&a->preload, pid, status) ||
	       agent_stage_reaped(a, pid, status) ||
	       agent_dump_reaped(a, pid, status) ||
	       agent_look_reaped(a, pid, usage) ||
	       gpu_monitor_reaped(&a->gpus, pid, status) ||
	       event_commands_reaped(&a->events, pid, status) ||
	       guard_reaped(&a->guard, pid, status);
}

static void agent_on_reaped(void *arg, pid_t pid, int status,
			    const struct rusage *usage)
{
	struct agent *a = arg;
	struct worker *w = worker_group_find(&a->group, pid);

	if (w)
		agent_worker_reaped(a, w, status, usage);
	else if (member_reaped(&a->member, pid, status))
		agent_server_reaped(a);
	else if (!agent_helper_reaped(a, pid, status, usage))
		sweep_reaped(pid); /* an orphan of a worker's */
}

static void agent_on_child(void *owner)
{
	struct agent *a = owner;

	reap_children(agent_on_reaped, a);
	member_flush(&a->member);
	agent_end_detached(a);
	if (a->state == STOPPING || a->state == RESTARTING)
		agent_sweep(a);
}

static void agent_on_empty(struct worker_group *g)
{
	agent_peers_end(g->owner);
	agent_mpi_end(g->owner);
	agent_handle(g->owner, EV_EMPTY, "no process of the round is left");
}

static void agent_on_denied(struct worker_group *g, struct worker *w,
			    int signal)
{
	struct agent *a = g->owner;
	char name[SIGNAL_NAME_MAX];

	if (signal != SIGKILL) {
		log_warn("rank %u (pid %d) cannot be sent %s: it runs as "
			 "another user; waiting for it to end",
			 worker_rank(w), (int)w->pid, signal_name(signal,
								  name));
		return;
	}
	log_error("rank %u (pid %d) cannot be killed: it runs as another user; "
		  "end it by hand; ddprun continues without it",
		  worker_rank(w), (int)w->pid);
	sweep_leave(w->pid);
	exit_reports_add(&a->exit_reports, w);
}

static void agent_on_started(struct worker_group *g)
{
	agent_extend_lease(g->owner);
}

static void agent_on_forward(void *owner, int number)
{
	struct agent *a = owner;
	char name[SIGNAL_NAME_MAX];

	log_debug("got %s: passing it on to %u workers",
		  signal_name(number, name), a->group.running);
	worker_group_relay(&a->group, number);
}

/* Ctrl-Z does not reach the workers, which are in process groups of their own.
 * We stop ourselves by SIGSTOP: unlike SIGTSTP, it works even if our process
 * group is orphaned. */
static void agent_on_suspend(void *owner)
{
	struct agent *a = owner;

	if (a->rdzv->max_nodes > 1 && a->state != LEAVING)
		log_warn("stopping: the other nodes count this one as lost "
			 "unless it resumes within %g s (--heartbeat-timeout)",
			 a->rdzv->heartbeat_s);
	worker_group_relay(&a->group, SIGSTOP);
	tty_suspend(&a->tty);
	kill(getpid(), SIGSTOP);
}

static void agent_on_continue(void *owner)
{
	struct agent *a = owner;

	tty_continue(&a->tty);
	worker_group_relay(&a->group, SIGCONT);
}

static const struct signals_events signals_events = {
	.on_child = agent_on_child,
	.on_end = agent_on_stop_signal,
	.on_forward = agent_on_forward,
	.on_warn = agent_on_warning_signal,
	.on_suspend = agent_on_suspend,
	.on_continue = agent_on_continue,
};

/* ---- from start to end ---- */

static int agent_make_marks(struct agent *a, struct err *e)
{
	char *id = a->mark + sizeof(AGENT_MARK) - 1;
	int rc = random_hex(id, AGENT_ID_BYTES, e);

	memcpy(a->mark, AGENT_MARK, sizeof(AGENT_MARK) - 1);
	a->marks.variable = a->mark;
	if (rc == 0)
		a->marks.locks = sweep_choose_locks(strtoull(id, NULL, 16));
	return rc;
}

static void agent_note_folder(void *owner, const char *path)
{
	struct agent *a = owner;

	guard_note_folder(&a->guard, GUARD_JOB_FOLDER, path);
}

/* Starts the guard, then makes the private folder, which the guard removes if
 * this process is killed. */
static int agent_start_guard(struct agent *a, struct err *e)
{
	int rc = guard_start(&a->guard, a->rdzv->nproc, &a->marks, e);

	a->logdir.note_private = agent_note_folder;
	a->logdir.owner = a;
	if (rc == 0)
		rc = logdir_init(&a->logdir, a->options->output, a->rdzv->job,
				 a->rdzv->nproc, e);
	output_watch_queue(&a->output, &a->logdir.queue);
	return rc;
}

static int agent_run_loop(struct agent *a, struct err *e)
{
	/* before there are signal handlers: Ctrl-C must end a slow look-up */
	int rc = member_init(&a->member, &a->loop, a->rdzv, agent_id(a),
			     &member_events, e);

	if (rc < 0)
		return rc;
	a->member.alike = SLICE(a->alike.data, a->alike.len);
	a->member.owner = a;
	a->shutdown.owner = a;
	a->shutdown.on_over = agent_on_grace;
	a->shutdown.on_sweep = agent_on_sweep;
	a->shutdown.marks = &a->marks;
	worker_shutdown_init(&a->shutdown, &a->loop, &a->group,
			     &a->failure.recorder);
	agent_start_time_limit(a);
	agent_init_backoff(a);
	agent_init_watch(a);
	agent_init_gpus(a);
	event_commands_init(&a->events, &a->loop, a->options->on_event,
			    a->rdzv->job);
	rc = exit_reports_init(&a->exit_reports, &a->loop, a->rdzv->nproc, e);
	input_init(&a->input, &a->loop, a->options->stdin_rank);
	a->input.is_copy = a->rdzv->env->copies_stdin;
	tty_init(&a->tty, &a->loop, &a->guard, a->options->tty_rank,
		 a->rdzv->env->lent_fd);
	if (a->options->tty_rank != TTY_NONE)
		output_lend_terminal(&a->output);
	if (rc == 0)
		rc = signals_start(
			&a->signals, &a->loop, &a->options->stop.ending,
			&a->options->forwarded, &a->options->stop.warning,
			&signals_events, a, e);
	launch_env_drop_early();
	if (rc == 0)
		rc = worker_group_init(&a->group, &a->loop, &a->output,
				       &a->input, &a->tty, &a->guard,
				       a->rdzv->nproc, e);
	a->group.on_closed = agent_on_empty;
	a->group.on_denied = agent_on_denied;
	a->group.on_started = agent_on_started;
	a->group.owner = a;
	a->group.locks = a->marks.locks;
	a->group.redirect_rules = (struct redirect_rules){
		.options = a->options->output, .log = &a->log_rules,
		.dir = &a->logdir};
	if (rc == 0) {
		agent_acts[ACT_JOIN](a);
		/* while the server starts */
		loop_watchdog_start(&a->loop);
		rc = agent_start_guard(a, e);
	}
	if (rc == 0) {
		failure_prepare(&a->failure);
		if (!a->options->stage) /* else from the copy */
			agent_start_preload(a);
		agent_mpi_prepare(a);
		uv_run(&a->loop, UV_RUN_DEFAULT);
	} else {
		member_close(&a->member);
	}
	launch_env_block_echoes(a->rdzv->env, &a->options->stop.ending,
				&a->options->stop.warning);
	signals_close(&a->signals);
	worker_shutdown_close(&a->shutdown);
	agent_close_watch(a);
	host_topology_close(&a->topology);
	gpu_monitor_close(&a->gpus);
	event_commands_close(&a->events);
	exit_reports_close(&a->exit_reports);
	uv_close((uv_handle_t *)&a->time_limit, NULL);
	uv_close((uv_handle_t *)&a->backoff_timer, NULL);
	return rc;
}

static const char *agent_role_of(void *arg, uint32_t rank)
{
	const struct agent *a = arg;
	const struct role *role = roles_of(a->options->failure.roles, rank);

	return role ? role->name : "";
}

static int agent_run_job(struct agent *a, struct err *e)
{
	int rc;

	/* orphans of our workers become our children, wherever they went */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	rc = loop_check(loop_init(&a->loop), e,
			"cannot create an event loop");
	if (rc < 0) {
		log_error("error: %s", e->text);
		return rc;
	}
	rc = output_init(&a->output, &a->loop, a->rdzv->nproc,
			 &a->log_rules, a->rdzv->role, e);
	if (rc < 0) {
		log_error("error: %s", e->text);
		uv_loop_close(&a->loop);
		return rc;
	}
	a->output.role_arg = a;
	a->output.role_of = a->options->failure.roles ? agent_role_of : NULL;
	rc = agent_run_loop(a, e);
	if (rc < 0 && a->member.connection.ended_by)
		log_info("%s: stopping", e->text);
	if (rc < 0 && !a->member.connection.ended_by) {
		log_error("error: %s", e->text);
		termination_log_write(SLICE_STR(e->text));
	}
	output_close(&a->output);
	uv_run(&a->loop, UV_RUN_DEFAULT);
	uv_loop_close(&a->loop);
	worker_group_release(&a->group);
	output_release(&a->output);
	return rc;
}

int agent_run(const struct agent_options *options,
	      const struct plan_parts *parts, const struct agent_unable *unable,
	      uint64_t open_files, struct agent_ended *ended)
{
	/* static: it is large, and a user's stack may be small (ulimit -s) */
	static struct agent a;
	struct err e = ERR_INIT;
	int rc;

	a.options = options;
	a.rdzv = &options->rdzv;
	a.parts = parts;
	a.unable = unable;
	a.open_files = open_files;
	a.exit_code = a.group.dev_null = a.topology.fd = -1;
	a.peers_fd = -1;
	a.guard = GUARD_NONE;
	failure_init(&a.failure, &options->failure, &a.logdir, &a.group);
	a.exit_reports = (struct exit_reports){
		.options = options, .stop = &a.stop, .failure = &a.failure,
		.member = &a.member, .watch = &a.watch,
		.on_unfit = agent_on_unfit, .start_again = agent_start_again,
		.owner = &a};
	rc = agent_make_marks(&a, &e);
	if (rc == 0)
		rc = agent_make_alike(&a, &e);
	if (rc == 0)
		rc = log_rules_init(&a.log_rules, options->output, &e);
	if (rc < 0) {
		log_error("error: %s", e.text);
	} else {
		rc = agent_run_job(&a, &e);
		if (logdir_remove(logdir_private(&a.logdir)) < 0)
			guard_finish(&a.guard);
		logdir_release(&a.logdir);
		guard_stop(&a.guard);
	}
	log_rules_release(&a.log_rules);
	gpu_monitor_release(&a.gpus);
	failure_release(&a.failure);
	worker_shutdown_release(&a.shutdown);
	exit_reports_release(&a.exit_reports);
	worker_ports_release(&a.ports);
	buf_release(&a.peers_text);
	if (a.peers_fd >= 0)
		close(a.peers_fd);
	buf_release(&a.alike);
	*ended = (struct agent_ended){a.ended_as_asked ? a.stop.level : 0,
				      a.stop.warned};
	if (rc < 0 && a.member.connection.ended_by)
		return launch_env_exit_code(options->rdzv.env,
					    a.member.connection.ended_by, 0);
	if (rc < 0)
		return exit_code_of(&e);
	return a.exit_code >= 0 ? a.exit_code : EXIT_INTERNAL;
}
