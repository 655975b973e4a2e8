/* wait_report.h: nobody waits in silence: once a second whoever waits for
 * longer than that is told whom for (WAITING). No timer runs while nobody
 * waits. What is said is awaited.c's. */
#ifndef RENDEZVOUS_WAIT_REPORT_H
#define RENDEZVOUS_WAIT_REPORT_H

#include "rendezvous/round/wait_text.h"
#include "rendezvous/server/hosted_job.h"

enum {
	WAIT_REPORT_TICK_MS = 1000,
	WAIT_REPORT_MAX_MS =
		30000, /* it is said again at the latest after that */
	WAIT_REPORT_TOLD_MAX = 16, /* requests of one connection */
	WAIT_REPORT_FATE_MS = 100, /* its agent may have been heard by then */
};

void wait_report_init(struct server *s);
void wait_report_close(struct server *s);
/* Somebody waits, perhaps: a request was parked, a node has joined. */
void wait_report_begin(struct server *s);

/* Whom those agents wait for whose own workers have all ended. */
void wait_report_for_ends(struct hosted_job *h, struct wait_text *a);
/* Whom the agents of a job wait for; empty where they wait for nobody. */
void wait_report_for_nodes(struct hosted_job *h, struct wait_text *a);
/* Whom the client of PyTorch's store waits for that has waited longest, of all
 * nodes: since when (loop time), or 0: none waits for a second. */
uint64_t wait_report_for_torch(struct hosted_job *h, struct wait_text *a);
/* A client of PyTorch's store gives up: a torch_gate's on_gave_up. */
void wait_report_given_up(void *hosted, const struct torch_wait *w);
/* A session's fate_due: what became of a rank is not said before its agent has
 * been heard, or its node is lost: its host may have gone a moment ago, and
 * the worker that misses it first would be named in its place. */
uint64_t wait_report_fate_due(const struct parked *p);
/* Whom a parked request waits for: a session's `explain`. */
void wait_report_for_request(const struct parked *p, struct wait_text *a);

#endif
