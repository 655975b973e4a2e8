/* top_internal.h: the parts of `ddprun top`: the rows, the screen that shows
 * them, and the terminal. */
#ifndef LAUNCHER_TOP_INTERNAL_H
#define LAUNCHER_TOP_INTERNAL_H

#include <signal.h>
#include <termios.h>

#include "base/error.h"
#include "rendezvous/status/job_status.h"

/* ---- top_rows.c ----
 *
 * The ranks of a job as the rows of `ddprun top`: what the server knows of
 * each, joined with its node, and with marks for ranks that deserve a look.
 * Pure. */

enum top_mark {
	TOP_FINE,
	TOP_SLOW,  /* the others wait for it (docs/stragglers.md) */
	TOP_QUIET, /* no progress for 30 s, or stopped */
};

enum top_order { TOP_BY_RANK, TOP_BY_QUIET, TOP_BY_STEP, TOP_BY_CPU };
enum { TOP_ORDERS = TOP_BY_CPU + 1 };

struct top_row {
	struct wire_rank as; /* its slices point into the job */
	int32_t node;	     /* node rank; -1: unknown */
	struct slice host;   /* empty: unknown */
	struct slice role;   /* empty: the job has one program */
	enum top_mark mark;
};

struct top_rows {
	struct top_row *rows;
	size_t n;
	int has_roles;
};

/* Makes the rows of a job, by rank. -ENOMEM. Release in any case; the rows are
 * valid as long as the job. */
int top_rows_init(struct top_rows *r, const struct job_status *job);
void top_rows_release(struct top_rows *r);

/* The lowest rank or step comes first, but the highest age or CPU rate. Ties
 * remain in the order of ranks. */
void top_rows_sort(struct top_rows *r, enum top_order order);

/* Keeps the rows that contain text in their host, call or words, or whose rank
 * or role is text. "" keeps all. */
void top_rows_filter(struct top_rows *r, const char *text);

/* ---- top_screen.c ----
 *
 * Draws the screen of `ddprun top` into a buffer: the same text for a
 * terminal, which it fits and overwrites in place, and for --once. Pure.
 *
 * Text from other hosts (names, calls, words) cannot reach the terminal as
 * commands: control bytes and invalid UTF-8 are drawn as '?'. */

struct top_screen {
	int columns, lines; /* the terminal's; 0: no limit, plain text */
	int color;
	size_t first; /* the first row that is shown */
	enum top_order order;
	const char *filter;  /* "" or NULL: none */
	const char *message; /* replaces the line of keys; NULL: none */
	size_t job, jobs;    /* it shows the job-th of jobs, from 0 */
	const struct job_output *output; /* below the rows; NULL: none */
};

/* Appends the job's lines, then as many rows as fit, then the last lines of a
 * rank's output, which take at most half of that room. With columns, each line
 * ends where the screen does, and what an earlier screen left there is erased.
 * Returns how many rows fit: what a page is for scrolling. */
size_t top_screen_put(struct buf *out, const struct top_screen *s,
		      const struct job_status *job, const struct top_rows *r);

/* The same without a job: words say what there is instead. */
void top_screen_put_nothing(struct buf *out, const struct top_screen *s,
			    const char *words);

/* ---- top_terminal.c ----
 *
 * The terminal of `ddprun top`: a screen of its own without echo, keys one by
 * one, its size. Whatever ends the program, the terminal is as it was before.
 * Linux: signals come through a descriptor, so that nothing happens in a
 * handler. */

/* Besides bytes as they are typed. */
enum top_key {
	KEY_NOTHING = 0, /* the time is up */
	KEY_ESCAPE = 27,
	KEY_UP = 256,
	KEY_DOWN,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_HOME,
	KEY_END,
	KEY_REDRAW, /* the size changed, or the program was continued */
	KEY_QUIT    /* SIGINT, SIGTERM, SIGHUP, or the terminal is gone */
};

struct top_terminal {
	int columns, lines;
	int signals;	 /* a signalfd */
	int signal;	 /* that ended it, or 0 */
	int is_entered;
	struct termios before;
	sigset_t mask_before;
};

/* stdin and stdout must be terminals. Takes over the screen and the signals. */
int top_terminal_init(struct top_terminal *t, struct err *e);
/* Gives both back. */
void top_terminal_release(struct top_terminal *t);

/* For a program that runs meanwhile: the ordinary screen, and back. */
void top_terminal_leave(struct top_terminal *t);
void top_terminal_enter(struct top_terminal *t);

/* The next key, or KEY_NOTHING after ms. Stops this program at Ctrl-Z. */
int top_terminal_key(struct top_terminal *t, int ms);

#endif
