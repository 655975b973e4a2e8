/* trainer_options.h: the command line of all trainers, in one table. Parses
 * options and rejects contradictions; knows nothing of their effects. */
#ifndef TRAINERS_TRAINER_OPTIONS_H
#define TRAINERS_TRAINER_OPTIONS_H

#include "base/error.h"
#include "base/option.h"
#include "trainers/ops/ops.h"

/* What a trainer supports. Options for anything else are rejected and left out
 * of its --help. */
enum trainer_feature {
	TRAINER_ARCH = 1,        /* several networks to choose from */
	TRAINER_SYNTHETIC = 2,   /* synthetic images of any size */
	TRAINER_BATCH_NORM = 4,
	TRAINER_CLASSES = 8,     /* a cross-entropy loss */
	TRAINER_AUGMENT = 16,    /* photographs, which can be cropped and
				  * flipped */
	TRAINER_IMAGES_OUT = 32, /* its outputs are images */
	TRAINER_RECIPES = 64     /* more than one recipe */
};

/* 1: given on the command line or in the environment. */
struct trainer_given {
	int epochs, steps, lr, momentum, nesterov, weight_decay, warmup;
	int arch, stem, synthetic, image_size, sync_bn, smoothing, no_augment;
	int crop, crop_size, save_images, recipe, keep, conv, loss_scale;
	int fuse;
};

struct trainer_options {
	const char *data; /* NULL: not given */
	int synthetic;
	long image_size;
	const char *arch, *stem;

	long epochs;
	long steps;      /* 0: epochs sets the length */
	long eval_every; /* epochs; 0: only after the last */
	long batch;      /* over all ranks */
	long accumulate; /* micro-batches of a rank's share */

	/* recipe.h makes a recipe from these */
	const char *recipe, *optimizer, *schedule; /* NULL: not given */
	double lr, momentum, weight_decay, warmup, smoothing;
	int nesterov, no_augment;
	const char *crop; /* NULL: the recipe's */
	long crop_size;   /* 0: the images' size */
	const char *lr_scale;

	int sync_bn;
	enum precision precision;
	const char *precision_text;
	long loss_scale; /* fp16: the first one */
	int deterministic;
	int fuse;
	int direct;
	const char *conv;
	long seed;
	const char *device;
	int oversubscribe_gpu;
	const char *backend; /* NULL: libddp chooses */

	const char *checkpoint;
	long keep;
	/* NULL: do not resume. TRAINER_RESUME_IT: from --checkpoint's file, if
	 * it exists. TRAINER_RESUME_AUTO: from the newest whole checkpoint.
	 * Else the name of a file. */
	const char *resume;
	const char *init_from;
	const char *export;
	const char *log_dir;
	long log_every; /* steps; 0: every step, on a GPU every 50th */
	long check_every; /* steps; 0: never */
	const char *save_images;
	struct trainer_given given;
};

#define TRAINER_RESUME_IT ""
#define TRAINER_RESUME_AUTO "auto"

extern const struct option_spec trainer_option_table[];

/* Parses the environment and argv into o, which holds the trainer's defaults.
 * Returns 0, OPTION_WANT_HELP, OPTION_WANT_VERSION or ERR_USAGE. */
int trainer_options_parse(struct trainer_options *o, const char *name,
			  unsigned features, int argc, char **argv,
			  struct err *e);

/* Parses with any table, and refuses arguments that are not options. */
int trainer_options_parse_only(const struct option_spec *table, void *o,
			       int argc, char **argv, struct err *e);

/* Defaults of all trainers; each adds its own. */
#define TRAINER_OPTIONS_INIT                                           \
	.device = "auto", .accumulate = 1, .eval_every = 1, .keep = 1, \
	.lr_scale = "none", .precision_text = "fp32", .conv = "auto",  \
	.image_size = 32, .arch = "resnet18", .stem = "torchvision",   \
	.loss_scale = LOSS_SCALE_FIRST

/* Prints the first lines of --help. */
void trainer_options_usage(const char *name, const char *about);

/* Prints --help of the trainer `name`; about is one sentence, o holds the
 * defaults. */
void trainer_options_help(const char *name, const char *about,
			  unsigned features, const struct trainer_options *o);

#endif
