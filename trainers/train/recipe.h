/* recipe.h: named sets of hyperparameters, and the options that override them.
 * Pure. */
#ifndef TRAINERS_RECIPE_H
#define TRAINERS_RECIPE_H

#include "base/error.h"
#include "trainers/ops/ops.h"
#include "trainers/train/schedule.h"

struct trainer_options;

struct recipe {
	const char *name;
	struct optimizer optimizer;
	double lr; /* for a world of one */
	enum schedule_kind schedule;
	double warmup; /* fraction of all steps, 0 to 1 */
	float smoothing;
	enum augment_kind augment; /* random crops and flips of photographs */
};

/* Sets *out to the recipe that o names, or the first one, changed by the other
 * options in o; its lr is multiplied by world_size with --lr-scale linear.
 * recipes ends with one without a name. ERR_USAGE: the name is unknown (the
 * text lists all), or options contradict each other. */
int recipe_choose(struct recipe *out, const struct recipe *recipes,
		  const struct trainer_options *o, int world_size,
		  struct err *e);

/* The schedule of a run of `total` steps, steps_of_epoch in an epoch. */
struct schedule recipe_schedule(const struct recipe *r,
				const struct trainer_options *o,
				uint64_t total, uint64_t steps_of_epoch);

/* Writes "SGD, Nesterov's momentum 0.9, weight decay 0.0005, lr 0.1 one-cycle"
 * to out; returns out. */
const char *recipe_text(const struct recipe *r, char *out, size_t size);

/* PyTorch's Adam; and for ResNets the published script's numbers, and a set
 * that reaches a higher accuracy in fewer epochs. */
#define RECIPE_ADAM(rate)                                                     \
	{.name = "published", .lr = (rate),                                   \
	 .optimizer = {OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999,          \
		       .eps = 1e-8}}
extern const struct recipe recipe_resnet[];

#endif
