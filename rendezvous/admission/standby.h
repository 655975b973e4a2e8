/* standby.h: holds the HELLO of authenticated clients for a moment while the
 * job's leader is unknown, or while this server reads its journal. The reply is
 * leadership_check's. */
#ifndef RENDEZVOUS_STANDBY_H
#define RENDEZVOUS_STANDBY_H

#include "base/loop.h"
#include "rendezvous/auth/proof.h"

struct peer;
struct server;

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

#endif
