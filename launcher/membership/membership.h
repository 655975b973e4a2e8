/* membership.h: this node's place in the job: the table of what it may be, what
 * may happen, and what follows. The room's face: member.h is what the agent
 * calls, this table is all that it decides.
 *
 * Promises: every change of state is one edge of this table. A node waits only
 * in a state that names its wait, and each such state has an edge out that a
 * timer or the user takes. CLOSED is final, and the owner hears of it once, by
 * the job's end or by an error.
 * Owners: member.c raises the events and runs the actions; connection.h owns
 * the way to the server, the outbox the notices that a new server may not have,
 * reconnect.h what is known of a loss.
 * Failures: an event that a state does not know changes nothing.
 * Pure: two numbers, which a test or a model checker may copy and compare. */
#ifndef LAUNCHER_MEMBERSHIP_H
#define LAUNCHER_MEMBERSHIP_H

#include <stdio.h>

#include "base/buf.h"
#include "base/error.h"
#include "rendezvous/wire.h"

enum membership_state {
	MEMBER_IDLE,	   /* the owner has not asked to join */
	MEMBER_CONNECTING, /* looking for the job's first server */
	MEMBER_WAITING,	   /* JOIN was sent; nodes are missing */
	MEMBER_SPARE,	   /* as WAITING, while a round runs without us */
	MEMBER_RUNNING,	   /* in a round */
	MEMBER_ENDED,	   /* the round is over, the next JOIN is the owner's */
	MEMBER_EXPELLED,   /* as ENDED: the server had counted us as lost */
	MEMBER_RENEWING,   /* a stalled connection is being replaced */
	MEMBER_RECONNECTING, /* the server was lost and is looked for */
	MEMBER_DETACHED,     /* without a server, until somebody needs one */
	MEMBER_CLOSED,
	MEMBER_STATES,
	/* As an edge's next: the place from which the server was lost. */
	MEMBER_BACK = MEMBER_STATES
};

enum membership_event {
	MEMBER_ON_JOIN,	       /* owner: wants to be in the next round */
	MEMBER_ON_GREETED,     /* a server has let us in */
	MEMBER_ON_TURNED_AWAY, /* that one is ending: another will come */
	MEMBER_ON_SPARE,       /* server: a round runs, and has its nodes */
	MEMBER_ON_COUNTED,     /* server: this node is in the next round */
	MEMBER_ON_START,       /* server: a round begins */
	MEMBER_ON_ROUND_END,   /* server: it is over, another follows */
	MEMBER_ON_JOB_END,     /* server: the job is over */
	MEMBER_ON_STALLED,     /* only the network had stopped, and is back */
	MEMBER_ON_AWAY,	       /* the server is lost */
	MEMBER_ON_RESUMED,     /* server: knows this node and its place */
	MEMBER_ON_UNJOINED,    /* server: lacks the JOIN of a node that waits */
	MEMBER_ON_EXPELLED,    /* server: goes on without this node */
	MEMBER_ON_FORGOTTEN,   /* server: does not know this node's round */
	MEMBER_ON_DETACH,      /* no server is expected any more */
	MEMBER_ON_NEEDED,      /* a detached node has news for the server */
	MEMBER_ON_FAIL,	       /* refused, timed out, out of memory, ... */
	MEMBER_ON_CLOSE,       /* owner: leaves */
	MEMBER_EVENTS
};

/* Done after the state is set. */
enum membership_act {
	MEMBER_DO_NOTHING,
	MEMBER_DO_CONNECT,
	MEMBER_DO_FINISH_JOIN, /* sends JOIN unless it is queued already */
	MEMBER_DO_JOIN,
	MEMBER_DO_RETRY, /* drops the connection, makes another one later */
	MEMBER_DO_BE_SPARE,
	MEMBER_DO_START,
	MEMBER_DO_END,
	MEMBER_DO_RENEW,     /* replaces the connection at once */
	MEMBER_DO_RECONNECT, /* starts the time that a loss may last */
	MEMBER_DO_RESUME,    /* asks the server what it knows */
	MEMBER_DO_REPLAY,    /* sends the outbox's notices that it lacks */
	MEMBER_DO_REJOIN,
	MEMBER_DO_BE_EXPELLED,
	MEMBER_DO_DETACH,
	MEMBER_DO_LOSE, /* reports the server's loss to the owner */
	MEMBER_DO_FAIL, /* reports the event's error to the owner */
	MEMBER_ACTS
};

struct membership {
	enum membership_state state;
	/* IDLE, WAITING, SPARE, RUNNING, ENDED or EXPELLED: what the node was
	 * when a server last heard it, and is again when one resumes it. A
	 * node that begins to wait while the server is away waits from then. */
	enum membership_state place;
};

struct membership_edge {
	enum membership_state next;
	enum membership_state place; /* IDLE: next if that is a place, else the
				      * one before */
	enum membership_act act;
	int is_known; /* 0: such an event is ignored: it came too late */
};

/* The one function that changes a membership. The edge that it took or, with
 * is_known 0, did not take. */
const struct membership_edge *membership_step(struct membership *ms,
					      enum membership_event ev);

/* A JOIN waits for its START, whether or not the server is there. */
int membership_waits(const struct membership *ms);
/* --rdzv-timeout ends this wait. A spare's has no end: a job may run for weeks
 * before it needs one. */
int membership_has_deadline(const struct membership *ms);
/* What is sent now reaches a server that counts this node as its own. */
int membership_is_heard(const struct membership *ms);
/* A server has been lost and has not resumed this node yet. */
int membership_is_away(const struct membership *ms);

extern const char *const membership_state_names[MEMBER_STATES];
extern const char *const membership_event_names[MEMBER_EVENTS];
extern const char *const membership_act_names[MEMBER_ACTS];

/* Prints the table: build/tests/model --tables. */
void membership_print(FILE *f);

/* ---- the outbox ----
 *
 * This node's notices that the next server may not have: EXITED, FAILED and
 * STOP since the last JOIN, as frames in the order in which they were added. A
 * server that resumes this node says how many it has; the rest is replayed.
 * Owns the bytes, sends nothing. Pure; all that fails is memory. */

struct outbox {
	struct buf frames;
	/* One of them is more than a worker's exit with code 0: without a
	 * server this node cannot go on. */
	int is_urgent;
};

void outbox_init(struct outbox *o);
void outbox_release(struct outbox *o);

/* A JOIN is sent: the server needs nothing that came before it. */
void outbox_clear(struct outbox *o);

/* Adds a notice. frame is the part to send now, if there is a server; valid
 * until the next call. -ENOMEM or -ENOBUFS, with text: then the outbox is of no
 * use any more, as the server would wait for what it cannot have. */
int outbox_add_exited(struct outbox *o, const struct wire_exited *x,
		      struct slice *frame, struct err *e);
int outbox_add_failed(struct outbox *o, const struct wire_failed *x,
		      struct slice *frame, struct err *e);
int outbox_add_stop(struct outbox *o, const struct wire_stop *x,
		    struct slice *frame, struct err *e);

/* The frames after the first `heard`, which the server has. */
struct slice outbox_unheard(const struct outbox *o, uint32_t heard);

#endif
