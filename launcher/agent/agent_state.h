/* agent_state.h: the agent's table of states, events and actions. Pure: the
 * actions are in agent_acts.c. */
#ifndef LAUNCHER_AGENT_STATE_H
#define LAUNCHER_AGENT_STATE_H

#include <stdio.h>

enum agent_state {
	JOINING,
	PRELOADING, /* a round has begun; its workers wait for --stage or
		     * --preload */
	RUNNING,
	NOTIFIED,   /* the workers of all nodes were asked to stop */
	KILLING,    /* the workers of all nodes are being killed */
	RESTARTING, /* the round's workers are being stopped */
	BACKOFF,    /* they are gone; waits for --restart-backoff */
	STOPPING, LEAVING, STATES
};

enum agent_event {
	EV_WAIT,         /* a round begins, but its workers must wait */
	EV_START,        /* the server: a round begins; or the wait is over */
	EV_END,          /* the server: the job is over */
	EV_RESTART,      /* the server: the round is over, another follows */
	EV_LOST,         /* the server is lost, or refuses this node */
	EV_SIGNAL,       /* a stop signal while no workers run */
	EV_STOP,         /* the job is to stop */
	EV_KILL,         /* the job is to stop at once */
	EV_EMPTY,        /* no process of the round is left */
	EV_GRACE,        /* the grace period is over */
	EV_DUE,          /* the backoff is over */
	EVENTS
};

/* What the agent does after the state is set. */
enum agent_act {
	ACT_NONE, ACT_JOIN, ACT_BACK_OFF, ACT_START_WORKERS, ACT_STOP_WORKERS,
	ACT_KILL_WORKERS, ACT_NOTIFY_WORKERS, ACT_KILL_JOB, ACT_DECLINE,
	ACT_LEAVE, ACT_FORCE_EXIT, ACTS
};

struct agent_edge {
	enum agent_state next;
	enum agent_act act;
	int known; /* 0: the event is ignored; it came too late to matter */
};

const struct agent_edge *agent_edge(enum agent_state s, enum agent_event ev);

extern const char *const agent_state_names[STATES];
extern const char *const agent_event_names[EVENTS];

/* Prints the table, one edge a line: build/tests/model --tables. */
void agent_print_states(FILE *f);

#endif
