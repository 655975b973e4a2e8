/* step_command.h: the srun that starts this very ddprun on each node of an
 * allocation. Pure but for step_command_exec. */
#ifndef LAUNCHER_STEP_COMMAND_H
#define LAUNCHER_STEP_COMMAND_H

#include "launcher/config/config.h"

struct step_command {
	char **argv;      /* ends with NULL */
	struct buf texts; /* what argv has that is not the caller's */
};

/* self: ddprun's path, which the nodes have too; args: all that came after it,
 * which must outlive s. ERR_USAGE for a word that srun would take for its own;
 * -ENOMEM. */
int step_command_init(struct step_command *s, const struct config *c,
		      char *self, char **args, struct err *e);
void step_command_release(struct step_command *s);

/* As a shell would take it, without quotes where none are needed. */
void step_command_put(struct buf *b, const struct step_command *s);

/* A secret of this step's own, in the environment of the ddpruns that srun
 * starts, where nothing else says how nodes know each other: no word of the
 * user's, and no munge that answers. Slurm sends it to the nodes with the rest
 * of the environment. -errno. */
int step_command_add_secret(const struct config *c, struct err *e);
/* In such a ddprun, before it starts anything: takes the secret, if there is
 * one, out of the environment and into *a. ERR_USAGE: it was changed on the
 * way. */
int step_command_take_secret(struct auth *a, struct err *e);

/* Variables that srun would take for options, and that are the job's words
 * about tasks of its own; what workers need of them travels by other names
 * (allocation.h). */
void step_command_clean(const struct config *c);

/* Becomes srun, so that signals, output and the exit code are srun's own.
 * Returns only an error, which says what to do. */
int step_command_exec(const struct step_command *s, struct err *e);

#endif
