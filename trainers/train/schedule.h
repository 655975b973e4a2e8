/* schedule.h: the learning rate of each step, equal to PyTorch's schedulers
 * when they are stepped once per batch. Pure. */
#ifndef TRAINERS_SCHEDULE_H
#define TRAINERS_SCHEDULE_H

#include <stdint.h>

#include "base/error.h"

enum schedule_kind {
	SCHEDULE_CONSTANT,
	/* half a cosine from lr to 0 at the end: CosineAnnealingLR */
	SCHEDULE_COSINE,
	/* half a cosine up from lr / 25 to lr, then another down to lr /
	 * 250,000 at the last step: OneCycleLR */
	SCHEDULE_ONE_CYCLE,
	SCHEDULES
};

struct schedule {
	enum schedule_kind kind;
	double lr; /* the highest */
	/* Steps in which the rate rises. constant, cosine: linearly from lr /
	 * 100 (LinearLR with start_factor=0.01), before the cosine starts.
	 * one-cycle: pct_start * total, which need not be whole. */
	double warmup;
	uint64_t total; /* steps of the whole run, including the warm-up */
};

/* "constant", "cosine", "one-cycle". */
const char *schedule_name(enum schedule_kind kind);
/* The kind of that name, or ERR_USAGE; the text lists all. */
int schedule_find(const char *name, struct err *e);

/* The rate of the update after `done` updates; beyond total, that of the last
 * step. */
double schedule_lr(const struct schedule *s, uint64_t done);

#endif
