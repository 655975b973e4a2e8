/* provenance.h: config.json in --log-dir: command line, options, environment
 * and versions, so that a run can be repeated. Knows no model. */
#ifndef TRAINERS_PROVENANCE_H
#define TRAINERS_PROVENANCE_H

#include <stdint.h>

#include "base/error.h"
#include "trainers/train/trainer_options.h"

/* Something that the trainer found or decided: "device": "cpu, 2 threads". */
struct provenance_fact {
	const char *name, *text;
};

/* Writes dir/config.json, or for a run that resumes after done_steps
 * dir/config.from_STEP.json, whole or not at all; dir exists. Environment
 * variables are those that concern the job, without secrets. Git versions are
 * those of the working directory and of the program's, if git is installed and
 * they are in a repository. */
int provenance_write(const char *dir, uint64_t done_steps, int argc,
		     char **argv, const struct trainer_options *o,
		     const struct provenance_fact *facts, int n,
		     struct err *e);

/* 1 if a variable of this name is written to config.json. Pure. */
int provenance_is_recorded(const char *name);

#endif
