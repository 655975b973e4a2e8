/* log_writer.c: chooses between a call and the queue, and words its reports. */
#include "launcher/output/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/file_wait.h"
#include "base/log.h"
#include "base/sock.h"

enum {
	LATE_MS = 5000, /* is reported */
	FINISH_MS = 5000,
	APART_MS = 2000, /* reports: this process was stopped in between */
	NAMES_MAX = 32,
};

/* DDP_TEST_LOG_QUEUE is for tests, which do not fill 64 MiB. */
static size_t log_queue_max(void)
{
	const char *text = getenv("DDP_TEST_LOG_QUEUE");
	long bytes = text ? strtol(text, NULL, 10) : FILE_QUEUE_MAX;

	return bytes > 0 && bytes < FILE_QUEUE_MAX ? (size_t)bytes
						   : FILE_QUEUE_MAX;
}

void log_queue_init(struct log_queue *q, int is_remote)
{
	*q = (struct log_queue){.files = NULL};
	if (is_remote)
		q->files = file_queue_new(log_queue_max());
}

int log_queue_try(struct log_queue *q, file_queue_job *job, const char *path,
		  struct slice text)
{
	return q->files ? file_queue_do(q->files, job, path, text)
			: job(path, text);
}

int log_queue_do(struct log_queue *q, file_queue_job *job, const char *path,
		 struct slice text)
{
	int rc = log_queue_try(q, job, path, text);

	return q->files && rc == -ETIMEDOUT ? 0 : rc;
}

int log_queue_holds_up(struct log_queue *q, size_t bytes)
{
	return q->files && file_queue_holds_up(q->files, bytes);
}

/* ---- reports ---- */

struct log_names {
	struct {
		char path[256]; /* its end, if it is longer */
		uint64_t bytes;
	} list[NAMES_MAX];
	int n, has_more;
};

static void log_names_add(void *arg, const char *path, uint64_t bytes)
{
	struct log_names *names = arg;
	size_t size = sizeof(names->list[0].path);
	size_t n = strlen(path);
	int i = 0;

	if (n >= size)
		path += n - size + 1;
	while (i < names->n && strcmp(names->list[i].path, path) != 0)
		i++;
	if (i == NAMES_MAX) {
		names->has_more = 1;
		return;
	}
	if (i == names->n) {
		names->n++;
		snprintf(names->list[i].path, size, "%s", path);
		names->list[i].bytes = 0;
	}
	names->list[i].bytes += bytes;
}

/* "/logs/x/report.json, /logs/x/0/stdout.log (812 bytes) and others" */
static void log_names_put(const struct log_names *names, struct buf *out)
{
	for (int i = 0; i < names->n; i++) {
		buf_printf(out, "%s%s", i ? ", " : "", names->list[i].path);
		if (names->list[i].bytes)
			buf_printf(out, " (%llu bytes)", (unsigned long long)
				   names->list[i].bytes);
	}
	if (names->has_more)
		buf_printf(out, " and others");
	buf_put_u8(out, '\0');
}

enum { NAMES_TEXT_MAX = NAMES_MAX * (256 + 32) + 64 };

static void log_queue_warn_late(const struct file_queue_state *s)
{
	char server[FILE_WAIT_SERVER_MAX], host[SOCK_HOST_MAX], since[32];
	time_t began = time(NULL) - (time_t)(s->late_ms / 1000);
	struct tm tm;

	sock_host_name(host);
	strftime(since, sizeof(since), "%H:%M:%S", localtime_r(&began, &tm));
	log_warn("%s: a write to '%s' has waited since %s: its file system "
		 "(%s) does not answer. The job continues; what it writes to "
		 "the log folder waits in memory",
		 host, s->path, since, file_wait_server(s->path, server));
}

/* when: what has happened. */
static void log_queue_warn_lost(struct log_queue *q, const char *when)
{
	struct buf text = BUF_INIT(NAMES_TEXT_MAX);
	struct log_names names = {.n = 0};
	char host[SOCK_HOST_MAX];

	sock_host_name(host);
	file_queue_each_lost(q->files, log_names_add, &names);
	log_names_put(&names, &text);
	log_warn("%s: %s: %s", host, when,
		 text.failed ? "several files" : text.data);
	buf_release(&text);
}

static void log_queue_say_over(struct log_queue *q,
			       const struct file_queue_state *s)
{
	char host[SOCK_HOST_MAX];

	sock_host_name(host);
	log_info("%s: the log folder's file system answers again, after %u s%s",
		 host, (unsigned)(q->late_ms / 1000),
		 s->lost == q->lost_before ? "; nothing is lost" : "");
	if (s->lost != q->lost_before)
		log_queue_warn_lost(q, "lost in all");
}

void log_queue_report(struct log_queue *q)
{
	struct file_queue_state s;
	int was_late = q->is_late;
	uint64_t now = clock_ms();

	if (!q->files)
		return;
	if (q->reported_ms && now - q->reported_ms > APART_MS)
		file_queue_was_stopped(q->files);
	q->reported_ms = now;
	file_queue_look(q->files, &s);
	q->is_late = s.late_ms >= LATE_MS;
	if (q->is_late && !was_late)
		log_queue_warn_late(&s);
	if (q->is_late)
		q->late_ms = s.late_ms;
	if (s.lost > q->lost_before && !q->has_lost) {
		q->has_lost = 1;
		log_queue_warn_lost(
			q, "too much output waits for the log folder's file "
			"system: what does not fit is lost");
	}
	if (was_late && !q->is_late) {
		log_queue_say_over(q, &s);
		q->lost_before = s.lost;
		q->has_lost = 0;
	}
	if (s.failed && !q->has_failed) {
		q->has_failed = 1;
		log_warn("cannot write '%s': %s; the job continues without it",
			 s.failed_path, strerror(-s.failed));
	}
}

static void log_queue_warn_unwritten(struct log_queue *q)
{
	struct buf text = BUF_INIT(NAMES_TEXT_MAX);
	struct log_names names = {.n = 0};
	char server[FILE_WAIT_SERVER_MAX], host[SOCK_HOST_MAX];
	struct file_queue_state s;

	sock_host_name(host);
	file_queue_look(q->files, &s);
	file_queue_each_waiting(q->files, log_names_add, &names);
	log_names_put(&names, &text);
	if (s.lost > q->lost_before)
		log_queue_warn_lost(q, "too much output waited for the log "
				    "folder's file system, and is lost");
	log_warn("%s: not written, because the file system (%s) has not "
		 "answered for %u s: %s", host,
		 file_wait_server(s.path, server),
		 (unsigned)(s.late_ms / 1000),
		 text.failed ? "several files" : text.data);
	buf_release(&text);
}

void log_queue_finish(struct log_queue *q)
{
	if (!q->files)
		return;
	if (file_queue_wait(q->files, FINISH_MS) < 0) {
		log_queue_warn_unwritten(q);
	} else {
		q->reported_ms = 0; /* this wait was no stop */
		log_queue_report(q);
	}
	file_queue_free(q->files);
	q->files = NULL;
}

/* ---- jobs ---- */

int log_job_make_folder(const char *path, struct slice text)
{
	return mkdir(path, 0777) < 0 ? -errno : 0;
}

static int log_job_write_as(const char *path, struct slice text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	int rc = fd < 0 ? -errno : file_write_all(fd, text.data, text.len);

	return file_close(fd, rc);
}

int log_job_write(const char *path, struct slice text)
{
	return log_job_write_as(path, text, 0666);
}

int log_job_write_private(const char *path, struct slice text)
{
	return log_job_write_as(path, text, 0600);
}

int log_job_remove(const char *path, struct slice text)
{
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

static int log_job_create(const char *path, struct slice text)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);

	return fd < 0 ? -errno : file_close(fd, 0);
}

/* ---- files ---- */

int log_writer_open(struct log_writer *f, struct log_queue *q, const char *path)
{
	int rc;

	*f = LOG_WRITER_NONE;
	if (!q->files) {
		f->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
			     0666);
		return f->fd < 0 ? -errno : 0;
	}
	rc = log_queue_do(q, log_job_create, path, SLICE_STR(""));
	if (rc < 0)
		return rc;
	f->queued = file_queue_begin(q->files, path);
	return f->queued ? 0 : -ENOMEM;
}

int log_writer_is_open(const struct log_writer *f)
{
	return f->fd >= 0 || f->queued;
}

int log_writer_write(const struct log_writer *f, struct slice text)
{
	if (f->queued) {
		(void)file_queue_append(f->queued, text);
		return 0;
	}
	return f->fd < 0 ? 0 : file_write_all(f->fd, text.data, text.len);
}

void log_writer_close(struct log_writer *f)
{
	if (f->fd >= 0)
		close(f->fd);
	if (f->queued)
		file_queue_end(f->queued);
	*f = LOG_WRITER_NONE;
}
