/* daemon.c: starting ddprdzv. */
#include "launcher/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/program.h"
#include "launcher/spawn.h"

enum { SERVER_FD = 3 }; /* the socket; the pipe is the one after it */

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

/* Both must be above the numbers that they will have in the child. */
static int high(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, SERVER_FD + 2);
}

int daemon_start(struct daemon *s, int listen_fd, struct err *e)
{
	extern char **environ;
	char listen_arg[32], parent_arg[32];
	char *argv[] = {NULL, listen_arg, parent_arg, NULL};
	struct program p = {.path = NULL};
	struct spawn order = {.envp = environ, .keep_as = SERVER_FD,
			      .survives = 1};
	int ends[2] = {-1, -1}, low = -1, socket = -1;
	int rc = find(&p, e);
	pid_t pid;

	if (rc < 0)
		return rc;
	snprintf(listen_arg, sizeof(listen_arg), "--listen-fd=%d", SERVER_FD);
	snprintf(parent_arg, sizeof(parent_arg), "--parent-fd=%d",
		 SERVER_FD + 1);
	if (pipe2(ends, O_CLOEXEC) < 0 || (low = high(ends[0])) < 0 ||
	    (socket = high(listen_fd)) < 0) {
		rc = err_set(e, -errno, "no pipe for the rendezvous server: %s",
			     strerror(errno));
		goto out;
	}
	argv[0] = p.argv[0];
	order.path = p.path;
	order.argv = argv;
	order.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	order.out = order.err = STDERR_FILENO;
	order.keep[0] = socket;
	order.keep[1] = low;
	pid = spawn_process(&order, e);
	if (order.in >= 0)
		close(order.in);
	rc = pid < 0 ? pid : 0;
	if (rc == 0) {
		s->pid = pid;
		s->pipe = ends[1];
		ends[1] = -1;
	}
out:
	for (int i = 0; i < 2; i++) {
		if (ends[i] >= 0)
			close(ends[i]);
	}
	if (low >= 0)
		close(low);
	if (socket >= 0)
		close(socket);
	program_release(&p);
	return rc;
}

void daemon_dismiss(struct daemon *s)
{
	if (s->pipe >= 0)
		close(s->pipe);
	s->pipe = -1;
}
