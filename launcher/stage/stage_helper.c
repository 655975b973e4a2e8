/* stage_helper.c: fills the copy. Blocks, unlike our other programs. */
#include "launcher/stage/stage_helper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "launcher/stage/stage_folder.h"
#include "launcher/stage/stage_helper_internal.h"
#include "launcher/stage/stage_link.h"

enum { REPORT_MS = 250, RETRY_MS = 200, ADDRS_MAX = 8,
       LINE_ROOM = PATH_MAX + 64 };

/* ---- reports ---- */

/* One line, in one write. */
__attribute__((format(printf, 1, 2)))
static void helper_report(const char *fmt, ...)
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

/* Publishes and reports how much of the copy h->copy has. */
static void helper_move(struct stage_helper *h)
{
	static uint64_t reported_ns, bytes;
	static uint32_t files;
	uint64_t now = clock_ns();

	pthread_mutex_lock(&h->lock);
	h->nfiles = h->copy.nfiles;
	h->at = h->copy.at;
	h->is_complete = h->copy.is_complete;
	pthread_cond_broadcast(&h->moved);
	pthread_mutex_unlock(&h->lock);
	if (now - reported_ns < REPORT_MS * 1000000u)
		return;
	for (; files < h->copy.nfiles; files++)
		bytes += h->list.all[h->list.files[files]].size;
	reported_ns = now;
	helper_report("P %llu", (unsigned long long)(bytes + h->copy.at));
}

/* The list is complete: the node after this one may ask for it. */
static void helper_start_list(struct stage_helper *h)
{
	pthread_mutex_lock(&h->lock);
	h->has_list = 1;
	pthread_mutex_unlock(&h->lock);
	helper_move(h);
}

/* The list is known: opens this node's copy of it. */
static int helper_open_copy(struct stage_helper *h, struct err *e)
{
	char wanted[PATH_MAX], folder[PATH_MAX];
	int rc;

	snprintf(wanted, sizeof(wanted), "%.*s", SLICE_FMT(h->order.folder));
	helper_report("L %llu %u %s", (unsigned long long)h->list.bytes,
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

static int helper_copy_file(struct stage_helper *h, struct stage_source *s,
			    char *data, struct err *e)
{
	uint32_t i = h->copy.nfiles;
	uint64_t size = h->list.all[h->list.files[i]].size;
	int fd = stage_source_take(s, e), rc = 0;

	if (fd < 0)
		return fd;
	if (lseek(fd, (off_t)h->copy.at, SEEK_SET) < 0)
		rc = -errno;
	while (rc == 0 && h->copy.at < size) {
		uint64_t n = size - h->copy.at;

		n = n < STAGE_BLOCK ? n : STAGE_BLOCK;
		rc = file_read_all(fd, data, n);
		if (rc < 0)
			break;
		rc = stage_copy_write(&h->copy, data, n, e);
		helper_move(h);
	}
	if (rc < 0 && !e->code)
		err_set(e, rc, "--stage: cannot read '%s/%s': %s",
			h->list.source, h->list.all[h->list.files[i]].path,
			err_name(rc));
	if (rc == 0)
		rc = stage_source_check(s, fd, e);
	if (rc == 0)
		rc = stage_copy_end_file(&h->copy, NULL, e);
	close(fd);
	helper_move(h);
	return rc;
}

static int helper_read_source(struct stage_helper *h, struct err *e)
{
	char path[PATH_MAX];
	struct stage_source source;
	uint32_t skipped;
	char *data = malloc(STAGE_BLOCK);
	int rc;

	snprintf(path, sizeof(path), "%.*s", SLICE_FMT(h->order.source));
	rc = data ? stage_list_scan(&h->list, path, &skipped, e)
		  : err_no_memory(e, "--stage");
	if (rc == 0 && skipped)
		helper_report("N --stage: not copied, because they are "
			      "sockets, pipes or devices: %u files below '%s'",
			      skipped, path);
	if (rc == 0)
		rc = helper_open_copy(h, e);
	if (rc == 0) {
		stage_source_start(&source, &h->list, h->copy.nfiles);
		while (rc == 0 && h->copy.nfiles < h->list.nfiles)
			rc = helper_copy_file(h, &source, data, e);
		stage_source_stop(&source);
	}
	free(data);
	return rc;
}

/* ---- from another node ---- */

struct fetch {
	struct stage_helper *helper;
	struct stage_link link;
	struct stage_zip zip;
	struct sock_addr addrs[ADDRS_MAX]; /* the other node's */
	int naddrs, next;
	char name[SOCK_TEXT_MAX];
	char *text, *block;
	uint64_t moved_ns; /* when something came */
	int has_differed;  /* a file's hash, once */
};

/* The list, which is the same on each connection. */
static int fetch_list(struct fetch *f, struct err *e)
{
	struct stage_helper *h = f->helper;
	struct buf text = BUF_INIT(STAGE_LIST_MAX);
	char size[8];
	struct reader r;
	uint64_t left;
	int rc = stage_link_receive(&f->link, size, sizeof(size), e);

	if (rc < 0)
		return rc;
	reader_init(&r, SLICE(size, sizeof(size)));
	left = reader_u64(&r);
	while (rc == 0 && left) {
		size_t part = left < STAGE_BLOCK ? left : STAGE_BLOCK;
		char *to = buf_reserve(&text, part);

		rc = to ? stage_link_receive(&f->link, to, part, e)
			: err_no_memory(e, "--stage: a list of %llu MiB",
					(unsigned long long)left >> 20);
		text.len += part;
		left -= part;
	}
	if (rc < 0 || h->list.text.len) {
		if (rc == 0 && (text.len != h->list.text.len ||
				memcmp(text.data, h->list.text.data,
				       text.len) != 0))
			rc = err_set(e, ERR_PROTOCOL, "--stage: %s has begun "
				     "another copy", f->link.peer);
		buf_release(&text);
		return rc;
	}
	h->list = (struct stage_list){.text = text};
	rc = stage_list_read(&h->list, e);
	return rc == 0 ? helper_open_copy(h, e) : rc;
}

static int fetch_ask(struct fetch *f, struct err *e)
{
	struct buf ask = BUF_INIT(64);
	int rc;

	buf_put_u8(&ask, f->zip.library ? STAGE_ZIPPED : 0);
	buf_put_u32(&ask, f->helper->copy.nfiles);
	buf_put_u64(&ask, f->helper->copy.at);
	rc = ask.failed ? err_no_memory(e, "--stage")
			: stage_link_send(&f->link, ask.data, ask.len, e);
	buf_release(&ask);
	return rc;
}

static int fetch_word(struct fetch *f, uint32_t *v, struct err *e)
{
	char word[4];
	struct reader r;
	int rc = stage_link_receive(&f->link, word, sizeof(word), e);

	reader_init(&r, SLICE(word, sizeof(word)));
	*v = rc == 0 ? reader_u32(&r) : 0;
	return rc;
}

/* Its text into f->text: n bytes. */
static int fetch_block(struct fetch *f, uint32_t *n, struct err *e)
{
	uint32_t size;
	int rc = fetch_word(f, &size, e), is_zipped;

	if (rc < 0)
		return rc;
	is_zipped = (size & STAGE_BLOCK_ZIPPED) != 0;
	size &= ~STAGE_BLOCK_ZIPPED;
	*n = size;
	if (is_zipped)
		rc = fetch_word(f, n, e);
	if (rc == 0 && (!size || size > STAGE_BLOCK || !*n ||
			*n > STAGE_BLOCK))
		return err_set(e, ERR_PROTOCOL, "--stage: %s sent a block of "
			       "%u bytes", f->link.peer, size);
	if (rc == 0)
		rc = stage_link_receive(&f->link, is_zipped ? f->block
							    : f->text,
					size, e);
	if (rc == 0 && is_zipped &&
	    stage_zip_get(&f->zip, f->text, *n, f->block, size) < 0)
		rc = err_set(e, ERR_DATA, "--stage: %s sent a block that zstd "
			     "cannot decompress", f->link.peer);
	f->moved_ns = clock_ns();
	return rc;
}

static int fetch_file(struct fetch *f, struct err *e)
{
	struct stage_helper *h = f->helper;
	uint64_t size = h->list.all[h->list.files[h->copy.nfiles]].size;
	unsigned char hash[STAGE_HASH_SIZE];
	uint32_t n;
	int rc = 0;

	while (rc == 0 && h->copy.at < size) {
		rc = fetch_block(f, &n, e);
		if (rc == 0)
			rc = stage_copy_write(&h->copy, f->text, n, e);
		helper_move(h);
	}
	if (rc == 0)
		rc = stage_link_receive(&f->link, hash, sizeof(hash), e);
	if (rc == 0)
		rc = stage_copy_end_file(&h->copy, hash, e);
	helper_move(h);
	return rc;
}

static int fetch_once(struct fetch *f, struct err *e)
{
	struct stage_helper *h = f->helper;
	const struct sock_addr *addr = &f->addrs[f->next++ % f->naddrs];
	int rc = stage_link_connect(&f->link, addr, &h->order.token, f->name,
				    e);

	if (rc == 0)
		rc = fetch_list(f, e);
	if (rc == 0) {
		f->moved_ns = clock_ns();
		rc = fetch_ask(f, e);
	}
	while (rc == 0 && h->copy.nfiles < h->list.nfiles)
		rc = fetch_file(f, e);
	return rc;
}

/* A network that failed may work again; a full disk will not. */
static int fetch_may_retry(struct fetch *f, int rc)
{
	/* an earlier job's part of a file: it is fetched again */
	if (rc == ERR_DATA && !f->has_differed)
		return f->has_differed = 1;
	return clock_ns() - f->moved_ns < RETRY_S * 1000000000ull &&
	       (rc == ERR_REMOTE || rc == -ECONNREFUSED || rc == -ECONNRESET ||
		rc == -EPIPE || rc == -ETIMEDOUT || rc == -EIO ||
		rc == -EHOSTUNREACH || rc == -ENETUNREACH || rc == -EAGAIN ||
		rc == ERR_TIMEOUT);
}

static int fetch_init(struct fetch *f, struct stage_helper *h, struct err *e)
{
	struct endpoint ep = {.port = h->order.port};

	*f = (struct fetch){.helper = h, .link = {.fd = -1}};
	snprintf(ep.host, sizeof(ep.host), "%.*s", SLICE_FMT(h->order.addr));
	snprintf(f->name, sizeof(f->name), "%.*s", SLICE_FMT(h->order.name));
	f->naddrs = sock_resolve(&ep, f->addrs, ADDRS_MAX, e);
	if (f->naddrs < 0)
		return f->naddrs;
	f->text = malloc(STAGE_BLOCK);
	f->block = malloc(STAGE_BLOCK);
	f->moved_ns = clock_ns();
	stage_zip_open(&f->zip);
	return f->text && f->block ? 0 : err_no_memory(e, "--stage");
}

/* From the node before this one. The connection stays open. */
static int fetch_run(struct fetch *f, struct err *e)
{
	for (;;) {
		int rc = fetch_once(f, e);

		if (rc == 0)
			return 0;
		stage_link_close(&f->link);
		if (!fetch_may_retry(f, rc))
			return rc;
		err_init(e);
		poll(NULL, 0, RETRY_MS);
	}
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
	struct fetch f = {.link = {.fd = -1}};
	char path[PATH_MAX];
	int rc;

	if (h->order.copy.len) {
		rc = helper_reopen(h, e);
	} else if (h->order.source.len) {
		rc = helper_read_source(h, e);
	} else {
		rc = fetch_init(&f, h, e);
		if (rc == 0)
			rc = fetch_run(&f, e);
	}
	if (rc == 0)
		rc = stage_copy_finish(&h->copy, e);
	if (rc < 0)
		return rc;
	stage_copy_path(&h->copy, path);
	helper_report("D %d %s", h->copy.was_there, path);
	helper_await_below(h);
	if (f.link.fd >= 0 && stage_link_send(&f.link, "", 1, e) < 0)
		err_init(e); /* it only lacks the last line of this node */
	helper_report("A");
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

int stage_helper_main(int argc, char **argv)
{
	static struct stage_helper h = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.moved = PTHREAD_COND_INITIALIZER,
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
	if (rc == 0 && h.order.serves) {
		rc = -pthread_create(&thread, NULL, stage_serve_run, &h);
		if (rc < 0)
			err_set(&e, rc, "--stage: cannot start a thread: %s",
				err_name(rc));
	}
	if (rc == 0)
		rc = helper_run(&h, &e);
	if (rc < 0)
		helper_report("E %d %s", e.code, e.text);
	fflush(NULL);
	_exit(rc < 0); /* the other thread may be anywhere */
}
