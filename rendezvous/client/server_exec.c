/* server_exec.c: finds ddprdzv, and prepares what it inherits. */
#include "rendezvous/client/server_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* ---- the program ---- */

static char name[] = "ddprdzv";

/* 0, or -errno if this file cannot be executed */
static int server_exec_check(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	return access(path, X_OK) < 0 ? -errno : 0;
}

static int server_exec_is_in(const char *folder, size_t len, const char *file,
			     char *out)
{
	int n = snprintf(out, PATH_MAX, "%.*s/%s", (int)len, folder, file);

	return n > 0 && n < PATH_MAX && server_exec_check(out) == 0;
}

/* Looks beside the file and in ../bin. */
static int server_exec_is_beside(const char *file, char *out)
{
	const char *slash = file ? strrchr(file, '/') : NULL;
	size_t len = slash ? (size_t)(slash - file) : 0;

	return slash && (server_exec_is_in(file, len, name, out) ||
			 server_exec_is_in(file, len, "../bin/ddprdzv", out));
}

static int server_exec_is_in_path(const char *file, char *out)
{
	const char *at = getenv("PATH");
	size_t len;

	if (!at)
		at = "/bin:/usr/bin";
	for (; *at; at += len + (at[len] == ':')) {
		len = strcspn(at, ":");
		if (len && server_exec_is_in(at, len, file, out))
			return 1;
	}
	return 0;
}

/* As a shell would, a name without a slash is looked up in $PATH. */
static int server_exec_find_given(const char *given, char *out, struct err *e)
{
	int rc = -ENOENT;

	if (strchr(given, '/')) {
		rc = strlen(given) < PATH_MAX ? server_exec_check(given)
					      : -ENAMETOOLONG;
		if (rc == 0)
			memcpy(out, given, strlen(given) + 1);
	} else if (server_exec_is_in_path(given, out)) {
		rc = 0;
	}
	return rc < 0 ? err_set(e, rc,
				"DDP_SERVER is '%.300s', which cannot be run "
				"(%s): set it to the path of ddprdzv",
				given, strerror(-rc))
		      : 0;
}

static int server_exec_find(const char *library, char *out, struct err *e)
{
	const char *given = getenv("DDP_SERVER");
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (given && *given)
		return server_exec_find_given(given, out, e);
	self[n > 0 ? n : 0] = '\0';
	if (server_exec_is_beside(library, out) ||
	    server_exec_is_beside(self, out) ||
	    server_exec_is_in_path(name, out))
		return 0;
	return err_set(e, -ENOENT,
		       "cannot find ddprdzv, the rendezvous server, beside %s"
		       "this program or in PATH: set DDP_SERVER to its path",
		       library ? "libddp, beside " : "");
}

/* ---- its arguments ---- */

void server_exec_add(struct server_exec *x, const char *fmt, ...)
{
	va_list ap, again;
	char *at;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	at = buf_reserve(&x->words, (size_t)n + 1);
	if (at) {
		vsnprintf(at, (size_t)n + 1, fmt, again);
		x->words.len += (size_t)n + 1;
	}
	va_end(again);
	va_end(ap);
}

static void server_exec_add_options(struct server_exec *x,
				    const struct server_exec_options *o)
{
	server_exec_add(x, "%s", name);
	server_exec_add(x, "--parent-fd=%d", SERVER_EXEC_FD);
	server_exec_add(x, "--listen-fd=%d", SERVER_EXEC_FD + 1);
	server_exec_add(x, "--listen-fds=%d", o->n);
	server_exec_add(x, "--auth=parent");
	if (o->journal_fd >= 0)
		server_exec_add(x, "--journal-fd=%d",
				SERVER_EXEC_FD + 1 + o->n);
	if (o->job)
		server_exec_add(x, "--job=%s", o->job);
}

int server_exec_finish(struct server_exec *x, struct err *e)
{
	size_t at = 0;
	int n = 0;

	if (x->words.failed)
		return server_exec_failed(x, x->words.failed, e);
	for (; at < x->words.len && n < SERVER_EXEC_WORDS_MAX; n++) {
		x->argv[n] = x->words.data + at;
		at += strlen(x->words.data + at) + 1;
	}
	x->argv[n] = NULL;
	return at < x->words.len ? server_exec_failed(x, -E2BIG, e) : 0;
}

/* ---- its descriptors ---- */

int server_exec_copy_fd(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, SERVER_EXEC_COPIES);

	if (copy < 0 && errno == EINVAL) /* the limit is below the number */
		errno = EMFILE;
	return copy;
}

static int server_exec_keep(struct server_exec *x, int fd)
{
	fd = server_exec_copy_fd(fd);
	if (fd < 0)
		return -errno;
	x->fds[x->nfds++] = fd;
	return 0;
}

static int server_exec_open_pipe(struct server_exec *x)
{
	int ends[2], rc;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	x->pipe = ends[1];
	rc = server_exec_keep(x, ends[0]);
	close(ends[0]);
	return rc;
}

static int server_exec_open(struct server_exec *x,
			    const struct server_exec_options *o)
{
	int rc = server_exec_open_pipe(x);

	for (int i = 0; rc == 0 && i < o->n; i++)
		rc = server_exec_keep(x, o->fds[i]);
	if (rc == 0 && o->journal_fd >= 0)
		rc = server_exec_keep(x, o->journal_fd);
	return rc;
}

int server_exec_send_auth(int pipe, const struct auth *auth, struct err *e)
{
	unsigned char bytes[AUTH_BYTES];
	int rc;

	auth_to_bytes(bytes, auth);
	rc = file_write_all(pipe, bytes, sizeof(bytes));
	proof_wipe(bytes, sizeof(bytes));
	return rc < 0 ? err_set(e, rc,
				"cannot pass the secret to the rendezvous "
				"server: %s",
				strerror(-rc))
		      : 0;
}

int server_exec_failed(const struct server_exec *x, int rc, struct err *e)
{
	return err_set(e, rc, "cannot start %.500s, the rendezvous server: %s",
		       x->path, strerror(-rc));
}

int server_exec_init(struct server_exec *x, const struct server_exec_options *o,
		     struct err *e)
{
	int rc;

	*x = (struct server_exec){.pipe = -1, .words = BUF_INIT(8 * PATH_MAX)};
	rc = server_exec_find(o->library, x->path, e);
	if (rc < 0)
		return rc;
	rc = server_exec_open(x, o);
	if (rc < 0)
		server_exec_failed(x, rc, e);
	else
		rc = server_exec_send_auth(x->pipe, o->auth, e);
	if (rc < 0) {
		server_exec_release(x);
		return rc;
	}
	server_exec_add_options(x, o);
	return 0;
}

void server_exec_release(struct server_exec *x)
{
	if (x->pipe >= 0)
		close(x->pipe);
	x->pipe = -1;
	while (x->nfds > 0)
		close(x->fds[--x->nfds]);
	buf_release(&x->words);
}
