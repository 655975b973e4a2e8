/* stall_report.h: what the ranks of a round do, by their agents' PROGRESS:
 * tells all agents which rank the others wait for, and a tool how far each rank
 * is; names the rank that hangs when another fails because of it. */
#ifndef RENDEZVOUS_STALL_REPORT_H
#define RENDEZVOUS_STALL_REPORT_H

#include "rendezvous/server/hosted_job.h"

/* PROGRESS. Reports on another round, or on other nodes' ranks, are ignored. */
int stall_report_take(struct peer *agent, const struct wire_frame *f,
		      struct err *e);

/* An EXITED of the agent is about to be applied. If the worker failed because a
 * peer did not arrive, and that peer hangs, the job first gets an EXITED for
 * the peer: so the first failure is the culprit's. */
void stall_report_on_exited(struct peer *agent, const struct wire_frame *f);

/* RANKS for a job that has a round, if any agent has reported. */
void stall_report_put_ranks(struct buf *out, struct hosted_job *h);

/* Gauges in Prometheus' text format: the slowest rank of each job whose ranks
 * have been watched for a minute, and the share of the time for which the other
 * ranks wait for it. */
void stall_report_put_metrics(struct buf *out, const struct server *s);

void stall_report_release(struct hosted_job *h);

#endif
