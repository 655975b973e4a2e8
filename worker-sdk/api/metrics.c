/* metrics.c: writes scalars to metrics.jsonl and TensorBoard event files, each
 * record at once and whole. A kill tears at most the last record, and after a
 * full disk the file ends with a whole one. Knows no ranks. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"
#include "worker-sdk/api/api_internal.h"
#include "worker-sdk/core/last_error.h"
#include "worker-sdk/ddp.h"

enum { TAG_MAX = 1023, RECORD_MAX = 16384, FILES_MAX = 10000 };

struct sink {
	int fd; /* -1: not requested */
	char *path;
	off_t end; /* offset after the last whole record; -1: not a regular
		    * file */
};

struct ddp_metrics {
	struct sink lines, events;
	struct buf record, tag;
	locale_t c; /* the program's own locale may have a decimal comma */
	struct err failed; /* the first write error */
};

static double metrics_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- Opening ---- */

static int metrics_cannot(struct err *e, int rc, const char *verb,
			  const char *path)
{
	return err_set(e, rc, "metrics: cannot %s %s: %s%s", verb, path,
		       strerror(-rc),
		       rc == -ENOSPC || rc == -EDQUOT
			       ? "; free some space; existing records are kept"
			       : "");
}

static int metrics_read_tail(struct sink *s, struct err *e)
{
	struct stat st;

	if (s->fd < 0 || fstat(s->fd, &st))
		return metrics_cannot(e, -errno, "open", s->path);
	s->end = S_ISREG(st.st_mode) ? st.st_size : -1;
	return 0;
}

/* Cuts a line without its newline, which a killed writer left. */
static int metrics_cut_torn_line(struct sink *s, struct err *e)
{
	char block[4096];
	off_t at = s->end, end = 0;

	while (at > 0 && !end) {
		size_t n = at < (off_t)sizeof(block) ? (size_t)at
						     : sizeof(block);
		const char *last;

		at -= (off_t)n;
		if (pread(s->fd, block, n, at) != (ssize_t)n)
			return metrics_cannot(e, -EIO, "read", s->path);
		last = memrchr(block, '\n', n);
		if (last)
			end = at + (last - block) + 1;
	}
	if (s->end > end && ftruncate(s->fd, end))
		return metrics_cannot(e, -errno, "continue", s->path);
	if (s->end > 0)
		s->end = end;
	return 0;
}

static int metrics_open_lines(struct sink *s, const char *dir, struct err *e)
{
	int rc;

	if (asprintf(&s->path, "%s/metrics.jsonl", dir) < 0) {
		s->path = NULL;
		return err_no_memory(e, "metrics");
	}
	s->fd = open(s->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	rc = metrics_read_tail(s, e);
	return rc ? rc : metrics_cut_torn_line(s, e);
}

/* Opens events.out.tfevents.SECONDS.HOST.PID.N. TensorBoard reads all files of
 * a folder in the order of their names, so a resumed run adds a file. */
static int metrics_open_events(struct sink *s, const char *dir, struct err *e)
{
	char host[256] = "";

	if (gethostname(host, sizeof(host) - 1) || !host[0])
		strcpy(host, "localhost");
	for (int n = 0; n < FILES_MAX; n++) {
		free(s->path);
		if (asprintf(&s->path, "%s/events.out.tfevents.%010lld.%s."
			     "%ld.%d", dir, (long long)time(NULL), host,
			     (long)getpid(), n) < 0) {
			s->path = NULL;
			return err_no_memory(e, "metrics");
		}
		s->fd = open(s->path, O_WRONLY | O_APPEND | O_CREAT | O_EXCL |
				      O_CLOEXEC, 0666);
		if (s->fd >= 0 || errno != EEXIST)
			break;
	}
	return metrics_read_tail(s, e);
}

/* ---- Writing ---- */

/* Appends the record to s, all of it or nothing. */
static int metrics_write(struct ddp_metrics *m, struct sink *s, struct err *e)
{
	int rc = m->record.failed;

	if (!rc)
		rc = file_check_limit(s->fd, m->record.len);
	if (!rc)
		rc = file_write_all(s->fd, m->record.data, m->record.len);
	if (!rc) {
		if (s->end >= 0)
			s->end += (off_t)m->record.len;
		return 0;
	}
	metrics_cannot(e, rc, "write", s->path);
	/* otherwise readers could not read past the torn record */
	if (s->end >= 0 && ftruncate(s->fd, s->end))
		err_set(e, rc,
			"metrics: cannot write %s: %s; its last record is "
			"incomplete",
			s->path, strerror(-rc));
	if (!m->failed.code)
		m->failed = *e;
	return rc;
}

/* Writes the shortest text that reads back as v. JSON has no NaN and no
 * infinity: they become strings, as in protobuf's JSON, which float() and
 * Number() read. */
static void metrics_put_number(struct buf *out, double v)
{
	static const int digits[] = {6, 9, 15, 16, 17};
	char text[32];

	if (!isfinite(v)) {
		buf_printf(out, isnan(v) ? "\"NaN\""
			   : v > 0	 ? "\"Infinity\""
					 : "\"-Infinity\"");
		return;
	}
	for (int i = 0; i < 5; i++) {
		snprintf(text, sizeof(text), "%.*g", digits[i], v);
		if (strtod(text, NULL) == v)
			break;
	}
	buf_put(out, text, strlen(text));
}

static void metrics_put_text(struct buf *out, struct slice s)
{
	buf_put_u8(out, '"');
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.data[i];

		if (c < 0x20)
			buf_printf(out, "\\u%04x", c);
		else {
			if (c == '"' || c == '\\')
				buf_put_u8(out, '\\');
			buf_put_u8(out, c);
		}
	}
	buf_put_u8(out, '"');
}

static void metrics_put_line(struct ddp_metrics *m, double wall, int64_t step,
			     double value)
{
	locale_t old = uselocale(m->c);

	buf_printf(&m->record, "{\"step\":%lld,\"wall_time\":%.6f,\"tag\":",
		   (long long)step, wall);
	metrics_put_text(&m->record, SLICE(m->tag.data, m->tag.len));
	buf_printf(&m->record, ",\"value\":");
	metrics_put_number(&m->record, value);
	buf_printf(&m->record, "}\n");
	uselocale(old);
}

/* ---- The calls ---- */

static void metrics_release(struct ddp_metrics *m)
{
	if (m->lines.fd >= 0)
		close(m->lines.fd);
	if (m->events.fd >= 0)
		close(m->events.fd);
	free(m->lines.path);
	free(m->events.path);
	buf_release(&m->record);
	buf_release(&m->tag);
	if (m->c)
		freelocale(m->c);
	free(m);
}

static int metrics_open_sinks(struct ddp_metrics *m, const char *dir,
			      int formats, struct err *e)
{
	int rc = file_make_folders(dir);

	if (rc)
		return err_set(e, rc, "metrics: cannot create the folder %s: "
			       "%s", dir, strerror(-rc));
	m->c = newlocale(LC_NUMERIC_MASK, "C", NULL);
	if (!m->c)
		return err_set(e, -errno, "metrics: no locale C: %s",
			       strerror(errno));
	if (formats & DDP_JSONL)
		rc = metrics_open_lines(&m->lines, dir, e);
	if (!rc && formats & DDP_TENSORBOARD)
		rc = metrics_open_events(&m->events, dir, e);
	if (!rc && m->events.fd >= 0) {
		ddp__event_version(&m->record, metrics_now());
		rc = metrics_write(m, &m->events, e);
	}
	return rc;
}

int ddp_metrics_open(ddp_metrics **out, const char *dir, int formats)
{
	struct err *e = ddp__last_error();
	struct ddp_metrics *m;
	int rc;

	if (out)
		*out = NULL;
	if (!out || !dir || !dir[0])
		return err_set(e, ERR_ARGUMENT, "ddp_metrics_open: %s must be "
			       "given", out ? "dir" : "m");
	if (!formats || formats & ~(DDP_JSONL | DDP_TENSORBOARD))
		return err_set(e, ERR_ARGUMENT,
			       "ddp_metrics_open: formats is %d; give "
			       "DDP_JSONL, DDP_TENSORBOARD or both",
			       formats);
	m = calloc(1, sizeof(*m));
	if (!m)
		return err_no_memory(e, "metrics");
	m->lines.fd = m->events.fd = -1;
	buf_init(&m->record, RECORD_MAX);
	buf_init(&m->tag, 3 * TAG_MAX);
	rc = metrics_open_sinks(m, dir, formats, e);
	if (rc)
		metrics_release(m);
	else
		*out = m;
	return rc;
}

int ddp_metrics_scalar(ddp_metrics *m, const char *tag, double value,
		       int64_t step)
{
	struct err *e = ddp__last_error();
	size_t len = tag ? strlen(tag) : 0;
	double wall = metrics_now();
	struct err second;
	int rc = 0, later = 0;

	if (!m || len < 1 || len > TAG_MAX)
		return err_set(e, ERR_ARGUMENT, "ddp_metrics_scalar: m and a "
			       "tag of 1 to %d bytes must be given", TAG_MAX);
	buf_reset(&m->tag);
	utf8_put(&m->tag, SLICE(tag, len));
	if (m->events.fd >= 0) {
		buf_reset(&m->record);
		ddp__event_scalar(&m->record, wall, step,
				  SLICE(m->tag.data, m->tag.len),
				  (float)value);
		rc = metrics_write(m, &m->events, e);
	}
	if (m->lines.fd >= 0) {
		buf_reset(&m->record);
		metrics_put_line(m, wall, step, value);
		later = metrics_write(m, &m->lines, rc ? &second : e);
	}
	return rc ? rc : later;
}

static int metrics_sync_sink(struct ddp_metrics *m, const struct sink *s,
			     struct err *e)
{
	/* EINVAL: a pipe, or a file system that cannot sync */
	if (s->fd < 0 || !fsync(s->fd) || errno == EINVAL || errno == EROFS)
		return 0;
	metrics_cannot(e, -errno, "write", s->path);
	if (!m->failed.code)
		m->failed = *e;
	return e->code;
}

int ddp_metrics_flush(ddp_metrics *m)
{
	struct err *e = ddp__last_error();
	int rc, later;

	if (!m)
		return err_set(e, ERR_ARGUMENT, "ddp_metrics_flush: m is NULL");
	rc = metrics_sync_sink(m, &m->events, e);
	later = rc ? 0 : metrics_sync_sink(m, &m->lines, e);
	return rc ? rc : later;
}

int ddp_metrics_close(ddp_metrics *m)
{
	struct err *e = ddp__last_error();
	int rc;

	if (!m)
		return 0;
	ddp_metrics_flush(m);
	rc = m->failed.code;
	if (rc)
		*e = m->failed;
	metrics_release(m);
	return rc;
}
