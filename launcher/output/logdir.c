/* logdir.c: the workers' folders and files. */
#include "launcher/output/logdir.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_wait.h"
#include "base/log.h"
#include "base/random.h"
#include "launcher/output/lines.h"
#include "launcher/output/log_rules.h"
#include "launcher/output/redirect.h"

enum {
	JOB_NAME_MAX = 128,
	FILES_AT_ONCE = 16,
	PRIVATE_NAME_BYTES = 6,
	PRIVATE_NAMES_MAX = 100,
};

#define NO_FILES "/dev/null"

static const char *const std_names[] = {"stdout", "stderr"};

/* printf into a path; -ENAMETOOLONG. */
__attribute__((format(printf, 2, 3)))
static int logdir_put_path(char *out, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(out, LOGDIR_PATH_MAX, fmt, ap);
	va_end(ap);
	if (n >= 0 && n < LOGDIR_PATH_MAX)
		return 0;
	*out = '\0';
	return -ENAMETOOLONG;
}

/* Makes the job's name fit to be part of a file name. */
static void logdir_put_job(char *out, const char *job)
{
	size_t n = 0;

	for (; *job && n < JOB_NAME_MAX; job++, n++) {
		unsigned char c = (unsigned char)*job;

		out[n] = c <= 0x20 || c == 0x7f || c == '/' ? '_' : *job;
	}
	out[n] = '\0';
	if (out[0] == '.') /* the folder would be hidden, or be ".." */
		out[0] = '_';
}

/* Like mkdir -p; changes path meanwhile and restores it. */
static int logdir_make_parents(char *path)
{
	for (char *p = path + 1; *p; p++) {
		int rc = 0;

		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(path, 0777) < 0 && errno != EEXIST)
			rc = -errno;
		*p = '/';
		if (rc < 0)
			return rc;
	}
	return mkdir(path, 0777) < 0 && errno != EEXIST ? -errno : 0;
}

const char *logdir_temporary(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir ? dir : "/tmp";
}

/* The place for error files that the user did not ask for: in memory they cost
 * 20 times less than on a disk. */
static const char *logdir_private_place(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir ? dir : "/dev/shm";
}

static int logdir_wants_files(const struct output_options *o)
{
	return !std_map_is_empty(o->redirects) || !std_map_is_empty(o->tee) ||
	       (o->stdout_filters && *o->stdout_filters) ||
	       (o->stderr_filters && *o->stderr_filters);
}

static int logdir_fail(struct err *e, int rc, const char *what,
		       const char *path)
{
	return err_set(e, rc,
		       "cannot create %s in '%s': %s; give another --log-dir, "
		       "or --log-dir " NO_FILES " for no files",
		       what, path, strerror(-rc));
}

/* Creates base/JOB_XXXXXX. */
static int logdir_make_run(struct logdir *d, char *base, struct err *e)
{
	char job[JOB_NAME_MAX + 1], *real;
	int rc = logdir_make_parents(base);

	if (rc < 0)
		return err_set(e, rc,
			       "cannot create the log folder '%s': %s; give "
			       "another --log-dir, or --log-dir " NO_FILES
			       " for no files",
			       base, strerror(-rc));
	real = realpath(base, NULL);
	if (!real)
		return logdir_fail(e, -errno, "a folder", base);
	logdir_put_job(job, d->job);
	rc = logdir_put_path(d->run, "%s/%s_XXXXXX", real, job);
	free(real);
	if (rc == 0 && !mkdtemp(d->run))
		rc = -errno;
	if (rc < 0) {
		d->run[0] = '\0';
		return logdir_fail(e, rc, "a folder", base);
	}
	file_wait_trust(d->run);
	return 0;
}

static void logdir_note_private(const struct logdir *d, const char *path)
{
	if (d->note_private)
		d->note_private(d->owner, path);
}

/* mkdtemp, but the name is known before the folder exists. */
static int logdir_make_named(struct logdir *d, const char *place)
{
	char name[2 * PRIVATE_NAME_BYTES + 1];
	struct err e = ERR_INIT;
	int rc = -EEXIST;

	for (int i = 0; i < PRIVATE_NAMES_MAX && rc == -EEXIST; i++) {
		rc = random_hex(name, PRIVATE_NAME_BYTES, &e);
		if (rc == 0)
			rc = logdir_put_path(d->run, "%s/ddprun_%s", place,
					     name);
		if (rc < 0)
			return rc;
		logdir_note_private(d, d->run);
		rc = mkdir(d->run, 0700) < 0 ? -errno : 0;
		if (rc < 0)
			logdir_note_private(d, "");
	}
	return rc;
}

static int logdir_make_private_in(struct logdir *d, const char *place)
{
	/* absolute: workers may change their directory */
	char *real = realpath(place, NULL);
	int rc = real ? logdir_make_named(d, real) : -errno;

	free(real);
	d->is_private = rc == 0;
	return rc;
}

/* A failure is not an error: without the folder the job still runs. */
static void logdir_make_private(struct logdir *d)
{
	int rc = logdir_make_private_in(d, logdir_private_place());

	if (rc < 0)
		rc = logdir_make_private_in(d, logdir_temporary());
	if (rc < 0) {
		log_warn("cannot create a folder in '%s': %s; the workers' "
			 "error files are lost (set TMPDIR)",
			 logdir_temporary(), strerror(-rc));
		d->run[0] = '\0';
	}
	file_wait_trust(d->run);
}

static int logdir_make(struct logdir *d, struct err *e)
{
	const struct output_options *options = d->options;
	char base[LOGDIR_PATH_MAX];
	int rc;

	if (options->log_dir && strcmp(options->log_dir, NO_FILES) == 0)
		return 0;
	if (options->log_dir) {
		rc = logdir_put_path(base, "%s", options->log_dir);
		return rc < 0 ? logdir_fail(e, rc, "a folder", options->log_dir)
			      : logdir_make_run(d, base, e);
	}
	if (!logdir_wants_files(options)) {
		logdir_make_private(d);
		return 0;
	}
	rc = logdir_put_path(base, "%s/torchelastic_XXXXXX",
			     logdir_temporary());
	if (rc == 0 && !mkdtemp(base))
		rc = -errno;
	if (rc < 0)
		return logdir_fail(e, rc, "a folder for the workers' output",
				   logdir_temporary());
	rc = logdir_make_run(d, base, e);
	if (rc == 0)
		log_info("the workers' output is in %s", d->run);
	return rc;
}

int logdir_init(struct logdir *d, const struct output_options *options,
		const char *job, uint32_t nproc, struct err *e)
{
	int rc;

	d->options = options;
	d->job = job;
	d->nproc = nproc;
	d->run[0] = d->attempt[0] = '\0';
	d->is_private = d->warned_full = 0;
	d->round = d->begun = 0;
	rc = logdir_make(d, e);
	log_queue_init(&d->queue, *d->run && !file_wait_trusts());
	return rc;
}

void logdir_imagine(struct logdir *d, const struct output_options *options,
		    const char *job, uint32_t nproc)
{
	char text[JOB_NAME_MAX + 1];
	int rc;

	*d = (struct logdir){.options = options, .job = job,
			     .nproc = nproc};
	if (options->log_dir && strcmp(options->log_dir, NO_FILES) == 0)
		return;
	if (!options->log_dir && !logdir_wants_files(options)) {
		d->is_private = 1;
		logdir_put_path(d->run, "%s/ddprun_XXXXXX",
				logdir_private_place());
		return;
	}
	logdir_put_job(text, job);
	if (options->log_dir)
		rc = logdir_put_path(d->run, "%s/%s_XXXXXX", options->log_dir,
				     text);
	else
		rc = logdir_put_path(d->run, "%s/torchelastic_XXXXXX/%s_XXXXXX",
				     logdir_temporary(), text);
	if (rc == 0)
		logdir_put_path(d->attempt, "%s/attempt_0", d->run);
}

static int logdir_remove_one(const char *path, const struct stat *st, int kind,
			     struct FTW *where)
{
	/* what cannot be removed stays */
	if (kind == FTW_DP)
		rmdir(path);
	else
		unlink(path);
	return 0;
}

/* Removes a name, and a folder's contents first. Allocates nothing. */
static void logdir_remove_name(void *arg, int dir, const char *name)
{
	int *depth = arg;
	int fd;

	if (unlinkat(dir, name, 0) == 0 || *depth == 0)
		return;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	(*depth)--;
	/* reading may skip names while others are removed: read again */
	for (int i = 0; i < 8; i++) {
		if (file_each_name(fd, logdir_remove_name, depth) < 0 ||
		    unlinkat(dir, name, AT_REMOVEDIR) == 0)
			break;
		lseek(fd, 0, SEEK_SET);
	}
	(*depth)++;
	close(fd);
}

static void logdir_remove_plainly(const char *path)
{
	int depth = 16; /* limits the use of the stack */

	logdir_remove_name(&depth, AT_FDCWD, path);
}

int logdir_remove(const char *path)
{
	/* the second try needs one descriptor, which is slow in a deep tree;
	 * by then memory may be free again */
	static const int at_once[] = {FILES_AT_ONCE, 1};
	int rc = 0;

	for (int i = 0; *path && i < 2; i++) {
		rc = nftw(path, logdir_remove_one, at_once[i],
			  FTW_DEPTH | FTW_PHYS) < 0 ? -errno : 0;
		if (access(path, F_OK) < 0)
			return 0;
	}
	if (rc < 0) {
		logdir_remove_plainly(path);
		if (access(path, F_OK) < 0)
			return 0;
	}
	return *path && rc == 0 ? -ENOTEMPTY : rc;
}

static int logdir_try_pipe(const char *path, struct slice text)
{
	if (mkfifo(path, 0600) < 0)
		return -errno;
	unlink(path);
	return 0;
}

int logdir_has_pipes(struct logdir *d)
{
	char path[LOGDIR_PATH_MAX];

	return *d->attempt &&
	       logdir_put_path(path, "%s/torch_test.pipe", d->attempt) == 0 &&
	       log_queue_try(&d->queue, logdir_try_pipe, path,
			     SLICE_STR("")) == 0;
}

static void logdir_remove_pipe(void *arg, int dir, const char *name)
{
	struct stat st;

	if (strncmp(name, "torch_", strlen("torch_")) == 0 &&
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISFIFO(st.st_mode))
		unlinkat(dir, name, 0);
}

static int logdir_remove_pipes_in(const char *path, struct slice text)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 ? -errno : file_each_name(fd, logdir_remove_pipe, NULL);

	if (fd >= 0)
		close(fd);
	return rc;
}

static void logdir_remove_pipes(struct logdir *d)
{
	if (*d->attempt && log_queue_do(&d->queue, logdir_remove_pipes_in,
					d->attempt, SLICE_STR("")) < 0)
		log_debug("cannot read '%s'", d->attempt);
}

void logdir_release(struct logdir *d)
{
	int rc = logdir_remove(logdir_private(d));

	logdir_remove_pipes(d);
	log_queue_finish(&d->queue);
	if (rc < 0)
		log_warn("cannot remove '%s': %s; remove it by hand",
			 logdir_private(d), strerror(-rc));
	d->run[0] = d->attempt[0] = '\0';
}

const char *logdir_private(const struct logdir *d)
{
	return d->is_private ? d->run : "";
}

static void logdir_warn_full(struct logdir *d, const char *path, int why)
{
	if (d->warned_full)
		return;
	d->warned_full = 1;
	log_warn("cannot create '%s': %s; the job continues, and shows here "
		 "what it cannot write there",
		 path, strerror(why));
}

static int logdir_make_folder(struct logdir *d, const char *path)
{
	return log_queue_do(&d->queue, log_job_make_folder, path,
			    SLICE_STR(""));
}

static int logdir_make_attempt(struct logdir *d, uint32_t attempt,
			       logdir_on_folder *on_folder, void *arg)
{
	char path[LOGDIR_PATH_MAX];
	int rc = logdir_put_path(d->attempt, "%s/attempt_%u", d->run, attempt);

	/* a server that does not answer cannot say that it exists */
	if (rc == 0 && d->queue.files && attempt < d->begun)
		rc = -EEXIST;
	if (rc == 0)
		rc = logdir_make_folder(d, d->attempt);
	if (rc == -EEXIST) {
		rc = logdir_put_path(d->attempt, "%s/attempt_%u_round_%u",
				     d->run, attempt, d->round);
		if (rc == 0)
			rc = logdir_make_folder(d, d->attempt);
	}
	d->begun = attempt + 1;
	for (uint32_t i = 0; rc == 0 && i < d->nproc; i++) {
		rc = logdir_put_path(path, "%s/%u", d->attempt, i);
		if (rc == 0)
			rc = logdir_make_folder(d, path);
		on_folder(arg);
	}
	return rc;
}

void logdir_begin(struct logdir *d, uint32_t attempt, uint32_t round,
		  logdir_on_folder *on_folder, void *arg)
{
	int rc;

	logdir_remove_pipes(d);
	d->round = round;
	d->attempt[0] = '\0';
	if (!*d->run || d->is_private)
		return;
	rc = logdir_make_attempt(d, attempt, on_folder, arg);
	if (rc == 0)
		return;
	logdir_warn_full(d, *d->attempt ? d->attempt : d->run, -rc);
	d->attempt[0] = '\0';
}

/* In the private folder a round has file names instead of folders, so that
 * starting a worker creates nothing. */
static const char *logdir_put_worker_file(const struct logdir *d,
					  uint32_t local_rank, const char *name,
					  const char *suffix, char *out)
{
	*out = '\0';
	if (*d->run && d->is_private)
		logdir_put_path(out, "%s/%u_%u.%s", d->run, d->round,
				local_rank, suffix);
	else if (*d->attempt)
		logdir_put_path(out, "%s/%u/%s", d->attempt, local_rank, name);
	return out;
}

const char *logdir_error_file(const struct logdir *d, uint32_t local_rank,
			      char *out)
{
	return logdir_put_worker_file(d, local_rank, "error.json", "json", out);
}

const char *logdir_step_file(const struct logdir *d, uint32_t local_rank,
			     char *out)
{
	return logdir_put_worker_file(d, local_rank, "steps", "steps", out);
}

static struct log_writer logdir_open_file(struct logdir *d, const char *path)
{
	struct log_writer f = LOG_WRITER_NONE;
	int rc = *path ? log_writer_open(&f, &d->queue, path) : 0;

	if (rc < 0)
		logdir_warn_full(d, path, -rc);
	return f;
}

struct log_writer logdir_open(struct logdir *d, uint32_t local_rank,
			    int is_stderr)
{
	char path[LOGDIR_PATH_MAX] = "";

	if (*d->attempt)
		logdir_put_path(path, "%s/%u/%s.log", d->attempt, local_rank,
				std_names[is_stderr]);
	return logdir_open_file(d, path);
}

struct log_writer logdir_open_filtered(struct logdir *d, int is_stderr)
{
	char path[LOGDIR_PATH_MAX] = "";

	if (*d->attempt)
		logdir_put_path(path, "%s/filtered_%s.log", d->attempt,
				std_names[is_stderr]);
	return logdir_open_file(d, path);
}

const char *logdir_stream(const struct logdir *d, uint32_t local_rank,
			  int is_stderr, char *out)
{
	*out = '\0';
	if (*d->attempt && log_rules_to_file(d->options, local_rank, is_stderr))
		logdir_put_path(out, "%s/%u/%s.log", d->attempt, local_rank,
				std_names[is_stderr]);
	return out;
}

static void logdir_add_line(void *arg, struct slice text, int flags)
{
	tail_add(arg, lines_last_segment(text));
}

int logdir_read_tail(const struct logdir *d, uint32_t local_rank,
		     int is_stderr, struct tail *t)
{
	char path[LOGDIR_PATH_MAX];
	struct buf text = BUF_INIT(TAIL_BYTES);
	struct lines lines;
	struct stat st;
	int rc;

	/* with a queue, this process has read it from a pipe */
	if (d->queue.files || !*logdir_stream(d, local_rank, is_stderr, path))
		return 0;
	rc = file_wait_read(path, TAIL_BYTES, &st, &text);
	if (rc == 0 && text.len) {
		lines_init(&lines);
		lines_feed(&lines, SLICE(text.data, text.len), logdir_add_line,
			   t);
		lines_end(&lines, logdir_add_line, t);
		lines_release(&lines);
	}
	buf_release(&text);
	return rc;
}

void logdir_tail(const struct logdir *d, uint32_t local_rank, struct tail *t)
{
	char path[LOGDIR_PATH_MAX], server[FILE_WAIT_SERVER_MAX];

	if (logdir_read_tail(d, local_rank, 1, t) != -ETIMEDOUT)
		return;
	logdir_stream(d, local_rank, 1, path);
	log_warn("the stderr of local rank %u, %s, cannot be read: its file "
		 "system (%s) does not answer",
		 local_rank, path, file_wait_server(path, server));
}

const char *logdir_attempt(const struct logdir *d)
{
	return d->attempt;
}
