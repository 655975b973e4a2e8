/* agent_internal.h: what the agent's own files share: agent.c (a job from start
 * to end), agent_acts.c (the actions of the state table), agent_round.c (the
 * start and the end of a round), agent_stop.c (stop requests), agent_watch.c
 * (progress, ranks that hang, GPUs), agent_elastic.c, agent_mpi.c,
 * agent_preload.c and agent_stage.c. */
#ifndef LAUNCHER_AGENT_INTERNAL_H
#define LAUNCHER_AGENT_INTERNAL_H

#include "launcher/agent/agent.h"
#include "launcher/agent/agent_state.h"
#include "launcher/agent/event_command.h"
#include "launcher/agent/exit_reports.h"
#include "launcher/agent/restart.h"
#include "launcher/agent/stop_request.h"
#include "launcher/agent/worker_shutdown.h"
#include "launcher/failure/failure.h"
#include "launcher/gpu/gpu_monitor.h"
#include "launcher/membership/member.h"
#include "launcher/output/logdir.h"
#include "launcher/output/output.h"
#include "launcher/pmi/host_topology.h"
#include "launcher/pmi/pmi_exchange.h"
#include "launcher/pmi/pmi_service.h"
#include "launcher/pmix/pmix_service.h"
#include "launcher/preload/preload.h"
#include "launcher/stage/stage.h"
#include "launcher/inspect/mpi_calls.h"
#include "launcher/watch/watch.h"
#include "launcher/worker/guard.h"
#include "launcher/worker/signals.h"
#include "launcher/worker/worker_group.h"

enum { AGENT_ID_BYTES = 8 };

#define AGENT_MARK "DDP_AGENT_ID="

/* A rank of this node that hangs: either --hang-timeout ends it, or the server
 * asked for its stack, because another rank failed waiting for it. */
struct agent_hang {
	pid_t dump;	/* the child that writes the dump; 0: none */
	int is_decided; /* in this round */
	int is_asked;	/* the server waits for the stack */
	uint32_t rank;
	int fd; /* the dump's memory file, without a local log folder; or -1 */
	char why[ERR_TEXT_MAX], path[LOGDIR_PATH_MAX + 16];
	uv_timer_t timer; /* the dump takes too long */
};

/* A round whose workers are started later. */
struct agent_held {
	struct wire_start start;
	char master[SOCK_HOST_MAX]; /* start's text */
};

/* What torchrun's events need to know (--event-log-handler). */
struct agent_elastic {
	uint64_t began_ns;
	uint32_t role_base_rank, role_world_size; /* the role's */
	int saw_end;    /* the job ended, and not because this node was asked to
			 * stop */
	int has_failed; /* an event could not be printed: warned */
};

/* --stage, from the first copy on. */
struct agent_staged {
	struct stage_spec spec; /* path "": not parsed yet */
	char dir[PATH_MAX];	/* with this node's copy; "": none yet */
	int hold;		/* a descriptor that keeps the copy
				 * (stage_folder.h) */
	int has_preload;	/* the template's start was attempted */
	struct plan_parts parts; /* with the programs in the copy */
};

struct agent {
	const struct agent_options *options;
	const struct rdzv_options *rdzv; /* options->rdzv */
	const struct plan_parts *parts; /* NULL: see unable */
	const struct agent_unable *unable;
	uint64_t open_files;
	uv_loop_t loop;
	struct output output;
	struct input input;
	struct tty tty;
	struct logdir logdir;
	struct log_rules log_rules;
	struct guard guard;
	struct worker_group group;
	struct member member;
	struct signals signals;
	struct worker_shutdown shutdown;
	struct exit_reports exit_reports;
	struct stop_request stop; /* all requests so far, merged */
	uv_timer_t time_limit;    /* of Slurm's job */
	enum agent_state state;
	int exit_code;           /* -1: not decided yet */
	int stop_signals;        /* how many this process has received */
	uint64_t stop_signal_ms; /* when the last one came */
	int ended_as_asked;      /* the job ended because of stop */
	struct failure failure;
	struct watch watch;
	struct mpi_looks mpi_looks;
	struct gpu_monitor gpus;
	struct agent_hang hang;
	struct event_commands events;
	struct agent_elastic elastic;
	int is_first; /* node 0, in the last round */
	struct pmi_service *pmi; /* the round's; NULL: none */
	struct pmix_service *pmix;
	struct host_topology topology; /* for MPI's ranks */
	int waits_for_topology;	       /* the round that is held */
	/* the last round, which stage, preload, pmix, or the exchange of ports
	 * may delay */
	struct agent_held held;
	struct worker_ports ports; /* this attempt's, if it needs any */
	struct agent_peers *peers; /* their exchange; NULL: none */
	struct buf peers_text;
	int peers_fd; /* the file with them; -1: none */
	struct buf alike; /* JOIN's */
	struct preload preload;
	struct agent_stage *stage; /* the round's; NULL: none */
	struct agent_staged staged;
	const struct wire_start *starting; /* while EV_START is handled */
	uint32_t round, attempt, world_size, nnodes, node_rank;
	struct restart_time times;
	struct restart_backoff backoff;
	uint64_t wait_ms; /* before this restart; 0: none */
	uv_timer_t backoff_timer;
	uint64_t alive_ns;	  /* when agent_extend_lease last sent a PING;
				   * clock_ns */
	struct sweep_marks marks; /* on every process that workers start */
	/* "DDP_AGENT_ID=...", the first of the marks */
	char mark[sizeof(AGENT_MARK) + 2 * AGENT_ID_BYTES];
};

/* agent.c */
void agent_handle(struct agent *a, enum agent_event ev, const char *why);
const char *agent_id(const struct agent *a);

/* agent_round.c */
void agent_start_round(struct agent *a);
/* Makes the plan of the round and starts this node's workers. */
void agent_start_group(struct agent *a, const struct wire_start *start);
void agent_extend_lease(void *arg);
/* The round is over, and another one follows. */
void agent_end_round(struct agent *a, const struct wire_end *end,
		     const char *text);
/* --role-optional */
int agent_start_again(void *owner, struct worker *w, struct err *e);
void agent_on_role_news(struct member *m, const struct wire_role_news *news);
/* Copies a round whose workers are started later. */
void agent_hold(struct agent *a, const struct wire_start *start);
/* The held round may begin: what it waited for has happened. */
void agent_continue(struct agent *a);
/* Its first rank as a client of the round's store; name names the keys. */
struct pmi_exchange_round agent_exchange_round(struct agent *a,
					       const struct wire_start *start,
					       const char *name);

/* Ends the exchange of the workers' addresses, if there is one. */
void agent_peers_end(struct agent *a);

/* --on-event, on node 0; rank -1: none. */
void agent_run_event(struct agent *a, const char *event, int64_t rank,
		      const char *text);

/* agent_acts.c: the action of each enum agent_act, or NULL. */
extern void (*const agent_acts[])(struct agent *a);
/* Only the first call counts. cause NULL: the known cause stays. */
void agent_decide_exit(struct agent *a, int code, const char *cause);
/* Fills a->alike, for JOIN. -ENOMEM. */
int agent_make_alike(struct agent *a, struct err *e);
void agent_init_backoff(struct agent *a);
void agent_stop_workers(struct agent *a);
/* Both after a child's death: stops orphans of the workers; waits for the
 * server that this node hosts. */
void agent_sweep(struct agent *a);
void agent_watch_server(struct agent *a);

/* agent_watch.c */
void agent_init_watch(struct agent *a);
/* For environment.h; owner is the agent. */
const char *agent_step_file(void *owner, uint32_t local_rank, char *out);
/* The round's workers have been started; are about to be stopped. */
void agent_begin_watch(struct agent *a);
void agent_end_watch(struct agent *a);
void agent_close_watch(struct agent *a);
void agent_on_stalled(struct member *m, const struct wire_stalled *stall);
void agent_on_slow(struct member *m, const struct wire_slow *slow);
void agent_on_look(struct member *m, const struct wire_look *look);
/* A child ended: 1 if it was writing the dump of a rank that hangs. */
int agent_dump_reaped(struct agent *a, pid_t pid, int status);
/* A child ended: 1 if it was looking at the workers' calls of MPI. */
int agent_look_reaped(struct agent *a, pid_t pid, const struct rusage *usage);
void agent_init_gpus(struct agent *a);
void agent_on_gpu_news(struct member *m, const struct wire_gpu_news *news);

/* agent_output.c */
/* Sends the last lines of a worker's output. */
void agent_on_output(struct member *m, const struct wire_dump_request *q);

/* agent_mpi.c */
/* Warns once for a job that its MPI processes are, or may be, worlds of one. */
void agent_mpi_warn(struct agent *a, const struct wire_start *start);
/* While the server starts: begins what the first round needs. */
void agent_mpi_prepare(struct agent *a);
/* Before the plan of a round. AGENT_LATER: agent_start_group is called when
 * the workers can be served. */
enum { AGENT_LATER = 1 };
int agent_mpi_begin(struct agent *a, const struct wire_start *start,
		    struct err *e);
/* The slack of the timers of this node's ranks, in ns; 0: as ours. */
unsigned long agent_mpi_timer_slack(const struct agent *a);
/* When no worker of the round is left. */
void agent_mpi_end(struct agent *a);
/* For environment.h; owner is the agent. */
int agent_mpi_fd(void *owner, uint32_t local_rank);
char *const *agent_mpi_vars(void *owner, uint32_t local_rank, uint32_t *n);
/* A worker ended: returns its wait status, MPI_Abort's if it called that. */
int agent_mpi_ended(struct agent *a, struct worker *w, int status);
/* A child ended. Returns 1 if it was the helper that serves PMIx. */
int agent_mpi_reaped(struct agent *a, pid_t pid, int status);

/* agent_elastic.c: --event-log-handler console; else they do nothing */
void agent_record_rendezvous(struct agent *a, const struct wire_start *start);
void agent_record_starts(struct agent *a);
/* The job is over: end is NULL if the server did not say so. */
void agent_record_verdict(struct agent *a, const struct wire_end *end);
void agent_record_ends(struct agent *a);

/* agent_preload.c: --preload */
void agent_start_preload(struct agent *a);
/* A round begins: 1 if its workers must wait for the template process: handles
 * EV_WAIT, and later EV_START with a copy of start. */
int agent_preload_waits(struct agent *a, const struct wire_start *start);

/* agent_stage.c: --stage */
/* A round begins: 1 if its workers must wait for the copy: handles EV_WAIT, and
 * later EV_START with a copy of start. */
int agent_stage_waits(struct agent *a, const struct wire_start *start);
/* The round is over, or the job. */
void agent_stage_end(struct agent *a);
/* A child ended. Returns 1 if it was the helper that copies. */
int agent_stage_reaped(struct agent *a, pid_t pid, int status);

/* agent_stop.c */
/* Tells the server, which decides whether the job stops or only this node; text
 * is the reason, unless that is the end of the node's ssh. */
void agent_send_stop(struct agent *a, const struct stop_request *n,
		     const char *text);
/* This node leaves the job alone (--preflight). */
void agent_on_unfit(void *owner, struct slice why);
void agent_on_stop(struct member *m, const struct wire_stop *stop);
void agent_on_stop_signal(void *owner, int number);
void agent_on_warning_signal(void *owner, int number);
void agent_start_time_limit(struct agent *a);

#endif
