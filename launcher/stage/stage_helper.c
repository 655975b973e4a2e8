/* stage_helper.c: fills the copy. Blocks, unlike our other programs. */
#include "launcher/stage/stage_helper.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "launcher/stage/stage_folder.h"
#include "launcher/stage/stage_helper_internal.h"
#include "launcher/stage/stage_link.h"

enum {
	REPORT_MS = 250,
	READER_S = 5, /* waits that long for the next node's connection */
	LINE_ROOM = PATH_MAX + 64,
};

/* ---- reports ---- */

void stage_helper_report(const char *fmt, ...)
{
	char line[LINE_ROOM];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	for (int i = 0; i < n; i++) {
		if (line[i] == '\n')
			line[i] = ' ';
	}
	line[n] = '\n';
	if (file_write_all(STDOUT_FILENO, line, (size_t)n + 1) < 0)
		_exit(1); /* the agent is gone */
}

void stage_helper_move(struct stage_helper *h, size_t n)
{
	static uint64_t reported_ns, bytes;
	static uint32_t files;
	uint64_t now = clock_ns();

	pthread_mutex_lock(&h->lock);
	h->nfiles = h->copy.nfiles;
	h->at = h->copy.at;
	h->is_complete = h->copy.is_complete;
	h->ring.head += n;
	pthread_cond_broadcast(&h->moved);
	pthread_mutex_unlock(&h->lock);
	if (now - reported_ns < REPORT_MS * 1000000u)
		return;
	for (; files < h->copy.nfiles; files++)
		bytes += h->list.all[h->list.files[files]].size;
	reported_ns = now;
	stage_helper_report("P %llu", (unsigned long long)(bytes + h->copy.at));
}

/* ---- what both threads share ---- */

/* Waits until the next node has taken frames. 0: it will take none. */
static int helper_await_reader(struct stage_helper *h)
{
	uint64_t until = h->reader_ns + READER_S * 1000000000ull;
	const struct timespec time = {
		.tv_sec = (time_t)(until / 1000000000u),
		.tv_nsec = (long)(until % 1000000000u),
	};

	if (h->reader == STAGE_READER_FULL ||
	    (h->reader == STAGE_READER_NONE && clock_ns() >= until))
		return 0;
	if (h->reader == STAGE_READER_NONE)
		pthread_cond_timedwait(&h->moved, &h->lock, &time);
	else
		pthread_cond_wait(&h->moved, &h->lock);
	return 1;
}

char *stage_helper_room(struct stage_helper *h, size_t used, size_t n)
{
	struct stage_ring *r = &h->ring;

	pthread_mutex_lock(&h->lock);
	while (r->head + used + n - r->tail > STAGE_RING_SIZE) {
		if (!helper_await_reader(h))
			r->tail = r->head;
	}
	pthread_mutex_unlock(&h->lock);
	return stage_ring_at(r, r->head + used);
}

/* The list is complete: the node after this one may ask for it. */
static void helper_start_list(struct stage_helper *h)
{
	pthread_mutex_lock(&h->lock);
	h->has_list = 1;
	pthread_mutex_unlock(&h->lock);
	stage_helper_move(h, 0);
}

int stage_helper_open_copy(struct stage_helper *h, struct err *e)
{
	char wanted[PATH_MAX], folder[PATH_MAX];
	int rc;

	snprintf(wanted, sizeof(wanted), "%.*s", SLICE_FMT(h->order.folder));
	stage_helper_report("L %llu %u %s", (unsigned long long)h->list.bytes,
		      h->list.nfiles, h->list.source);
	rc = stage_folder_open(*wanted ? wanted : NULL, folder, e);
	if (rc == 0)
		rc = stage_copy_open(&h->copy, folder, &h->list, e);
	if (rc < 0)
		return rc;
	helper_start_list(h);
	return 0;
}

/* ---- from the source ---- */

struct helper_reading {
	struct stage_source source;
	struct stage_seal seal;
	char *text; /* STAGE_TEXT_MAX */
};

/* The frame of what was just written; n: its size. */
static int helper_seal(struct stage_helper *h, struct helper_reading *r,
		       struct stage_frame *f, long *n, struct err *e)
{
	*n = 0;
	if (!h->order.serves)
		return 0;
	if (f->flags & STAGE_LAST)
		memcpy(r->text + f->size, h->copy.hash[f->file],
		       STAGE_HASH_SIZE);
	f->flags |= STAGE_ZIPPED;
	*n = stage_frame_seal(&r->seal, f, r->text,
			      stage_helper_room(h, 0, STAGE_FRAME_MAX), e);
	return *n < 0 ? (int)*n : 0;
}

/* The next block of the file at fd, which has size bytes. */
static int helper_copy_block(struct stage_helper *h, struct helper_reading *r,
			     int fd, uint64_t size, struct err *e)
{
	struct stage_copy *c = &h->copy;
	uint64_t left = size - c->at;
	struct stage_frame f = {.file = c->nfiles, .at = c->at};
	long n;
	int rc;

	f.size = left < STAGE_BLOCK ? (uint32_t)left : STAGE_BLOCK;
	rc = file_read_all(fd, r->text, f.size);
	if (rc < 0)
		return err_set(e, rc, "--stage: cannot read '%s/%s': %s",
			       h->list.source,
			       h->list.all[h->list.files[f.file]].path,
			       err_name(rc));
	if (f.size)
		rc = stage_copy_write(c, r->text, f.size, e);
	if (rc == 0 && c->at == size) {
		f.flags = STAGE_LAST;
		rc = stage_source_check(&r->source, fd, e);
		if (rc == 0)
			rc = stage_copy_end_file(c, NULL, e);
	}
	if (rc == 0)
		rc = helper_seal(h, r, &f, &n, e);
	if (rc == 0)
		stage_helper_move(h, (size_t)n);
	return rc;
}

static int helper_copy_file(struct stage_helper *h, struct helper_reading *r,
			    struct err *e)
{
	uint32_t file = h->copy.nfiles;
	uint64_t size = h->list.all[h->list.files[file]].size;
	int fd = stage_source_take(&r->source, e), rc = 0;

	if (fd < 0)
		return fd;
	if (size > STAGE_BLOCK)
		stage_zip_try_again(&r->seal.zip);
	if (lseek(fd, (off_t)h->copy.at, SEEK_SET) < 0)
		rc = err_set(e, -errno, "--stage: cannot read '%s/%s': %s",
			     h->list.source,
			     h->list.all[h->list.files[file]].path,
			     strerror(errno));
	while (rc == 0 && h->copy.nfiles == file)
		rc = helper_copy_block(h, r, fd, size, e);
	close(fd);
	return rc;
}

static int helper_copy_source(struct stage_helper *h, struct err *e)
{
	struct helper_reading r = {.text = malloc(STAGE_TEXT_MAX)};
	int rc = r.text ? 0 : err_no_memory(e, "--stage");

	if (rc == 0 && h->order.serves)
		rc = stage_seal_init(&r.seal, &h->order.shared, &h->list, e);
	if (rc == 0) {
		stage_source_start(&r.source, &h->list, h->copy.nfiles);
		while (rc == 0 && h->copy.nfiles < h->list.nfiles)
			rc = helper_copy_file(h, &r, e);
		stage_source_stop(&r.source);
	}
	stage_seal_release(&r.seal);
	free(r.text);
	return rc;
}

static int helper_read_source(struct stage_helper *h, struct err *e)
{
	char path[PATH_MAX];
	uint32_t skipped;
	int rc;

	snprintf(path, sizeof(path), "%.*s", SLICE_FMT(h->order.source));
	rc = stage_list_scan(&h->list, path, &skipped, e);
	if (rc == 0 && skipped)
		stage_helper_report("N --stage: not copied, because they are "
				    "sockets, pipes or devices: %u files below "
				    "'%s'", skipped, path);
	if (rc == 0)
		rc = stage_helper_open_copy(h, e);
	h->copy.makes_hashes = 1;
	return rc == 0 ? helper_copy_source(h, e) : rc;
}

/* ---- from start to end ---- */

/* A complete copy, for other nodes. */
static int helper_reopen(struct stage_helper *h, struct err *e)
{
	char dir[PATH_MAX], folder[PATH_MAX];
	char *slash;
	int rc;

	snprintf(dir, sizeof(dir), "%.*s", SLICE_FMT(h->order.copy));
	slash = strrchr(dir, '/');
	snprintf(folder, sizeof(folder), "%.*s",
		 slash ? (int)(slash - dir) : 0, dir);
	rc = stage_copy_read_list(dir, &h->list.text, e);
	if (rc == 0)
		rc = stage_list_read(&h->list, e);
	if (rc == 0)
		rc = stage_copy_open(&h->copy, folder, &h->list, e);
	if (rc == 0 && !h->copy.is_complete)
		rc = err_set(e, ERR_DATA, "--stage: %s: the copy '%s' was "
			     "changed while the job ran", h->copy.host, dir);
	if (rc < 0)
		return rc;
	helper_start_list(h);
	return 0;
}

static void helper_await_below(struct stage_helper *h)
{
	pthread_mutex_lock(&h->lock);
	while (h->order.serves && !h->is_below_done)
		pthread_cond_wait(&h->moved, &h->lock);
	pthread_mutex_unlock(&h->lock);
}

static int helper_run(struct stage_helper *h, struct err *e)
{
	struct stage_link link = {.fd = -1};
	char path[PATH_MAX];
	int rc;

	if (h->order.copy.len) {
		rc = helper_reopen(h, e);
	} else if (h->order.source.len) {
		rc = helper_read_source(h, e);
	} else {
		rc = stage_fetch_run(h, &link, e);
	}
	if (rc == 0)
		rc = stage_copy_finish(&h->copy, e);
	if (rc < 0)
		return rc;
	stage_copy_path(&h->copy, path);
	stage_helper_report("D %d %s", h->copy.was_there, path);
	helper_await_below(h);
	if (link.fd >= 0 && stage_link_send(&link, "", 1, e) < 0)
		err_init(e); /* it only lacks the last line of this node */
	stage_helper_report("A");
	return 0;
}

static int helper_read_order(struct stage_helper *h)
{
	ssize_t n;

	buf_init(&h->in, STAGE_ORDER_MAX);
	do {
		char *to = buf_reserve(&h->in, 4096);

		n = to ? read(STDIN_FILENO, to, 4096) : -1;
		h->in.len += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	return n < 0 ? -1 : stage_order_get(&h->order, SLICE(h->in.data,
							     h->in.len));
}

/* A signal to all processes of a terminal or a job is for the ranks. */
static void helper_ignore_signals(void)
{
	static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM,
				      SIGTSTP, SIGUSR1, SIGUSR2, SIGPIPE};

	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
}

static int helper_init(struct stage_helper *h, struct err *e)
{
	pthread_condattr_t attr;
	int rc = stage_ring_init(&h->ring);

	/* selects the fastest implementations, once */
	(void)!sodium_init();
	if (rc < 0)
		return err_set(e, rc, "--stage: cannot get memory: %s",
			       err_name(rc));
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->moved, &attr);
	h->reader = h->order.serves ? STAGE_READER_NONE : STAGE_READER_FULL;
	h->reader_ns = clock_ns();
	return 0;
}

int stage_helper_main(int argc, char **argv)
{
	static struct stage_helper h = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.copy = {.fd = -1, .hashes = -1, .file = -1},
	};
	struct err e = ERR_INIT;
	pthread_t thread;
	int rc;

	prctl(PR_SET_NAME, "ddprun-stage");
	helper_ignore_signals();
	rc = helper_read_order(&h);
	if (rc < 0)
		err_set(&e, ERR_INTERNAL, "--stage: the helper has no order");
	if (rc == 0)
		rc = helper_init(&h, &e);
	if (rc == 0 && h.order.serves) {
		rc = -pthread_create(&thread, NULL, stage_serve_run, &h);
		if (rc < 0)
			err_set(&e, rc, "--stage: cannot start a thread: %s",
				err_name(rc));
	}
	if (rc == 0)
		rc = helper_run(&h, &e);
	if (rc < 0)
		stage_helper_report("E %d %s", e.code, e.text);
	fflush(NULL);
	_exit(rc < 0); /* the other thread may be anywhere */
}
