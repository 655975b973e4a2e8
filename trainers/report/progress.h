/* progress.h: what a user sees of a training run on stdout: a moving line on a
 * terminal, plain lines elsewhere. Knows counts and times, not what is
 * trained. */
#ifndef TRAINERS_PROGRESS_H
#define TRAINERS_PROGRESS_H

#include <stdint.h>

struct progress {
	int silent;  /* all ranks but the first */
	int moving;  /* stdout ends on a terminal */
	int shown;   /* characters of the moving line on the screen */
	uint64_t due; /* when the next line may be shown, ns */
	uint64_t start;
	long epoch, epochs;
	uint64_t steps, batch; /* of an epoch; samples a step */
	uint64_t first_step;   /* of this epoch's, where the run resumed */
	uint64_t left;         /* steps of the run, from there on */
};

/* moving: stdout is a terminal, or DDP_TERMINAL says that it ends on one. */
void progress_init(struct progress *p, int silent);

/* epoch counts from 1; left: steps of the whole run that are to be done. */
void progress_epoch(struct progress *p, long epoch, long epochs,
		    uint64_t first_step, uint64_t steps, uint64_t left,
		    uint64_t batch);

/* After a step (counted from 1) of the epoch; now is clock_ns(). Shows a line
 * if one is due: ten a second on a terminal, one in 5 s elsewhere. loss is only
 * read then. */
void progress_step(struct progress *p, uint64_t step, const float *loss,
		   uint64_t now);

/* 1: progress_step would show a line now. */
int progress_due(const struct progress *p, uint64_t now);

/* A line of text that stays. */
void progress_print(struct progress *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The number with thousands set apart, "60,000"; out has 32 bytes. */
const char *progress_count(uint64_t n, char *out);

#endif
