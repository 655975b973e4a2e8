/* logdir.h: the folders and files of this node's workers, as torchrun lays
 * them out: DIR/JOB_SUFFIX/attempt_N/LOCAL_RANK/{stdout.log,stderr.log,
 * error.json}. Knows which streams have files, but moves no bytes itself. */
#ifndef LAUNCHER_LOGDIR_H
#define LAUNCHER_LOGDIR_H

#include <limits.h>

#include "launcher/output/output_options.h"
#include "launcher/output/tail.h"

enum { LOGDIR_PATH_MAX = PATH_MAX };

struct logdir {
	const struct output_options *options;
	const char *job;
	uint32_t nproc;
	char run[LOGDIR_PATH_MAX];     /* DIR/JOB_SUFFIX; "": no files at all */
	char attempt[LOGDIR_PATH_MAX]; /* of the round that runs; or "" */
	int is_private; /* run is for error files only, and goes at the end */
	int told_full;  /* that files could not be made */
	uint32_t round;
};

/* Makes the run's folder, which proves that it can be written to:
 *   --log-dir DIR        below it (made if it is not there)
 *   --log-dir /dev/null  none: there are no files
 *   without it           below a new folder in TMPDIR that is kept and named
 *                        in a line, where streams are to go to files; else a
 *                        private one for error files alone, in TMPDIR, and
 *                        where that is not set in /dev/shm, else /tmp
 * 0 or -errno; the text names the path. options and job
 * must outlive d. */
int logdir_init(struct logdir *d, const struct output_options *options,
		const char *job, uint32_t nproc, struct err *e);

/* For who only wants to know names: fills d as the first round would find it,
 * and makes nothing. XXXXXX stands for what is chosen at random. */
void logdir_imagine(struct logdir *d, const struct output_options *options,
		    const char *job, uint32_t nproc);

/* Removes what is private. */
void logdir_release(struct logdir *d);

/* The path of the folder that has to be removed at the end, or "". Fixed from
 * logdir_init on: the guard removes it with logdir_remove if we cannot. */
const char *logdir_private(const struct logdir *d);
int logdir_remove(const char *path);

/* A round begins: makes attempt_N with a folder for each local rank. A round
 * that is no restart (nodes came or went) has attempt_N_round_R, for nothing is
 * overwritten. A disk that is full by now is a warning, once: the round then
 * has no files. on_folder is called after each folder: on a slow file system
 * all of them take longer than a lease lasts. */
typedef void logdir_on_folder(void *arg);
void logdir_begin(struct logdir *d, uint32_t attempt, uint32_t round,
		  logdir_on_folder *on_folder, void *arg);

/* Where the worker is to leave its error: a path in out (LOGDIR_PATH_MAX), or
 * "" where there is no place. Returns out. */
const char *logdir_error_file(const struct logdir *d, uint32_t local_rank,
			      char *out);

/* stdout.log or stderr.log, opened to append, close-on-exec; the caller's.
 * -1: none can be made, and a warning said so, once. Only for a stream that
 * has a file. */
int logdir_open(struct logdir *d, uint32_t local_rank, int is_stderr);

/* filtered_stdout.log or filtered_stderr.log of the attempt; as logdir_open. */
int logdir_open_filtered(struct logdir *d, int is_stderr);

/* The file with all of a worker's stdout or stderr: a path in out, or "" where
 * it has none. Returns out. */
const char *logdir_stream(const struct logdir *d, uint32_t local_rank,
			  int is_stderr, char *out);

/* The last lines of its stderr's file; nothing where there is none. */
void logdir_tail(const struct logdir *d, uint32_t local_rank, struct tail *t);

/* The attempt's folder, where what is about all workers goes; or "". */
const char *logdir_attempt(const struct logdir *d);

#endif
