/* log_writer.h: writes below the log folder. If the folder is on a local file
 * system, they are plain calls. Otherwise its server may stop, so a thread
 * writes (base/file_queue.h); this reports writes that are late or lost. */
#ifndef LAUNCHER_LOG_WRITER_H
#define LAUNCHER_LOG_WRITER_H

#include "base/file_queue.h"

struct log_queue {
	struct file_queue *files; /* NULL: the folder is local */
	int is_late, has_lost, has_failed; /* reported */
	uint64_t late_ms, lost_before;
	uint64_t reported_ms; /* when it was looked at; 0: never */
};

/* is_remote: the log folder is not on a local file system. Without memory for
 * a queue, the calls are plain. */
void log_queue_init(struct log_queue *q, int is_remote);

/* The job of a file_queue on path: run here, or in the thread. Returns its
 * result; 0 if it is late, and will be done; or -errno of the queue. */
MUST_CHECK int log_queue_do(struct log_queue *q, file_queue_job *job,
			    const char *path, struct slice text);

/* The same, but -ETIMEDOUT if it is late. */
MUST_CHECK int log_queue_try(struct log_queue *q, file_queue_job *job,
			     const char *path, struct slice text);

/* 1 if reading from the workers should pause because more than this waits and
 * the server answers. */
int log_queue_holds_up(struct log_queue *q, size_t bytes);

/* Logs that writes are late or lost, or are no longer late. Call it 10 times a
 * second. */
void log_queue_report(struct log_queue *q);

/* Waits for outstanding writes for 5 s at most, logs which are not done, and
 * frees the queue. */
void log_queue_finish(struct log_queue *q);

/* ---- jobs ---- */

int log_job_make_folder(const char *path, struct slice text);
/* Replaces the contents; the second: only this user can read it. */
int log_job_write(const char *path, struct slice text);
int log_job_write_private(const char *path, struct slice text);
int log_job_remove(const char *path, struct slice text);

/* ---- files to which lines are appended ---- */

struct log_writer {
	int fd;			       /* -1: none, or queued */
	struct file_queue_file *queued; /* or NULL */
};

#define LOG_WRITER_NONE ((struct log_writer){-1, NULL})

/* Opens it for appending, and creates it if it is missing. 0, or -errno and
 * LOG_WRITER_NONE. */
MUST_CHECK int log_writer_open(struct log_writer *f, struct log_queue *q,
			     const char *path);
int log_writer_is_open(const struct log_writer *f);
/* 0 or -errno. What the queue loses is reported by log_queue_report. */
MUST_CHECK int log_writer_write(const struct log_writer *f, struct slice text);
/* Closes it if it is open; then it is LOG_WRITER_NONE. */
void log_writer_close(struct log_writer *f);

#endif
