/* stragglers.h: finds, from the calls of all ranks of a job, the ranks that
 * have not reached the call others wait in. Pure. */
#ifndef LAUNCHER_STRAGGLERS_H
#define LAUNCHER_STRAGGLERS_H

#include "launcher/inspect/dump_query.h"

/* A line for each communicator with stragglers: "2 of 4 ranks have come to
 * barrier #7; not there: rank 1 (h1), rank 3 (h2)". Ignores a node whose list
 * is malformed. -ENOMEM. */
int stragglers_put(struct buf *out, const struct dump_query *q);

#endif
