/* report.h: the results of a check as a table for people, in which what is
 * wrong and what differs is marked, and as JSON (docs/ddprun-check.1). */
#ifndef SDK_CHECK_REPORT_H
#define SDK_CHECK_REPORT_H

#include "worker-sdk/check/check.h"

/* Appends the table. */
void report_put_table(struct buf *out, const struct check *c);
/* "2 of 2 nodes are fit, 1 warning (quick, 0.31 s)" */
void report_put_summary(struct buf *out, const struct check *c);
/* The warnings and failures, a line each. */
void report_put_marks(struct buf *out, const struct check *c);
/* Appends the JSON. 0, or an error if cJSON or memory is missing. */
int report_put_json(struct buf *out, const struct check *c, struct err *e);

#endif
