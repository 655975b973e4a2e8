/* top_screen.h: draws the screen of `ddprun top` into a buffer: the same text
 * for a terminal, which it fits and overwrites in place, and for --once. Pure.
 *
 * Text from other hosts (names, calls, words) cannot reach the terminal as
 * commands: control bytes and invalid UTF-8 are drawn as '?'. */
#ifndef LAUNCHER_TOP_SCREEN_H
#define LAUNCHER_TOP_SCREEN_H

#include "launcher/top/top_rows.h"

struct top_screen {
	int columns, lines; /* the terminal's; 0: no limit, plain text */
	int color;
	size_t first; /* the first row that is shown */
	enum top_order order;
	const char *filter;  /* "" or NULL: none */
	const char *message; /* replaces the line of keys; NULL: none */
	size_t job, jobs;    /* it shows the job-th of jobs, from 0 */
};

/* Appends the job's lines and then as many rows as fit. With columns, each line
 * ends where the screen does, and what an earlier screen left there is erased.
 * Returns how many rows fit: what a page is for scrolling. */
size_t top_screen_put(struct buf *out, const struct top_screen *s,
		      const struct job_status *job, const struct top_rows *r);

/* The same without a job: words say what there is instead. */
void top_screen_put_nothing(struct buf *out, const struct top_screen *s,
			    const char *words);

#endif
