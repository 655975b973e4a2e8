/* private_server.c: starts ddprdzv from inside a foreign program. */
#include "worker-sdk/kv/kv.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/client/server_exec.h"

/* As fork, but the child's end raises no SIGCHLD, and only __WALL waits for
 * it. qemu's user mode refuses that: there it is a fork. */
static pid_t private_server_quiet_fork(void)
{
	long pid = syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);

	if (pid < 0 && errno == EINVAL)
		pid = syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
	return (pid_t)pid;
}

/* The child's further descriptors: its stdin, and the pipe for its errno. Both
 * are copies by server_exec_copy_fd; -1: not open. */
struct child_fds {
	int null, error;
};

/* Only system calls from here on. The server gets a session of its own, so that
 * signals to this rank's process group, from a terminal or the launcher, do not
 * reach it. */
static _Noreturn void private_server_exec(const struct server_exec *x,
					  const struct child_fds *c)
{
	extern char **environ;
	const int error_fd = SERVER_EXEC_FD + x->nfds;
	sigset_t none;
	int error;

	sigemptyset(&none);
	setsid();
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup3(c->error, error_fd, O_CLOEXEC) < 0 || dup2(c->null, 0) < 0 ||
	    dup2(2, 1) < 0)
		goto fail;
	for (int i = 0; i < x->nfds; i++)
		if (dup2(x->fds[i], SERVER_EXEC_FD + i) < 0)
			goto fail;
	/* an inherited descriptor of the launcher that stayed open here would
	 * keep the launcher waiting; old kernels lack close_range, but execve
	 * closes the close-on-exec ones */
	syscall(SYS_close_range, (unsigned)error_fd + 1, ~0U, 0U);
	execve(x->path, x->argv, environ);
fail:
	error = errno;
	while (write(error_fd, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* Forks twice: the intermediate process ends at once, so that init adopts the
 * server. Closes c->error, so that the read ends with the server's exec. */
static int private_server_run(const struct server_exec *x, struct child_fds *c,
			      int error_in)
{
	int status, error = 0;
	ssize_t n;
	pid_t pid = private_server_quiet_fork();

	if (pid == 0) {
		pid = private_server_quiet_fork();
		if (pid == 0)
			private_server_exec(x, c);
		_exit(pid < 0 ? 1 : 0);
	}
	if (pid < 0)
		return -errno;
	while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
		;
	close(c->error);
	c->error = -1;
	do
		n = read(error_in, &error, sizeof(error));
	while (n < 0 && errno == EINTR);
	if (n == sizeof(error))
		return -error;
	return WIFEXITED(status) && WEXITSTATUS(status) ? -EAGAIN : 0;
}

static void private_server_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* Copies fd for the child, and closes it. */
static int private_server_move(int fd)
{
	int copy = fd < 0 ? -1 : server_exec_copy_fd(fd);

	private_server_close(fd);
	return copy;
}

static int private_server_start(const struct server_exec *x)
{
	int pipe[2], rc = -EMFILE;
	struct child_fds c;

	if (pipe2(pipe, O_CLOEXEC) < 0)
		return -errno;
	c.error = private_server_move(pipe[1]);
	c.null = private_server_move(open("/dev/null", O_RDONLY | O_CLOEXEC));
	if (c.error >= 0 && c.null >= 0)
		rc = private_server_run(x, &c, pipe[0]);
	close(pipe[0]);
	private_server_close(c.error);
	private_server_close(c.null);
	return rc;
}

/* The library that holds this code: ddprdzv may be installed with it. */
static const char *private_server_library(void)
{
	Dl_info lib;

	return dladdr((void *)(uintptr_t)private_server_library, &lib)
		       ? lib.dli_fname
		       : NULL;
}

int ddp__private_server_start(int *ours, const int *fds, int n, const char *job,
			      int ranks, const struct auth *auth, struct err *e)
{
	const struct server_exec_options o = {
		.library = private_server_library(),
		.fds = fds,
		.n = n,
		.journal_fd = -1,
		.job = job,
		.auth = auth,
	};
	struct server_exec x;
	int rc = server_exec_init(&x, &o, e);

	/* libddp's caller can only mend its environment */
	if (rc == -ENOENT || rc == -EACCES)
		return e->code = ERR_USAGE;
	if (rc < 0)
		return rc;
	server_exec_add(&x, "--guests=%d", ranks);
	rc = server_exec_finish(&x, e);
	if (rc == 0) {
		rc = private_server_start(&x);
		if (rc < 0)
			server_exec_failed(&x, rc, e);
	}
	if (rc == 0) {
		*ours = x.pipe;
		x.pipe = -1;
	}
	server_exec_release(&x);
	return rc;
}
