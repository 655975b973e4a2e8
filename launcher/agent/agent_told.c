/* agent_told.c: that the job is to stop, as this ddprun hears it: by signals,
 * by the end of Slurm's time, by the server for another that did. */
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/signal_name.h"
#include "launcher/agent/agent_inside.h"
#include "launcher/config/inferred.h"
#include "launcher/config/remote_node.h"

enum { LATER_MS = 1000 }; /* until a round runs that can be told */

static const char ssh_is_gone[] = "the ssh that started it has ended";

static void take_notice(struct agent *a, const struct notice *n,
		       const char *text)
{
	if (!notice_add(&a->notice, n))
		return;
	if (a->exit_code < 0)
		snprintf(a->stopping.cause, sizeof(a->stopping.cause), "%s",
			 text);
	agent_handle(a, n->level == WIRE_CUT ? EV_CUT : EV_NOTICE, text);
}

/* Over ssh a signal to the ddprun that was typed reaches all nodes, so that it
 * means the whole job. A node that got the signal itself goes alone, where the
 * number of nodes is not fixed. So does a node that lost its ssh: the server
 * knows whether the others, or a spare, can go on. */
static int means_all(const struct config *c)
{
	int alone = remote_node_is() && !remote_node_is_told();

	if (remote_node_is_cut_off())
		return 0;
	return inferred_hears_all(c) &&
	       !(alone && c->min_nodes < c->max_nodes);
}

/* This node's own: the others hear of it. */
static void give_notice(struct agent *a, const struct notice *n,
			const char *text)
{
	int cut_off = remote_node_is_cut_off();
	const struct wire_stop stop = {
		.level = n->level, .cause = cut_off ? WIRE_BY_SSH : n->cause,
		.whole = (uint8_t)means_all(a->config),
		.signal = n->signal, .grace_ms = n->grace_ms,
		.text = SLICE_STR(cut_off ? ssh_is_gone : text),
	};

	/* first, so that no worker's exit comes before it; adrift there is
	 * nobody to tell, and the workers have their time all the same */
	if (n->level > a->notice.level && !member_is_adrift(&a->member))
		member_stop(&a->member, &stop);
	take_notice(a, n, text);
}

void agent_on_stop(struct member *m, const struct wire_stop *stop)
{
	struct agent *a = m->owner;
	const struct notice n = notice_of_wire(stop);
	char text[ERR_TEXT_MAX];

	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(stop->text));
	take_notice(a, &n, text);
}

static void on_limit(uv_timer_t *t)
{
	struct agent *a = t->data;
	uint64_t now = (uint64_t)time(NULL), end = a->config->slurm.end_time;
	const struct notice n = notice_of_limit(a->config, now);
	char text[128];

	if (a->state == JOINING || a->state == RESTARTING) {
		uv_timer_start(t, on_limit, LATER_MS, 0);
		return;
	}
	snprintf(text, sizeof(text), "the time of Slurm's job %llu ends in "
		 "%llu s", (unsigned long long)a->config->slurm.job,
		 (unsigned long long)(end > now ? end - now : 0));
	if (a->state == RUNNING)
		give_notice(a, &n, text);
}

void agent_start_limit(struct agent *a)
{
	uint64_t ms = notice_due_ms(a->config, (uint64_t)time(NULL));

	uv_timer_init(&a->loop, &a->limit);
	a->limit.data = a;
	if (!ms)
		return;
	uv_timer_start(&a->limit, on_limit, ms, 0);
	uv_unref((uv_handle_t *)&a->limit);
}

/* Where nobody works the node goes by itself. */
static void leave_by(struct agent *a, int number, const char *cause)
{
	if (a->exit_code < 0) {
		log_info("%s: leaving", cause);
		if (remote_node_is_cut_off())
			member_leave(&a->member, 0, ssh_is_gone);
		else
			member_leave(&a->member, number, cause);
		agent_decide_exit(a, inferred_exit_code(a->config, number,
						  a->member.started), cause);
		a->stopping.signal = number;
	}
	agent_handle(a, EV_SIGNAL, cause);
}

static int has_work(const struct agent *a)
{
	return a->state == RUNNING || a->state == NOTICED ||
	       a->state == CUTTING ||
	       (a->state == JOINING && a->member.spare &&
		inferred_hears_all(a->config));
}

/* srun passes on to its tasks what Slurm has told them already; a person who
 * presses a key twice means it. */
static int is_said_twice(struct agent *a)
{
	uint64_t last = a->dismissed_ms, now = clock_ms();

	if (a->dismissed && now - last < NOTICE_ECHO_MS &&
	    inferred_says_twice(a->config))
		return 1;
	a->dismissed_ms = now;
	return 0;
}

void agent_on_end_signal(void *owner, int number)
{
	struct agent *a = owner;
	const struct notice n = notice_of_signal(a->config, number,
						 (uint64_t)time(NULL));
	char name[SIGNAL_NAME_MAX], cause[64];

	snprintf(cause, sizeof(cause), "got %s%s", signal_name(number, name),
		 remote_node_is_cut_off() ? ", its ssh being gone" : "");
	if (is_said_twice(a))
		log_debug("%s: it was said before", cause);
	else if (a->dismissed++)
		agent_handle(a, has_work(a) ? EV_CUT : EV_SIGNAL, cause);
	else if (a->exit_code > 0 && inferred_is_echo(a->config, number))
		log_debug("%s: this node stops already", cause);
	else if (has_work(a))
		give_notice(a, &n, cause);
	else
		leave_by(a, number, cause);
}

void agent_on_warn(void *owner, int number)
{
	struct agent *a = owner;
	const struct notice n = notice_of_signal(a->config, number,
						 (uint64_t)time(NULL));
	char name[SIGNAL_NAME_MAX], cause[64];

	snprintf(cause, sizeof(cause), "got %s", signal_name(number, name));
	if (has_work(a))
		give_notice(a, &n, cause);
}
