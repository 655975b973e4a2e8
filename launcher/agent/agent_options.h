/* agent_options.h: the user's settings that the agent needs. launcher/config
 * fills it from the command line. */
#ifndef LAUNCHER_AGENT_OPTIONS_H
#define LAUNCHER_AGENT_OPTIONS_H

#include "launcher/agent/stop_request.h"
#include "launcher/failure/failure.h"
#include "launcher/membership/rdzv_options.h"
#include "launcher/output/output_options.h"

/* Texts and output are borrowed. */
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
	const char *preload; /* modules, or auto; NULL: none */
	const char *stage;   /* PATH[:FOLDER]; NULL: nothing is copied */
	int has_preflight;   /* ddprun-check starts them */
	const char *signals_to_handle;
	unsigned frameworks;  /* --env: a set of framework.h */
	uint32_t worker_gpus; /* GPUs that each sees; 0: all */
	int virtual_local_rank, encrypt_data;
};

#endif
