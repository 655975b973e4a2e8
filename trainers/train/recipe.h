/* recipe.h: how a model is trained, in numbers: a row of them for each way that
 * has a name, and what of it the user wants otherwise. Pure. */
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
	double warmup; /* part of all steps, 0 to 1 */
	float smoothing;
	int augment; /* where the data are photographs */
};

/* A trainer's recipes end with one without a name; the first is its default.
 * Fills out with the one that o names, changed by whatever else o says, its lr
 * times the world size under --lr-scale linear. ERR_USAGE with a text that
 * lists what there is, or says which options contradict each other. */
int recipe_choose(struct recipe *out, const struct recipe *recipes,
		  const struct trainer_options *o, int world_size,
		  struct err *e);

/* The schedule of a run of so many steps, and of an epoch. */
struct schedule recipe_schedule(const struct recipe *r,
				const struct trainer_options *o,
				uint64_t total, uint64_t steps_of_epoch);

/* "SGD (Nesterov, momentum 0.9, weight decay 0.0005), lr 0.1 one-cycle" into
 * out, which it returns. */
const char *recipe_text(const struct recipe *r, char *out, size_t size);

/* PyTorch's Adam; and the ones of ResNets: the published script's, and what
 * reaches more in fewer epochs. */
#define RECIPE_ADAM(rate)                                                     \
	{.name = "published", .lr = (rate),                                   \
	 .optimizer = {OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999,          \
		       .eps = 1e-8}}
extern const struct recipe recipe_resnet[];

#endif
