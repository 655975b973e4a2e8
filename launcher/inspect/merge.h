/* merge.h: `ddprun dump --merge DIR`: reads what the ranks of jobs recorded, of
 * all nodes, from the files in a folder: the copies of the flight recorder that
 * ddprun leaves in attempt_N (recorder_NODE), and PyTorch's (fr_trace_RANK).
 * Asks no job. */
#ifndef LAUNCHER_MERGE_H
#define LAUNCHER_MERGE_H

#include "base/buf.h"

/* Appends the findings from the files in dir and its folders, as text or JSON:
 * for each attempt of a job the last call of each rank, the first call in which
 * ranks differ, those that have not arrived in a call, a deadlock, and the
 * ranks without a record. Warns of files that it cannot use. Returns how many
 * files it used, or an error. */
int merge_put(struct buf *out, const char *dir, int json, struct err *e);

#endif
