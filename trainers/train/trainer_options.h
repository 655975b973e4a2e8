/* trainer_options.h: the command line of every trainer, one table for all.
 * Knows what can be said and what contradicts itself, not what it leads to. */
#ifndef TRAINERS_TRAINER_OPTIONS_H
#define TRAINERS_TRAINER_OPTIONS_H

#include "base/error.h"
#include "base/option.h"

/* What a trainer has. An option for what it has not is refused in words, and
 * is not in its --help. */
enum trainer_feature {
	TRAINER_ARCH = 1,        /* several networks */
	TRAINER_SYNTHETIC = 2,   /* images of any size, made up */
	TRAINER_BATCH_NORM = 4,
	TRAINER_CLASSES = 8,     /* cross-entropy */
	TRAINER_AUGMENT = 16,    /* photographs */
	TRAINER_IMAGES_OUT = 32, /* its outputs are images */
	TRAINER_RECIPES = 64     /* more than one recipe */
};

/* 1: said by the command line or the environment. */
struct trainer_given {
	int epochs, steps, lr, momentum, nesterov, weight_decay, warmup;
	int arch, stem, synthetic, image_size, sync_bn, smoothing, no_augment;
	int save_images, recipe, keep, conv;
};

struct trainer_options {
	const char *data; /* NULL: none named */
	int synthetic;
	long image_size;
	const char *arch, *stem;

	long epochs;
	long steps;      /* 0: epochs say how long */
	long eval_every; /* epochs; 0: only after the last */
	long batch;      /* of all ranks together */
	long accumulate; /* micro-batches of a rank's part of it */

	/* recipe.h makes one recipe of these */
	const char *recipe, *optimizer, *schedule; /* NULL: not said */
	double lr, momentum, weight_decay, warmup, smoothing;
	int nesterov, no_augment;
	const char *lr_scale;

	int sync_bn;
	int bf16;
	const char *precision;
	int direct;
	const char *conv;
	long seed;
	const char *device;
	int oversubscribe_gpu;
	const char *backend; /* NULL: libddp decides */

	const char *checkpoint;
	long keep;
	/* NULL: no. TRAINER_RESUME_IT: from --checkpoint's file, if it is
	 * there. TRAINER_RESUME_AUTO: from the newest whole one. Else a file.
	 */
	const char *resume;
	const char *init_from;
	const char *log_dir;
	long log_every; /* steps; 0: each, on a GPU each 50th */
	const char *save_images;
	struct trainer_given given;
};

#define TRAINER_RESUME_IT ""
#define TRAINER_RESUME_AUTO "auto"

extern const struct option_spec trainer_option_table[];

/* o holds the trainer's defaults and is filled from the environment and argv;
 * features are the trainer's, name its name. Returns 0, OPTION_WANT_HELP,
 * OPTION_WANT_VERSION, or ERR_USAGE with a text. */
int trainer_options_parse(struct trainer_options *o, const char *name,
			  unsigned features, int argc, char **argv,
			  struct err *e);

/* What every trainer begins with, before its own defaults. */
#define TRAINER_OPTIONS_INIT                                                  \
	.device = "auto", .accumulate = 1, .eval_every = 1, .keep = 1,        \
	.lr_scale = "none", .precision = "fp32", .conv = "auto",              \
	.image_size = 32, .arch = "resnet18", .stem = "torchvision"

/* --help of the trainer name; about is a sentence, o its defaults. */
void trainer_options_help(const char *name, const char *about,
			  unsigned features, const struct trainer_options *o);

#endif
