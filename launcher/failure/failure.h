/* failure.h: what this node knows of how its workers died: of each death for
 * the server, of all together for the page, report.json and the launcher above
 * us. Decides nothing. */
#ifndef LAUNCHER_FAILURE_H
#define LAUNCHER_FAILURE_H

#include "launcher/config/config.h"
#include "launcher/failure/postmortem.h"
#include "launcher/failure/report.h"
#include "launcher/output/logdir.h"
#include "launcher/worker/recorder.h"
#include "launcher/worker/worker.h"

enum { FAILURE_PAST_MAX = 5, FAILURE_PAGE_MAX = 256 << 10 };

struct failure {
	const struct config *config;
	const struct logdir *logdir;
	const struct group *group;
	char host[SOCK_HOST_MAX];
	struct postmortem postmortem;
	struct recorder recorder;
	time_t began;  /* the round's workers were started */
	int round_ran; /* the group's fields are of the round that ends */
	/* of the last death, until the next */
	struct buf why, error;
	char log[LOGDIR_PATH_MAX], last[FLIGHT_TEXT_MAX];
	char missed[FLIGHT_CALL_MAX];
	/* the END that ends the job; its slices point into frame */
	struct buf frame;
	struct wire_end end;
	int has_end;
	uint32_t attempt, world_size;
	uint64_t ended_ns; /* when it came */
	int64_t ended_ms;  /* the same as unix time */
	struct buf page;
	struct report_past past[FAILURE_PAST_MAX];
	uint32_t npast, past_left_out;
};

/* What it is given must outlive f. */
void failure_init(struct failure *f, const struct config *config,
		  const struct logdir *logdir, const struct group *group);
void failure_release(struct failure *f);

/* When there is time for it, before the first round. */
void failure_prepare(struct failure *f);

/* Before there is a round: who looks for this job on this host finds it, and
 * its server. */
void failure_findable(struct failure *f, const char *agent_id,
		      const struct sock_addr *server, const char *job_key);
/* A round's workers are about to be started; have been. */
void failure_begin(struct failure *f, const struct wire_start *start,
		   const char *agent_id, const struct sock_addr *server,
		   const char *job_key);
void failure_started(struct failure *f);

/* A worker failed by itself: fills in what EXITED says of why. The slices are
 * valid until the next call. */
void failure_examine(struct failure *f, const struct worker *w, int status,
		     struct wire_exited *x);

/* A worker exited with 0 by itself: whether it left its world early; then as
 * above. */
void failure_examine_exit(struct failure *f, const struct worker *w,
			  struct wire_exited *x);

/* The server ended the round, by a failure or as nodes came or went; the job
 * goes on. */
void failure_goes_on(struct failure *f, const struct wire_end *end,
		     uint32_t attempt);
/* The server ended the job: end is copied. */
void failure_ends(struct failure *f, const struct wire_end *end,
		  uint32_t attempt, uint32_t world_size);

/* The job ends without a word from the server: says so, here and above. */
void failure_lost(const char *text, int exit_code);

/* When all workers are gone: the page, "" unless failure_ends was called; valid
 * as long as f. Writes report.json and what the launcher above us reads. */
struct slice failure_tell(struct failure *f);

/* environment.h's recorder. */
const char *failure_recorder(const struct failure *f);
/* environment.h's error_file; f is a struct failure. */
const char *failure_error_file(void *f, uint32_t local_rank, char *out);

#endif
