/* job_status.h: jobs as their rendezvous servers describe them in JOB, RANKS
 * and GPUS: for `ddprun status`, `ddprun top` and the server's page. Pure. */
#ifndef RENDEZVOUS_JOB_STATUS_H
#define RENDEZVOUS_JOB_STATUS_H

#include "base/json.h"
#include "rendezvous/wire.h"

/* The slices of `as` and `ranks` point into bytes and rank_bytes. */
struct job_output;

struct job_status {
	char server[320];
	char *bytes, *rank_bytes; /* the latter may be NULL */
	struct wire_job as;
	struct wire_ranks ranks;
	struct buf gpus; /* frames: a GPUS for each node that has some */
	struct job_output *output; /* on the heap; NULL: was not asked for */
};

struct job_status_list {
	struct job_status *jobs;
	size_t n;
	uint32_t unreachable; /* servers */
};

/* Adds what one server sent: a JOB, or the RANKS or GPUS that follow theirs;
 * other frames are skipped. The list has a copy. -ENOMEM, ERR_PROTOCOL. Release
 * the list in any case. */
int job_status_list_add(struct job_status_list *l, const char *server,
			const struct wire_frame *f, struct err *e);
void job_status_list_release(struct job_status_list *l);

/* Pure. The job's nodes by rank, those without one last. Returns how many there
 * are; the caller frees *out. */
uint32_t job_status_nodes(const struct job_status *job,
			  struct wire_job_node **out);

/* Pure: the names of states of a job and of a node. Never NULL. */
const char *job_status_state_name(uint8_t state);
const char *job_status_node_state_name(uint8_t state);

/* ---- job_json.c ---- */

/* What `ddprun status --json` prints (ddprun-status(1)). ERR_SYSTEM: cJSON
 * is missing. */
int job_status_put_json(struct buf *out, const struct job_status_list *l,
			struct err *e);

/* ---- job_output.c ----
 *
 * The last lines of a rank's output: NODE's answer to a DUMP with lines. */

struct job_output {
	uint32_t rank;
	char *host, *text; /* text: why lines are missing; NULL: "" */
	struct buf lines[2]; /* stdout's and stderr's, cleaned */
};

/* Copies the answer. -ENOMEM. Release it in any case; all zero may be released
 * as well. */
int job_output_init(struct job_output *o, uint32_t rank,
		    const struct wire_node_dump *m);
void job_output_release(struct job_output *o);
/* There is no answer; o may be in any state that can be released. */
void job_output_set_error(struct job_output *o, uint32_t rank,
			  const char *text);
/* Adds rank, host, text, stdout and stderr, which are lists of lines. */
void job_output_put_json(const struct json *j, cJSON *to,
			 const struct job_output *o);

/* Appends a program's output without what would control a terminal: escape
 * sequences are left out, tabs become blanks, other control characters '?'.
 * Newlines stay, and bytes that are not valid UTF-8. */
void job_output_clean(struct buf *out, struct slice text);

/* ---- gpu_status.c ----
 *
 * The GPUs of a job: frames GPUS, one for each node. */

/* A line for each GPU, at most 64. Malformed frames are cut. */
void gpu_status_put(struct buf *out, struct slice frames);
/* Adds "gpus", a list of objects. */
void gpu_status_put_json(const struct json *j, cJSON *to, struct slice frames);

/* ---- rank_progress.c ----
 *
 * How far each rank of a job is: its step, its rate, the age of its last
 * progress, and what it does. */

/* A line for each rank, at most 64. A malformed list is cut. */
void rank_progress_put(struct buf *out, const struct wire_items *ranks);
/* Adds "ranks", a list of objects. */
void rank_progress_put_json(const struct json *j, cJSON *to,
			    const struct wire_items *ranks);

#endif
