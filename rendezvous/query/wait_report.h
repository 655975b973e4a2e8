/* wait_report.h: every wait names what it is waiting for: once a second, sends
 * WAITING to each peer that has been blocked for longer than that. The texts
 * are wait_text.c's. No timer runs while no peer waits. */
#ifndef RENDEZVOUS_WAIT_REPORT_H
#define RENDEZVOUS_WAIT_REPORT_H

#include "rendezvous/round/wait_text.h"
#include "rendezvous/server/hosted_job.h"

enum {
	WAIT_REPORT_TICK_MS = 1000,
	WAIT_REPORT_MAX_MS = 30000, /* the longest time between two reports */
	WAIT_REPORT_TOLD_MAX = 16,  /* requests reported per connection */
	WAIT_REPORT_FATE_MS = 100,  /* until its agent is checked again */
};

void wait_report_init(struct server *s);
void wait_report_close(struct server *s);
/* A peer may wait from now on: a request was parked, or a node has joined. */
void wait_report_begin(struct server *s);

/* Describes what the agents of a job without a running round wait for; may be
 * empty. */
void wait_report_for_nodes(struct hosted_job *h, struct wait_text *a);
/* Describes the longest wait of a client of PyTorch's store. Returns since when
 * (loop time), or 0: no client has waited for a second. */
uint64_t wait_report_for_torch(struct hosted_job *h, struct wait_text *a);
/* server_hooks.on_torch_gave_up. */
void wait_report_given_up(void *hosted, const struct torch_wait *w);
/* server_hooks.fate_due: a FATE is not answered until the rank's agent has been
 * heard from or its node is lost. If the agent's host has just died, the worker
 * that noticed it first would be blamed instead. */
uint64_t wait_report_fate_due(const struct parked *p);
/* server_hooks.explain: describes what a parked request waits for. */
void wait_report_for_request(const struct parked *p, struct wait_text *a);

#endif
