/* srun_exec.h: the srun that starts this very ddprun on each node of an
 * allocation. Pure but for srun_exec_run. */
#ifndef LAUNCHER_SRUN_EXEC_H
#define LAUNCHER_SRUN_EXEC_H

#include "launcher/config/config.h"

struct srun_exec {
	char **argv;      /* ends with NULL */
	struct buf texts; /* what argv has that is not the caller's */
};

/* self: ddprun's path, which the nodes have too; args: all that came after it,
 * which must outlive s. ERR_USAGE for a word that srun would take for its own;
 * -ENOMEM. */
int srun_exec_init(struct srun_exec *s, const struct config *c,
		      char *self, char **args, struct err *e);
void srun_exec_release(struct srun_exec *s);

/* As a shell would take it, without quotes where none are needed. */
void srun_exec_put(struct buf *b, const struct srun_exec *s);

/* A secret of this step's own, in the environment of the ddpruns that srun
 * starts, where nothing else says how nodes know each other: no word of the
 * user's, and no munge that answers. Slurm sends it to the nodes with the rest
 * of the environment. -errno. */
int srun_exec_add_secret(const struct config *c, struct err *e);
/* Variables that srun would take for options, and that are the job's words
 * about tasks of its own; what workers need of them travels by other names
 * (allocation.h). */
void srun_exec_clean(const struct config *c);

/* Becomes srun, so that signals, output and the exit code are srun's own.
 * Returns only an error, which says what to do. */
int srun_exec_run(const struct srun_exec *s, struct err *e);

#endif
