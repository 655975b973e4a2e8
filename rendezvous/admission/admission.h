/* admission.h: from a connection to a client that has proved who it is: the
 * greeting, the proof and its answer; and how many may stand there without one.
 * Who fails is closed without a word, and named in the log (refusals.h). */
#ifndef RENDEZVOUS_ADMISSION_H
#define RENDEZVOUS_ADMISSION_H

#include "rendezvous/server/peer.h"
#include "rendezvous/server/server.h"

enum {
	ADMISSION_MAX = 512, /* connections without proof */
	ADMISSION_MAX_ADDRESS =
		256, /* of one address: a host has many workers */
	/* who comes with many others is not one of many who say nothing: only
	 * who is there for so long makes room for the next */
	ADMISSION_GRACE_MS = 2000,
	/* but where others wait: one of a crowd of one address; and who has
	 * said nothing at all, as a client does when it has connected */
	ADMISSION_CROWD_MS = 500,
	ADMISSION_MUTE_MS = 250,
};

/* Whether one more may be accepted now; if not on_room follows. */
int admission_has_room(struct server *s);
void admission_enter(struct peer *m);
/* It has gone, or is proven. */
void admission_leave(struct peer *m);
/* It is going: where its time ended before munge answered, the log says so. */
void admission_on_gone(struct peer *m);
void admission_on_due(struct peer *m);

void admission_greet(struct peer *m);
/* What came in its name was not its own, or it speaks another version: a line
 * in the log, rationed as those of refusals are. */
void admission_tell_strange(struct peer *m, const char *why);
/* Its HELLO: 0, or ERR_PROTOCOL. Who passes is admitted by request.h and gets
 * its WELCOME, at once or when munge has spoken. */
int admission_hello(struct peer *m, const struct wire_frame *f, struct err *e);
/* It belongs to the job; whether that takes it is another question. Who is not
 * taken is told so, and has to come again from the beginning. key: NULL where
 * nobody proves anything. ERR_PROTOCOL: it cannot be. */
int admission_let_in(struct peer *m, const struct wire_frame *f,
		     const struct wire_hello *hello, const char *grant,
		     const struct proof *key, struct err *e);

#endif
