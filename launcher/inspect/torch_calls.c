/* torch_calls.c: waits for PyTorch's files with inotify: PyTorch writes a file
 * in place, so the file is complete when it is closed. */
#include "launcher/inspect/torch_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

enum {
	ENVIRON_MAX = 4 << 20,
	TRACE_MAX = 256 << 20, /* bytes of PyTorch's file */
	EVENTS_BYTES = 16 << 10,
};

/* A worker that has been asked. */
struct torch_answer {
	char file[PATH_MAX]; /* where its answer appears; "": not asked */
	int watch; /* inotify's number of the file's folder */
	int is_done;
};

/* ---- where its pipe and its file are ---- */

static const char *torch_variable(const struct buf *variables, const char *name)
{
	size_t n = strlen(name);

	for (size_t at = 0; at < variables->len;) {
		const char *var = variables->data + at;

		if (strncmp(var, name, n) == 0 && var[n] == '=')
			return var[n + 1] ? var + n + 1 : NULL;
		at += strlen(var) + 1;
	}
	return NULL;
}

/* 0, or -errno; variables then ends with a NUL. */
static int torch_read_environ(struct buf *variables, pid_t pid)
{
	char path[64], *to;
	ssize_t n = 1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (n > 0 && (to = buf_reserve(variables, 64 << 10))) {
		n = read(fd, to, 64 << 10);
		variables->len += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	buf_put(variables, "", 1);
	return variables->failed;
}

/* The path prefix + rank + suffix as the worker sees it, which may have another
 * root and another working directory than we. */
static void torch_path(char out[PATH_MAX], pid_t pid, const char *prefix,
		       uint32_t rank, const char *suffix)
{
	int n = snprintf(out, PATH_MAX, "/proc/%d/%s%s%u%s", (int)pid,
			 *prefix == '/' ? "root" : "cwd/", prefix, rank,
			 suffix);

	if (n >= PATH_MAX)
		*out = '\0';
}

/* ---- asking ---- */

static int torch_watch_folder(int notify, const char *file)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s", file);
	*strrchr(dir, '/') = '\0';
	return inotify_add_watch(notify, dir, IN_CLOSE_WRITE | IN_MOVED_TO);
}

/* 0, -ENOENT: it has no such pipe, or another -errno. */
static int torch_write_pipe(const char *path)
{
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int rc = 0;

	if (fd < 0) /* ENXIO: no process group of NCCL reads it now */
		return errno == ENXIO ? -ENOENT : -errno;
	if (fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
		rc = -ENOENT;
	else if (write(fd, "1", 1) < 0 && errno != EAGAIN)
		rc = -errno;
	close(fd);
	return rc;
}

static void torch_ask(struct torch_answer *a, struct torch_calls *t,
		      const struct local_worker *w, int notify)
{
	struct buf variables = BUF_INIT(ENVIRON_MAX);
	const char *pipe = NULL, *file = NULL;
	char path[PATH_MAX];
	int rc;

	if (torch_read_environ(&variables, w->program) == 0) {
		pipe = torch_variable(&variables,
				      "TORCH_NCCL_DEBUG_INFO_PIPE_FILE");
		file = torch_variable(&variables, "TORCH_FR_DUMP_TEMP_FILE");
		if (!file)
			file = torch_variable(&variables,
					      "TORCH_NCCL_DEBUG_INFO_"
					      "TEMP_FILE");
	}
	if (pipe && file) {
		torch_path(path, w->program, pipe, w->rank, ".pipe");
		torch_path(a->file, w->program, file, w->rank, "");
		a->watch = *a->file ? torch_watch_folder(notify, a->file) : -1;
		rc = a->watch < 0 ? -errno : torch_write_pipe(path);
		t->has_pipe = rc != -ENOENT;
		if (rc < 0)
			*a->file = '\0';
		if (rc < 0 && t->has_pipe)
			err_set(&t->why, rc, "cannot ask PyTorch for its calls "
				"by its pipe %s: %s", path, strerror(-rc));
	}
	buf_release(&variables);
}

/* ---- waiting ---- */

static void torch_note_event(struct torch_answer *answers, size_t n,
			     const struct inotify_event *ev)
{
	for (size_t i = 0; i < n; i++) {
		struct torch_answer *a = &answers[i];

		if (*a->file && a->watch == ev->wd && ev->len &&
		    strcmp(strrchr(a->file, '/') + 1, ev->name) == 0)
			a->is_done = 1;
	}
}

static int torch_is_pending(const struct torch_answer *answers, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (*answers[i].file && !answers[i].is_done)
			return 1;
	}
	return 0;
}

static void torch_wait(struct torch_answer *answers, size_t n, int notify)
{
	_Alignas(struct inotify_event) char events[EVENTS_BYTES];
	struct pollfd p = {.fd = notify, .events = POLLIN};
	uint64_t end = clock_ms() + TORCH_CALLS_MS, now;

	while (torch_is_pending(answers, n) && (now = clock_ms()) < end) {
		ssize_t len = 0;

		if (poll(&p, 1, (int)(end - now)) > 0)
			len = read(notify, events, sizeof(events));
		for (ssize_t at = 0; at < len;) {
			const struct inotify_event *ev =
				(const void *)(events + at);

			torch_note_event(answers, n, ev);
			at += (ssize_t)(sizeof(*ev) + ev->len);
		}
	}
}

/* ---- reading ---- */

static uint64_t torch_unix_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct torch_reader {
	struct torch_calls *t;
	size_t last, room;
	struct torch_call open; /* the oldest that has not completed */
	int is_open;
};

/* Keeps the last calls: a file has thousands. */
static void torch_on_call(void *arg, const struct torch_call *c)
{
	struct torch_reader *r = arg;
	struct torch_calls *t = r->t;

	if (c->state != FLIGHT_DONE && !r->is_open) {
		r->open = *c;
		r->is_open = 1;
	}
	if (t->n == r->last && t->n)
		memmove(t->calls, t->calls + 1, --t->n * sizeof(*c));
	if (t->n < r->last)
		t->calls[t->n++] = *c;
}

static int torch_is_kept(const struct torch_calls *t,
			 const struct torch_call *c)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->calls[i].group == c->group &&
		    t->calls[i].number == c->number &&
		    t->calls[i].message == c->message)
			return 1;
	}
	return 0;
}

static void torch_read_pickle(struct torch_calls *t, const struct pickle *p,
			      size_t last)
{
	struct torch_reader r = {.t = t, .last = last};

	t->calls = calloc(last + 1, sizeof(*t->calls));
	if (!t->calls) {
		err_no_memory(&t->why, "the calls of PyTorch");
		return;
	}
	torch_trace_each_call(p, torch_on_call, &r);
	if (!r.is_open || torch_is_kept(t, &r.open))
		return;
	memmove(t->calls + 1, t->calls, t->n * sizeof(*t->calls));
	t->calls[0] = r.open;
	t->n++;
}

static int torch_read_bytes(const char *path, char **bytes, size_t *size)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), rc = 0;
	struct stat st;

	*bytes = NULL;
	if (fd < 0 || fstat(fd, &st) < 0)
		rc = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_size > TRACE_MAX)
		rc = -EFBIG;
	else if (!(*bytes = malloc((size_t)st.st_size + 1)))
		rc = -ENOMEM;
	else
		rc = file_read_all(fd, *bytes, (size_t)st.st_size);
	*size = rc == 0 ? (size_t)st.st_size : 0;
	return file_close(fd, rc);
}

static void torch_read_answer(struct torch_calls *t, const char *file,
			      size_t last)
{
	struct pickle p = {NULL};
	char *bytes;
	size_t size;
	int rc = torch_read_bytes(file, &bytes, &size);

	if (rc < 0)
		err_set(&t->why, rc, "cannot read the calls that PyTorch wrote "
			"to %s: %s", file, strerror(-rc));
	else if (pickle_read(&p, SLICE(bytes, size), &t->why) == 0 &&
		 torch_trace_is(&p))
		torch_read_pickle(t, &p, last);
	else if (t->why.code == 0)
		err_set(&t->why, ERR_DATA, "the calls that PyTorch wrote to %s "
			"are of an unknown version", file);
	t->unix_ns = torch_unix_ns();
	pickle_release(&p);
	free(bytes);
}

static void torch_finish(struct torch_calls *t, const struct torch_answer *a,
			 size_t last)
{
	if (!*a->file)
		return;
	if (a->is_done)
		torch_read_answer(t, a->file, last);
	else
		err_set(&t->why, -ETIMEDOUT, "PyTorch has not written its "
			"calls within %d s", TORCH_CALLS_MS / 1000);
}

struct torch_calls *torch_calls_read(const struct local_workers *l, size_t last)
{
	struct torch_calls *all = calloc(l->n + 1, sizeof(*all));
	struct torch_answer *answers = calloc(l->n + 1, sizeof(*answers));
	int notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), found = 0;

	for (size_t i = 0; all && answers && notify >= 0 && i < l->n; i++) {
		all[i].why = (struct err)ERR_INIT;
		if (l->workers[i].state && l->workers[i].state != 'Z')
			torch_ask(&answers[i], &all[i], &l->workers[i], notify);
		found |= all[i].has_pipe;
	}
	if (found)
		torch_wait(answers, l->n, notify);
	for (size_t i = 0; found && i < l->n; i++)
		torch_finish(&all[i], &answers[i], last);
	if (notify >= 0)
		close(notify);
	free(answers);
	if (found)
		return all;
	free(all);
	return NULL;
}

void torch_calls_free(struct torch_calls *all, const struct local_workers *l)
{
	for (size_t i = 0; all && i < l->n; i++)
		free(all[i].calls);
	free(all);
}

/* ---- as text ---- */

const struct torch_call *torch_calls_current(const struct torch_calls *t)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->calls[i].state != FLIGHT_DONE)
			return &t->calls[i];
	}
	return NULL;
}

void torch_calls_put(struct buf *out, const struct torch_calls *t)
{
	const struct torch_call *in = torch_calls_current(t);
	char ago[16];

	if (!t->has_pipe)
		return;
	if (t->why.text[0])
		buf_printf(out, "  %s\n", t->why.text);
	else if (!t->n)
		buf_printf(out, "  PyTorch: no call\n");
	if (in)
		buf_printf(out, "  PyTorch: in %s for %s%s%s\n", in->words,
			   flight_time_text(in->ns, t->unix_ns, ago),
			   in->where[0] ? " at " : "", in->where);
	if (t->n)
		buf_printf(out, "  PyTorch's last calls:\n");
	for (size_t i = 0; i < t->n; i++)
		buf_printf(out, "    %8s ago  %-9s  %s\n",
			   flight_time_text(t->calls[i].ns, t->unix_ns, ago),
			   t->calls[i].state == FLIGHT_DONE ? "done"
							    : "under way",
			   t->calls[i].words);
}
