/* stage_source.c: a ring of open files. */
#include "launcher/stage/stage_helper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WARM_BYTES = 256 << 10 }; /* read ahead */

static const struct stage_entry *source_entry(const struct stage_source *s,
					      uint32_t i)
{
	return &s->list->all[s->list->files[i]];
}

/* The source itself may be the only file. */
static int source_open(const struct stage_source *s, uint32_t i)
{
	const struct stage_entry *x = source_entry(s, i);
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s%s%s", s->list->source,
		     *x->path ? "/" : "", x->path) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void source_warm(int fd, uint64_t size, char *scratch)
{
	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	if (size > WARM_BYTES)
		posix_fadvise(fd, 0, WARM_BYTES, POSIX_FADV_WILLNEED);
	else if (pread(fd, scratch, WARM_BYTES, 0) < 0)
		return; /* the copy fails at this file, and reports it */
}

static void *source_run(void *arg)
{
	struct stage_source *s = arg;
	char *scratch = malloc(WARM_BYTES);
	uint32_t i;
	int fd;

	pthread_mutex_lock(&s->lock);
	while (scratch && !s->is_over && s->next < s->list->nfiles) {
		if (s->next >= s->used + STAGE_AHEAD) {
			pthread_cond_wait(&s->moved, &s->lock);
			continue;
		}
		i = s->next++;
		pthread_mutex_unlock(&s->lock);
		fd = source_open(s, i);
		if (fd >= 0)
			source_warm(fd, source_entry(s, i)->size, scratch);
		pthread_mutex_lock(&s->lock);
		s->fds[i % STAGE_AHEAD] = fd;
		s->is_open[i % STAGE_AHEAD] = 1;
		pthread_cond_broadcast(&s->moved);
	}
	pthread_mutex_unlock(&s->lock);
	free(scratch);
	return NULL;
}

void stage_source_start(struct stage_source *s, const struct stage_list *list,
			uint32_t first)
{
	*s = (struct stage_source){.list = list, .next = first, .used = first};
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->moved, NULL);
	while (s->nthreads < STAGE_READERS &&
	       pthread_create(&s->threads[s->nthreads], NULL, source_run, s) ==
		       0)
		s->nthreads++;
}

/* The next file, opened by a thread or, if there are none, here. */
static int source_next(struct stage_source *s)
{
	uint32_t i = s->used;
	int fd;

	pthread_mutex_lock(&s->lock);
	if (i == s->next) {
		s->next++;
		fd = source_open(s, i);
	} else {
		while (!s->is_open[i % STAGE_AHEAD])
			pthread_cond_wait(&s->moved, &s->lock);
		fd = s->fds[i % STAGE_AHEAD];
		s->is_open[i % STAGE_AHEAD] = 0;
	}
	s->used++;
	pthread_cond_broadcast(&s->moved);
	pthread_mutex_unlock(&s->lock);
	return fd;
}

int stage_source_check(const struct stage_source *s, int fd, struct err *e)
{
	const struct stage_entry *x = source_entry(s, s->used - 1);
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, -errno, "--stage: cannot look at '%s/%s': %s",
			       s->list->source, x->path, err_name(-errno));
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size == x->size &&
	    (int64_t)(st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec) ==
		    x->mtime_ns)
		return 0;
	return err_set(e, ERR_DATA, "--stage: '%s%s%s' was changed while it "
		       "was copied; start again when nothing writes there",
		       s->list->source, *x->path ? "/" : "", x->path);
}

int stage_source_take(struct stage_source *s, struct err *e)
{
	int fd = source_next(s), rc;
	const struct stage_entry *x = source_entry(s, s->used - 1);

	if (fd < 0)
		return err_set(e, fd, "--stage: cannot open '%s%s%s': %s",
			       s->list->source, *x->path ? "/" : "", x->path,
			       err_name(fd));
	rc = stage_source_check(s, fd, e);
	if (rc < 0)
		close(fd);
	return rc < 0 ? rc : fd;
}

void stage_source_stop(struct stage_source *s)
{
	pthread_mutex_lock(&s->lock);
	s->is_over = 1;
	pthread_cond_broadcast(&s->moved);
	pthread_mutex_unlock(&s->lock);
	for (int i = 0; i < s->nthreads; i++)
		pthread_join(s->threads[i], NULL);
	for (int i = 0; i < STAGE_AHEAD; i++) {
		if (s->is_open[i] && s->fds[i] >= 0)
			close(s->fds[i]);
	}
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->moved);
}
