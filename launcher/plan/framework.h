/* framework.h: the variables from which JAX, TensorFlow and Paddle read a
 * worker's place in the job, which --env asks for. Pure. */
#ifndef LAUNCHER_FRAMEWORK_H
#define LAUNCHER_FRAMEWORK_H

#include "base/buf.h"
#include "base/error.h"
#include "base/sock.h"

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

#endif
