/* agent_state.c: the table. */
#include "launcher/agent/agent_state.h"

#include <assert.h>

#define EDGE(next_, act_) {.next = next_, .act = act_, .known = 1}

const char *const agent_state_names[] = {
	[JOINING] = "JOINING", [RUNNING] = "RUNNING",
	[NOTICED] = "NOTICED", [CUTTING] = "CUTTING",
	[RESTARTING] = "RESTARTING", [STOPPING] = "STOPPING",
	[LEAVING] = "LEAVING",
};
const char *const agent_event_names[] = {
	[EV_START] = "start", [EV_END] = "end", [EV_RESTART] = "restart",
	[EV_LOST] = "lost", [EV_SIGNAL] = "signal", [EV_EMPTY] = "empty",
	[EV_NOTICE] = "notice", [EV_CUT] = "cut",
	[EV_GRACE] = "grace",
};

static const struct agent_edge table[][EVENTS] = {
	[JOINING] = {
		[EV_START] = EDGE(RUNNING, ACT_START_WORKERS),
		[EV_END] = EDGE(LEAVING, ACT_LEAVE),
		[EV_LOST] = EDGE(LEAVING, ACT_LEAVE),
		[EV_SIGNAL] = EDGE(LEAVING, ACT_LEAVE),
		/* a spare, whose job it is all the same */
		[EV_NOTICE] = EDGE(NOTICED, ACT_NOTICE),
		[EV_CUT] = EDGE(LEAVING, ACT_LEAVE),
	},
	[RUNNING] = {
		[EV_END] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_RESTART] = EDGE(RESTARTING, ACT_STOP_WORKERS),
		[EV_LOST] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_NOTICE] = EDGE(NOTICED, ACT_NOTICE),
		[EV_CUT] = EDGE(CUTTING, ACT_CUT),
	},
	/* The end is the server's word, when all nodes have come to it. */
	[NOTICED] = {
		[EV_START] = EDGE(LEAVING, ACT_QUIT),
		[EV_END] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_RESTART] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_LOST] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_NOTICE] = EDGE(NOTICED, ACT_NOTICE),
		[EV_CUT] = EDGE(CUTTING, ACT_CUT),
		[EV_GRACE] = EDGE(CUTTING, ACT_CUT),
	},
	[CUTTING] = {
		[EV_END] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_RESTART] = EDGE(STOPPING, ACT_STOP_WORKERS),
		[EV_LOST] = EDGE(STOPPING, ACT_STOP_WORKERS),
		/* nobody answers, or nobody waits for it */
		[EV_GRACE] = EDGE(STOPPING, ACT_KILL_WORKERS),
		[EV_CUT] = EDGE(STOPPING, ACT_KILL_WORKERS),
	},
	[RESTARTING] = {
		[EV_EMPTY] = EDGE(JOINING, ACT_JOIN),
		[EV_GRACE] = EDGE(RESTARTING, ACT_KILL_WORKERS),
		[EV_END] = EDGE(STOPPING, ACT_NONE),
		[EV_LOST] = EDGE(STOPPING, ACT_NONE),
		[EV_SIGNAL] = EDGE(STOPPING, ACT_STOP_WORKERS),
	},
	[STOPPING] = {
		[EV_EMPTY] = EDGE(LEAVING, ACT_LEAVE),
		[EV_GRACE] = EDGE(STOPPING, ACT_KILL_WORKERS),
		[EV_SIGNAL] = EDGE(STOPPING, ACT_KILL_WORKERS),
		[EV_CUT] = EDGE(STOPPING, ACT_KILL_WORKERS),
	},
	[LEAVING] = {
		[EV_GRACE] = EDGE(LEAVING, ACT_HURRY),
		[EV_SIGNAL] = EDGE(LEAVING, ACT_HURRY),
		[EV_CUT] = EDGE(LEAVING, ACT_HURRY),
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
