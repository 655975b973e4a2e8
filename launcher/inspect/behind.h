/* behind.h: of what all ranks of a job said of their calls: who has not come to
 * the one that others are in. Pure. */
#ifndef LAUNCHER_BEHIND_H
#define LAUNCHER_BEHIND_H

#include "launcher/inspect/ask.h"

/* A line for each communicator in which somebody is behind: "2 of 4 ranks have
 * come to barrier #7; not there: rank 1 (h1), rank 3 (h2)". What a node says
 * that is no list is left out. -ENOMEM. */
int behind_put(struct buf *out, const struct ask *a);

#endif
