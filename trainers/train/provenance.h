/* provenance.h: config.json in --log-dir: what a run was, so that it can be
 * done again: command line, options, environment, versions. Knows no model. */
#ifndef TRAINERS_PROVENANCE_H
#define TRAINERS_PROVENANCE_H

#include <stdint.h>

#include "base/error.h"
#include "trainers/train/trainer_options.h"

/* What the trainer found or decided: "device": "cpu, 2 threads". */
struct provenance_fact {
	const char *name, *text;
};

/* Writes dir/config.json whole or not at all; of a run that goes on after
 * done_steps dir/config.from_STEP.json. dir is there. Of the environment: what
 * has to do with the job, and nothing that is named like a secret. The versions
 * of git are those of the working folder and of the program's, where git is
 * installed and they are in a repository. */
int provenance_write(const char *dir, uint64_t done_steps, int argc,
		     char **argv, const struct trainer_options *o,
		     const struct provenance_fact *facts, int n,
		     struct err *e);

/* Whether a variable is told; pure. */
int provenance_is_recorded(const char *name);

#endif
