/* door.h: from a connection to a client that has proved who it is: the
 * greeting, the proof and its answer; and how many may stand there without one.
 * Who fails is closed without a word, and named in the log (refusals.h). */
#ifndef RENDEZVOUS_DOOR_H
#define RENDEZVOUS_DOOR_H

#include "rendezvous/auth/auth.h"
#include "rendezvous/net/refusals.h"

enum {
	DOOR_MAX = 512,        /* connections without proof */
	DOOR_MAX_ADDRESS = 256, /* of one address: a host has many workers */
	/* who comes with many others is not one of many who say nothing: only
	 * who is there for so long makes room for the next */
	DOOR_GRACE_MS = 2000,
	/* but where others wait: one of a crowd of one address; and who has
	 * said nothing at all, as a client does when it has connected */
	DOOR_CROWD_MS = 500,
	DOOR_MUTE_MS = 250,
};

struct member;
struct server;
struct door_check;
struct standby_hello;

struct door {
	struct auth auth;
	struct refusals refusals;
	unsigned count;
	struct member *first, *last; /* in the order in which they came */
	int holds;    /* one more has come, and is not taken yet */
	void (*on_room)(struct server *s); /* it may be taken now */
};

/* What a member is before its proof. */
struct caller {
	struct member *next, *previous;
	int inside; /* it is in the list */
	uint64_t came_ms, network;
	char greeting[WIRE_GREETING_SIZE];
	struct door_check *check; /* munge is being asked */
	struct standby_hello *waits; /* for what is not known yet */
};

/* Whether one more may be accepted now; if not on_room follows. */
int door_has_room(struct server *s);
void door_enter(struct member *m);
/* It has gone, or is proven. */
void door_leave(struct member *m);
/* It is going: where its time ended before munge answered, the log says so. */
void door_on_gone(struct member *m);
void door_on_due(struct member *m);

void door_greet(struct member *m);
/* What came in its name was not its own, or it speaks another version: a line
 * in the log, rationed as those of refusals are. */
void door_tell_strange(struct member *m, const char *why);
/* Its HELLO: 0, or ERR_PROTOCOL. Who passes is admitted by request.h and gets
 * its WELCOME, at once or when munge has spoken. */
int door_hello(struct member *m, const struct wire_frame *f, struct err *e);
/* It belongs to the job; whether that takes it is another question. Who is not
 * taken is told so, and has to come again from the beginning. key: NULL where
 * nobody proves anything. ERR_PROTOCOL: it cannot be. */
int door_let_in(struct member *m, const struct wire_frame *f,
		const struct wire_hello *hello, const char *grant,
		const struct proof *key, struct err *e);

#endif
