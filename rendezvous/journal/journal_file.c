/* journal_file.c: header, mapping, growth. A snapshot is written before the
 * live data if it fits there, else behind it; then one aligned word in the
 * header switches to it, and the old data is free. So a kill at any step leaves
 * either state complete, and the file stays within a few times the size of its
 * content. */
#include "rendezvous/journal/journal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "base/sock.h"
#include "rendezvous/journal/journal.h"

enum {
	PAGE = 4096, /* the header's size */
	FIRST_SIZE = 64 << 10,
	GROW_MAX = 16 << 20, /* below that size it doubles */
	LONG_MIN_BYTES = 4 << 20,
	LONG_TIMES = 4, /* times the last snapshot */
};

static const char magic[8] = {'D', 'D', 'P', 'J', 'R', 'N', 'L', '2'};

struct header {
	char magic[8];
	uint64_t start; /* where the first batch begins; 0: nothing is kept */
	uint64_t salt;
	int64_t pid; /* the server that has it, for messages */
	char host[SOCK_HOST_MAX];
};

struct journal_file {
	int fd;
	char *map; /* all of it */
	size_t size;
	size_t end;     /* offset of the next batch */
	uint64_t number; /* the last batch's */
	size_t snapshot, since; /* bytes of it; bytes appended after it */
	int lost;
	int owes; /* a snapshot must be written before any append */
	char name[256];
};

static struct header *journal_file_header(const struct journal_file *f)
{
	return (struct header *)(void *)f->map;
}

static int journal_file_fail(const struct journal_file *f, int rc,
			     const char *what, struct err *e)
{
	return err_set(e, rc, "journal %s: %s: %s", f->name, what,
		       strerror(-rc));
}

/* Allocates the space now, so that no store into the mapping can fail. */
static int journal_file_grow(struct journal_file *f, size_t need, struct err *e)
{
	size_t size = f->size ? f->size : FIRST_SIZE;
	void *map;
	int rc;

	while (size < need)
		size += size < GROW_MAX ? size : GROW_MAX;
	if (size == f->size)
		return 0;
	rc = posix_fallocate(f->fd, 0, (off_t)size);
	if (rc == 0) {
		map = f->map ? mremap(f->map, f->size, size, MREMAP_MAYMOVE)
			     : mmap(NULL, size, PROT_READ | PROT_WRITE,
				    MAP_SHARED, f->fd, 0);
		rc = map == MAP_FAILED ? errno : 0;
	}
	if (rc)
		return journal_file_fail(f, -rc, "cannot grow", e);
	f->map = map;
	f->size = size;
	return 0;
}

/* ---- opening ---- */

static int journal_file_lock(struct journal_file *f, struct err *e)
{
	struct header h = {.pid = 0};

	if (flock(f->fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno != EWOULDBLOCK)
		return journal_file_fail(f, -errno, "cannot lock it", e);
	if (pread(f->fd, &h, sizeof(h), 0) < (ssize_t)sizeof(h))
		h.pid = 0;
	h.host[sizeof(h.host) - 1] = '\0';
	return err_set(e, ERR_REFUSED,
		       "journal %s: another ddprdzv uses it (pid %lld on %s): "
		       "stop that one first, or give this one its own journal",
		       f->name, (long long)h.pid, h.host);
}

static int journal_file_make_header(struct journal_file *f, struct err *e)
{
	struct header *h = journal_file_header(f);
	int rc = random_bytes(&h->salt, sizeof(h->salt), e);

	if (rc < 0)
		return rc;
	h->start = 0;
	memcpy(h->magic, magic, sizeof(magic));
	return 0;
}

static int journal_file_check_header(struct journal_file *f, struct err *e)
{
	const struct header *h = journal_file_header(f);

	if (memcmp(h->magic, magic, sizeof(magic) - 1))
		return err_set(e, ERR_USAGE,
			       "journal %s: this file is not a journal: choose "
			       "another",
			       f->name);
	if (memcmp(h->magic, magic, sizeof(magic)))
		return err_set(e, ERR_USAGE,
			       "journal %s: another version of ddprdzv wrote "
			       "it: remove it once its jobs have ended",
			       f->name);
	return 0;
}

static int journal_file_start_empty(struct journal_file *f, struct err *e)
{
	struct stat st;
	int rc = journal_file_lock(f, e);

	if (rc < 0)
		return rc;
	if (fstat(f->fd, &st) < 0)
		return journal_file_fail(f, -errno, "cannot stat it", e);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_USAGE,
			       "journal %s: it is not a regular file", f->name);
	if (st.st_size > 0 && st.st_size < PAGE)
		return err_set(e, ERR_USAGE,
			       "journal %s: this file is not a journal: choose "
			       "another",
			       f->name);
	rc = journal_file_grow(f, (size_t)st.st_size, e);
	if (rc == 0)
		rc = st.st_size ? journal_file_check_header(f, e)
				: journal_file_make_header(f, e);
	if (rc < 0)
		return rc;
	journal_file_header(f)->pid = getpid();
	sock_host_name(journal_file_header(f)->host);
	return 0;
}

/* The journal contains the job's secret and data, and its content is trusted,
 * so no other user may read or write it. */
static int journal_file_check_owner(const struct journal_file *f, struct err *e)
{
	struct stat st;

	if (fstat(f->fd, &st) < 0)
		return journal_file_fail(f, -errno, "cannot stat it", e);
	if (!S_ISREG(st.st_mode))
		return err_set(
			e, ERR_USAGE,
			"journal %s: it is not a regular file: choose another",
			f->name);
	if (st.st_uid != geteuid())
		return err_set(e, ERR_USAGE,
			       "journal %s: it belongs to user %u, but this "
			       "ddprdzv runs as user %u: choose another",
			       f->name, (unsigned)st.st_uid,
			       (unsigned)geteuid());
	if (st.st_mode & 077)
		return err_set(e, ERR_USAGE,
			       "journal %s: other users can read or write it "
			       "(mode %04o): run chmod 600 on it if nobody has "
			       "done so, else choose another",
			       f->name, (unsigned)(st.st_mode & 07777));
	return 0;
}

int journal_file_open(struct journal_file **out, const char *path, int fd,
		      struct err *e)
{
	struct journal_file *f = calloc(1, sizeof(*f));
	int rc = 0;

	if (!f) {
		if (fd >= 0)
			close(fd);
		return err_no_memory(e, "the journal");
	}
	f->fd = fd;
	strncpy(f->name, path ? path : "in memory", sizeof(f->name) - 1);
	if (path)
		f->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
			     O_NONBLOCK, 0600);
	else
		rc = fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (f->fd < 0 || rc < 0)
		rc = journal_file_fail(
			f, -errno,
			errno == ELOOP
				? "name the file itself, not a symbolic link"
				: "cannot open it",
			e);
	if (rc == 0 && path)
		rc = journal_file_check_owner(f, e);
	if (rc == 0)
		rc = journal_file_start_empty(f, e);
	if (rc < 0) {
		journal_file_close(f);
		return rc;
	}
	*out = f;
	return 0;
}

void journal_file_close(struct journal_file *f)
{
	if (!f)
		return;
	if (f->map)
		munmap(f->map, f->size);
	if (f->fd >= 0)
		close(f->fd);
	free(f);
}

/* ---- reading ---- */

int journal_file_replay(struct journal_file *f,
			int (*take)(void *arg, struct slice batch), void *arg,
			struct err *e)
{
	struct header *h = journal_file_header(f);
	size_t at = h->start, n;
	uint64_t number = 0; /* the first may have any number */
	struct slice body;
	int rc = 0, count = 0;

	while (at >= PAGE && at < f->size && rc >= 0) {
		n = journal_cut(SLICE(f->map + at, f->size - at), h->salt,
				&number, &body);
		if (!n)
			break;
		rc = take(arg, body);
		at += n;
		f->number = number++;
		if (count++)
			f->since += n;
		else
			f->snapshot = n;
	}
	f->end = at;
	/* Old bytes after the end may look like the next batch. A jump in the
	 * numbers, or another salt, prevents that. */
	f->number += 1ull << 32;
	f->owes = count > 0;
	if (rc < 0 || count)
		return rc < 0 ? rc : count;
	if (h->start)
		log_warn("journal %s: its contents are unreadable; did this "
			 "host lose power? The jobs in it are lost: start them "
			 "again",
			 f->name);
	return journal_file_make_header(f, e);
}

/* ---- writing ---- */

static void journal_file_write_batch(struct journal_file *f, size_t at,
				     struct slice batch)
{
	memcpy(f->map + at + JOURNAL_HEAD, batch.data, batch.len);
	journal_seal(f->map + at, journal_file_header(f)->salt, ++f->number,
		     batch);
}

/* Appends a batch at the end. */
static int journal_file_append_batch(struct journal_file *f, struct slice batch,
				     struct err *e)
{
	size_t need = JOURNAL_HEAD + batch.len;
	int rc = batch.len > JOURNAL_BATCH_MAX
			 ? journal_file_fail(f, -EFBIG, "a batch", e)
			 : journal_file_grow(f, f->end + need, e);

	if (rc < 0)
		return rc;
	journal_file_write_batch(f, f->end, batch);
	f->end += need;
	f->since += need;
	return 0;
}

int journal_file_append(struct journal_file *f, struct slice batch,
			struct err *e)
{
	int rc;

	if (f->lost || f->owes)
		return err_set(e, -ENOSPC, "journal %s: it needs a snapshot",
			       f->name);
	rc = journal_file_header(f)->start
		     ? journal_file_append_batch(f, batch, e)
		     : journal_file_snapshot(f, &batch, 1, e);
	f->owes = rc < 0;
	return rc;
}

void journal_file_lose(struct journal_file *f)
{
	f->lost = 1;
	__atomic_store_n(&journal_file_header(f)->start, 0, __ATOMIC_RELEASE);
}

int journal_file_snapshot(struct journal_file *f, const struct slice *parts,
			  size_t n, struct err *e)
{
	struct header *h = journal_file_header(f);
	size_t need = 0, at = PAGE, next;
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		if (parts[i].len > JOURNAL_BATCH_MAX)
			return journal_file_fail(f, -EFBIG, "a snapshot", e);
		need += JOURNAL_HEAD + parts[i].len;
	}
	if (h->start && PAGE + need > h->start)
		at = (f->end + 7) & ~(size_t)7;
	rc = journal_file_grow(f, at + need, e);
	if (rc < 0)
		return rc;
	next = at;
	for (size_t i = 0; i < n; i++) {
		journal_file_write_batch(f, next, parts[i]);
		next += JOURNAL_HEAD + parts[i].len;
	}
	/* the old data counts until the snapshot is on disk */
	if (msync(f->map, f->size, MS_SYNC) < 0)
		return journal_file_fail(f, -errno, "cannot write it", e);
	h = journal_file_header(f);
	__atomic_store_n(&h->start, at, __ATOMIC_RELEASE);
	/* and is not overwritten until the new start is on disk: a power cut
	 * could bring the old one back */
	if (msync(f->map, PAGE, MS_SYNC) < 0)
		return journal_file_fail(f, -errno, "cannot write it", e);
	f->end = at + need;
	f->snapshot = need;
	f->since = 0;
	f->lost = f->owes = 0;
	return 0;
}

int journal_file_is_long(const struct journal_file *f)
{
	return f->since > LONG_MIN_BYTES &&
	       f->since > LONG_TIMES * f->snapshot;
}

size_t journal_file_bytes(const struct journal_file *f)
{
	return f->end;
}

int journal_file_is_lost(const struct journal_file *f)
{
	return f->lost;
}
