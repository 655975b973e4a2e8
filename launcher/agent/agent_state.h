/* agent_state.h: the agent's table of states and events: what follows on what,
 * and which action goes with it. Pure; agent.c has the actions. */
#ifndef LAUNCHER_AGENT_STATE_H
#define LAUNCHER_AGENT_STATE_H

#include <stdio.h>

enum agent_state {
	JOINING, RUNNING,
	NOTICED,    /* the workers were told to stop, and the others', too */
	CUTTING,    /* all are being killed */
	RESTARTING, STOPPING, LEAVING, STATES
};

enum agent_event {
	EV_START,        /* the server: a round begins */
	EV_END,          /* the server: the job is over */
	EV_RESTART,      /* the server: the round is over, another follows */
	EV_LOST,         /* no server, or not for us */
	EV_SIGNAL,       /* one of --signals-to-handle, where nobody works */
	EV_NOTICE,       /* the job is to stop */
	EV_CUT,          /* and at once */
	EV_EMPTY,        /* no process of the round is left */
	EV_GRACE,        /* the time to stop by oneself is over */
	EVENTS
};

/* Done after the state is set. */
enum agent_act {
	ACT_NONE, ACT_JOIN, ACT_START_WORKERS, ACT_STOP_WORKERS,
	ACT_KILL_WORKERS, ACT_NOTICE, ACT_CUT, ACT_QUIT, ACT_LEAVE, ACT_HURRY,
	ACTS
};

struct agent_edge {
	enum agent_state next;
	enum agent_act act;
	int known; /* 0: such an event is ignored: it came too late to matter */
};

const struct agent_edge *agent_edge(enum agent_state s, enum agent_event ev);

extern const char *const agent_state_names[STATES];
extern const char *const agent_event_names[EVENTS];

/* The table, for people. */
void agent_print_states(FILE *f);

#endif
