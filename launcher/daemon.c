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
#include "launcher/program.h"
#include "launcher/spawn.h"

enum {
	SERVER_FD = 3, /* the socket; the pipe is the one after it */
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
	int ours, theirs, socket;
};

static void close_ends(const struct ends *n)
{
	const int fds[] = {n->ours, n->theirs, n->socket};

	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

/* What the child gets must be above the numbers that it will have there. */
static int high(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, SERVER_FD + 2);
}

static int open_ends(struct ends *n, int listen_fd, struct err *e)
{
	int pipe[2], rc = 0;

	*n = (struct ends){-1, -1, -1};
	if (pipe2(pipe, O_CLOEXEC) < 0) {
		rc = -errno;
	} else {
		n->ours = pipe[1];
		n->theirs = high(pipe[0]);
		n->socket = n->theirs < 0 ? -1 : high(listen_fd);
		if (n->socket < 0)
			rc = -errno;
		close(pipe[0]);
	}
	if (rc == 0)
		return 0;
	close_ends(n);
	return err_set(e, rc, "no pipe for the rendezvous server: %s",
		       strerror(-rc));
}

static pid_t start(const struct program *p, const struct ends *n,
		   const char *job, struct err *e)
{
	extern char **environ;
	char listen_arg[32], parent_arg[32], job_arg[JOB_ARG_MAX];
	static char auth_arg[] = "--auth=parent";
	char *argv[] = {p->argv[0], listen_arg, parent_arg, auth_arg,
			job ? job_arg : NULL, NULL};
	struct spawn order = {
		.path = p->path, .argv = argv, .envp = environ,
		.in = open("/dev/null", O_RDONLY | O_CLOEXEC),
		.out = STDERR_FILENO, .err = STDERR_FILENO,
		.keep = {n->socket, n->theirs}, .keep_as = SERVER_FD,
		.survives = 1,
	};
	pid_t pid;

	snprintf(listen_arg, sizeof(listen_arg), "--listen-fd=%d", SERVER_FD);
	snprintf(parent_arg, sizeof(parent_arg), "--parent-fd=%d",
		 SERVER_FD + 1);
	snprintf(job_arg, sizeof(job_arg), "--job=%s", job ? job : "");
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

int daemon_start(struct daemon *s, int listen_fd, const char *job,
		 const struct auth *auth, struct err *e)
{
	struct program p;
	struct ends n;
	pid_t pid;
	int rc = find(&p, e);

	if (rc < 0)
		return rc;
	rc = open_ends(&n, listen_fd, e);
	if (rc == 0) {
		rc = hand_over(auth, n.ours, e);
		pid = rc < 0 ? rc : start(&p, &n, job, e);
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
