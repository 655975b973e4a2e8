/* framework.h: the variables from which JAX, TensorFlow, Paddle and Horovod
 * read a worker's place in a job: those that --env asks for, and those of
 * another job, which workers must not inherit. Pure. */
#ifndef LAUNCHER_FRAMEWORK_H
#define LAUNCHER_FRAMEWORK_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct environment_job;

/* Bits of a set. */
enum { FRAMEWORK_JAX = 1, FRAMEWORK_TF = 2, FRAMEWORK_PADDLE = 4 };

enum { FRAMEWORK_VARS_MAX = 6 };

/* 0 and the set that "jax,tf,paddle" or a part of it names, or ERR_USAGE.
 * NULL: the empty set. */
int framework_parse(const char *text, unsigned *set, struct err *e);
/* Appends the value of --env, "jax,tf", without a NUL. */
void framework_put_names(unsigned set, struct buf *out);
/* 1 if each worker needs a port, and the addresses of all. */
int framework_needs_peers(unsigned set);
/* 1 if we set the variable of "NAME=value", which is then not inherited. */
int framework_sets(unsigned set, const char *var);
/* Those that only a run knows; as many as names[FRAMEWORK_LATER_MAX] gets.
 * is_alone: the node's ranks are known. */
enum { FRAMEWORK_LATER_MAX = 12 };
int framework_later(unsigned set, int is_alone, int has_job_id,
		    const char **names);

/* Appends the variables that are the same for all workers of the node, each
 * with its NUL. base: the inherited ones. An error if a text is longer than
 * the kernel passes to a program. */
int framework_put(const struct environment_job *job, char **base,
		  struct buf *out, struct err *e);

/* The variables of one worker. */
struct framework_vars {
	char *vars[FRAMEWORK_VARS_MAX]; /* the first n; rewritten for each */
	int n;
	size_t tf_index; /* offset of the index in TF_CONFIG */
};

/* After an error v needs no release. */
int framework_vars_init(struct framework_vars *v,
			const struct environment_job *job, struct err *e);
void framework_vars_release(struct framework_vars *v);
void framework_vars_set(struct framework_vars *v,
			const struct environment_job *job, uint32_t rank,
			uint32_t local_rank);

/* ---- the variables of other worlds ----
 *
 * The variables from which other frameworks read their place in a job
 * (TF_CONFIG, PADDLE_*, HOROVOD_*). ddprun inherits one place; if it has
 * several workers, it cannot be theirs. With one worker on each node it may be:
 * whatever started the ddpruns may have given each its own. Pure. */

enum { OTHER_WORLD_TEXT_MAX = 512 };

/* 1 if the workers must not inherit "NAME=value"; nproc: workers of this node.
 */
int other_world_is_hidden(const char *var, uint32_t nproc);

/* What to tell the user about those in vars, which ends with NULL; NULL if
 * there is nothing to tell. In out[OTHER_WORLD_TEXT_MAX]. set: frameworks
 * whose variables ddprun replaces by right ones. */
const char *other_world_text(char *const *vars, unsigned set,
			     uint32_t nproc, uint32_t world_size, char *out);

#endif
