/* guard.c: the process that outlives the agent for a moment. */
#include "launcher/worker/guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/output/logdir.h"

/* Not a name that `pkill -9 ddprun` kills as well. */
#define GUARD_NAME "ddp-guard"

enum { FDS_MAX = 1 << 20 };

/* The pipes, then the groups. */
static size_t pipes_bytes(uint32_t n)
{
	return 2 * n * sizeof(ino_t);
}

static size_t table_bytes(uint32_t n)
{
	return pipes_bytes(n) + n * sizeof(pid_t);
}

int guard_signal(pid_t slot, int signal)
{
	if (slot > 1)
		return kill(-slot, signal) == 0;
	if (slot >= -1)
		return 0;
	/* A number is given away again only when no process and no group has
	 * it. So who has it now as a pid, after our leader was reaped, is a
	 * stranger; while nobody has, the group is still ours, or empty. */
	if (kill(-slot, 0) == 0 || errno != ESRCH)
		return 0;
	return kill(slot, signal) == 0;
}

static void kill_all(const struct guard *g, struct sweep_marks marks)
{
	enum { SWEEPS_MAX = 100 };

	marks.pipes = g->pipes;
	marks.npipes = 2 * (size_t)g->n;
	for (uint32_t i = 0; i < g->n; i++)
		guard_signal(g->groups[i], SIGKILL);
	/* those that made a session of their own; again while there are any,
	 * for they may have forked meanwhile. A worker may be a ddprun: its
	 * guard is needed, for what that started has a mark of its own */
	for (int i = 0, clean = 0; i < SWEEPS_MAX && clean < 2; i++) {
		int in_exec;
		int n = sweep_kill_marked(&marks, GUARD_NAME, &in_exec);

		/* twice nobody: a process that could not be looked at is one
		 * that would live */
		clean = n || in_exec ? 0 : clean + 1;
		if (!n && in_exec)
			poll(NULL, 0, SWEEP_LOOK_MS);
	}
}

/* Whatever we inherited would be held open by us. Kernels before 5.9 and some
 * seccomp filters have no close_range. */
static void close_all_but_stdin(void)
{
	struct rlimit limit = {.rlim_cur = 0};
	struct dirent *entry;
	DIR *fds;

	if (close_range(1, ~0u, 0) == 0)
		return;
	fds = opendir("/proc/self/fd");
	while (fds && (entry = readdir(fds))) {
		int fd = (int)strtol(entry->d_name, NULL, 10);

		if (fd > 0 && fd != dirfd(fds))
			close(fd);
	}
	if (fds) {
		closedir(fds);
		return;
	}
	getrlimit(RLIMIT_NOFILE, &limit);
	for (int fd = 1; fd < FDS_MAX && (rlim_t)fd < limit.rlim_cur; fd++)
		close(fd);
}

/* The agent ends us by SIGKILL when all is well: that the pipe ends first
 * means that it is dead. */
static _Noreturn void watch(const struct guard *g, int pipe,
			    const struct sweep_marks *marks, const char *folder)
{
	sigset_t all;
	char byte;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	while (dup2(pipe, 0) < 0) {
		if (errno != EBUSY && errno != EINTR)
			_exit(1);
	}
	close_all_but_stdin();
	while (read(0, &byte, 1) < 0 && errno == EINTR)
		continue;
	kill_all(g, *marks);
	logdir_remove(folder);
	_exit(0);
}

/* By its name and its group another ddprun whose worker we are knows it from
 * us, and lets it live: it has both before it has run, which may be late. */
static pid_t fork_named(void)
{
	char ours[16] = "";
	pid_t pid;

	prctl(PR_GET_NAME, ours);
	prctl(PR_SET_NAME, GUARD_NAME);
	pid = fork();
	if (pid == 0)
		return 0;
	prctl(PR_SET_NAME, ours);
	if (pid > 0)
		setpgid(pid, pid);
	return pid;
}

int guard_start(struct guard *g, uint32_t n, const struct sweep_marks *marks,
		const char *folder, struct err *e)
{
	int ends[2];
	void *table;

	*g = (struct guard){.pid = -1, .pipe = -1, .n = n};
	table = mmap(NULL, table_bytes(n), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED)
		return err_set(e, -errno, "no memory for the guard: %s",
			       strerror(errno));
	g->pipes = table;
	g->groups = (pid_t *)((char *)table + pipes_bytes(n));
	if (pipe2(ends, O_CLOEXEC) < 0) {
		err_set(e, -errno, "no pipe for the guard: %s",
			strerror(errno));
		goto fail;
	}
	g->pid = fork_named();
	if (g->pid == 0)
		watch(g, ends[0], marks, folder);
	if (g->pid < 0)
		err_set(e, -errno, "cannot start the guard: %s",
			strerror(errno));
	close(ends[0]);
	g->pipe = ends[1];
	if (g->pid > 0)
		return 0;
	close(g->pipe);
	g->pipe = -1;
fail:
	munmap(table, table_bytes(n));
	g->groups = NULL;
	g->pipes = NULL;
	return e ? e->code : ERR_SYSTEM;
}

volatile pid_t *guard_slot(struct guard *g, uint32_t i)
{
	return &g->groups[i];
}

static ino_t pipe_inode(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
		return 0;
	return st.st_ino;
}

void guard_note_pipes(struct guard *g, uint32_t i, int out, int err)
{
	g->pipes[2 * i] = pipe_inode(out);
	g->pipes[2 * i + 1] = pipe_inode(err);
}

void guard_finish(struct guard *g)
{
	if (g->pid <= 0)
		return;
	close(g->pipe);
	waitpid(g->pid, NULL, 0);
	g->pid = g->pipe = -1;
}

void guard_stop(struct guard *g)
{
	if (g->pid > 0 && kill(g->pid, SIGKILL) == 0)
		waitpid(g->pid, NULL, 0);
	else
		guard_finish(g); /* it goes when its pipe ends */
	if (g->pipe >= 0)
		close(g->pipe);
	if (g->pipes)
		munmap((void *)g->pipes, table_bytes(g->n));
	*g = (struct guard){.pid = -1, .pipe = -1};
}
