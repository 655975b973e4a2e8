/* rank_progress.h: how far each rank of a job is, for `ddprun status`: its
 * step, its rate, the age of its last progress, and what it does. Pure. */
#ifndef LAUNCHER_RANK_PROGRESS_H
#define LAUNCHER_RANK_PROGRESS_H

#include "base/json.h"
#include "rendezvous/wire.h"

/* A line for each rank, at most 64. A malformed list is cut. */
void rank_progress_put(struct buf *out, const struct wire_items *ranks);
/* Adds "ranks", a list of objects. */
void rank_progress_put_json(const struct json *j, cJSON *to,
			    const struct wire_items *ranks);

#endif
