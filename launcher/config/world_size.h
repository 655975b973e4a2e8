/* world_size.h: -n, the number of workers of the whole job: how many of them
 * each node has. Fills struct config; starts nothing. */
#ifndef LAUNCHER_WORLD_SIZE_H
#define LAUNCHER_WORLD_SIZE_H

#include "launcher/config/config.h"

/* Over ssh: gives each of c->hosts its workers, in order, up to the slots that
 * are listed for it or --nproc-per-node; if there are none, shares them evenly.
 * Removes the hosts that get none. ERR_USAGE if there are too few slots. */
int world_size_place(struct config *c, struct err *e);

/* Otherwise, when the number of nodes is decided: sets --nproc-per-node, the
 * same for each. ERR_USAGE if that cannot be, or if it contradicts the user's.
 */
int world_size_split(struct config *c, struct err *e);

#endif
