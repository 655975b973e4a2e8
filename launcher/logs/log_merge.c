/* log_merge.c: a reader for each file, and a heap of their next lines. The time
 * of a file's lines never goes back, so that its own order is kept. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/logs/logs.h"
#include "launcher/output/lines.h"

enum { CHUNK = 16 << 10, BYTES_MAX = LINES_MAX + 2 * CHUNK };

/* ---- a reader ---- */

/* Where the last n lines of the file begin. */
static off_t log_reader_tail(int fd, off_t size, long n)
{
	char chunk[CHUNK];
	off_t at = size;
	ssize_t got;

	while (at > 0) {
		size_t want = at < CHUNK ? (size_t)at : CHUNK;

		got = pread(fd, chunk, want, at - (off_t)want);
		if (got <= 0)
			return at;
		for (ssize_t i = got - 1; i >= 0; i--) {
			off_t place = at - (off_t)want + i;

			/* the last newline ends a line */
			if (chunk[i] == '\n' && place + 1 < size && n-- == 1)
				return place + 1;
		}
		if (n == 0)
			return at;
		at -= (off_t)want;
	}
	return 0;
}

static int log_reader_open(struct log_reader *r, const struct log_file *file,
			   long last, struct err *e)
{
	struct stat st;
	int rc;

	r->file = file;
	r->fd = open(file->path, O_RDONLY | O_CLOEXEC);
	if (r->fd < 0 || fstat(r->fd, &st) < 0) {
		rc = -errno;
		return rc == -EMFILE
			       ? err_set(e, rc, "cannot open the files of all "
					 "ranks: the limit of open files is "
					 "reached (ulimit -n); raise it, or "
					 "choose --ranks")
			       : err_set(e, rc, "cannot open %s: %s",
					 file->path, strerror(-rc));
	}
	r->near = st.st_mtime;
	buf_init(&r->bytes, BYTES_MAX);
	if (last >= 0 && lseek(r->fd, last ? log_reader_tail(r->fd, st.st_size,
							     last)
					   : st.st_size, SEEK_SET) < 0)
		return err_set(e, -errno, "cannot read %s: %s", file->path,
			       strerror(errno));
	return 0;
}

/* Reads more; returns 0 at the end of the file. */
static int log_reader_fill(struct log_reader *r)
{
	ssize_t n;
	char *to;

	if (r->begin) {
		buf_consume(&r->bytes, r->begin);
		r->scan -= r->begin;
		r->begin = 0;
	}
	to = buf_reserve(&r->bytes, CHUNK);
	if (!to)
		return 0;
	do
		n = read(r->fd, to, CHUNK);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		r->bytes.len += (size_t)n;
	return n > 0;
}

static void log_reader_set_line(struct log_reader *r, size_t end, size_t next)
{
	enum line_level level;
	int64_t time;

	r->line = SLICE(r->bytes.data + r->begin, end - r->begin);
	r->begin = r->scan = next;
	time = line_time_of(r->line, r->near);
	if (time >= 0 && time - r->file->ahead_ns > r->time)
		r->time = time - r->file->ahead_ns;
	level = line_level_of(r->line);
	if (level != LINE_UNKNOWN)
		r->level = level;
}

/* Sets r->line; 0: there is no further one now. */
static int log_reader_next(struct log_reader *r, int take_parts)
{
	for (;;) {
		const char *from = r->bytes.data + r->scan;
		const char *end = r->bytes.len > r->scan
					  ? memchr(from, '\n',
						   r->bytes.len - r->scan)
					  : NULL;

		if (end) {
			size_t at = (size_t)(end - r->bytes.data);

			log_reader_set_line(r, at, at + 1);
			return 1;
		}
		r->scan = r->bytes.len;
		if (r->bytes.len - r->begin >= LINES_MAX) {
			log_reader_set_line(r, r->bytes.len, r->bytes.len);
			return 1;
		}
		if (log_reader_fill(r))
			continue;
		if (take_parts && r->bytes.len > r->begin) {
			log_reader_set_line(r, r->bytes.len, r->bytes.len);
			return 1;
		}
		return 0;
	}
}

/* ---- the heap ---- */

static int log_merge_is_before(const struct log_merge *m, size_t a, size_t b)
{
	const struct log_reader *x = &m->readers[a], *y = &m->readers[b];

	return x->time != y->time ? x->time < y->time : a < b;
}

static void log_merge_swap(struct log_merge *m, size_t i, size_t j)
{
	size_t x = m->heap[i];

	m->heap[i] = m->heap[j];
	m->heap[j] = x;
}

static void log_merge_push(struct log_merge *m, size_t reader)
{
	size_t i = m->heaped++;

	m->heap[i] = reader;
	while (i && log_merge_is_before(m, m->heap[i], m->heap[(i - 1) / 2])) {
		log_merge_swap(m, i, (i - 1) / 2);
		i = (i - 1) / 2;
	}
}

static size_t log_merge_pop(struct log_merge *m)
{
	size_t top = m->heap[0], i = 0;

	m->heap[0] = m->heap[--m->heaped];
	for (;;) {
		size_t least = i;

		for (size_t k = 2 * i + 1; k <= 2 * i + 2; k++)
			if (k < m->heaped &&
			    log_merge_is_before(m, m->heap[k], m->heap[least]))
				least = k;
		if (least == i)
			return top;
		log_merge_swap(m, i, least);
		i = least;
	}
}

/* ---- all files ---- */

static void log_merge_raise_limit(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &l); /* else fewer files */
	}
}

int log_merge_init(struct log_merge *m, const struct log_tree *t,
		   const struct rank_list *ranks, int streams, long last,
		   struct err *e)
{
	int rc;

	*m = (struct log_merge){0};
	m->readers = calloc(t->n + 1, sizeof(*m->readers));
	m->heap = calloc(t->n + 1, sizeof(*m->heap));
	if (!m->readers || !m->heap)
		return err_no_memory(e, "the lines of %zu files", t->n);
	log_merge_raise_limit();
	for (size_t i = 0; i < t->n; i++) {
		const struct log_file *f = &t->files[i];

		if ((ranks && !rank_list_contains(ranks, f->rank)) ||
		    !(streams & (f->is_stderr ? 2 : 1)))
			continue;
		rc = log_reader_open(&m->readers[m->n++], f, last, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void log_merge_release(struct log_merge *m)
{
	for (size_t i = 0; i < m->n; i++) {
		if (m->readers[i].fd >= 0)
			close(m->readers[i].fd);
		buf_release(&m->readers[i].bytes);
	}
	free(m->readers);
	free(m->heap);
	*m = (struct log_merge){0};
}

const struct log_reader *log_merge_next(struct log_merge *m, int take_parts)
{
	size_t begin = m->last ? m->last - 1 : 0;
	size_t end = m->last ? m->last : m->n;

	/* the reader of the last line; or all, which were at their ends */
	for (size_t i = begin; i < end; i++)
		if (log_reader_next(&m->readers[i], take_parts))
			log_merge_push(m, i);
	m->last = m->heaped ? log_merge_pop(m) + 1 : 0;
	return m->last ? &m->readers[m->last - 1] : NULL;
}
