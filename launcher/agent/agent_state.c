/* agent_state.c: the agent's state table. */
#include "launcher/agent/agent_state.h"

#include <assert.h>

#define EDGE(next_, act_) {.next = next_, .act = act_, .known = 1}

const char *const agent_state_names[] = {
	[JOINING] = "JOINING", [PRELOADING] = "PRELOADING",
	[RUNNING] = "RUNNING",
	[NOTIFIED] = "NOTIFIED", [KILLING] = "KILLING",
	[RESTARTING] = "RESTARTING", [BACKOFF] = "BACKOFF",
	[STOPPING] = "STOPPING", [LEAVING] = "LEAVING",
};
const char *const agent_event_names[] = {
	[EV_WAIT] = "wait",
	[EV_START] = "start", [EV_END] = "end", [EV_RESTART] = "restart",
	[EV_LOST] = "lost", [EV_SIGNAL] = "signal", [EV_EMPTY] = "empty",
	[EV_STOP] = "stop", [EV_KILL] = "kill",
	[EV_GRACE] = "grace", [EV_DUE] = "due",
};

static const struct agent_edge table[][EVENTS] = {
	[JOINING] = {
		[EV_WAIT] = EDGE(PRELOADING, ACT_NONE),
		[EV_START] = EDGE(RUNNING, ACT_START_WORKERS),
		[EV_END] = EDGE(LEAVING, ACT_LEAVE),
		[EV_LOST] = EDGE(LEAVING, ACT_LEAVE),
		[EV_SIGNAL] = EDGE(LEAVING, ACT_LEAVE),
		/* a spare: it belongs to the job that is to stop */
		[EV_STOP] = EDGE(NOTIFIED, ACT_NOTIFY_WORKERS),
		[EV_KILL] = EDGE(LEAVING, ACT_LEAVE),
	},
	[PRELOADING] = {
		[EV_START] = EDGE(RUNNING, ACT_START_WORKERS),
		[EV_END] = EDGE(LEAVING, ACT_LEAVE),
		[EV_RESTART] = EDGE(BACKOFF, ACT_BACK_OFF),
		[EV_LOST] = EDGE(LEAVING, ACT_LEAVE),
		[EV_STOP] = EDGE(LEAVING, ACT_DECLINE),
		[EV_KILL] = EDGE(LEAVING, ACT_DECLINE),
	},
	[RUNNING] = {
		[EV_END] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_RESTART] = EDGE(RESTARTING, ACT_STOP_WORKERS),
		[EV_LOST] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_STOP] = EDGE(NOTIFIED, ACT_NOTIFY_WORKERS),
		[EV_KILL] = EDGE(KILLING, ACT_KILL_JOB),
	},
	/* The server ends the job once the workers of all nodes have exited. */
	[NOTIFIED] = {
		[EV_START] = EDGE(LEAVING, ACT_DECLINE),
		[EV_END] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_RESTART] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_LOST] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_STOP] = EDGE(NOTIFIED, ACT_NOTIFY_WORKERS),
		[EV_KILL] = EDGE(KILLING, ACT_KILL_JOB),
		[EV_GRACE] = EDGE(KILLING, ACT_KILL_JOB),
	},
	[KILLING] = {
		/* a spare, which has no workers yet */
		[EV_START] = EDGE(LEAVING, ACT_DECLINE),
		[EV_END] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_RESTART] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_LOST] = EDGE(STOPPING, ACT_STOP_WORKERS),
		/* the server does not answer, or the user does not wait */
		[EV_GRACE] = EDGE(STOPPING, ACT_KILL_WORKERS),
		[EV_KILL] = EDGE(STOPPING, ACT_KILL_WORKERS),
	},
	[RESTARTING] = {
		[EV_EMPTY] = EDGE(BACKOFF, ACT_BACK_OFF),
		[EV_GRACE] = EDGE(RESTARTING, ACT_KILL_WORKERS),
		[EV_END] = EDGE(STOPPING, ACT_NONE),
		[EV_LOST] = EDGE(STOPPING, ACT_NONE),
		[EV_SIGNAL] = EDGE(STOPPING, ACT_STOP_WORKERS),
	},
	[BACKOFF] = {
		[EV_DUE] = EDGE(JOINING, ACT_JOIN),
		[EV_END] = EDGE(LEAVING, ACT_LEAVE),
		[EV_LOST] = EDGE(LEAVING, ACT_LEAVE),
		[EV_SIGNAL] = EDGE(LEAVING, ACT_LEAVE),
		[EV_KILL] = EDGE(LEAVING, ACT_LEAVE),
	},
	[STOPPING] = {
		[EV_EMPTY] = EDGE(LEAVING, ACT_LEAVE),
		[EV_GRACE] = EDGE(STOPPING, ACT_KILL_WORKERS),
		[EV_SIGNAL] = EDGE(STOPPING, ACT_KILL_WORKERS),
		[EV_KILL] = EDGE(STOPPING, ACT_KILL_WORKERS),
	},
	[LEAVING] = {
		[EV_GRACE] = EDGE(LEAVING, ACT_FORCE_EXIT),
		[EV_SIGNAL] = EDGE(LEAVING, ACT_FORCE_EXIT),
		[EV_KILL] = EDGE(LEAVING, ACT_FORCE_EXIT),
	},
};
static_assert(sizeof(table) / sizeof(*table) == STATES, "a row for each state");

const struct agent_edge *agent_edge(enum agent_state s, enum agent_event ev)
{
	return &table[s][ev];
}

void agent_print_states(FILE *f)
{
	for (int s = 0; s < STATES; s++) {
		for (int ev = 0; ev < EVENTS; ev++) {
			if (table[s][ev].known)
				fprintf(f, "%-10s %-8s -> %s\n",
					agent_state_names[s],
					agent_event_names[ev],
					agent_state_names[table[s][ev].next]);
		}
	}
}
