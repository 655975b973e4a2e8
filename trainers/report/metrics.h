/* metrics.h: metrics.jsonl in --log-dir: one JSON object a line, for programs
 * to read; and the same as TensorBoard's events. One process of the job writes
 * them. */
#ifndef TRAINERS_METRICS_H
#define TRAINERS_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct metrics {
	FILE *file; /* NULL: nobody wants them */
	char *path;
	struct ddp_metrics *events;
};

struct metrics_epoch {
	long epoch;
	uint64_t step; /* steps done so far, of all epochs */
	double train_loss, test_loss; /* NaN: there was no test */
	double test_accuracy; /* percent; < 0: the model has none */
	double seconds, samples_per_second;
};

/* Makes dir if need be and opens dir/metrics.jsonl and a file of events. Lines
 * of steps up to done_steps stay, what a run that died wrote after them goes; 0
 * starts anew. dir NULL: nothing. */
int metrics_open(struct metrics *m, const char *dir, uint64_t done_steps,
		 struct err *e);

/* {"step":1,"epoch":1,"lr":0.001,"loss":2.30657578} */
void metrics_step(struct metrics *m, uint64_t step, long epoch, double lr,
		  float loss);

/* {"epoch":1,"steps":938,"train_loss":..,"test_loss":..,"test_accuracy":..,
 *  "seconds":..,"samples_per_second":..}; test_loss and test_accuracy only
 * where there are. All that was written reaches the file; an error says so. */
int metrics_epoch(struct metrics *m, const struct metrics_epoch *v,
		  struct err *e);

int metrics_close(struct metrics *m, struct err *e);

#endif
