/* query.h: what the server learns of running jobs from their agents' frames,
 * and what it reports to tools, agents and metrics. Changes nothing in a job,
 * except that stall_report_on_exited may name the culprit first. */
#ifndef RENDEZVOUS_QUERY_H
#define RENDEZVOUS_QUERY_H

#include "rendezvous/round/wait_text.h"
#include "rendezvous/server/hosted_job.h"

/* ---- dump.c ----
 *
 * `ddprun dump`: sends a tool's request to all agents of a job and passes their
 * replies back, until all have replied or the time is over. A request for the
 * last lines of a rank (`ddprun top`) goes to its agent alone. Does not look
 * into the replies. */

/* A tool's HELLO: 0, or ERR_REFUSED if there is no such job here. */
int dump_hello(struct peer *tool, const struct wire_hello *hello,
	       struct err *e);
/* DUMP. */
int dump_start(struct peer *tool, const struct wire_frame *f, struct err *e);
/* DUMP_REPLY. */
int dump_page(struct peer *agent, const struct wire_frame *f, struct err *e);
/* The tool's deadline has passed. */
void dump_on_due(struct peer *tool);
/* The same for the server's page: the reader gets each node's reply, then
 * on_done, perhaps before dump_start_for returns. It stays until then. 0, or
 * ERR_REFUSED (no such job or rank, or no agents in it) or -ENOMEM and no call.
 * The caller flushes the connections. */
struct dump_reader {
	void (*on_node)(struct dump_reader *r, const struct wire_node_dump *m);
	void (*on_done)(struct dump_reader *r);
};
int dump_start_for(struct dump_reader *reader, struct server *s,
		   struct slice job, const struct wire_dump *m, struct err *e);
/* The reader's deadline has passed: ends its dump, if it has one, with the
 * replies so far. */
void dump_end_for(struct server *s, const struct dump_reader *reader);
/* An agent or a tool is gone; why as in peer_lose. Idempotent. */
void dump_forget(struct peer *p, const char *why);

/* ---- gpu_report.c ----
 *
 * The GPUs of the nodes, by their agents' GPUS, for metrics and tools; and
 * GPU_NEWS, which all agents of a round get. In no journal: the agents report
 * again soon. */

/* GPUS: replaces what the agent sent before. */
int gpu_report_take(struct peer *agent, const struct wire_frame *f,
		    struct err *e);
/* GPU_NEWS: passed on. */
int gpu_report_pass(struct peer *agent, const struct wire_frame *f,
		    struct err *e);
/* A GPUS for each node of the job that has reported. */
void gpu_report_put(struct buf *out, struct hosted_job *h);
/* Appends name="value", a label of a metric. */
void gpu_report_put_label(struct buf *out, const char *name,
			  struct slice value);
/* Gauges in Prometheus' text format; none without GPUs. */
void gpu_report_put_metrics(struct buf *out, const struct server *s);

/* ---- rank_report.c ---- */

/* Gauges in Prometheus' text format, for each job: its workers and restarts,
 * and the lowest, mean and highest step, rate, time in collectives and age of
 * the last progress of its ranks. */
void rank_report_put_metrics(struct buf *out, const struct server *s);

/* ---- stall_report.c ----
 *
 * What the ranks of a round do, by their agents' PROGRESS: tells all agents
 * which rank the others wait for, and a tool how far each rank is; names the
 * rank that hangs when another fails because of it. */

/* PROGRESS. Reports on another round, or on other nodes' ranks, are ignored. */
int stall_report_take(struct peer *agent, const struct wire_frame *f,
		      struct err *e);

/* An EXITED of the agent is about to be applied. If the worker failed because a
 * peer did not arrive, and that peer hangs, the job first gets an EXITED for
 * the peer: so the first failure is the culprit's. 1: the EXITED was copied and
 * is applied soon. It says that two ranks made different calls, and the reports
 * of other agents, whose workers fail as well, will say which is the odd one;
 * or that a peer did not arrive, and the other agents have been asked what
 * their ranks do. */
int stall_report_on_exited(struct peer *agent, const struct wire_frame *f);
/* STACK: of a rank that hangs; or an agent that was asked has reported. */
int stall_report_take_stack(struct peer *agent, const struct wire_frame *f,
			    struct err *e);
/* Applies those EXITEDs now: an event that must not overtake them comes. */
void stall_report_release_exits(struct hosted_job *h);

/* RANKS for a job that has a round, if any agent has reported. */
void stall_report_put_ranks(struct buf *out, struct hosted_job *h);
/* What that rank does, by its agent's last report; empty: not known. */
struct slice stall_report_words(const struct hosted_job *h, uint32_t rank);

/* Gauges in Prometheus' text format: the slowest rank of each job whose ranks
 * have been watched for a minute, and the share of the time for which the other
 * ranks wait for it. */
void stall_report_put_metrics(struct buf *out, const struct server *s);

void stall_report_release(struct hosted_job *h);

/* ---- status.c ----
 *
 * `ddprun status`: what the server itself knows of its jobs. Asks no agent and
 * changes nothing. */

/* A job: JOB, and RANKS and GPUS if its agents have reported. */
void status_put(struct buf *out, struct hosted_job *h);
/* STATUS: sends a JOB for each job that the tool may see, then the reply. */
int status_take(struct peer *tool, const struct wire_frame *f, struct err *e);

/* ---- wait_report.c ----
 *
 * Every wait names what it is waiting for: once a second, sends WAITING to
 * each peer that has been blocked for longer than that. The texts are
 * wait_text.c's. No timer runs while no peer waits. */

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
