/* agent.h: runs a job on this node: joins it, starts the workers, stops them,
 * and joins again or leaves. The server decides what happens to the job; the
 * agent decides what happens on this node, in one state table. */
#ifndef LAUNCHER_AGENT_H
#define LAUNCHER_AGENT_H

#include "launcher/agent/stop_request.h"
#include "launcher/failure/failure.h"
#include "launcher/membership/rdzv_options.h"
#include "launcher/output/output_options.h"
#include "launcher/plan/plan.h"

/* The user's settings that the agent needs. launcher/config fills them in from
 * the command line. Texts and output are borrowed. */
struct agent_options {
	struct rdzv_options rdzv; /* the job, and this node in it */
	struct failure_options failure;
	struct stop_options stop;
	const struct output_options *output;
	const char *on_event;	     /* a command, or NULL */
	const char *backend; /* --rdzv-backend; for its events: */
	int prints_events;   /* --event-log-handler console */
	double hang_s;		     /* --hang-timeout; 0: none */
	struct signal_set forwarded; /* to the workers */

	/* ---- the workers ---- */
	long stdin_rank;     /* INPUT_NONE, INPUT_ALL, or a rank */
	long tty_rank;       /* TTY_NONE, or the rank that gets the terminal */
	const char *preload; /* modules, or auto; NULL: none */
	const char *stage;   /* PATH[:FOLDER]; NULL: nothing is copied */
	int has_preflight;   /* ddprun-check starts them */
	const char *signals_to_handle;
	unsigned frameworks;  /* --env: a set of framework.h */
	uint32_t worker_gpus; /* GPUs that each sees; 0: all */
	int virtual_local_rank, encrypt_data;
};

/* Why this node can run no worker, and the exit code for it. */
struct agent_unable {
	struct err why;
	int exit_code;
};

/* How the job was asked to stop, if it ended because of that. */
struct agent_ended {
	uint8_t level; /* wire.h's; 0: it ended for another reason */
	int warned;    /* the first request warned of the time limit */
};

/* Runs the job to its end and returns the exit code. parts is NULL if this node
 * cannot run the workers: it then joins only to report why (unable) to the
 * other nodes. open_files is the workers' soft limit, 0 to keep their own. */
int agent_run(const struct agent_options *options,
	      const struct plan_parts *parts, const struct agent_unable *unable,
	      uint64_t open_files, struct agent_ended *ended);

#endif
