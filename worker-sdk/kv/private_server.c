/* private_server.c: starts ddprdzv from inside a foreign program. */
#include "worker-sdk/kv/private_server.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sock.h"

/* The child's descriptors after 0, 1 and 2. */
enum {
	PARENT_FD = 3,
	ERROR_FD,
	LISTEN_FD,
	CHILD_FDS = LISTEN_FD + SOCK_LISTEN_MAX
};

/* ---- finding the program ---- */

static int private_server_is_program(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

static int private_server_in_directory(const char *folder, size_t len,
				       const char *below, char *out)
{
	int n = snprintf(out, PATH_MAX, "%.*s%sddprdzv", (int)len, folder,
			 below);

	return n > 0 && n < PATH_MAX && private_server_is_program(out);
}

/* Looks beside the file and in ../bin. */
static int private_server_beside(const char *file, char *out)
{
	const char *slash = strrchr(file, '/');
	size_t len = slash ? (size_t)(slash - file) : 0;

	return slash &&
	       (private_server_in_directory(file, len, "/", out) ||
		private_server_in_directory(file, len, "/../bin/", out));
}

static int private_server_in_path(char *out)
{
	const char *at = getenv("PATH");
	size_t len;

	for (; at && *at; at += len + (at[len] == ':')) {
		len = strcspn(at, ":");
		if (len && private_server_in_directory(at, len, "/", out))
			return 1;
	}
	return 0;
}

static int private_server_find(char *out, struct err *e)
{
	const char *user = getenv("DDP_SERVER");
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	Dl_info lib;

	if (user && *user) {
		snprintf(out, PATH_MAX, "%s", user);
		if (private_server_is_program(user))
			return 0;
		return err_set(e, ERR_USAGE,
			       "DDP_SERVER is '%.300s', which is not a "
			       "program: set it to the path of ddprdzv",
			       user);
	}
	self[n > 0 ? n : 0] = 0;
	if ((dladdr((void *)(uintptr_t)private_server_find, &lib) &&
	     lib.dli_fname && private_server_beside(lib.dli_fname, out)) ||
	    private_server_beside(self, out) || private_server_in_path(out))
		return 0;
	return err_set(e, ERR_USAGE,
		       "this rank must start ddprdzv, which hosts the ranks' "
		       "store, but cannot find it beside libddp, beside this "
		       "program or in PATH: set DDP_SERVER to its path");
}

/* ---- the process ---- */

/* As fork, but the child's end raises no SIGCHLD, and only __WALL waits for
 * it. */
static pid_t private_server_quiet_fork(void)
{
	return (pid_t)syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
}

struct order {
	char *path;
	char **argv;
	int null, parent, error; /* all of them CHILD_FDS or more */
	int listen[SOCK_LISTEN_MAX], n;
};

/* Only system calls from here on. The server gets a session of its own, so that
 * signals to this rank's process group, from a terminal or the launcher, do not
 * reach it. */
static _Noreturn void private_server_exec(const struct order *o)
{
	extern char **environ;
	sigset_t none;
	int error;

	sigemptyset(&none);
	setsid();
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(o->null, 0) < 0 || dup2(2, 1) < 0 ||
	    dup2(o->parent, PARENT_FD) < 0 ||
	    dup3(o->error, ERROR_FD, O_CLOEXEC) < 0)
		goto fail;
	for (int i = 0; i < o->n; i++)
		if (dup2(o->listen[i], LISTEN_FD + i) < 0)
			goto fail;
	/* an inherited descriptor of the launcher that stayed open here would
	 * keep the launcher waiting; old kernels lack close_range, but execve
	 * closes the close-on-exec ones */
	syscall(SYS_close_range, (unsigned)(LISTEN_FD + o->n), ~0U, 0U);
	execve(o->path, o->argv, environ);
fail:
	error = errno;
	while (write(ERROR_FD, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* Forks twice: the intermediate process ends at once, so that init adopts the
 * server. */
static int private_server_start(const struct order *o, int error_in)
{
	int status, error = 0;
	ssize_t n;
	pid_t pid = private_server_quiet_fork();

	if (pid == 0) {
		pid = private_server_quiet_fork();
		if (pid == 0)
			private_server_exec(o);
		_exit(pid < 0 ? 1 : 0);
	}
	if (pid < 0)
		return -errno;
	while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
		;
	close(o->error);
	do
		n = read(error_in, &error, sizeof(error));
	while (n < 0 && errno == EINTR);
	if (n == sizeof(error))
		return -error;
	return WIFEXITED(status) && WEXITSTATUS(status) ? -EAGAIN : 0;
}

static int private_server_high_fd(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, CHILD_FDS);
}

/* The bytes fit a pipe, so the write does not wait for a reader. */
static int private_server_hand_over(const struct auth *auth, int pipe)
{
	unsigned char bytes[AUTH_BYTES];
	int rc;

	auth_to_bytes(bytes, auth);
	rc = file_write_all(pipe, bytes, sizeof(bytes));
	proof_wipe(bytes, sizeof(bytes));
	return rc;
}

static void private_server_close_all(struct order *o)
{
	close(o->null);
	close(o->parent);
	for (int i = 0; i < o->n; i++)
		close(o->listen[i]);
}

/* Copies the descriptors to numbers above those that the child will use. */
static int private_server_open_all(struct order *o, int life, int told,
				   const int *fds, int n)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	o->null = null < 0 ? -1 : private_server_high_fd(null);
	o->parent = private_server_high_fd(life);
	o->error = private_server_high_fd(told);
	close(null);
	while (o->n < n &&
	       (o->listen[o->n] = private_server_high_fd(fds[o->n])) >= 0)
		o->n++;
	return o->null >= 0 && o->parent >= 0 && o->error >= 0 && o->n == n;
}

int ddp__private_server_start(int *ours, const int *fds, int n, const char *job,
			  int ranks, const struct auth *auth, struct err *e)
{
	char path[PATH_MAX], listen_arg[32], many_arg[32], parent_arg[32];
	char ranks_arg[32];
	static char name[] = "ddprdzv", job_arg[] = "--job";
	static char auth_arg[] = "--auth=parent";
	char *argv[] = {name,	   listen_arg, many_arg,
			parent_arg, auth_arg, ranks_arg, job_arg,
			(char *)(uintptr_t)job, NULL};
	int life[2] = {-1, -1}, told[2] = {-1, -1};
	struct order o = {.path = path, .argv = argv, .null = -1, .parent = -1,
			  .error = -1};
	int rc = private_server_find(path, e);

	if (rc)
		return rc;
	snprintf(listen_arg, sizeof(listen_arg), "--listen-fd=%d", LISTEN_FD);
	snprintf(many_arg, sizeof(many_arg), "--listen-fds=%d", n);
	snprintf(parent_arg, sizeof(parent_arg), "--parent-fd=%d", PARENT_FD);
	snprintf(ranks_arg, sizeof(ranks_arg), "--guests=%d", ranks);
	rc = -EMFILE;
	if (!pipe2(life, O_CLOEXEC) && !pipe2(told, O_CLOEXEC) &&
	    private_server_open_all(&o, life[0], told[1], fds, n))
		rc = 0;
	close(life[0]);
	close(told[1]);
	if (rc == 0)
		rc = private_server_hand_over(auth, life[1]);
	if (rc == 0)
		rc = private_server_start(&o, told[0]);
	close(told[0]);
	private_server_close_all(&o);
	if (!rc) {
		*ours = life[1];
		return 0;
	}
	close(life[1]);
	return err_set(e, rc, "this rank cannot start %.500s, which keeps the "
		       "ranks' store: %s", path, strerror(-rc));
}
