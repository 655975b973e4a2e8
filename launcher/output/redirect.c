/* redirect.c: opens the files and pipes of one worker's streams. */
#include "launcher/output/redirect.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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

	*o = (struct redirect){-1, -1, -1, 0};
	if (log_rules_to_file(rules->options, local_rank, is_stderr)) {
		o->file = logdir_open(rules->dir, local_rank, is_stderr);
		/* the file cannot be created: show the lines instead */
		if (o->file < 0 && *rules->dir->run)
			console = 1;
	}
	o->shown = console && log_rules_shows(rules->log, local_rank, rank);
	/* the failure report needs the last lines of stderr */
	if (o->shown || copied || (is_stderr && o->file < 0)) {
		rc = redirect_open_pipe(o, e);
	} else if (o->file >= 0) {
		o->child = o->file;
		o->file = -1;
		rc = 0;
	} else {
		rc = redirect_open_null(o, e);
	}
	if (rc < 0)
		redirect_close(o);
	return rc;
}

void redirect_open_copies(const struct redirect_rules *rules, int copies[2])
{
	for (int i = 0; i < 2; i++) {
		copies[i] = -1;
		if (rules->log->copied[i].n)
			copies[i] = logdir_open_filtered(rules->dir, i);
	}
}

void redirect_close(struct redirect *o)
{
	int *const fds[] = {&o->child, &o->pipe, &o->file};

	for (int i = 0; i < 3; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}
