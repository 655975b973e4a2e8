/* agent_acts.c: the actions of the agent's state table, and what JOIN says of
 * this node. */
#include <assert.h>
#include <signal.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/agent/agent_internal.h"
#include "launcher/plan/framework.h"

enum {
	KILL_JOB_MS = 5000,     /* time for all nodes to kill their workers */
	SERVER_EXIT_MS = 8000,  /* ddprdzv itself gives its members 5 s */
	STANDBY_EXIT_MS = 250,  /* it may have to clean up for the leader */
};

void agent_decide_exit(struct agent *a, int code, const char *cause)
{
	if (a->exit_code >= 0)
		return;
	a->exit_code = code;
	if (cause)
		snprintf(a->shutdown.cause, sizeof(a->shutdown.cause), "%s",
			 cause);
}

static uint32_t agent_grace_ms(const struct agent *a)
{
	double ms = a->options->stop.shutdown_timeout_s * 1000;

	return ms < (double)INT32_MAX ? (uint32_t)ms : INT32_MAX;
}

/* The round is over on this node when no orphan of its workers is left. */
void agent_sweep(struct agent *a)
{
	const pid_t ours[] = {a->guard.pid, member_server_pid(&a->member),
			      pmix_service_pid(a->pmix),
			      preload_pid(&a->preload), a->topology.pid};

	worker_shutdown_sweep(&a->shutdown, ours, 5);
}

void agent_stop_workers(struct agent *a)
{
	a->shutdown.is_far = 0;
	host_topology_cancel(&a->topology);
	agent_end_watch(a);
	worker_shutdown_begin(&a->shutdown);
	worker_shutdown_signal(&a->shutdown);
	/* workers that were notified already have a deadline */
	if (!worker_shutdown_has_grace(&a->shutdown) || !a->stop.level)
		worker_shutdown_set_grace(&a->shutdown, agent_grace_ms(a));
	agent_sweep(a);
}

static void agent_kill_workers(struct agent *a)
{
	worker_shutdown_kill(&a->shutdown);
	agent_sweep(a);
}

/* In a Slurm step every ddprun gets the same request: only the first logs it.
 */
static void agent_log_stop(const struct agent *a, uint32_t n)
{
	const struct launch_env *env = a->rdzv->env;

	if (env->shares_console)
		n = env->node_rank == 0 ? a->world_size : 0;
	if (n && !a->stop.signal)
		log_info("%s: workers that poll ddp_should_stop() are notified",
			 a->shutdown.cause);
	else if (n)
		log_info("%s: stopping %u worker%s%s", a->shutdown.cause, n,
			 n == 1 ? "" : "s",
			 a->stop_signals
				 ? " (a second signal kills them at once)"
				 : "");
}

/* The server passes the request on to the other nodes. */
static void agent_notify_workers(struct agent *a)
{
	host_topology_cancel(&a->topology);
	if (a->stop.level >= WIRE_STOPPED)
		a->shutdown.signal = a->stop.signal;
	a->shutdown.is_far = a->nnodes > 1 && !member_is_detached(&a->member);
	agent_log_stop(a, worker_shutdown_notify(&a->shutdown, a->stop.signal));
	worker_shutdown_set_grace(&a->shutdown, a->stop.grace_ms);
	exit_reports_flush(&a->exit_reports);
}

/* All nodes kill their workers, or this one alone (agent_stops_job); the server
 * then ends the job, or regroups. */
static void agent_kill_job(struct agent *a)
{
	const struct stop_request n = {.level = WIRE_CUT, .signal = SIGKILL};

	agent_send_stop(a, &n, a->shutdown.cause);
	a->stop.level = WIRE_CUT;
	host_topology_cancel(&a->topology);
	worker_shutdown_kill(&a->shutdown);
	exit_reports_flush(&a->exit_reports);
	worker_shutdown_wait(&a->shutdown, KILL_JOB_MS);
}

static void agent_acts_on_backoff_over(uv_timer_t *t)
{
	agent_handle(t->data, EV_DUE, "the backoff is over");
}

void agent_init_backoff(struct agent *a)
{
	restart_backoff_init(&a->backoff, a->rdzv->backoff_s);
	uv_timer_init(&a->loop, &a->backoff_timer);
	a->backoff_timer.data = a;
}

/* No process of the round is left. */
static void agent_back_off(struct agent *a)
{
	a->times.empty = clock_ns();
	worker_shutdown_end_grace(&a->shutdown);
	if (a->wait_ms)
		uv_timer_start(&a->backoff_timer, agent_acts_on_backoff_over,
			       a->wait_ms, 0);
	else
		agent_handle(a, EV_DUE, "there is no backoff");
}

/* ---- joining ----
 *
 * JOIN names the options of this node that all nodes of a job must have alike:
 * the server refuses a node that differs, and names it. For example, nodes
 * without --env tf would let the others wait for their workers' ports. */

enum { VALUE_MAX = 2000, TEXT_MAX = 1 << 20 };

/* FNV-1a */
static uint32_t agent_alike_hash(const struct buf *text)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < text->len; i++)
		hash = (hash ^ (unsigned char)text->data[i]) * 16777619u;
	return hash;
}

/* Cuts a long value at a blank, and appends a hash of all of it. */
static void agent_alike_cut(struct buf *text)
{
	uint32_t hash = agent_alike_hash(text);
	size_t n = VALUE_MAX;

	if (text->len <= VALUE_MAX)
		return;
	while (n && text->data[n] != ' ')
		n--;
	text->len = n;
	buf_printf(text, "%sand more (%08x)", n ? " " : "", hash);
}

/* Adds an option, and empties the text. */
static void agent_alike_add(struct agent *a, const char *name, struct buf *text)
{
	struct wire_option o = {.name = SLICE_STR(name)};

	agent_alike_cut(text);
	o.value = SLICE(text->data, text->len);
	if (text->failed)
		a->alike.failed = text->failed;
	else
		wire_put_option(&a->alike, &o);
	buf_reset(text);
}

static void agent_alike_put_optional(const struct roles *roles,
				     struct buf *text)
{
	for (uint32_t i = 0; roles && i < roles->n; i++) {
		if (roles->list[i].is_optional)
			buf_printf(text, "%s%s", text->len ? " " : "",
				   roles->list[i].name);
	}
}

/* Unknown if this node cannot run workers: then it joins only to report why. */
static void agent_alike_add_mpi(struct agent *a, struct buf *text)
{
	if (!a->parts)
		return;
	buf_printf(text, "%s", a->parts->serves_pmi    ? "pmi"
			       : a->parts->serves_pmix ? "pmix"
						       : "none");
	agent_alike_add(a, "--mpi", text);
}

int agent_make_alike(struct agent *a, struct err *e)
{
	const struct roles *roles = a->options->failure.roles;
	struct buf text = BUF_INIT(TEXT_MAX);

	buf_init(&a->alike, WIRE_ALIKE_MAX);
	if (roles)
		roles_put(&text, roles, 0);
	agent_alike_add(a, "roles", &text);
	agent_alike_put_optional(roles, &text);
	agent_alike_add(a, "--role-optional", &text);
	framework_put_names(a->options->frameworks, &text);
	agent_alike_add(a, "--env", &text);
	agent_alike_add_mpi(a, &text);
	if (a->options->stage)
		buf_printf(&text, "%s", a->options->stage);
	agent_alike_add(a, "--stage", &text);
	buf_release(&text);
	return a->alike.failed ? err_no_memory(e, "the options of this node")
			       : 0;
}

static void agent_join(struct agent *a)
{
	a->times.joined = clock_ns();
	a->shutdown.signal = SIGTERM;
	member_join(&a->member, watch_steps(&a->watch));
}

/* ---- leaving ---- */

/* The last process to wait for is the server, which is still notifying other
 * nodes. After it, only unread output can keep us: we wait for its reader
 * without a limit, but after a stop signal no longer than the grace period. */
void agent_watch_server(struct agent *a)
{
	if (member_server_pid(&a->member))
		return;
	signals_unref_child(&a->signals);
	worker_shutdown_end_grace(&a->shutdown);
	if (!a->stop_signals)
		return;
	worker_shutdown_wait(&a->shutdown, agent_grace_ms(a) + 1);
	uv_unref((uv_handle_t *)&a->shutdown.timer);
}

/* While the server ends. */
static void agent_end_guard(struct agent *a)
{
	if (logdir_remove(logdir_private(&a->logdir)) == 0)
		guard_dismiss(&a->guard);
}

static void agent_leave(struct agent *a)
{
	struct slice page;

	agent_record_ends(a);
	page = failure_report(&a->failure);
	agent_end_watch(a);
	event_commands_end(&a->events);
	if (a->stop.level) /* else it was decided already */
		agent_decide_exit(a, a->stop.exit_code, NULL);
	uv_timer_stop(&a->time_limit);
	uv_timer_stop(&a->backoff_timer);
	agent_peers_end(a);
	agent_mpi_end(a);
	agent_stage_end(a);
	preload_close(&a->preload);
	member_close(&a->member);
	input_close(&a->input);
	tty_close(&a->tty);
	if (page.len)
		output_print(&a->output, page.data, page.len);
	output_close(&a->output);
	worker_shutdown_wait(&a->shutdown, member_server_stands_by(&a->member) ?
			     STANDBY_EXIT_MS : SERVER_EXIT_MS);
	agent_end_guard(a);
	agent_watch_server(a);
}

/* A round begins, but this node was asked to stop in the meantime. */
static void agent_decline(struct agent *a)
{
	member_leave(&a->member, a->stop.exit_code - 128, a->shutdown.cause);
	agent_leave(a);
}

/* A second signal, or the server took too long to exit. */
static void agent_force_exit(struct agent *a)
{
	if (member_server_stands_by(&a->member)) {
		member_leave_server(&a->member);
		agent_watch_server(a);
	} else if (member_server_pid(&a->member)) {
		kill(member_server_pid(&a->member), SIGKILL);
	}
	if (a->stop_signals)
		output_abandon(&a->output);
}

void (*const agent_acts[])(struct agent *a) = {
	[ACT_NONE] = NULL, [ACT_JOIN] = agent_join,
	[ACT_BACK_OFF] = agent_back_off,
	[ACT_START_WORKERS] = agent_start_round,
	[ACT_STOP_WORKERS] = agent_stop_workers,
	[ACT_KILL_WORKERS] = agent_kill_workers,
	[ACT_NOTIFY_WORKERS] = agent_notify_workers,
	[ACT_KILL_JOB] = agent_kill_job, [ACT_DECLINE] = agent_decline,
	[ACT_LEAVE] = agent_leave, [ACT_FORCE_EXIT] = agent_force_exit,
};
static_assert(sizeof(agent_acts) / sizeof(*agent_acts) == ACTS,
	      "a row for each action");
