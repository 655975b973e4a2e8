/* mpi_calls.c: the child's stacks, and the file through which it answers. */
#include "launcher/inspect/mpi_calls.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/plan/plan.h"
#include "launcher/worker/spawn.h"

enum {
	WORKERS_MAX = 1024,
	LOOK_S = 10, /* then the child is killed */
};

/* ---- one stack ---- */

/* "MPI_Barrier" for "PMPI_Barrier"; NULL: it is no function of MPI. */
static const char *mpi_calls_name(const char *function)
{
	function += function[0] == 'P';
	return strncmp(function, "MPI_", 4) == 0 &&
			       isupper((unsigned char)function[4])
		       ? function
		       : NULL;
}

int mpi_calls_find(const struct backtrace_thread *t, const char **name)
{
	for (int i = t->n - 1; i >= 0; i--) {
		*name = mpi_calls_name(t->frames[i].function);
		if (*name)
			return i;
	}
	return -1;
}

/* The line of the program that made the call; "-": not known. */
static const char *mpi_calls_where(const struct backtrace_thread *t, int call)
{
	for (int i = call + 1; i < t->n; i++) {
		const struct backtrace_frame *x = &t->frames[i];

		if (strncmp(x->module, "libmpi", 6) == 0) /* Fortran's */
			continue;
		return x->source[0] && !strchr(x->source, ' ') ? x->source
							       : "-";
	}
	return "-";
}

static int mpi_calls_has_library(pid_t pid)
{
	char path[32], library[MPI_LIBRARY_MAX], *line = NULL;
	size_t size = 0;
	int found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	while (f && !found && getline(&line, &size, f) > 0)
		found = strstr(line, "/libmpi") != NULL;
	free(line);
	if (f)
		fclose(f);
	/* it may contain the library */
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return found || mpi_program_library(path, library);
}

static void mpi_calls_print(pid_t pid)
{
	static struct thread_snapshot s;
	static struct backtrace_thread t;
	const char *name;
	struct err e = ERR_INIT;
	int call;

	if (!mpi_calls_has_library(pid)) {
		printf("%d 0 none -\n", (int)pid);
		return;
	}
	if (backtrace_main_thread(pid, &s, &t, &e) < 0 || t.n == 0)
		return;
	call = mpi_calls_find(&t, &name);
	if (call < 0)
		printf("%d 0 - -\n", (int)pid);
	else
		printf("%d %llx %s %s\n", (int)pid,
		       call + 1 < t.n
			       ? (unsigned long long)t.frames[call + 1].pc
			       : 0,
		       name, mpi_calls_where(&t, call));
}

int mpi_calls_main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		mpi_calls_print((pid_t)strtol(argv[i], NULL, 10));
		fflush(stdout);
	}
	return 0;
}

/* ---- the agent's side ---- */

static pid_t mpi_looks_spawn(int out, char **argv, struct err *e)
{
	extern char **environ;
	struct spawn order = {
		.path = "/proc/self/exe", .argv = argv, .envp = environ,
		.in = spawn_no_input(e), .out = out, .err = out,
		.keep = {-1, -1},
	};
	pid_t pid = order.in < 0 ? order.in : spawn_process(&order, e);

	if (order.in >= 0)
		close(order.in);
	return pid;
}

/* A file in memory, above the numbers that the child gets. */
static int mpi_looks_open(struct err *e)
{
	int low = memfd_create("ddprun-mpi", MFD_CLOEXEC);
	int fd = low < 0 ? low : fcntl(low, F_DUPFD_CLOEXEC, 3);
	int rc = fd < 0 ? -errno : fd;

	if (low >= 0)
		close(low);
	return rc < 0 ? err_set(e, rc, "no file for stacks: %s", strerror(-rc))
		      : rc;
}

int mpi_looks_start(struct mpi_looks *l, const pid_t *pids, uint32_t n,
		    struct err *e)
{
	static char name[] = "ddprun", command[] = MPI_CALLS_COMMAND;
	char text[WORKERS_MAX][12], *argv[WORKERS_MAX + 3] = {name, command};
	pid_t pid;
	int fd;

	if (l->pid) {
		if (clock_ns() - l->began_ns >
		    LOOK_S * UINT64_C(1000000000))
			mpi_looks_stop(l);
		return 0;
	}
	if (n > WORKERS_MAX)
		n = WORKERS_MAX;
	for (uint32_t i = 0; i < n; i++) {
		snprintf(text[i], sizeof(text[i]), "%d", (int)pids[i]);
		argv[i + 2] = text[i];
	}
	argv[n + 2] = NULL;
	fd = mpi_looks_open(e);
	if (fd < 0)
		return fd;
	pid = mpi_looks_spawn(fd, argv, e);
	if (pid < 0) {
		close(fd);
		return pid;
	}
	*l = (struct mpi_looks){pid, fd, clock_ns()};
	return 0;
}

int mpi_looks_reaped(struct mpi_looks *l, pid_t pid, struct buf *out)
{
	char text[4096];
	ssize_t n;

	if (!l->pid || pid != l->pid)
		return 0;
	for (off_t at = 0; (n = pread(l->fd, text, sizeof(text), at)) > 0;
	     at += n)
		buf_put(out, text, (size_t)n);
	close(l->fd);
	*l = (struct mpi_looks){.pid = 0};
	return 1;
}

void mpi_looks_stop(struct mpi_looks *l)
{
	if (l->pid)
		kill(l->pid, SIGKILL);
}
