/* daemon.c: starting ddprdzv. */
#include "launcher/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sock.h"
#include "launcher/program.h"
#include "launcher/spawn.h"

enum {
	PARENT_FD = 3, /* the pipe; the sockets come after it */
	LISTEN_FD,
	JOB_ARG_MAX = 300,
};

/* "/usr/bin/ddprdzv" for "/usr/bin/ddprun"; "" if that is not there. */
static void beside_us(char *out, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	out[0] = '\0';
	if (n <= 0)
		return;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return;
	*slash = '\0';
	if (snprintf(out, size, "%s/ddprdzv", self) >= (int)size ||
	    access(out, X_OK) < 0)
		out[0] = '\0';
}

static int find(struct program *p, struct err *e)
{
	static char name[] = "ddprdzv";
	char path[PATH_MAX];
	char *user = getenv("DDP_SERVER");
	char *words[] = {user, NULL};
	const struct program_how how = {.no_python = 1};
	struct err why;
	int rc;

	if (!user || !*user) {
		beside_us(path, sizeof(path));
		words[0] = path[0] ? path : name;
	}
	rc = program_find(p, words, &how, &why);
	if (rc < 0)
		return err_set(e, rc, "the rendezvous server: %s; set "
			       "DDP_SERVER to where ddprdzv is", why.text);
	p->argv[0] = name;
	return 0;
}

/* Our end of the pipe, and what the child gets: -1 or open. */
struct ends {
	int ours, theirs;
	int sockets[SOCK_LISTEN_MAX + 1], n; /* the journal is the last */
};

static void close_ends(const struct ends *n)
{
	if (n->ours >= 0)
		close(n->ours);
	if (n->theirs >= 0)
		close(n->theirs);
	for (int i = 0; i < n->n; i++)
		close(n->sockets[i]);
}

/* What the child gets must be above the numbers that it will have there. */
static int high(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, LISTEN_FD + SOCK_LISTEN_MAX + 1);
}

static int add(struct ends *n, int fd)
{
	fd = high(fd);
	if (fd < 0)
		return -errno;
	n->sockets[n->n++] = fd;
	return 0;
}

static int open_ends(struct ends *n, const struct daemon_order *o,
		     struct err *e)
{
	int pipe[2], rc = 0;

	*n = (struct ends){.ours = -1, .theirs = -1};
	if (pipe2(pipe, O_CLOEXEC) < 0) {
		rc = -errno;
	} else {
		n->ours = pipe[1];
		n->theirs = high(pipe[0]);
		if (n->theirs < 0)
			rc = -errno;
		close(pipe[0]);
	}
	while (rc == 0 && n->n < o->n)
		rc = add(n, o->fds[n->n]);
	if (rc == 0 && o->journal_fd >= 0)
		rc = add(n, o->journal_fd);
	if (rc == 0)
		return 0;
	close_ends(n);
	return err_set(e, rc, "no pipe for the rendezvous server: %s",
		       strerror(-rc));
}

static pid_t start(const struct program *p, const struct ends *n,
		   const struct daemon_order *o, struct err *e)
{
	extern char **environ;
	char listen_arg[32], many_arg[32], parent_arg[32], job_arg[JOB_ARG_MAX];
	static char auth_arg[] = "--auth=parent";
	char journal_arg[PATH_MAX + 32];
	char *argv[8] = {p->argv[0], listen_arg, many_arg, parent_arg,
			 auth_arg};
	int argc = 5;
	struct spawn order = {
		.path = p->path, .argv = argv, .envp = environ,
		.in = open("/dev/null", O_RDONLY | O_CLOEXEC),
		.out = STDERR_FILENO, .err = STDERR_FILENO,
		.keep = {n->theirs, n->sockets[0]}, .keep_as = PARENT_FD,
		.more = n->sockets + 1, .nmore = n->n - 1,
		.survives = 1,
	};
	pid_t pid;

	snprintf(listen_arg, sizeof(listen_arg), "--listen-fd=%d", LISTEN_FD);
	snprintf(many_arg, sizeof(many_arg), "--listen-fds=%d", o->n);
	snprintf(parent_arg, sizeof(parent_arg), "--parent-fd=%d", PARENT_FD);
	if (o->job) {
		snprintf(job_arg, sizeof(job_arg), "--job=%s", o->job);
		argv[argc++] = job_arg;
	}
	if (o->journal)
		snprintf(journal_arg, sizeof(journal_arg), "--journal=%s",
			 o->journal);
	else
		snprintf(journal_arg, sizeof(journal_arg), "--journal-fd=%d",
			 LISTEN_FD + o->n);
	if (o->journal || o->journal_fd >= 0)
		argv[argc++] = journal_arg;
	pid = spawn_process(&order, e);
	if (order.in >= 0)
		close(order.in);
	return pid;
}

/* A pipe holds so little before anybody reads. */
static int hand_over(const struct auth *auth, int pipe, struct err *e)
{
	unsigned char bytes[AUTH_BYTES];
	int rc;

	auth_to_bytes(bytes, auth);
	rc = file_write_all(pipe, bytes, sizeof(bytes));
	proof_wipe(bytes, sizeof(bytes));
	return rc < 0 ? err_set(e, rc, "the secret does not go to the "
				"rendezvous server: %s", strerror(-rc)) : 0;
}

int daemon_start(struct daemon *s, const struct daemon_order *o,
		 struct err *e)
{
	struct program p;
	struct ends n;
	pid_t pid;
	int rc = find(&p, e);

	if (rc < 0)
		return rc;
	rc = open_ends(&n, o, e);
	if (rc == 0) {
		rc = hand_over(o->auth, n.ours, e);
		pid = rc < 0 ? rc : start(&p, &n, o, e);
		rc = pid < 0 ? pid : 0;
		if (rc == 0) {
			s->pid = pid;
			s->pipe = n.ours;
			n.ours = -1;
		}
		close_ends(&n);
	}
	program_release(&p);
	return rc;
}

void daemon_dismiss(struct daemon *s)
{
	if (s->pipe >= 0)
		close(s->pipe);
	s->pipe = -1;
}
