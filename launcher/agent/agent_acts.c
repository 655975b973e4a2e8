/* agent_acts.c: what the agent does when it enters a state. */
#include <assert.h>
#include <signal.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/agent/agent_inside.h"

enum {
	CUT_MS = 5000,         /* from a kill on all nodes to their end */
	SERVER_GOES_MS = 8000, /* ddprdzv itself gives its members 5 s */
	STANDBY_GOES_MS = 250, /* it may have to see to what another left */
};

void agent_decide_exit(struct agent *a, int code, const char *cause)
{
	if (a->exit_code >= 0)
		return;
	a->exit_code = code;
	if (cause)
		snprintf(a->stopping.cause, sizeof(a->stopping.cause), "%s",
			 cause);
}

static uint32_t grace_ms(const struct agent *a)
{
	double ms = a->config->grace_s * 1000;

	return ms < (double)INT32_MAX ? (uint32_t)ms : INT32_MAX;
}

/* Orphans of the workers have become our children: they go, too. When nobody is
 * left the round is over on this node. */
void agent_sweep(struct agent *a)
{
	const pid_t ours[] = {a->guard.pid, member_server_pid(&a->member)};

	stopping_sweep(&a->stopping, ours, 2);
}

static void stop_workers(struct agent *a)
{
	a->stopping.far = 0;
	stopping_begin(&a->stopping);
	stopping_signal(&a->stopping);
	/* who was noticed has his time already */
	if (!stopping_gives(&a->stopping) || !a->notice.level)
		stopping_give(&a->stopping, grace_ms(a));
	agent_sweep(a);
}

static void kill_workers(struct agent *a)
{
	stopping_kill(&a->stopping);
	agent_sweep(a);
}

/* In a step of Slurm's all its ddpruns hear the same: one says it. */
static void say_notice(const struct agent *a, uint32_t n)
{
	const struct allocation *slurm = &a->config->slurm;

	if (slurm->place == ALLOCATION_STEP)
		n = slurm->node_rank == 0 ? a->world_size : 0;
	if (n && !a->notice.signal)
		log_info("%s: workers that ask are told", a->stopping.cause);
	else if (n)
		log_info("%s: stopping %u worker%s%s", a->stopping.cause, n,
			 n == 1 ? "" : "s", a->dismissed ?
			 " (again kills them at once)" : "");
}

/* Those of the other nodes are told by the server. */
static void notice_workers(struct agent *a)
{
	if (a->notice.level >= WIRE_STOPPED)
		a->stopping.signal = a->notice.signal;
	a->stopping.far = a->nnodes > 1 && !member_is_adrift(&a->member);
	say_notice(a, stopping_tell(&a->stopping, a->notice.signal));
	stopping_give(&a->stopping, a->notice.grace_ms);
	exits_flush(&a->exits);
}

/* All nodes kill their workers: what the server then says is the end. */
static void cut(struct agent *a)
{
	const struct wire_stop stop = {
		.level = WIRE_CUT, .whole = 1, .signal = SIGKILL,
		.text = SLICE_STR(a->stopping.cause),
	};

	member_stop(&a->member, &stop);
	a->notice.level = WIRE_CUT;
	stopping_kill(&a->stopping);
	exits_flush(&a->exits);
	stopping_wait(&a->stopping, CUT_MS);
}

static void join(struct agent *a)
{
	a->times.empty = clock_ns();
	stopping_end(&a->stopping);
	a->stopping.signal = SIGTERM;
	member_join(&a->member);
}

/* The last process to wait for is the server, which still tells other nodes.
 * Then there may be a reader who does not read what we have: it is waited for
 * as long as it takes, but no longer than the grace if we were told to go. */
void agent_watch_server(struct agent *a)
{
	if (member_server_pid(&a->member))
		return;
	signals_unref_child(&a->signals);
	stopping_end(&a->stopping);
	if (!a->dismissed)
		return;
	stopping_wait(&a->stopping, grace_ms(a) + 1);
	uv_unref((uv_handle_t *)&a->stopping.timer);
}

static void leave(struct agent *a)
{
	struct slice page = failure_tell(&a->failure);

	if (a->notice.level) /* else it is known, or was decided */
		agent_decide_exit(a, a->notice.exit_code, NULL);
	uv_timer_stop(&a->limit);
	member_close(&a->member);
	input_close(&a->input);
	if (page.len)
		output_print(&a->output, page.data, page.len);
	output_close(&a->output);
	stopping_wait(&a->stopping, member_server_stands_by(&a->member) ?
		      STANDBY_GOES_MS : SERVER_GOES_MS);
	agent_watch_server(a);
}

/* A round begins with this node, whose user has told it to stop meanwhile. */
static void quit(struct agent *a)
{
	member_leave(&a->member, a->notice.exit_code - 128, a->stopping.cause);
	leave(a);
}

/* Whoever is impatient, or too late. */
static void hurry(struct agent *a)
{
	if (member_server_stands_by(&a->member)) {
		member_leave_server(&a->member);
		agent_watch_server(a);
	} else if (member_server_pid(&a->member)) {
		kill(member_server_pid(&a->member), SIGKILL);
	}
	if (a->dismissed)
		output_abandon(&a->output);
}

void (*const agent_acts[])(struct agent *a) = {
	[ACT_NONE] = NULL, [ACT_JOIN] = join,
	[ACT_START_WORKERS] = agent_start_workers,
	[ACT_STOP_WORKERS] = stop_workers, [ACT_KILL_WORKERS] = kill_workers,
	[ACT_NOTICE] = notice_workers, [ACT_CUT] = cut, [ACT_QUIT] = quit,
	[ACT_LEAVE] = leave, [ACT_HURRY] = hurry,
};
static_assert(sizeof(agent_acts) / sizeof(*agent_acts) == ACTS,
	      "what is done for each");
