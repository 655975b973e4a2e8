/* mpi4py.c: a child that is the program's interpreter, and what it prints. */
#include "launcher/preload/mpi4py.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { LIMIT_MS = 10000 };

/* find_spec imports the package, without its extension MPI. Python's own
 * modules are loaded before the program's folder is in the path, which
 * isolated interpreters (-I, -P) do not search. */
static char finder[] =
	"import os, sys\n"
	"from importlib.util import find_spec\n"
	"if sys.path[:1] == ['']:\n"
	"    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[1]))\n"
	"spec = find_spec('mpi4py.MPI')\n"
	"os.write(1, os.fsencode(spec.origin))\n";

static void mpi4py_exec(const struct python_command *c, const char *script,
			int out)
{
	static char option[] = "-c";
	char *argv[PYTHON_WORDS_MAX + 4];
	int n = 0, null = open("/dev/null", O_RDWR);

	for (; n < c->noptions; n++)
		argv[n] = c->options[n];
	argv[n++] = option;
	argv[n++] = finder;
	argv[n++] = (char *)script;
	argv[n] = NULL;
	dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	execv(c->path, argv);
	_exit(1);
}

/* Reads until the child closes its end, or the time is over. */
static size_t mpi4py_read(int fd, char *text, size_t size)
{
	uint64_t end = clock_ms() + LIMIT_MS;
	size_t at = 0;
	ssize_t n = 1;

	while (n > 0 && at < size) {
		struct pollfd p = {fd, POLLIN, 0};
		uint64_t now = clock_ms();

		n = now < end ? poll(&p, 1, (int)(end - now)) : 0;
		if (n > 0)
			n = read(fd, text + at, size - at);
		if (n > 0)
			at += (size_t)n;
		else if (n < 0 && errno == EINTR)
			n = 1;
	}
	return at;
}

/* The file of the extension. */
static int mpi4py_find(const struct python_command *c, const char *script,
		       char file[PATH_MAX])
{
	int fds[2], status = -1;
	pid_t pid;
	size_t n;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return 0;
	pid = fork();
	if (pid == 0)
		mpi4py_exec(c, script, fds[1]);
	close(fds[1]);
	n = pid > 0 ? mpi4py_read(fds[0], file, PATH_MAX - 1) : 0;
	close(fds[0]);
	file[n] = '\0';
	if (pid < 0)
		return 0;
	if (!n)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return n && status == 0;
}

int mpi4py_library(const struct python_command *c, const char *script,
		   char out[MPI_LIBRARY_MAX])
{
	char file[PATH_MAX];

	out[0] = '\0';
	return mpi4py_find(c, script, file) && mpi_program_library(file, out);
}
