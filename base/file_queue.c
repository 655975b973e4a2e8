/* file_queue.c: the queue is owned by its caller and by its thread; the last
 * one to leave frees it. */
#include "base/file_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/file_wait.h"

enum {
	/* a job that waits has room for more text of its file */
	TEXT_ROOM = 4096,
};

struct file_queue_file {
	struct file_queue *queue;
	struct file_queue_file *next; /* in the list of losers */
	struct queue_job *open;	      /* the last that waits, and is not full */
	uint32_t owners;	      /* its caller, and jobs */
	size_t bytes;		      /* its part of the queue's */
	uint64_t lost, unmarked;      /* bytes */
	char path[];
};

struct queue_job {
	struct queue_job *next;
	file_queue_job *run; /* NULL: appends to the file */
	struct file_queue_file *file;
	char *path;
	int owners; /* the thread, and the caller while it waits */
	int is_done, rc;
	size_t len, room;
	char text[];
};

/* All but the lock and conditions is protected by the lock. */
struct file_queue {
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	struct queue_job *first, **end, *now;
	struct file_queue_file *losers;
	uint64_t began_ms, hasty_until_ms, lost;
	size_t bytes, max;
	uint32_t waiting;
	int owners, has_thread, is_closed;
	int failed;
	char failed_path[PATH_MAX];
};

struct file_queue *file_queue_new(size_t max)
{
	struct file_queue *q = calloc(1, sizeof(*q));
	pthread_condattr_t attr;

	if (!q)
		return NULL;
	q->max = max;
	q->end = &q->first;
	q->owners = 1;
	pthread_mutex_init(&q->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&q->work, NULL);
	pthread_cond_init(&q->done, &attr);
	pthread_condattr_destroy(&attr);
	return q;
}

static void file_queue_release(struct file_queue *q)
{
	struct file_queue_file *f;

	while ((f = q->losers)) {
		q->losers = f->next;
		free(f);
	}
	pthread_cond_destroy(&q->work);
	pthread_cond_destroy(&q->done);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

/* Unlocks. */
static void file_queue_leave(struct file_queue *q)
{
	int is_last = --q->owners == 0;

	pthread_mutex_unlock(&q->lock);
	if (is_last)
		file_queue_release(q);
}

static void queue_file_leave(struct file_queue_file *f)
{
	/* a file that has lost text stays in the list */
	if (--f->owners == 0 && !f->lost)
		free(f);
}

/* The queue is locked. */
static void queue_job_leave(struct queue_job *j)
{
	if (--j->owners > 0)
		return;
	if (j->file)
		queue_file_leave(j->file);
	free(j);
}

/* ---- the thread ---- */

static int queue_job_append(const struct queue_job *j)
{
	int fd = open(j->path, O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY |
			       O_CLOEXEC, 0666);
	int rc = fd < 0 ? -errno : file_write_all(fd, j->text, j->len);

	return file_close(fd, rc);
}

/* Locked; the job has been run. */
static void file_queue_finish(struct file_queue *q, struct queue_job *j)
{
	j->is_done = 1;
	q->now = NULL;
	q->waiting--;
	if (j->file) {
		q->bytes -= sizeof(*j) + j->room;
		j->file->bytes -= sizeof(*j) + j->room;
	}
	/* no caller waits for it */
	if (j->rc < 0 && j->owners == 1 && !q->failed) {
		q->failed = j->rc;
		snprintf(q->failed_path, sizeof(q->failed_path), "%s",
			 j->path);
	}
	queue_job_leave(j);
	pthread_cond_broadcast(&q->done);
}

static void *file_queue_run(void *arg)
{
	struct file_queue *q = arg;
	struct queue_job *j;

	pthread_mutex_lock(&q->lock);
	for (;;) {
		while (!q->first && !q->is_closed)
			pthread_cond_wait(&q->work, &q->lock);
		j = q->first;
		if (!j)
			break;
		q->first = j->next;
		if (!q->first)
			q->end = &q->first;
		if (j->file && j->file->open == j)
			j->file->open = NULL;
		q->now = j;
		q->began_ms = clock_ms();
		pthread_mutex_unlock(&q->lock);
		j->rc = j->run ? j->run(j->path, SLICE(j->text, j->len))
			       : queue_job_append(j);
		pthread_mutex_lock(&q->lock);
		file_queue_finish(q, j);
	}
	file_queue_leave(q);
	return NULL;
}

static int file_queue_start(struct file_queue *q)
{
	int rc = q->has_thread ? 0 : file_wait_detach_apart(file_queue_run, q);

	if (rc == 0 && !q->has_thread) {
		q->has_thread = 1;
		q->owners++;
	}
	return rc;
}

/* ---- adding jobs; the queue is locked ---- */

static int file_queue_is_late(const struct file_queue *q)
{
	return q->now && clock_ms() - q->began_ms >= FILE_WAIT_MS;
}

/* 0 or -errno; the job is freed then. */
static int file_queue_add(struct file_queue *q, struct queue_job *j)
{
	int rc = file_queue_start(q);

	if (rc < 0) {
		j->owners = 1;
		queue_job_leave(j);
		return rc;
	}
	*q->end = j;
	q->end = &j->next;
	q->waiting++;
	pthread_cond_signal(&q->work);
	return 0;
}

static struct queue_job *queue_job_new(file_queue_job *run, const char *path,
				       struct slice text)
{
	size_t size = strlen(path) + 1;
	struct queue_job *j = malloc(sizeof(*j) + text.len + size);

	if (!j)
		return NULL;
	*j = (struct queue_job){.run = run, .owners = 2, .len = text.len,
				.path = j->text + text.len};
	if (text.len)
		memcpy(j->text, text.data, text.len);
	memcpy(j->path, path, size);
	return j;
}

/* Until the job is done, or all are if it is NULL. */
static int file_queue_await(struct file_queue *q, const struct queue_job *j,
			    uint64_t ms)
{
	struct timespec until;
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(ms / 1000);
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	while (rc == 0 && (j ? !j->is_done : q->waiting != 0))
		rc = pthread_cond_timedwait(&q->done, &q->lock, &until);
	return -rc;
}

static int file_queue_await_job(struct file_queue *q, struct queue_job *j)
{
	uint64_t now = clock_ms();
	int rc;

	if (file_queue_is_late(q))
		rc = -ETIMEDOUT;
	else
		rc = file_queue_await(q, j, now < q->hasty_until_ms
					    ? FILE_WAIT_HASTY_MS
					    : FILE_WAIT_MS);
	if (rc < 0)
		q->hasty_until_ms = clock_ms() + FILE_WAIT_HASTE_LASTS_MS;
	return rc;
}

int file_queue_do(struct file_queue *q, file_queue_job *job, const char *path,
		  struct slice text)
{
	struct queue_job *j = queue_job_new(job, path, text);
	int rc;

	if (!j)
		return -ENOMEM;
	pthread_mutex_lock(&q->lock);
	rc = file_queue_add(q, j);
	if (rc == 0) {
		rc = file_queue_await_job(q, j);
		if (rc == 0)
			rc = j->rc;
		queue_job_leave(j);
	}
	pthread_mutex_unlock(&q->lock);
	return rc;
}

struct file_queue_file *file_queue_begin(struct file_queue *q, const char *path)
{
	size_t size = strlen(path) + 1;
	struct file_queue_file *f = calloc(1, sizeof(*f) + size);

	if (!f)
		return NULL;
	f->queue = q;
	f->owners = 1;
	memcpy(f->path, path, size);
	return f;
}

void file_queue_end(struct file_queue_file *f)
{
	struct file_queue *q = f->queue;

	pthread_mutex_lock(&q->lock);
	queue_file_leave(f);
	pthread_mutex_unlock(&q->lock);
}

/* ---- text; the queue is locked ---- */

static int queue_file_lose(struct file_queue_file *f, size_t n, int rc)
{
	struct file_queue *q = f->queue;

	if (!f->lost) {
		f->next = q->losers;
		q->losers = f;
	}
	f->lost += n;
	f->unmarked += n;
	q->lost += n;
	return rc;
}

static void queue_job_put(struct queue_job *j, struct slice text)
{
	if (text.len)
		memcpy(j->text + j->len, text.data, text.len);
	j->len += text.len;
}

static int queue_file_add(struct file_queue_file *f, struct slice mark,
			  struct slice text)
{
	struct file_queue *q = f->queue;
	size_t n = mark.len + text.len;
	size_t room = q->now && n < TEXT_ROOM ? TEXT_ROOM : n;
	struct queue_job *j;
	int rc;

	if (f->bytes + sizeof(*j) + room > q->max - q->bytes)
		return queue_file_lose(f, text.len, -ENOBUFS);
	j = malloc(sizeof(*j) + room);
	if (!j)
		return queue_file_lose(f, text.len, -ENOMEM);
	*j = (struct queue_job){.file = f, .path = f->path, .owners = 1,
				.room = room};
	queue_job_put(j, mark);
	queue_job_put(j, text);
	f->owners++;
	rc = file_queue_add(q, j);
	if (rc < 0)
		return queue_file_lose(f, text.len, rc);
	q->bytes += sizeof(*j) + room;
	f->bytes += sizeof(*j) + room;
	f->unmarked = 0;
	f->open = j;
	return 0;
}

int file_queue_append(struct file_queue_file *f, struct slice text)
{
	struct file_queue *q = f->queue;
	char mark[128] = "";
	int rc = 0;

	pthread_mutex_lock(&q->lock);
	if (f->unmarked)
		snprintf(mark, sizeof(mark), "\n[ddprun: %llu bytes are lost: "
			 "the file system did not answer]\n",
			 (unsigned long long)f->unmarked);
	if (!mark[0] && f->open && f->open->room - f->open->len >= text.len)
		queue_job_put(f->open, text);
	else
		rc = queue_file_add(f, SLICE_STR(mark), text);
	pthread_mutex_unlock(&q->lock);
	return rc;
}

/* ---- what it does ---- */

int file_queue_holds_up(struct file_queue *q, size_t bytes)
{
	int holds;

	pthread_mutex_lock(&q->lock);
	holds = q->bytes > bytes && !file_queue_is_late(q);
	pthread_mutex_unlock(&q->lock);
	return holds;
}

void file_queue_look(struct file_queue *q, struct file_queue_state *s)
{
	uint64_t now = clock_ms();

	pthread_mutex_lock(&q->lock);
	s->waiting = q->waiting;
	s->bytes = q->bytes;
	s->late_ms = q->now ? now - q->began_ms : 0;
	s->lost = q->lost;
	s->failed = q->failed;
	snprintf(s->path, sizeof(s->path), "%s", q->now ? q->now->path : "");
	snprintf(s->failed_path, sizeof(s->failed_path), "%s", q->failed_path);
	pthread_mutex_unlock(&q->lock);
}

void file_queue_was_stopped(struct file_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->began_ms = clock_ms();
	pthread_mutex_unlock(&q->lock);
}

int file_queue_wait(struct file_queue *q, uint64_t ms)
{
	int rc;

	pthread_mutex_lock(&q->lock);
	rc = file_queue_await(q, NULL, ms);
	pthread_mutex_unlock(&q->lock);
	return rc;
}

void file_queue_each_waiting(struct file_queue *q, file_queue_each *each,
			     void *arg)
{
	pthread_mutex_lock(&q->lock);
	if (q->now)
		each(arg, q->now->path, q->now->run ? 0 : q->now->len);
	for (const struct queue_job *j = q->first; j; j = j->next)
		each(arg, j->path, j->run ? 0 : j->len);
	pthread_mutex_unlock(&q->lock);
}

void file_queue_each_lost(struct file_queue *q, file_queue_each *each,
			  void *arg)
{
	pthread_mutex_lock(&q->lock);
	for (const struct file_queue_file *f = q->losers; f; f = f->next)
		each(arg, f->path, f->lost);
	pthread_mutex_unlock(&q->lock);
}

void file_queue_free(struct file_queue *q)
{
	if (!q)
		return;
	pthread_mutex_lock(&q->lock);
	q->is_closed = 1;
	pthread_cond_signal(&q->work);
	file_queue_leave(q);
}
