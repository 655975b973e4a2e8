/* redirect.c: opens the files and pipes of one worker's streams; parses masks
 * per local rank. */
#include "launcher/output/redirect.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* ---- --redirects and --tee ---- */

struct std_map_entry {
	uint32_t rank;
	int mask;
};

/* Parses "RANK:MASK" and the comma after it. Returns the rest, or NULL. */
static const char *std_map_take_entry(const char *p,
				      struct std_map_entry *entry)
{
	uint64_t rank = 0;
	const char *begin = p;

	for (; *p >= '0' && *p <= '9'; p++) {
		rank = rank * 10 + (uint64_t)(*p - '0');
		if (rank > UINT32_MAX)
			return NULL;
	}
	if (p == begin || p[0] != ':' || p[1] < '0' || p[1] > '3')
		return NULL;
	*entry = (struct std_map_entry){(uint32_t)rank, p[1] - '0'};
	p += 2;
	if (*p == ',' && p[1])
		return p + 1;
	return *p ? NULL : p;
}

/* 0 to 3 if text is one mask for all ranks, else -1. */
static int std_map_single(const char *text)
{
	if (text[0] >= '0' && text[0] <= '3' && !text[1])
		return text[0] - '0';
	return -1;
}

static int std_map_is_named_before(const char *text, const char *end,
				   uint32_t rank)
{
	struct std_map_entry entry;

	while (text < end) {
		text = std_map_take_entry(text, &entry);
		if (entry.rank == rank)
			return text < end;
	}
	return 0;
}

int std_map_check(const char *text, uint32_t nproc, const char *what,
		  struct err *e)
{
	struct std_map_entry entry;
	const char *p = text;

	if (std_map_single(text) >= 0)
		return 0;
	do {
		p = std_map_take_entry(p, &entry);
		if (!p)
			return err_set(e, ERR_USAGE,
				       "%s '%s': give 0 (nothing), 1 (stdout), "
				       "2 (stderr) or 3 (both) for all workers,"
				       " or LOCAL_RANK:MASK,... like 0:3,12:1",
				       what, text);
		if (entry.rank >= nproc)
			return err_set(e, ERR_USAGE,
				       "%s '%s': there is no local rank %u: "
				       "this node's are 0 to %u", what, text,
				       entry.rank, nproc - 1);
		if (std_map_is_named_before(text, p, entry.rank))
			return err_set(e, ERR_USAGE,
				       "%s '%s': local rank %u is named twice",
				       what, text, entry.rank);
	} while (*p);
	return 0;
}

int std_map_of(const char *text, uint32_t local_rank)
{
	struct std_map_entry entry;
	int mask = std_map_single(text);

	if (mask >= 0)
		return mask;
	while (text && *text) {
		text = std_map_take_entry(text, &entry);
		if (text && entry.rank == local_rank)
			return entry.mask;
	}
	return STD_NONE;
}

int std_map_is_empty(const char *text)
{
	struct std_map_entry entry;
	int mask = std_map_single(text);

	if (mask >= 0)
		return mask == STD_NONE;
	while (text && *text) {
		text = std_map_take_entry(text, &entry);
		if (text && entry.mask)
			return 0;
	}
	return 1;
}

static int redirect_fail(struct err *e, const char *what)
{
	int rc = -errno;

	return err_set(e, rc, "%s: %s", what, strerror(-rc));
}

static int redirect_open_pipe(struct redirect *o, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return redirect_fail(e, "cannot create a pipe for a worker");
	o->pipe = ends[0];
	o->child = ends[1];
	return 0;
}

static int redirect_open_null(struct redirect *o, struct err *e)
{
	o->child = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return o->child < 0 ? redirect_fail(e, "cannot open /dev/null") : 0;
}

int redirect_open(struct redirect *o, const struct redirect_rules *rules,
		  uint32_t local_rank, uint32_t rank, int is_stderr,
		  struct err *e)
{
	int console = log_rules_to_console(rules->options, local_rank,
					   is_stderr);
	int rc, copied = rules->log->copied[is_stderr].n > 0;

	*o = REDIRECT_NONE;
	if (log_rules_to_file(rules->options, local_rank, is_stderr)) {
		o->file = logdir_open(rules->dir, local_rank, is_stderr);
		/* the file cannot be created: show the lines instead */
		if (!log_writer_is_open(&o->file) && *rules->dir->run)
			console = 1;
	}
	o->shown = console && log_rules_shows(rules->log, local_rank, rank);
	/* the failure report needs the last lines of stderr */
	if (o->shown || copied || o->file.queued ||
	    (is_stderr && o->file.fd < 0)) {
		rc = redirect_open_pipe(o, e);
	} else if (o->file.fd >= 0) {
		o->child = o->file.fd;
		o->file = LOG_WRITER_NONE;
		rc = 0;
	} else {
		rc = redirect_open_null(o, e);
	}
	if (rc < 0)
		redirect_close(o);
	return rc;
}

void redirect_open_copies(const struct redirect_rules *rules,
			  struct log_writer copies[2])
{
	for (int i = 0; i < 2; i++) {
		copies[i] = LOG_WRITER_NONE;
		if (rules->log->copied[i].n)
			copies[i] = logdir_open_filtered(rules->dir, i);
	}
}

void redirect_close(struct redirect *o)
{
	int *const fds[] = {&o->child, &o->pipe};

	for (int i = 0; i < 2; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	log_writer_close(&o->file);
}
