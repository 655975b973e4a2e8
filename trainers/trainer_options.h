/* trainer_options.h: the command line of every trainer, one table for all.
 * Knows what can be said, not what it leads to. */
#ifndef TRAINERS_TRAINER_OPTIONS_H
#define TRAINERS_TRAINER_OPTIONS_H

#include "base/error.h"
#include "base/option.h"

struct trainer_options {
	const char *data; /* NULL: none named */
	long epochs;
	long batch; /* of all ranks together */
	double lr;
	long seed;
	const char *device;
	const char *backend; /* NULL: libddp decides */
	const char *checkpoint;
	int resume;
	const char *log_dir;
	const char *init_from;
	const char *arch; /* resnet: which, and how it begins */
	const char *stem;
	int synthetic;
	long image_size; /* of synthetic images */
	long steps;      /* of all epochs at most; 0: as epochs say */
	const char *precision;
};

extern const struct option_spec trainer_option_table[];

/* o holds the trainer's defaults and is filled from the environment and argv.
 * Returns 0, OPTION_WANT_HELP, OPTION_WANT_VERSION, or ERR_USAGE with a
 * text. */
int trainer_options_parse(struct trainer_options *o, int argc, char **argv,
			  struct err *e);

/* --help of the trainer name; about is a sentence, o its defaults. */
void trainer_options_help(const char *name, const char *about,
			  const struct trainer_options *o);

#endif
