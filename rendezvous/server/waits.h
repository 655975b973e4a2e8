/* waits.h: nobody waits in silence: once a second whoever waits for longer than
 * that is told whom for (WAITING). No timer runs while nobody waits. What is
 * said is awaited.c's. */
#ifndef RENDEZVOUS_WAITS_H
#define RENDEZVOUS_WAITS_H

#include "rendezvous/round/awaited.h"
#include "rendezvous/server/hosted.h"

enum {
	WAITS_TICK_MS = 1000,
	WAITS_MAX_MS = 30000, /* it is said again at the latest after that */
	WAITS_TOLD_MAX = 16,  /* requests of one connection */
	WAITS_FATE_MS = 100,  /* its agent may have been heard by then */
};

void waits_init(struct server *s);
void waits_close(struct server *s);
/* Somebody waits, perhaps: a request was parked, a node has joined. */
void waits_begin(struct server *s);

/* Whom those agents wait for whose own workers have all ended. */
void waits_for_ends(struct hosted *h, struct awaited *a);
/* Whom the agents of a job wait for; empty where they wait for nobody. */
void waits_for_nodes(struct hosted *h, struct awaited *a);
/* Whom the client of PyTorch's store waits for that has waited longest, of all
 * nodes: since when (loop time), or 0: none waits for a second. */
uint64_t waits_for_torch(struct hosted *h, struct awaited *a);
/* A client of PyTorch's store gives up: a torch_gate's on_gave_up. */
void waits_given_up(void *hosted, const struct torch_wait *w);
/* A session's fate_due: what became of a rank is not said before its agent has
 * been heard, or its node is lost: its host may have gone a moment ago, and
 * the worker that misses it first would be named in its place. */
uint64_t waits_fate_due(const struct parked *p);
/* Whom a parked request waits for: a session's `explain`. */
void waits_for_request(const struct parked *p, struct awaited *a);

#endif
