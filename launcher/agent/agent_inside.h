/* agent_inside.h: the insides of the agent, for the files that make it up:
 * agent.c (a job from start to end), agent_acts.c (what is done when a state is
 * entered), agent_told.c (to stop). Everybody else includes agent.h. */
#ifndef LAUNCHER_AGENT_INSIDE_H
#define LAUNCHER_AGENT_INSIDE_H

#include "launcher/agent/agent.h"
#include "launcher/agent/agent_state.h"
#include "launcher/agent/exits.h"
#include "launcher/agent/notice.h"
#include "launcher/agent/stopping.h"
#include "launcher/failure/failure.h"
#include "launcher/failure/restart_time.h"
#include "launcher/membership/member.h"
#include "launcher/output/logdir.h"
#include "launcher/output/output.h"
#include "launcher/worker/guard.h"
#include "launcher/worker/signals.h"
#include "launcher/worker/worker.h"

enum { AGENT_ID_BYTES = 8 };

#define AGENT_MARK "DDP_AGENT_ID="

struct agent {
	const struct config *config;
	const struct plan_parts *parts; /* NULL: see unable */
	const struct agent_unable *unable;
	uint64_t open_files;
	uv_loop_t loop;
	struct output output;
	struct input input;
	struct logdir logdir;
	struct log_rules log_rules;
	struct guard guard;
	struct group group;
	struct member member;
	struct signals signals;
	struct stopping stopping;
	struct exits exits;
	struct notice notice; /* that the job is to stop */
	uv_timer_t limit;     /* Slurm's time ends soon */
	enum agent_state state;
	int exit_code; /* -1: not known yet */
	int dismissed; /* told to go, by so many signals */
	uint64_t dismissed_ms; /* the last of them */
	int ended;     /* as the notice wanted it */
	struct failure failure;
	const struct wire_start *starting; /* while EV_START is handled */
	uint32_t round, attempt, world_size, nnodes;
	struct restart_time times;
	uint64_t alive_ns; /* when still_alive last let the server know */
	struct sweep_marks marks; /* of all that workers start */
	/* "DDP_AGENT_ID=...", the first of them */
	char mark[sizeof(AGENT_MARK) + 2 * AGENT_ID_BYTES];
};

/* agent.c */
void agent_handle(struct agent *a, enum agent_event ev, const char *why);
void agent_start_workers(struct agent *a);

/* agent_acts.c: ACTS of them; NULL: nothing. */
extern void (*const agent_acts[])(struct agent *a);
/* The first decision holds; cause NULL: what is known already. */
void agent_decide_exit(struct agent *a, int code, const char *cause);
/* After a child's death: what the workers left, and the server. */
void agent_sweep(struct agent *a);
void agent_watch_server(struct agent *a);

/* agent_told.c */
void agent_on_stop(struct member *m, const struct wire_stop *stop);
void agent_on_end_signal(void *owner, int number);
void agent_on_warn(void *owner, int number);
void agent_start_limit(struct agent *a);

#endif
