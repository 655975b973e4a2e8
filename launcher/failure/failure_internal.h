/* failure_internal.h: what the files about one worker's death share. */
#ifndef LAUNCHER_FAILURE_INTERNAL_H
#define LAUNCHER_FAILURE_INTERNAL_H

#include "base/buf.h"
#include "launcher/crash/crash_catcher.h"
#include "launcher/failure/failure.h"

/* ---- crash_report.c ----
 *
 * Describes the crash record of a worker, or of a process that it started: the
 * meaning of the signal, the place, the stack. Runs `ddprun --crash-stack`,
 * and waits for it briefly. */

enum {
	CRASH_REPORT_FRAMES = 24, /* a stack's innermost ones */
	CRASH_REPORT_WAIT_MS = 1500,
};

struct crash_report {
	int signal;      /* 0: there is no record */
	int is_workers;  /* else the process below is a descendant of it */
	int32_t pid;
	int code; /* siginfo's si_code */
	/* Each is one line, or empty: what the signal means, for example "null
	 * pointer (address 0x0)"; where it happened, " in step at train.c:120";
	 * Python's " (train.py:25)"; why there is no stack. */
	struct buf meaning, place, python_place, note;
	/* "sent by process 812 (scancel) of uid 0": the signal that killed the
	 * worker, if it asks a process to end; or empty. */
	struct buf sender;
	/* Lines that begin with '#': "#0 step at train.c:120 (train)", and
	 * Python's, "#py0 step at /w/train.py:25". */
	struct buf stack;
	char program[32]; /* its name */
};

void crash_report_init(struct crash_report *r);
void crash_report_release(struct crash_report *r);

struct crash_report_of {
	uint32_t local_rank;
	int32_t pid, signal; /* the worker's; signal 0: it exited */
	int with_stack;	     /* unwinds it */
};

/* Reads the record of the worker if its process left one, else that of a
 * descendant, if there is one; and who sent the worker its signal. */
void crash_report_read(struct crash_report *r, const struct crash_catcher *c,
		       const struct crash_report_of *of);

/* Pure: the meaning of a record. */
void crash_report_put_meaning(struct buf *out, const struct crash_record *r,
			      const char *maps);
/* Pure: the place, from the lines of a native stack. */
void crash_report_put_place(struct buf *out, struct slice stack);
/* Pure: faulthandler's lines as lines of a stack. */
void crash_report_put_python(struct buf *out, struct slice frames);

/* ---- failure.c ---- */

/* "" if b has failed or is empty. */
struct slice failure_text(const struct buf *b);

/* ---- failure_cause.c ---- */

/* Appends the causes to f->why, which is empty, the most
 * useful first, each in a line of its own. unreadable: why its error file
 * cannot be used, if its code is set. */
void failure_find_cause(struct failure *f, const struct worker *w,
			const struct postmortem_death *d,
			const struct err *unreadable,
			const struct crash_report *crash);
/* Appends the lines of the stack. */
void failure_put_stack(struct failure *f, const struct crash_report *crash);

#endif
