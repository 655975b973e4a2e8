/* file_queue.h: writes files whose file server may stop. A thread does it, one
 * job after the other, in the order of the calls; the caller waits for a
 * limited time, or not at all. While the server answers, a job is done when
 * file_queue_do returns. While it does not, jobs wait in memory, up to a limit;
 * text beyond it is lost, counted, and marked in its file. All functions are
 * called by one thread, the queue's own thread excepted.
 *
 * The thread is set apart (file_wait.h): neither the end of this process nor a
 * program that it starts waits for a server that has stopped. */
#ifndef BASE_FILE_QUEUE_H
#define BASE_FILE_QUEUE_H

#include <limits.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	FILE_QUEUE_MAX = 64 << 20, /* for file_queue_new */
};

struct file_queue;
struct file_queue_file;

/* A job, run by the thread: it must not log, nor use what belongs to others.
 * 0 or -errno. */
typedef int file_queue_job(const char *path, struct slice text);

/* NULL: no memory. The thread starts with the first job. At most max bytes of
 * text to append wait, with what their jobs need. A file can use half of what
 * the other files leave free, so that room is left for them. */
struct file_queue *file_queue_new(size_t max);

/* Adds a job with a copy of path and text, and waits until it is done, for
 * FILE_WAIT_MS (file_wait.h) at most, briefly after a timeout, and not at all
 * if the server is late. Returns the job's result; -ETIMEDOUT: it will be done
 * later; -ENOMEM or another -errno of the thread's start: it never will. */
MUST_CHECK int file_queue_do(struct file_queue *q, file_queue_job *job,
			     const char *path, struct slice text);

/* A file to which text is appended; NULL: no memory. It belongs to the queue
 * after file_queue_end, which waits for nothing. */
struct file_queue_file *file_queue_begin(struct file_queue *q,
					 const char *path);
void file_queue_end(struct file_queue_file *f);

/* Appends a copy of the text, later; the file is created if it is missing.
 * 0, or -ENOBUFS or -ENOMEM: this text is lost. */
int file_queue_append(struct file_queue_file *f, struct slice text);

/* 1 if more than this waits and the server answers: the caller should not read
 * more from its sources. A late server holds nobody up. */
int file_queue_holds_up(struct file_queue *q, size_t bytes);

struct file_queue_state {
	uint32_t waiting;   /* jobs, the one in progress included */
	size_t bytes;	    /* what the text to append needs */
	uint64_t late_ms;   /* how long the job in progress has taken */
	uint64_t lost;	    /* bytes of text, since the queue began */
	int failed;	    /* the first -errno that no caller got; 0: none */
	char path[PATH_MAX]; /* the job in progress, or "" */
	char failed_path[PATH_MAX];
};

void file_queue_look(struct file_queue *q, struct file_queue_state *s);

/* This process, and not the server, was stopped until now. */
void file_queue_was_stopped(struct file_queue *q);

/* Waits until all jobs are done, for ms at most. 0 or -ETIMEDOUT. */
MUST_CHECK int file_queue_wait(struct file_queue *q, uint64_t ms);

typedef void file_queue_each(void *arg, const char *path, uint64_t bytes);

/* Calls each with every job that is not done and the bytes it appends; and with
 * every file that has lost text, and how much. */
void file_queue_each_waiting(struct file_queue *q, file_queue_each *each,
			     void *arg);
void file_queue_each_lost(struct file_queue *q, file_queue_each *each,
			  void *arg);

/* Frees q, or leaves it to the thread if that has not finished. NULL: nothing
 * happens. Files that were begun must have been ended. */
void file_queue_free(struct file_queue *q);

#endif
