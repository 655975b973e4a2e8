/* failure.h: gathers what this node knows about how its workers died: about
 * each death for the server; about all of them for the failure page,
 * report.json and the launcher that started us. Decides nothing. */
#ifndef LAUNCHER_FAILURE_H
#define LAUNCHER_FAILURE_H

#include "base/buf.h"
#include "launcher/crash/crash_catcher.h"
#include "launcher/env/launch_env.h"
#include "launcher/failure/postmortem.h"
#include "launcher/failure/report.h"
#include "launcher/gpu/gpu_monitor.h"
#include "launcher/output/logdir.h"
#include "launcher/plan/roles.h"
#include "launcher/worker/recorder.h"
#include "launcher/worker/worker_group.h"

/* What the failure page needs to know of the job. launcher/config fills it from
 * the command line. */
struct failure_options {
	const struct launch_env *env; /* the launcher that started us */
	const char *job; /* borrowed */
	uint32_t max_nodes, nproc, max_restarts;
	const struct roles *roles; /* several programs; NULL: one */
	int has_log_dir; /* the workers' output is kept in files */
	int no_crash_stacks;
};

enum {
	FAILURE_PAGE_MAX = 256 << 10,
	FAILURE_WHY_MAX = 32 << 10, /* with a stack */
};

struct failure {
	struct failure_options options;
	struct logdir *logdir;
	const struct worker_group *group;
	struct gpu_monitor *gpus; /* the owner's; NULL: none */
	/* As watch_put_stderr, for a worker that redirects its stderr;
	 * NULL: not known. */
	int (*put_stderr)(void *owner, uint32_t local_rank, time_t since,
			  struct buf *out);
	/* As watch_put_dead_child; NULL: not known. */
	void (*put_dead_child)(void *owner, uint32_t local_rank,
			       struct buf *out);
	void *owner;
	char host[SOCK_HOST_MAX];
	struct postmortem postmortem;
	struct recorder recorder;
	struct crash_catcher catcher;
	/* where this round's recorder will be saved when it is over, or "" */
	char record[LOGDIR_PATH_MAX + 32];
	int has_stack; /* a crash in this round has one; unwinding takes time */
	time_t began;  /* when the round's workers were started */
	int round_ran; /* the group's fields are those of the last round */
	/* about the last death, until the next */
	int is_stderr_lost; /* the server of its file does not answer */
	struct buf why, error, tail;
	char log[LOGDIR_PATH_MAX], last[FLIGHT_TEXT_MAX];
	char missed[FLIGHT_CALL_MAX];
	/* the END that ends the job; its slices point into end_bytes */
	struct buf end_bytes;
	struct wire_end end;
	int has_end;
	uint32_t attempt, world_size;
	uint64_t ended_ns; /* when END came */
	int64_t ended_ms;  /* the same as unix time */
	struct buf page;
	struct attempts attempts;
	struct report_slow slow; /* this round's, as gpu_news */
	struct gpu_news gpu_news;
};

/* The arguments must outlive f. */
void failure_init(struct failure *f, const struct failure_options *options,
		  struct logdir *logdir,
		  const struct worker_group *group);
void failure_release(struct failure *f);

/* Does slow work in advance; call it while the job waits for its first round.
 */
void failure_prepare(struct failure *f);

/* Before the first round: publishes the job and its server on this host, so
 * that `ddprun dump` and `ddprun status` find them. */
void failure_publish_job(struct failure *f, const char *agent_id,
			 const struct sock_addr *server, const char *job_key);
/* A round's workers are about to be started, and have been started. */
void failure_begin(struct failure *f, const struct wire_start *start,
		   const char *agent_id, const struct sock_addr *server,
		   const char *job_key);
void failure_record_pids(struct failure *f);
/* A worker is about to be started again alone: removes what the former worker
 * left, so that it does not count as the new worker's. */
void failure_forget(struct failure *f, uint32_t local_rank);

/* A worker failed and had not been asked to stop: fills in the fields of EXITED
 * that say why. The slices are valid until the next call. */
void failure_examine(struct failure *f, const struct worker *w, int status,
		     struct wire_exited *x);

/* A worker exited with 0 and had not been asked to stop: records whether it
 * left its world early and, if so, fills in fields as above. */
void failure_examine_exit(struct failure *f, const struct worker *w,
			  struct wire_exited *x);

/* The server ended the round, but not the job. A round that ended by a failure
 * appears on the page as an attempt. */
void failure_record_attempt(struct failure *f, const struct wire_end *end,
			    uint32_t attempt);
/* The server ended the job: end is copied. */
void failure_record_end(struct failure *f, const struct wire_end *end,
			uint32_t attempt, uint32_t world_size);

/* The server is lost and the job ends: logs text, and writes it for the
 * launcher that started us. */
void failure_report_lost(const char *text, int exit_code);

/* A rank slows this round down, or no longer does. */
void failure_record_slow(struct failure *f, const struct wire_slow *slow);

/* Something has happened to a GPU of this round. */
void failure_record_gpu(struct failure *f, const struct wire_gpu_news *news);

/* When all workers have exited: returns the page, "" unless failure_record_end
 * was called; valid as long as f. Writes report.json and the error file of the
 * launcher that started us. */
struct slice failure_report(struct failure *f);

/* For environment.h: the recorder's path, those of crash_catcher.h, and the
 * callback that names each worker's error file; its f is a struct failure. */
const char *failure_recorder(const struct failure *f);
/* NULL: the workers preload none, and leave no records. */
const char *failure_crash_library(const struct failure *f);
const char *failure_crash_records(const struct failure *f);
const char *failure_error_file(void *f, uint32_t local_rank, char *out);

/* ---- the termination log ----
 *
 * Writes the failure to the file in a container from which Kubernetes reads
 * the container's last message (kubectl describe pod). */

/* Replaces the contents of /dev/termination-log, or of the file that
 * DDP_TERMINATION_LOG names, by the first line of text. It must be a regular
 * file that is there already, as in a pod. Nothing happens without it, or in a
 * worker of another ddprun. */
void termination_log_write(struct slice text);

#endif
