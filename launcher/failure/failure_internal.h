/* failure_internal.h: what failure.c and failure_cause.c share. */
#ifndef LAUNCHER_FAILURE_INTERNAL_H
#define LAUNCHER_FAILURE_INTERNAL_H

#include "launcher/failure/crash_report.h"
#include "launcher/failure/failure.h"

/* failure.c: "" if b has failed or is empty. */
struct slice failure_text(const struct buf *b);

/* failure_cause.c: appends the causes to f->why, which is empty, the most
 * useful first, each in a line of its own. unreadable: why its error file
 * cannot be used, if its code is set. */
void failure_find_cause(struct failure *f, const struct worker *w,
			const struct postmortem_death *d,
			const struct err *unreadable,
			const struct crash_report *crash);
/* Appends the lines of the stack. */
void failure_put_stack(struct failure *f, const struct crash_report *crash);

#endif
