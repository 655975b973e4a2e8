/* metrics.h: metrics.jsonl in --log-dir, one JSON object per line, and the same
 * values as TensorBoard events. One process of the job writes them. */
#ifndef TRAINERS_METRICS_H
#define TRAINERS_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct metrics {
	FILE *file; /* NULL: no --log-dir */
	char *path;
	struct ddp_metrics *events;
};

struct metrics_step {
	uint64_t step;
	long epoch;
	double lr;
	float loss;
	float loss_scale;  /* 0: losses are not scaled */
	uint64_t skipped;  /* steps without an update so far */
};

struct metrics_epoch {
	long epoch;
	uint64_t step; /* steps done, over all epochs */
	double train_loss, test_loss; /* NaN: not evaluated */
	double test_accuracy; /* percent; < 0: the model has none */
	double seconds, samples_per_second;
};

/* Makes dir if missing and opens dir/metrics.jsonl and a new events file. Lines
 * of up to done_steps steps are kept, later ones, written by a run that died,
 * are cut off; 0 starts a new file. dir NULL: does nothing. */
int metrics_open(struct metrics *m, const char *dir, uint64_t done_steps,
		 struct err *e);

/* {"step":1,"epoch":1,"lr":0.001,"loss":2.30657578}, with
 * "loss_scale":65536,"skipped":0 before the loss if there is a scale. */
void metrics_step(struct metrics *m, const struct metrics_step *v);

/* {"epoch":1,"steps":938,"train_loss":..,"test_loss":..,"test_accuracy":..,
 * "seconds":..,"samples_per_second":..}; test_loss and test_accuracy only if
 * they exist. Flushes; returns an error if any line was lost. */
int metrics_epoch(struct metrics *m, const struct metrics_epoch *v,
		  struct err *e);

int metrics_close(struct metrics *m, struct err *e);

#endif
