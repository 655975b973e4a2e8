/* reconnect.h: a member whose server is away: what it has told and must tell
 * again, for how long it looks, what it says of it. Without a server it is
 * adrift: its workers go on until somebody has to hear of them. A part of
 * member.c. */
#ifndef LAUNCHER_RECONNECT_H
#define LAUNCHER_RECONNECT_H

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"
#include "launcher/membership/probe.h"
#include "rendezvous/wire.h"

struct member;

struct reconnect {
	struct buf said; /* notices since the last JOIN, as frames */
	int needs;	 /* one of them is more than that all is well */
	int away;	 /* lost, and not RESUMED yet */
	int renews;	 /* away, and nobody but the network is to blame */
	int adrift;	 /* it is waited for no longer */
	int silent;	 /* it was lost by saying nothing, as this node may
			  * have been by it */
	int said_lost;	 /* aloud */
	int anew;	 /* it counted this node as lost; until the JOIN */
	uint64_t lost_ms;
	char when[16]; /* by the clock on the wall, for people */
	struct err why;
	uint32_t asked;	  /* the id of our RESUME */
	int began, ended; /* a START came; and that round's END */
	uint32_t round;
	uv_timer_t timer;
	struct probe probe; /* where the network may be away */
};

void reconnect_init(struct member *m, uv_loop_t *loop);
void reconnect_close(struct member *m);

/* The server is lost, and why: 1: it is looked for; 0: the user wants none of
 * that. hopeless: nobody will start it again. */
int reconnect_lost(struct member *m, const struct err *why, int hopeless);
/* m->unheard pings have had no answer: where the network is why, a new
 * connection as soon as it is back, quietly. */
void reconnect_unheard(struct member *m);
/* Connected again: 1 and asks where things stand, or 0: it never was away. */
int reconnect_greeted(struct member *m);
/* The answer to that: 1 it was, 0 it is another's. */
int reconnect_take(struct member *m, const struct wire_frame *f);

/* Forgets what was told: a JOIN is sent. */
void reconnect_begin(struct member *m);
/* What was put into said from there on is one notice more: it is sent now, or
 * when there is a server; needs: as above. */
void reconnect_say(struct member *m, size_t from, int needs);
/* This node needs the server now. 1: there is none, and the member is lost. */
int reconnect_needs(struct member *m);

#endif
