/* srun_exec.h: builds and executes the srun command that starts this ddprun on
 * each node of an allocation. srun_exec_init and srun_exec_put are pure. */
#ifndef LAUNCHER_SRUN_EXEC_H
#define LAUNCHER_SRUN_EXEC_H

#include "launcher/env/launch_env.h"

/* Borrows everything. */
struct srun_exec_options {
	const struct launch_env *env; /* whose role is LAUNCH_STEP */
	int is_elastic;	    /* --nnodes MIN:MAX */
	uint32_t min_nodes; /* the nodes of a job that is not elastic */
	long stdin_rank;    /* INPUT_NONE, INPUT_ALL, or a rank */
	int other_steps;    /* the job may have nodes of other steps */
	const char *auth_text, *token_file; /* --auth, --token-file */
};

struct srun_exec {
	char **argv;      /* ends with NULL */
	struct buf texts; /* the words of argv that are our own */
};

/* self: ddprun's path, the same on all nodes. args: the words after it, which
 * must outlive s. ERR_USAGE for a word that srun would take for its own option,
 * or -ENOMEM. */
int srun_exec_init(struct srun_exec *s, const struct srun_exec_options *o,
		   char *self, char **args, struct err *e);
void srun_exec_release(struct srun_exec *s);

/* Appends the command for a shell, quoted only where needed. */
void srun_exec_put(struct buf *b, const struct srun_exec *s);

/* If the nodes have no other way to authenticate (the user chose none, and
 * munge does not answer), puts a new secret for this step into the environment,
 * which Slurm sends to the nodes. 0 or -errno. */
int srun_exec_add_secret(const struct srun_exec_options *o, struct err *e);

/* Removes variables that srun would take for options: they describe the job's
 * own tasks. Those that workers need are passed on under other names
 * (allocation.h). */
void srun_exec_clean(const struct srun_exec_options *o);

/* The same for sruns that carry a connection to a node: their streams are
 * bytes. */
void srun_exec_clean_links(const struct srun_exec_options *o);

/* Executes srun in place of this process, so that signals, output and the exit
 * code are srun's own. Returns only an error, which says what to do. */
int srun_exec_run(const struct srun_exec *s, struct err *e);

#endif
