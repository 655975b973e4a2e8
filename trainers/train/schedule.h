/* schedule.h: the learning rate of each step, as PyTorch's schedulers give it
 * when they are stepped once a batch. Pure. */
#ifndef TRAINERS_SCHEDULE_H
#define TRAINERS_SCHEDULE_H

#include <stdint.h>

#include "base/error.h"

enum schedule_kind {
	SCHEDULE_CONSTANT,
	/* half a cosine, from lr down to 0 at the end: CosineAnnealingLR */
	SCHEDULE_COSINE,
	/* up to lr along half a cosine, from lr / 25, then down along another
	 * to lr / 250,000 at the last step: OneCycleLR */
	SCHEDULE_ONE_CYCLE,
	SCHEDULES
};

struct schedule {
	enum schedule_kind kind;
	double lr; /* the highest */
	/* Steps in which it rises. constant, cosine: along a line from lr / 100
	 * (LinearLR with start_factor=0.01), before the cosine begins.
	 * one-cycle: pct_start times total, which need not be whole. */
	double warmup;
	uint64_t total; /* steps of the whole run, the warm-up among them */
};

/* "constant", "cosine", "one-cycle". */
const char *schedule_name(enum schedule_kind kind);
/* The kind of that name, or ERR_USAGE with a text that lists all. */
int schedule_find(const char *name, struct err *e);

/* The rate of the update after `done` updates. From total on that of the last
 * step. */
double schedule_lr(const struct schedule *s, uint64_t done);

#endif
