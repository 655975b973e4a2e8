/* other_world.h: the variables from which other frameworks read their place in
 * a job (TF_CONFIG, PADDLE_*, HOROVOD_*). ddprun inherits one place; if it has
 * several workers, it cannot be theirs. With one worker on each node it may be:
 * whatever started the ddpruns may have given each its own. Pure. */
#ifndef LAUNCHER_OTHER_WORLD_H
#define LAUNCHER_OTHER_WORLD_H

#include <stdint.h>

enum { OTHER_WORLD_TEXT_MAX = 512 };

/* 1 if the workers must not inherit "NAME=value"; nproc: workers of this node.
 */
int other_world_is_hidden(const char *var, uint32_t nproc);

/* What to tell the user about those in vars, which ends with NULL; NULL if
 * there is nothing to tell. In out[OTHER_WORLD_TEXT_MAX]. frameworks: the set
 * (framework.h) whose variables ddprun replaces by right ones. */
const char *other_world_text(char *const *vars, unsigned frameworks,
			     uint32_t nproc, uint32_t world_size, char *out);

#endif
