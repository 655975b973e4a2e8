/* job_stop.c: a request to stop the job: what it adds to earlier ones, and what
 * the workers' exits mean afterwards. Several agents may report the same stop;
 * the job is asked once. */
#include <signal.h>
#include <stdio.h>

#include "rendezvous/round/job_internal.h"

static void job_stop_set_text(const struct job_node *n,
			      const struct wire_stop *m, char *out, size_t size)
{
	char name[300], sig[SIGNAL_NAME_MAX];

	if (m->cause == WIRE_BY_LIMIT)
		snprintf(out, size, "%.*s", SLICE_FMT(m->text));
	else if (m->cause == WIRE_BY_SSH)
		snprintf(out, size, "%s left: %.*s", node_name(n, name),
			 SLICE_FMT(m->text));
	else if (m->signal > 0)
		snprintf(out, size, "%s received %s", node_name(n, name),
			 signal_name(m->signal, sig));
	else
		snprintf(out, size, "%s was asked to stop: %.*s",
			 node_name(n, name), SLICE_FMT(m->text));
}

void job_stop_handle(struct job *j, const struct job_node *n,
		     const struct wire_stop *m)
{
	struct job_stop_order *t = &j->stop_order;
	int number = m->signal > 0 ? m->signal & 127 : SIGTERM;

	if (m->level <= t->level || m->level > WIRE_CUT)
		return;
	job_stop_set_text(n, m, t->text, sizeof(t->text));
	if (!t->level) {
		snprintf(t->first, sizeof(t->first), "%s", t->text);
		t->exit_code = 128 + number;
	}
	t->level = m->level;
	t->cause = m->cause;
	t->signal = m->signal;
	t->grace_ms = m->grace_ms;
	transition_act(j, (struct job_action){.kind = JOB_TELL_STOP});
}

int job_stop_for(const struct job *j, const struct job_node *n,
		 struct wire_stop *m)
{
	const struct job_stop_order *t = &j->stop_order;

	*m = (struct wire_stop){
		.level = t->level, .cause = t->cause, .whole = 1,
		.signal = t->signal, .grace_ms = t->grace_ms,
		.text = SLICE_STR(t->text),
	};
	return n->place != NODE_GONE;
}

/* Once the stop has killed a rank, its peers may fail in any way. A rank that
 * ended cleanly explains no failure. */
int job_stop_explains(struct job *j, const struct wire_exited *m)
{
	if (!j->stop_order.level)
		return 0;
	j->stop_order.stopped += m->stopped != 0;
	j->stop_order.killed += m->stopped && m->signal;
	return j->stop_order.killed > 0;
}

int job_stop_ends(struct job *j)
{
	if (!j->stop_order.level || !j->stop_order.stopped)
		return 0;
	end_cause_other(j, NULL, WIRE_ENDED, j->stop_order.exit_code, "%s",
		    j->stop_order.first);
	return 1;
}
