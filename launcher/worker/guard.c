/* guard.c: the process that cleans up after an agent that was killed. */
#include "launcher/worker/guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/output/logdir.h"

/* `pkill -9 ddprun` must not match this name. */
#define GUARD_NAME "ddp-guard"

enum { FDS_MAX = 1 << 20 };
/* At most this many killed guards are replaced within this time. */
enum { DEATHS_MAX = 5, DEATHS_MS = 60000 };

/* The table holds the terminal, the pipes, the groups, then the paths of the
 * folders. */
static size_t guard_pipes_bytes(uint32_t n)
{
	return 2 * n * sizeof(ino_t);
}

static size_t guard_folders_offset(uint32_t n)
{
	return guard_pipes_bytes(n) + n * sizeof(pid_t);
}

static size_t guard_table_bytes(uint32_t n)
{
	return sizeof(struct guard_terminal) + guard_folders_offset(n) +
	       GUARD_FOLDERS * GUARD_FOLDER_MAX;
}

int guard_signal(pid_t slot, int signal)
{
	if (slot > 1)
		return kill(-slot, signal) == 0;
	if (slot >= -1)
		return 0;
	/* The kernel reuses a number only when no process and no group has it.
	 * So after our leader was reaped, a process with this pid is a
	 * stranger; while there is none, the group is ours or empty. */
	if (kill(-slot, 0) == 0 || errno != ESRCH)
		return 0;
	return kill(slot, signal) == 0;
}

static void guard_kill_all(const struct guard *g)
{
	enum { SWEEPS_MAX = 100 };
	struct sweep_marks marks = *g->marks;

	marks.pipes = g->pipes;
	marks.npipes = 2 * (size_t)g->n;
	for (uint32_t i = 0; i < g->n; i++)
		guard_signal(g->groups[i], SIGKILL);
	/* kills processes that left their group; repeats while it finds any,
	 * since they may have forked meanwhile. A worker may be a ddprun: its
	 * guard must live, since that ddprun's workers have another mark */
	for (int i = 0, clean = 0; i < SWEEPS_MAX && clean < 2; i++) {
		int in_exec;
		int n = sweep_kill_marked(&marks, GUARD_NAME, &in_exec);

		/* ends after two sweeps that find nothing: one sweep may miss
		 * a process that it cannot read */
		clean = n || in_exec ? 0 : clean + 1;
		if (!n && in_exec)
			poll(NULL, 0, SWEEP_LOOK_MS);
	}
}

#ifdef __GLIBC__
#define GUARD_HAS_CLOSE_RANGE __GLIBC_PREREQ(2, 34)
#else
#define GUARD_HAS_CLOSE_RANGE 0
#endif
#if !GUARD_HAS_CLOSE_RANGE
static int close_range(unsigned first, unsigned last, int flags)
{
#ifdef SYS_close_range
	return (int)syscall(SYS_close_range, first, last, flags);
#else
	return -1;
#endif
}
#endif

/* The guard must not hold inherited files open. Kernels before 5.9 and some
 * seccomp filters have no close_range. */
static void guard_close_all_but_stdin(void)
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

/* The agent had it in raw mode. All signals are blocked, so that the guard may
 * change it from the background. */
static void guard_restore_terminal(const struct guard *g)
{
	const struct termios saved = g->terminal->saved;
	int fd = g->terminal->is_raw
			 ? open("/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK)
			 : -1;

	if (fd >= 0)
		tcsetattr(fd, TCSANOW, &saved);
}

/* Waits for the agent's death, which closes the pipe. An agent that ends
 * normally kills the guard first. */
static _Noreturn void guard_watch(const struct guard *g, int pipe)
{
	sigset_t all;
	char byte;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	while (dup2(pipe, 0) < 0) {
		if (errno != EBUSY && errno != EINTR)
			_exit(1);
	}
	guard_close_all_but_stdin();
	while (read(0, &byte, 1) < 0 && errno == EINTR)
		continue;
	guard_restore_terminal(g);
	guard_kill_all(g);
	for (int i = 0; i < GUARD_FOLDERS; i++)
		logdir_remove((const char *)g->folders + i * GUARD_FOLDER_MAX);
	_exit(0);
}

/* Forks with the guard's name, in a process group of its own. If this ddprun is
 * another ddprun's worker, the outer one knows the guard by both and lets it
 * live. The guard has both before it first runs, which may be late. */
static pid_t guard_fork_named(void)
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

/* Forks a guard that watches a new pipe. Signals are blocked meanwhile: the
 * loop's handlers must not run in the child, which shares their pipe, and
 * Ctrl-C must not kill a guard that does not ignore it yet. */
static int guard_start_process(struct guard *g, struct err *e)
{
	sigset_t all, was;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(e, -errno, "no pipe for the guard: %s",
			       strerror(errno));
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &was);
	g->pid = guard_fork_named();
	if (g->pid == 0)
		guard_watch(g, ends[0]);
	if (g->pid < 0)
		err_set(e, -errno, "cannot start the guard: %s",
			strerror(errno));
	sigprocmask(SIG_SETMASK, &was, NULL);
	close(ends[0]);
	if (g->pid < 0) {
		close(ends[1]);
		return e->code;
	}
	g->pipe = ends[1];
	return 0;
}

int guard_start(struct guard *g, uint32_t n, const struct sweep_marks *marks,
		struct err *e)
{
	void *table;
	int rc;

	*g = GUARD_NONE;
	g->n = n;
	g->marks = marks;
	table = mmap(NULL, guard_table_bytes(n), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED)
		return err_set(e, -errno, "no memory for the guard: %s",
			       strerror(errno));
	g->terminal = table;
	g->pipes = (ino_t *)(g->terminal + 1);
	g->groups = (pid_t *)((char *)g->pipes + guard_pipes_bytes(n));
	g->folders = (char *)g->pipes + guard_folders_offset(n);
	rc = guard_start_process(g, e);
	if (rc < 0) {
		munmap(table, guard_table_bytes(n));
		g->terminal = NULL;
		g->groups = NULL;
		g->pipes = NULL;
		g->folders = NULL;
	}
	return rc;
}

/* 0, or an error if guards died too often to start another one. */
static int guard_count_death(struct guard *g, struct err *e)
{
	uint64_t now = clock_ms();

	if (!g->deaths || now - g->deaths_since > DEATHS_MS) {
		g->deaths = 0;
		g->deaths_since = now;
	}
	if (++g->deaths <= DEATHS_MAX)
		return 0;
	return err_set(e, ERR_SYSTEM,
		       "it is not restarted after %u deaths within %u s",
		       g->deaths, DEATHS_MS / 1000);
}

static const char *guard_end_text(int status, char *out, size_t size)
{
	char name[SIGNAL_NAME_MAX];

	if (WIFSIGNALED(status))
		snprintf(out, size, "was killed by %s",
			 signal_name(WTERMSIG(status), name));
	else
		snprintf(out, size, "exited with code %d", WEXITSTATUS(status));
	return out;
}

int guard_reaped(struct guard *g, pid_t pid, int status)
{
	char end[SIGNAL_NAME_MAX + 32];
	struct err e = ERR_INIT;
	int rc;

	if (g->pid <= 0 || pid != g->pid)
		return 0;
	close(g->pipe);
	g->pid = g->pipe = -1;
	if (g->is_dismissed)
		return 1;
	guard_end_text(status, end, sizeof(end));
	rc = guard_count_death(g, &e);
	if (rc == 0)
		rc = guard_start_process(g, &e);
	if (rc == 0)
		log_warn("the guard process (pid %d) %s: pid %d takes its "
			 "place", (int)pid, end, (int)g->pid);
	else
		log_warn("the guard process (pid %d) %s: %s; processes that "
			 "workers started would survive a kill -9 of ddprun",
			 (int)pid, end, e.text);
	return 1;
}

volatile pid_t *guard_slot(struct guard *g, uint32_t i)
{
	return &g->groups[i];
}

static ino_t guard_pipe_inode(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
		return 0;
	return st.st_ino;
}

void guard_note_pipes(struct guard *g, uint32_t i, int out, int err)
{
	g->pipes[2 * i] = guard_pipe_inode(out);
	g->pipes[2 * i + 1] = guard_pipe_inode(err);
}

/* The path is there when its first byte is: this process may be killed while it
 * writes, and the guard must not remove the folder that half a path names. */
void guard_note_folder(struct guard *g, enum guard_folder kind,
		       const char *path)
{
	size_t n = strlen(path);
	volatile char *noted;

	if (!g->folders || n >= GUARD_FOLDER_MAX)
		return;
	noted = g->folders + kind * GUARD_FOLDER_MAX;
	noted[0] = '\0';
	for (size_t i = 1; i <= n; i++)
		noted[i] = path[i];
	noted[0] = path[0];
}

void guard_note_terminal(struct guard *g, const struct termios *saved)
{
	if (!g->terminal)
		return;
	g->terminal->is_raw = 0;
	if (!saved)
		return;
	g->terminal->saved = *saved;
	g->terminal->is_raw = 1;
}

void guard_finish(struct guard *g)
{
	if (g->pid <= 0)
		return;
	close(g->pipe);
	waitpid(g->pid, NULL, 0);
	g->pid = g->pipe = -1;
}

void guard_dismiss(struct guard *g)
{
	g->is_dismissed = g->pid > 0 && kill(g->pid, SIGKILL) == 0;
}

void guard_stop(struct guard *g)
{
	if (g->pid > 0 && kill(g->pid, SIGKILL) == 0)
		waitpid(g->pid, NULL, 0);
	else
		guard_finish(g); /* it exits when its pipe closes */
	if (g->pipe >= 0)
		close(g->pipe);
	if (g->terminal)
		munmap((void *)g->terminal, guard_table_bytes(g->n));
	*g = GUARD_NONE;
}
