/* gpu_status.h: the GPUs of a job, for `ddprun status`: frames GPUS, one for
 * each node. Pure. */
#ifndef LAUNCHER_GPU_STATUS_H
#define LAUNCHER_GPU_STATUS_H

#include "base/json.h"
#include "rendezvous/wire.h"

/* A line for each GPU, at most 64. Malformed frames are cut. */
void gpu_status_put(struct buf *out, struct slice frames);
/* Adds "gpus", a list of objects. */
void gpu_status_put_json(const struct json *j, cJSON *to, struct slice frames);

#endif
