/* doctor_report.h: the lines of the report of `ddprun doctor`: titles, rows of
 * a label and a value, their marks and remedies; hides secrets. Pure, except
 * that it reads $HOME. */
#ifndef LAUNCHER_DOCTOR_REPORT_H
#define LAUNCHER_DOCTOR_REPORT_H

#include "base/buf.h"

enum doctor_mark {
	DOCTOR_FINE = ' ',
	DOCTOR_WARNING = '!',
	DOCTOR_ERROR = 'X',
};

/* Appends "MARK label   value". Control characters become '?', and $HOME '~'.
 * remedy, unless NULL, is a line of its own with the same mark. */
void doctor_put(struct buf *b, enum doctor_mark mark, const char *label,
		const char *remedy, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Appends a variable of the environment. The value of a name with TOKEN, KEY,
 * SECRET or the like is replaced by its length, the user and password in a URL
 * by asterisks; a long value is cut. */
void doctor_put_variable(struct buf *b, const char *name, const char *value);

/* Counts the rows with that mark; remedies do not count. */
int doctor_count(struct slice report, enum doctor_mark mark);

/* Appends the lines of report that other does not have. */
void doctor_put_difference(struct buf *b, struct slice report,
			   struct slice other);

#endif
