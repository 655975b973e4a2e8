/* admission.h: from a connection to an authenticated client: the greeting, the
 * check of its proof and the reply; limits the connections without proof.
 * A client that fails is closed without a reply, and logged (log_limiter.h). */
#ifndef RENDEZVOUS_ADMISSION_H
#define RENDEZVOUS_ADMISSION_H

#include "rendezvous/auth/proof.h"
#include "rendezvous/server/hosted_job.h"
#include "rendezvous/server/peer.h"
#include "rendezvous/server/server.h"

enum {
	ADMISSION_MAX = 512, /* connections without proof */
	/* the same from one address; a host has many workers */
	ADMISSION_MAX_ADDRESS = 256,
	/* how long a connection may stay when there are too many: the workers
	 * of a host all connect at once */
	ADMISSION_GRACE_MS = 2000,
	/* the same while others wait, for an address with too many connections,
	 * and for a connection without a preface */
	ADMISSION_CROWD_MS = 500,
	ADMISSION_MUTE_MS = 250,
};

/* Whether one more may be accepted now; if not, applicants.on_room follows. */
int admission_has_room(struct server *s);
void admission_enter(struct peer *p);
/* The peer is gone, or authenticated. */
void admission_leave(struct peer *p);
/* The peer is being closed; logs it if its time ran out before munge
 * answered. */
void admission_on_gone(struct peer *p);
void admission_on_due(struct peer *p);

void admission_greet(struct peer *p);
/* Logs, within log_limiter's limits, that the peer's records were forged, that
 * it uses another version, or why it may not join. */
void admission_log_strange(struct peer *p, const char *why);
/* Checks a HELLO: 0 or ERR_PROTOCOL. A peer that passes is admitted by
 * request_admit and gets its WELCOME, at once or when munge has answered. */
int admission_hello(struct peer *p, const struct wire_frame *f, struct err *e);
/* The peer has proved that it belongs to the job, which may still refuse it:
 * sends WELCOME with the result. A refused peer has to connect again. key: NULL
 * without authentication. 0 or ERR_PROTOCOL. */
int admission_admit(struct peer *p, const struct wire_frame *f,
		    const struct wire_hello *hello, const char *grant,
		    const struct proof *key, struct err *e);

/* ---- standby.c ----
 *
 * Holds the HELLO of authenticated clients for a moment while the job's leader
 * is unknown, or while this server reads its journal. The reply is
 * leadership_check's. */

enum { STANDBY_MS = 2000 }; /* how long a HELLO waits */

void standby_init(struct server *s);
void standby_close(struct server *s);

/* 1: it waits, and admission_admit follows. 0: not needed, or out of memory.
 * key: NULL without authentication. */
int standby_hold(struct peer *p, const struct wire_frame *hello,
		 const char *grant, const struct proof *key);
/* The leader is known: admits all that wait, or refuses them. */
void standby_answer(struct server *s);
/* The peer is gone. */
void standby_forget(struct peer *p);

/* ---- request.c ----
 *
 * Handles clients' messages: which role may send which message, and what it
 * does. */

/* Admits an authenticated client in the role of its HELLO: 0, or why not. */
int request_admit(struct peer *p, const struct wire_hello *hello,
		  struct err *e);

/* Handles a frame. A client that breaks the protocol is refused and lost. */
void request_take(struct peer *p, const struct wire_frame *f);

#endif
