/* agent_stop.c: requests to stop the job: from signals, from Slurm's time
 * limit, and from other nodes through the server. */
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/agent/agent_internal.h"
#include "launcher/env/launch_env.h"
#include "launcher/failure/exit_code.h"

enum { RETRY_MS = 1000 }; /* until a round runs that can be stopped */

static const char ssh_is_gone[] ="the ssh that started it has ended";

static void agent_accept_stop(struct agent *a, const struct stop_request *n,
			      const char *text)
{
	int is_stopping = a->stop.level >= WIRE_STOPPED;

	if (!stop_request_merge(&a->stop, n))
		return;
	/* the final kill is not the cause of the stop */
	if (a->exit_code < 0 && !(is_stopping && n->level == WIRE_CUT))
		snprintf(a->shutdown.cause, sizeof(a->shutdown.cause), "%s",
			 text);
	agent_handle(a, n->level == WIRE_CUT ? EV_KILL : EV_STOP, text);
}

/* Whether a request to this node concerns the whole job. Over ssh it does,
 * because the head sends a signal to all nodes. A node of an elastic job that
 * gets the signal itself leaves alone. So does a node that lost its ssh: the
 * server knows whether the other nodes, or a spare, can continue. */
static int agent_stops_job(const struct agent *a)
{
	const struct launch_env *env = a->rdzv->env;

	if (launch_env_is_gone(env))
		return 0;
	return env->signals_reach_all &&
	       (launch_env_passed_signal(env) ||
		a->rdzv->min_nodes == a->rdzv->max_nodes);
}

void agent_send_stop(struct agent *a, const struct stop_request *n,
		     const char *text)
{
	int cut_off = launch_env_is_gone(a->rdzv->env);
	const struct wire_stop stop = {
		.level = n->level, .cause = cut_off ? WIRE_BY_SSH : n->cause,
		.whole = (uint8_t)agent_stops_job(a),
		.signal = n->signal, .grace_ms = n->grace_ms,
		.text = SLICE_STR(cut_off ? ssh_is_gone : text),
	};

	member_stop(&a->member, &stop);
}

/* A request that reached this node: reports it to the server, and obeys. */
static void agent_request_stop(struct agent *a, const struct stop_request *n,
			       const char *text)
{
	/* first, so that no worker's exit is reported before it; without a
	 * server, the workers get the same grace period */
	if (n->level > a->stop.level && !member_is_detached(&a->member))
		agent_send_stop(a, n, text);
	agent_accept_stop(a, n, text);
}

void agent_on_stop(struct member *m, const struct wire_stop *stop)
{
	struct agent *a = m->owner;
	const struct stop_request n = stop_request_of_wire(stop);
	char text[ERR_TEXT_MAX];

	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(stop->text));
	agent_accept_stop(a, &n, text);
}

static void agent_stop_on_time_limit(uv_timer_t *t)
{
	struct agent *a = t->data;
	uint64_t now = (uint64_t)time(NULL), end = a->rdzv->env->end_time;
	const struct stop_request n =
		stop_request_of_limit(&a->options->stop, now);
	char text[128];

	if (a->state == JOINING || a->state == PRELOADING ||
	    a->state == RESTARTING || a->state == BACKOFF) {
		uv_timer_start(t, agent_stop_on_time_limit, RETRY_MS, 0);
		return;
	}
	snprintf(text, sizeof(text), "the time of %s ends in %llu s",
		 a->rdzv->env->job_title,
		 (unsigned long long)(end > now ? end - now : 0));
	if (a->state == RUNNING)
		agent_request_stop(a, &n, text);
}

void agent_start_time_limit(struct agent *a)
{
	uint64_t ms =
		stop_request_due_ms(&a->options->stop, (uint64_t)time(NULL));

	uv_timer_init(&a->loop, &a->time_limit);
	a->time_limit.data = a;
	if (!ms)
		return;
	uv_timer_start(&a->time_limit, agent_stop_on_time_limit, ms, 0);
	uv_unref((uv_handle_t *)&a->time_limit);
}

void agent_on_unfit(void *owner, struct slice why)
{
	struct agent *a = owner;
	char text[ERR_TEXT_MAX];

	if (a->exit_code >= 0)
		return;
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(why));
	log_error("error: %s; leaving the job", text);
	member_leave(&a->member, 0, text);
	agent_decide_exit(a, EXIT_UNFIT, text);
	agent_handle(a, EV_LOST, text);
}

/* No workers run here: the node leaves the job alone. */
static void agent_leave_by_signal(struct agent *a, int number,
				  const char *cause)
{
	int code;

	if (a->exit_code < 0) {
		log_info("%s: leaving", cause);
		if (launch_env_is_gone(a->rdzv->env))
			member_leave(&a->member, 0, ssh_is_gone);
		else
			member_leave(&a->member, number, cause);
		code = launch_env_exit_code(a->rdzv->env, number,
					    member_has_started(&a->member));
		agent_decide_exit(a, code, cause);
		a->shutdown.signal = number;
	}
	agent_handle(a, EV_SIGNAL, cause);
}

/* Else there is nothing to stop here: the node leaves alone. A spare does so
 * too, unless its signal means the whole job: the server answers no node that
 * it does not need. */
static int agent_has_work(const struct agent *a)
{
	return a->state == PRELOADING || a->state == RUNNING ||
	       a->state == NOTIFIED || a->state == KILLING ||
	       (a->state == JOINING && member_is_spare(&a->member) &&
		agent_stops_job(a));
}

/* srun forwards signals that Slurm has sent to its tasks already. A user who
 * presses Ctrl-C twice means it. */
static int agent_is_repeated(struct agent *a)
{
	uint64_t last = a->stop_signal_ms, now = clock_ms();

	if (a->stop_signals && now - last < STOP_ECHO_MS &&
	    a->rdzv->env->says_twice)
		return 1;
	a->stop_signal_ms = now;
	return 0;
}

static void agent_request_stop_by_signal(struct agent *a, int number,
					 const char *cause)
{
	const struct stop_request n = stop_request_of_signal(
		&a->options->stop, number, (uint64_t)time(NULL));

	agent_request_stop(a, &n, cause);
}

void agent_on_stop_signal(void *owner, int number)
{
	struct agent *a = owner;
	char name[SIGNAL_NAME_MAX], cause[64];

	snprintf(cause, sizeof(cause), "got %s%s", signal_name(number, name),
		 launch_env_is_gone(a->rdzv->env) ? " after its ssh ended"
						     : "");
	if (agent_is_repeated(a))
		log_debug("%s: repeated by srun, ignored", cause);
	else if (a->stop_signals++)
		agent_handle(a, agent_has_work(a) ? EV_KILL : EV_SIGNAL, cause);
	else if (a->exit_code > 0 &&
		 launch_env_is_echo(a->rdzv->env, number))
		log_debug("%s: this node is stopping already", cause);
	else if (agent_has_work(a))
		agent_request_stop_by_signal(a, number, cause);
	else
		agent_leave_by_signal(a, number, cause);
}

void agent_on_warning_signal(void *owner, int number)
{
	struct agent *a = owner;
	char name[SIGNAL_NAME_MAX], cause[64];

	snprintf(cause, sizeof(cause), "got %s", signal_name(number, name));
	if (agent_has_work(a))
		agent_request_stop_by_signal(a, number, cause);
}
