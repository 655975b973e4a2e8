/* stage.h: --stage as the agent sees it: what the user asked for, the helper
 * process that copies (stage_helper.h), and the use of the copy. The room's
 * face.
 *
 * Promises: the helper's failure is reported once, by on_failed. The helper
 * dies with the agent. What it leaves is an incomplete copy that the next job
 * continues (stage_copy.c). */
#ifndef LAUNCHER_STAGE_H
#define LAUNCHER_STAGE_H

#include <limits.h>

#include "base/loop.h"
#include "launcher/plan/plan.h"
#include "launcher/stage/stage_order.h"

/* ---- what the user asked for ---- */

struct stage_spec {
	char path[PATH_MAX];   /* absolute, as it was given */
	char source[PATH_MAX]; /* without symbolic links; "": it is not here */
	char folder[PATH_MAX]; /* keeps the copies; "": the default */
};

/* text is PATH[:FOLDER]. The path "auto" stands for the environment (virtual,
 * or conda's) of program, an interpreter or NULL, or else for the environment
 * that is active in this process. ERR_USAGE: the text is wrong. */
int stage_spec_parse(struct stage_spec *s, const char *text,
		     const char *program, struct err *e);
/* The checks of stage_spec_parse that read no files. */
int stage_spec_check(const char *text, struct err *e);

/* ---- the helper ---- */

struct stage {
	void *owner;
	void (*on_report)(void *owner, const struct stage_report *r);
	/* The helper failed or died before it reported A. */
	void (*on_failed)(void *owner, const char *why);
	uv_loop_t *loop;
	uv_poll_t poll;
	int fd; /* its reports; -1: none */
	int has_poll, has_result;
	pid_t pid; /* 0: none */
	void (*closed)(struct stage *s);
	struct buf in;
};

/* The caller has set owner, callbacks and loop; all else is zero. listener: for
 * the node after this one; -1: none; the caller closes it. Allocates the stage
 * process's own memory; after an error stage_stop is still needed. */
int stage_start(struct stage *s, const struct stage_order *order, int listener,
		struct err *e);
/* Kills the helper. No callback follows; closed is called from the loop, and
 * then s may be freed. */
void stage_stop(struct stage *s, void (*closed)(struct stage *s));
/* A child ended: 1 if it was the helper. */
int stage_reaped(struct stage *s, pid_t pid, int status);

/* ---- the use of the copy ---- */

/* From now on programs that this process starts find the copy: DDP_STAGE is its
 * path, and in PATH, PYTHONPATH, LD_LIBRARY_PATH, VIRTUAL_ENV and CONDA_PREFIX
 * what is at or below the source is replaced. -ENOMEM. */
int stage_use_environment(const struct stage_spec *s, const char *copy,
			  struct err *e);
/* A program that is in the source becomes the one in the copy, and so does the
 * interpreter in its first line, and a script that Python runs. What it
 * allocates is never freed: it is used until the process ends. -ENOMEM, or
 * ERR_USAGE: the program is a link to a file that this host lacks. */
int stage_use_program(const struct stage_spec *s, const char *copy,
		      struct program *program, struct err *e);

#endif
