/* logdir.h: the folders and files of this node's workers, as torchrun lays
 * them out: DIR/JOB_SUFFIX/attempt_N/LOCAL_RANK/{stdout.log,stderr.log,
 * error.json}. Decides which streams have files; copies no output. If the run's
 * folder is on a file server, no call after logdir_init waits long for it: the
 * rest is done later (log_writer.h). */
#ifndef LAUNCHER_LOGDIR_H
#define LAUNCHER_LOGDIR_H

#include <limits.h>

#include "launcher/output/lines.h"
#include "launcher/output/log_writer.h"
#include "launcher/output/output_options.h"

enum { LOGDIR_PATH_MAX = PATH_MAX };

struct logdir {
	const struct output_options *options;
	const char *job;
	uint32_t nproc;
	char run[LOGDIR_PATH_MAX];     /* DIR/JOB_SUFFIX; "": no files at all */
	char attempt[LOGDIR_PATH_MAX]; /* the running round's folder; or "" */
	int is_private; /* run holds only error files; removed at the end */
	int warned_full;  /* warned that files cannot be created */
	uint32_t round;
	uint32_t begun; /* the last attempt + 1 */
	struct log_queue queue;
	/* NULL, or called with each path at which logdir_init tries to make a
	 * private folder, before it does, and with "" if that failed */
	void (*note_private)(void *owner, const char *path);
	void *owner;
};

/* Creates the run's folder, which proves that it is writable:
 *   --log-dir DIR        below DIR, which is created if it is missing
 *   --log-dir /dev/null  none: there are no files
 *   without --log-dir    if streams go to files: below a new folder in TMPDIR,
 *                        which is kept and named in a log line. Otherwise a
 *                        private folder for error files only, in TMPDIR or, if
 *                        that is not set, in /dev/shm, else in /tmp
 * 0 or -errno; the error names the path. options and job must outlive d, and
 * the caller has set note_private and owner. */
int logdir_init(struct logdir *d, const struct output_options *options,
		const char *job, uint32_t nproc, struct err *e);

/* For --dry-run: fills d with the names of the first round and creates
 * nothing. XXXXXX stands for the random part of a name. */
void logdir_imagine(struct logdir *d, const struct output_options *options,
		    const char *job, uint32_t nproc);

/* TMPDIR, else /tmp. */
const char *logdir_temporary(void);

/* Removes the folder if it is private, and waits for outstanding writes
 * (log_queue_finish). All files are closed. */
void logdir_release(struct logdir *d);

/* The path of the folder that must be removed at the end, or "". The guard
 * removes it with logdir_remove if this process cannot. */
const char *logdir_private(const struct logdir *d);
int logdir_remove(const char *path);

/* A round begins: creates attempt_N with a folder for each local rank. A round
 * that is not a restart (nodes joined or left) gets attempt_N_round_R, so that
 * nothing is overwritten. If the disk is full, the round has no files; a
 * warning is logged once. on_folder is called after each folder: on a slow file
 * system all of them together may take longer than the lease lasts. */
typedef void logdir_on_folder(void *arg);
void logdir_begin(struct logdir *d, uint32_t attempt, uint32_t round,
		  logdir_on_folder *on_folder, void *arg);

/* Writes the path of the worker's error file to out (LOGDIR_PATH_MAX), or "" if
 * there is none. Returns out. */
const char *logdir_error_file(const struct logdir *d, uint32_t local_rank,
			      char *out);

/* Likewise the path of the file in which it may report its steps. */
const char *logdir_step_file(const struct logdir *d, uint32_t local_rank,
			     char *out);

/* Opens stdout.log or stderr.log to append, close-on-exec; the caller closes
 * it. It is not open if it cannot be created; a warning is logged once. Only
 * for a stream that has a file. */
struct log_writer logdir_open(struct logdir *d, uint32_t local_rank,
			    int is_stderr);

/* As logdir_open: the attempt's filtered_stdout.log or filtered_stderr.log. */
struct log_writer logdir_open_filtered(struct logdir *d, int is_stderr);

/* Writes to out the path of the file with all of a worker's stdout or stderr,
 * or "" if it has none. Returns out. */
const char *logdir_stream(const struct logdir *d, uint32_t local_rank,
			  int is_stderr, char *out);

/* Adds the last lines of the worker's stdout or stderr file, if it has one, to
 * t. 0 or -errno; -ETIMEDOUT, after FILE_WAIT_MS at most: its file system does
 * not answer. */
MUST_CHECK int logdir_read_tail(const struct logdir *d, uint32_t local_rank,
				int is_stderr, struct tail *t);
/* The same for stderr; warns if its file system does not answer. */
void logdir_tail(const struct logdir *d, uint32_t local_rank, struct tail *t);

/* Whether named pipes can be made in the attempt's folder, which is tried.
 * Those of PyTorch (torch_RANK.pipe) are removed when the next round begins,
 * and by logdir_release. */
int logdir_has_pipes(struct logdir *d);

/* The attempt's folder, for files about all of its workers; or "". */
const char *logdir_attempt(const struct logdir *d);

#endif
