/* recipe.c: the recipes, and the options that change them. */
#include "trainers/train/recipe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "trainers/train/trainer_options.h"

/* fast: He et al., "Bag of Tricks for Image Classification", 2018 (smoothing,
 * warm-up, Nesterov's momentum), over one cycle (Smith, "Super-Convergence",
 * 2017). Its rate is for batches of 128. */
const struct recipe recipe_resnet[] = {
	{.name = "published", .lr = 0.1, .schedule = SCHEDULE_CONSTANT,
	 .optimizer = {OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 1e-5},
	 .augment = AUGMENT_SHIFT},
	{.name = "fast", .lr = 0.1, .schedule = SCHEDULE_ONE_CYCLE,
	 .warmup = 0.25, .smoothing = 0.1f,
	 .optimizer = {OPTIMIZER_SGD, .momentum = 0.9, .nesterov = 1,
		       .weight_decay = 5e-4},
	 .augment = AUGMENT_SHIFT},
	{.name = NULL},
};

static int recipe_find(struct recipe *out, const struct recipe *recipes,
		       const char *name, struct err *e)
{
	char list[256];
	size_t n = 0;

	*out = recipes[0];
	if (!name)
		return 0;
	for (const struct recipe *r = recipes; r->name; r++) {
		if (!strcmp(r->name, name)) {
			*out = *r;
			return 0;
		}
		if (n < sizeof(list))
			n += (size_t)snprintf(list + n, sizeof(list) - n,
					      "%s%s", n ? ", " : "", r->name);
	}
	return err_set(e, ERR_USAGE,
		       "--recipe '%s' is not one of this trainer's: %s", name,
		       list);
}

/* An optimizer other than the recipe's starts with PyTorch's defaults. */
static int recipe_change_optimizer(struct recipe *r,
				   const struct trainer_options *o,
				   struct err *e)
{
	struct optimizer *how = &r->optimizer;
	enum optimizer_kind kind = how->kind;

	if (o->optimizer && !strcmp(o->optimizer, "sgd"))
		kind = OPTIMIZER_SGD;
	else if (o->optimizer && !strcmp(o->optimizer, "adam"))
		kind = OPTIMIZER_ADAM;
	else if (o->optimizer)
		return err_set(e, ERR_USAGE, "--optimizer '%s' is neither sgd "
			       "nor adam", o->optimizer);
	if (kind != how->kind && !o->given.lr)
		return err_set(
			e, ERR_USAGE,
			"--optimizer %s is not the recipe's, whose learning "
			"rate does not fit it: give --lr as well",
			o->optimizer);
	if (kind != how->kind && kind == OPTIMIZER_SGD)
		*how = (struct optimizer){kind, .momentum = 0.9};
	else if (kind != how->kind)
		*how = (struct optimizer){kind, .beta1 = 0.9, .beta2 = 0.999,
					  .eps = 1e-8};
	if (o->given.weight_decay)
		how->weight_decay = o->weight_decay;
	if (kind == OPTIMIZER_ADAM && (o->given.momentum || o->nesterov))
		return err_set(e, ERR_USAGE,
			       "--%s is for sgd, but the optimizer is adam; "
			       "leave it out or give --optimizer sgd",
			       o->given.momentum ? "momentum" : "nesterov");
	if (o->given.momentum)
		how->momentum = o->momentum;
	if (o->given.nesterov)
		how->nesterov = o->nesterov;
	if (how->nesterov && how->momentum <= 0)
		return err_set(e, ERR_USAGE, "--nesterov needs a --momentum "
			       "above 0");
	return 0;
}

static int recipe_change_rate(struct recipe *r, const struct trainer_options *o,
			      int world_size, struct err *e)
{
	int kind = o->schedule ? schedule_find(o->schedule, e)
			       : (int)r->schedule;

	if (kind < 0)
		return kind;
	if ((int)r->schedule != kind)
		r->warmup = kind == SCHEDULE_ONE_CYCLE ? 0.3 : 0;
	r->schedule = (enum schedule_kind)kind;
	if (o->given.lr)
		r->lr = o->lr;
	if (!strcmp(o->lr_scale, "linear"))
		r->lr *= world_size;
	else if (strcmp(o->lr_scale, "none") != 0)
		return err_set(e, ERR_USAGE, "--lr-scale '%s' is neither "
			       "linear nor none", o->lr_scale);
	return 0;
}

int recipe_choose(struct recipe *out, const struct recipe *recipes,
		  const struct trainer_options *o, int world_size,
		  struct err *e)
{
	int r = recipe_find(out, recipes, o->recipe, e);

	if (r == 0)
		r = recipe_change_optimizer(out, o, e);
	if (r == 0)
		r = recipe_change_rate(out, o, world_size, e);
	if (r < 0)
		return r;
	if (o->given.smoothing)
		out->smoothing = (float)o->smoothing;
	if (o->no_augment)
		out->augment = AUGMENT_NONE;
	else if (o->crop)
		out->augment = strcmp(o->crop, "shift") ? AUGMENT_RESIZE
							: AUGMENT_SHIFT;
	return 0;
}

struct schedule recipe_schedule(const struct recipe *r,
				const struct trainer_options *o,
				uint64_t total, uint64_t steps_of_epoch)
{
	double steps = r->warmup * (double)total;

	if (o->given.warmup)
		steps = o->warmup * (double)steps_of_epoch;
	if (steps > (double)total)
		steps = (double)total;
	/* the linear part and the cosine meet at a whole step, like
	 * SequentialLR's milestones */
	if (r->schedule != SCHEDULE_ONE_CYCLE)
		steps = floor(steps + 0.5);
	return (struct schedule){r->schedule, r->lr, steps, total};
}

const char *recipe_text(const struct recipe *r, char *out, size_t size)
{
	const struct optimizer *how = &r->optimizer;
	char momentum[64] = "", decay[64] = "";
	int sgd = how->kind == OPTIMIZER_SGD;

	if (sgd && how->momentum > 0)
		snprintf(momentum, sizeof(momentum), ", %smomentum %g",
			 how->nesterov ? "Nesterov's " : "", how->momentum);
	if (how->weight_decay > 0)
		snprintf(decay, sizeof(decay), ", weight decay %g",
			 how->weight_decay);
	snprintf(out, size, "%s%s%s, lr %g %s", sgd ? "SGD" : "Adam", momentum,
		 decay, r->lr, schedule_name(r->schedule));
	return out;
}
