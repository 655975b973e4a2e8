/* schedule.c: the rate as a function of the steps done. */
#include "trainers/train/schedule.h"

#include <math.h>
#include <string.h>

/* torch.optim.lr_scheduler.OneCycleLR: div_factor, final_div_factor. */
#define CYCLE_START (1.0 / 25)
#define CYCLE_END (CYCLE_START / 1e4)
#define LINE_START 0.01

static const char *const names[SCHEDULES] = {
	[SCHEDULE_CONSTANT] = "constant",
	[SCHEDULE_COSINE] = "cosine",
	[SCHEDULE_ONE_CYCLE] = "one-cycle",
};

const char *schedule_name(enum schedule_kind kind)
{
	return names[kind];
}

int schedule_find(const char *name, struct err *e)
{
	for (int i = 0; i < SCHEDULES; i++)
		if (!strcmp(name, names[i]))
			return i;
	return err_set(
		e, ERR_USAGE,
		"--schedule '%s' is not one of constant, cosine, one-cycle",
		name);
}

/* From a to b along half a cosine; 0 <= part <= 1. */
static double schedule_cosine(double a, double b, double part)
{
	return b + (a - b) * (1 + cos(M_PI * part)) / 2;
}

/* The peak may lie between two steps or, with a warm-up shorter than a step,
 * before the first, as in PyTorch, which counts from step 0. */
static double schedule_one_cycle(const struct schedule *s, double done)
{
	double top = s->warmup - 1;
	double last = s->total ? (double)s->total - 1 : 0;

	if (done > last)
		done = last;
	if (done < top)
		return s->lr * schedule_cosine(CYCLE_START, 1, done / top);
	if (last <= top || done == top)
		return s->lr;
	return s->lr *
	       schedule_cosine(1, CYCLE_END, (done - top) / (last - top));
}

double schedule_lr(const struct schedule *s, uint64_t done)
{
	double warmup = s->warmup, total = (double)s->total;
	double at = (double)done;

	if (s->kind == SCHEDULE_ONE_CYCLE)
		return schedule_one_cycle(s, at);
	if (at > total - 1)
		at = total > 0 ? total - 1 : 0;
	if (at < warmup)
		return s->lr * (LINE_START + (1 - LINE_START) * at / warmup);
	if (s->kind == SCHEDULE_CONSTANT || s->total == 0)
		return s->lr;
	return s->lr * schedule_cosine(1, 0, (at - warmup) / (total - warmup));
}
