/* status.h: `ddprun status`: what the rendezvous servers of this user's jobs
 * know about them: nodes, workers, round, restarts, and which nodes are missing
 * since when. */
#ifndef LAUNCHER_STATUS_H
#define LAUNCHER_STATUS_H

#include "base/json.h"
#include "base/option.h"
#include "launcher/inspect/job_status.h"
#include "rendezvous/wire.h"

extern const struct option_spec status_options[];

/* What --json prints (docs/ddprun-status.1). */
int status_put_json(struct buf *out, const struct job_status_list *l,
		    struct err *e);

/* argv[0] is "status". Returns the exit code. */
int status_main(int argc, char **argv);

/* ---- gpu_status.c ----
 *
 * The GPUs of a job, for `ddprun status`: frames GPUS, one for each node. Pure.
 * */

/* A line for each GPU, at most 64. Malformed frames are cut. */
void gpu_status_put(struct buf *out, struct slice frames);
/* Adds "gpus", a list of objects. */
void gpu_status_put_json(const struct json *j, cJSON *to, struct slice frames);

/* ---- rank_progress.c ----
 *
 * How far each rank of a job is, for `ddprun status`: its step, its rate, the
 * age of its last progress, and what it does. Pure. */

/* A line for each rank, at most 64. A malformed list is cut. */
void rank_progress_put(struct buf *out, const struct wire_items *ranks);
/* Adds "ranks", a list of objects. */
void rank_progress_put_json(const struct json *j, cJSON *to,
			    const struct wire_items *ranks);

#endif
