/* progress.h: a training run's output on stdout: an updating line on a
 * terminal, plain lines elsewhere. Knows counts and times, not what they
 * measure. */
#ifndef TRAINERS_PROGRESS_H
#define TRAINERS_PROGRESS_H

#include <stdint.h>

struct progress {
	int silent;  /* set on all ranks but the first */
	int moving;  /* stdout is shown on a terminal */
	int shown;   /* width of the updating line on the screen */
	uint64_t due; /* earliest time of the next line, ns */
	uint64_t start;
	long epoch, epochs;
	uint64_t steps, batch; /* per epoch; samples per step */
	uint64_t first_step;   /* step of this epoch that the run started or
				* resumed at */
	uint64_t left;         /* steps of the run left from there */
};

/* moving is set if stdout is a terminal, or DDP_TERMINAL says that it is shown
 * on one. */
void progress_init(struct progress *p, int silent);

/* Starts an epoch, counted from 1; left: steps that the whole run still has to
 * do. */
void progress_epoch(struct progress *p, long epoch, long epochs,
		    uint64_t first_step, uint64_t steps, uint64_t left,
		    uint64_t batch);

/* Call after each step (from 1) of the epoch; now is clock_ns(). Prints a line
 * if one is due: ten per second on a terminal, else one every 5 s. Only then is
 * *loss read. */
void progress_step(struct progress *p, uint64_t step, const float *loss,
		   uint64_t now);

/* Prints a line that stays. */
void progress_print(struct progress *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Formats n with thousands separators, "60,000", into out[32]; returns out. */
const char *progress_count(uint64_t n, char *out);

#endif
