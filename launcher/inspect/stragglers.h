/* stragglers.h: finds, from the calls of all ranks of a job, the ranks that
 * have not reached the call others wait in, and those that wait for each other.
 * Pure. */
#ifndef LAUNCHER_STRAGGLERS_H
#define LAUNCHER_STRAGGLERS_H

#include "launcher/inspect/dump_query.h"

/* Appends lines about the cycle of ranks that wait for each other, if there is
 * one; then a line for each communicator in which ranks wait for others: "2 of
 * 4 ranks have reached barrier #7; missing: rank 1 (h1), rank 3 (h2)". Ignores
 * a node whose list is malformed. 0 or -ENOMEM. */
int stragglers_put(struct buf *out, const struct dump_node *nodes, size_t n);

#endif
