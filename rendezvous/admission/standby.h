/* standby.h: clients that have proved who they are while it is not known who
 * their job's server is, or while that reads its journal: their HELLO waits,
 * but not for long. What they are told is place.h's. */
#ifndef RENDEZVOUS_STANDBY_H
#define RENDEZVOUS_STANDBY_H

#include "base/loop.h"
#include "rendezvous/auth/proof.h"

struct peer;
struct server;

enum { STANDBY_MS = 2000 }; /* so long does a HELLO wait */

void standby_init(struct server *s);
void standby_close(struct server *s);

/* 1: it waits, and admission_let_in follows; 0: there is no need, or no way.
 * key: NULL where there is no proof. */
int standby_hold(struct peer *m, const struct wire_frame *hello,
		 const char *grant, const struct proof *key);
/* Something is known: all who wait are let in, or told. */
void standby_answer(struct server *s);
/* It has gone. */
void standby_forget(struct peer *m);

#endif
