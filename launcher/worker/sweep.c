/* sweep.c: reads /proc to find processes left behind. */
#include "launcher/worker/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

static int sweep_is_in(const pid_t *pids, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++) {
		if (pids[i] == pid)
			return 1;
	}
	return 0;
}

/* Children that existed before we started any, and whether their orphans may
 * become children of ours. */
static struct {
	pid_t *pids;
	size_t n;
	int come;
} strangers;

static int sweep_add_pid(pid_t **pids, size_t *n, pid_t pid)
{
	pid_t *more = realloc(*pids, (*n + 1) * sizeof(*more));

	if (!more)
		return 0;
	*pids = more;
	more[(*n)++] = pid;
	return 1;
}

/* Signals pid, unless it was signalled before. 0: we may not signal it. */
static int sweep_signal(struct sweep *s, pid_t pid, int signal)
{
	if (sweep_is_in(s->signalled, s->n, pid))
		return 1;
	if (kill(pid, signal) < 0 && errno == EPERM) {
		log_warn("pid %d, which a worker left behind, runs as another "
			 "user, so ddprun cannot end it: end it by hand",
			 (int)pid);
		sweep_leave(pid);
		return 0;
	}
	/* out of memory: it is signalled again */
	sweep_add_pid(&s->signalled, &s->n, pid);
	return 1;
}

/* Fields of /proc/PID/stat, by their numbers in proc_pid_stat(5). */
enum {
	STAT_PARENT = 4, STAT_THREADS = 20, STAT_START = 22, STAT_VSIZE = 23,
	STAT_END_CODE = 27, STAT_ENV_START = 50, STAT_ENV_END = 51,
	STAT_FIELDS = 53
};

/* Reads the fields from STAT_PARENT on; all 0 if the process is gone. */
static void sweep_read_stat(const char *pid, unsigned long long *fields)
{
	char path[sizeof("/proc//stat") + NAME_MAX], text[2048], *at;

	memset(fields, 0, STAT_FIELDS * sizeof(*fields));
	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	file_read_text(path, text, sizeof(text));
	/* the name in parentheses may have any characters; then the state */
	at = strrchr(text, ')');
	if (!at || strlen(at) < sizeof(") S") - 1)
		return;
	at += sizeof(") S") - 1;
	for (int i = STAT_PARENT; i < STAT_FIELDS; i++)
		fields[i] = strtoull(at, &at, 10);
}

/* 0 if the process is gone. */
static pid_t sweep_parent_of(const char *pid)
{
	unsigned long long fields[STAT_FIELDS];

	sweep_read_stat(pid, fields);
	return (pid_t)fields[STAT_PARENT];
}

/* A name in /proc as a pid; 0 if it is not a pid. */
static pid_t sweep_pid_of(const char *name)
{
	char *end;
	long pid = strtol(name, &end, 10);

	return *end || pid < 1 || pid > INT_MAX ? 0 : (pid_t)pid;
}

/* Opens /proc. In a PID namespace without a /proc of its own the numbers are
 * other processes': a signal would hit strangers, a wait would never end. */
static int sweep_open_proc(int quiet)
{
	static int warned;
	char self[32];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);
	int proc = -1;

	self[n > 0 ? n : 0] = '\0';
	if (strtol(self, NULL, 10) == getpid())
		proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0 && !quiet && !warned++)
		log_warn("%s: ddprun cannot find and end processes that "
			 "workers leave in the background",
			 n > 0 ? "/proc belongs to another PID namespace (use "
				 "unshare --mount-proc)"
			       : "cannot read /proc");
	return proc;
}

typedef void sweep_on_child(void *arg, pid_t pid);

struct sweep_search {
	sweep_on_child *found;
	void *arg;
};

static void sweep_check_child(void *arg, int proc, const char *name)
{
	const struct sweep_search *s = arg;

	if (sweep_pid_of(name) && sweep_parent_of(name) == getpid())
		s->found(s->arg, sweep_pid_of(name));
}

/* For kernels without the list of children: searches all of /proc. */
static void sweep_search_children(sweep_on_child *found, void *arg, int quiet)
{
	struct sweep_search s = {found, arg};
	int proc = sweep_open_proc(quiet);

	if (proc < 0)
		return;
	if (file_each_name(proc, sweep_check_child, &s) < 0 && !quiet)
		log_warn("cannot read /proc: %s", strerror(errno));
	close(proc);
}

static void sweep_list_children(sweep_on_child *found, void *arg, int quiet)
{
	char path[64];
	FILE *f;
	pid_t pid;

	/* children belong to a thread; this program has one */
	snprintf(path, sizeof(path), "/proc/self/task/%d/children",
		 (int)getpid());
	f = fopen(path, "re");
	if (!f) {
		sweep_search_children(found, arg, quiet);
		return;
	}
	while (fscanf(f, "%d", &pid) == 1)
		found(arg, pid);
	fclose(f);
}

/* Searches for the whole variable, between NULs. Reads the text in overlapping
 * pieces, since an environment may have megabytes. If it is not found, *size is
 * the number of bytes read. */
static int sweep_has_variable(int fd, const char *variable, size_t *size)
{
	enum { PIECE = 32 << 10 };
	char buf[PIECE + 1];
	size_t want = strlen(variable) + 1, have = 1;
	ssize_t n;

	buf[0] = '\0'; /* as if a variable ended before the first */
	while ((n = read(fd, buf + have, PIECE - have)) > 0) {
		char *p = buf, *end;

		have += (size_t)n;
		*size += (size_t)n;
		end = buf + have;
		while ((p = memmem(p, (size_t)(end - p), variable, want))) {
			if (p > buf && p[-1] == '\0')
				return 1;
			p++;
		}
		if (have > want) {
			memmove(buf, buf + (have - want), want);
			have = want;
		}
	}
	return 0;
}

/* Ourselves in /proc. qemu's user mode answers for /proc/self/stat itself, with
 * zeroes and another start than the kernel shows for the others. */
#define SELF "thread-self"

/* 1 if the kernel reports where a process's code ends. gVisor does not. */
static int sweep_shows_code(void)
{
	static int shows = -1;
	unsigned long long stat[STAT_FIELDS];

	if (shows < 0) {
		sweep_read_stat(SELF, stat);
		shows = stat[STAT_END_CODE] != 0;
	}
	return shows;
}

/* In execve a process has its new memory, but the kernel sets the end of its
 * code last, after the environment. Zombies and kernel threads have no memory.
 * If we may not read the environment, the kernel shows the end of code as 1. */
static int sweep_is_in_exec(const unsigned long long *stat)
{
	return stat[STAT_VSIZE] && !stat[STAT_END_CODE] && sweep_shows_code();
}

/* A process whose first thread has ended shows no memory, either, but its other
 * threads run on. */
static int sweep_is_zombie(const unsigned long long *stat)
{
	return !stat[STAT_VSIZE] && stat[STAT_THREADS] <= 1;
}

uint64_t sweep_choose_locks(uint64_t random)
{
	/* below 2^62, so that signed numbers show it correctly */
	const uint64_t top = (uint64_t)1 << 62, least = (uint64_t)1 << 32;
	struct rlimit ours;
	uint64_t half;

	if (getrlimit(RLIMIT_LOCKS, &ours) < 0 || ours.rlim_max < least)
		return 0;
	half = (ours.rlim_max < top ? ours.rlim_max : top) / 2;
	return half + random % half;
}

static int sweep_has_locks(const char *pid, uint64_t locks)
{
	char path[sizeof("/proc//limits") + NAME_MAX], text[4096], *line;
	unsigned long long hard;

	if (!locks)
		return 0;
	snprintf(path, sizeof(path), "/proc/%s/limits", pid);
	file_read_text(path, text, sizeof(text));
	line = strstr(text, "\nMax file locks ");
	return line && sscanf(line, " Max file locks %*s %llu", &hard) == 1 &&
	       hard == locks;
}

static int sweep_has_mark(const char *pid, const char *mark, size_t *size)
{
	char path[sizeof("/proc//environ") + NAME_MAX];
	int fd, is;

	snprintf(path, sizeof(path), "/proc/%s/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	is = sweep_has_variable(fd, mark, size);
	close(fd);
	return is;
}

/* Whether a process has the mark, which cannot be read during execve. */
enum sweep_mark { UNMARKED, MARKED, IN_EXEC };

static enum sweep_mark sweep_find_mark(const char *pid,
				       const struct sweep_marks *m)
{
	unsigned long long stat[STAT_FIELDS];
	size_t size = 0;

	sweep_read_stat(pid, stat);
	if (sweep_is_zombie(stat))
		return UNMARKED;
	if (sweep_has_locks(pid, m->locks))
		return MARKED;
	/* before opening environ, which can block as long as execve does */
	if (sweep_is_in_exec(stat))
		return m->locks ? UNMARKED : IN_EXEC;
	if (sweep_has_mark(pid, m->variable, &size))
		return MARKED;
	sweep_read_stat(pid, stat);
	/* an execve meanwhile removed the old environment, so that we read less
	 * than the process has */
	if (!m->locks && (sweep_is_in_exec(stat) ||
			  stat[STAT_ENV_END] > stat[STAT_ENV_START] + size))
		return IN_EXEC;
	return UNMARKED;
}

static void sweep_add_stranger(void *arg, pid_t pid)
{
	sweep_add_pid(&strangers.pids, &strangers.n, pid);
	strangers.come = 1;
}

void sweep_note_strangers(void)
{
	const int any = WEXITED | WNOHANG | WNOWAIT | __WALL;
	siginfo_t one;

	strangers.come = getpid() == 1;
	/* mostly there is none, which /proc takes longer to say */
	if (waitid(P_ALL, 0, &one, any) == 0 || errno != ECHILD)
		sweep_list_children(sweep_add_stranger, NULL, 1);
}

void sweep_leave(pid_t pid)
{
	sweep_add_pid(&strangers.pids, &strangers.n, pid);
}

void sweep_reaped(pid_t pid)
{
	for (size_t i = 0; i < strangers.n; i++) {
		if (strangers.pids[i] == pid) {
			strangers.pids[i] = strangers.pids[--strangers.n];
			return;
		}
	}
}

static enum sweep_mark sweep_is_ours(pid_t pid, const struct sweep_marks *marks)
{
	char text[16];

	if (sweep_is_in(strangers.pids, strangers.n, pid))
		return UNMARKED;
	snprintf(text, sizeof(text), "%d", (int)pid);
	return strangers.come ? sweep_find_mark(text, marks) : MARKED;
}

/* 0: its execve takes too long, and the process is left alone. */
static int sweep_await_exec(struct sweep *s, pid_t pid)
{
	if (s->looks < SWEEP_LOOKS) {
		s->in_exec++;
		return 1;
	}
	log_warn("pid %d has been in execve for %d s, and until that ends "
		 "nothing shows whether a worker started it: leaving it alone; "
		 "end it by hand if it belongs to this job", (int)pid,
		 SWEEP_LOOK_MS * SWEEP_LOOKS / 1000);
	sweep_leave(pid);
	return 0;
}

struct sweep_visit {
	struct sweep *s;
	const pid_t *except;
	int nexcept;
	const struct sweep_marks *marks;
	int signal, left;
};

static void sweep_on_found(void *arg, pid_t pid)
{
	struct sweep_visit *v = arg;
	enum sweep_mark marked;

	if (sweep_is_in(v->except, (size_t)v->nexcept, pid))
		return;
	marked = sweep_is_ours(pid, v->marks);
	if (marked == MARKED)
		v->left += sweep_signal(v->s, pid, v->signal);
	else if (marked == IN_EXEC)
		v->left += sweep_await_exec(v->s, pid);
}

int sweep_children(struct sweep *s, const pid_t *except, int nexcept,
		   const struct sweep_marks *marks, int signal)
{
	struct sweep_visit v = {s, except, nexcept, marks, signal, 0};

	s->in_exec = 0;
	sweep_list_children(sweep_on_found, &v, 0);
	if (!s->in_exec)
		s->looks = 0;
	return v.left;
}

void sweep_forget(struct sweep *s)
{
	s->n = 0;
}

void sweep_release(struct sweep *s)
{
	free(s->signalled);
	*s = (struct sweep){.signalled = NULL};
}

static int sweep_is_named(const char *pid, const char *name)
{
	char path[sizeof("/proc//comm") + NAME_MAX], comm[32];

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	file_read_text(path, comm, sizeof(comm));
	comm[strcspn(comm, "\n")] = '\0';
	return strcmp(comm, name) == 0;
}

/* ---- by their pipes ---- */

struct sweep_pipe_search {
	const struct sweep_marks *marks;
	int found;
};

static int sweep_is_workers_pipe(const struct sweep_marks *m,
				 unsigned long long inode)
{
	for (size_t i = 0; inode && i < m->npipes; i++) {
		if (m->pipes[i] == inode)
			return 1;
	}
	return 0;
}

/* Ignores a process that only reads the pipe: it may be an administrator's. */
static void sweep_check_file(void *arg, int dir, const char *name)
{
	struct sweep_pipe_search *s = arg;
	unsigned long long inode = 0;
	char target[64];
	struct stat st;
	ssize_t n;

	if (s->found)
		return;
	n = readlinkat(dir, name, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	if (sscanf(target, "pipe:[%llu]", &inode) != 1 ||
	    !sweep_is_workers_pipe(s->marks, inode))
		return;
	/* the link's mode shows whether the file is open for writing */
	s->found = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		   (st.st_mode & S_IWUSR);
}

/* An older process that has a worker's pipe is not a descendant: something
 * passed the pipe to it, as systemd-run does. */
static int sweep_is_younger(const char *pid)
{
	static unsigned long long ours[STAT_FIELDS];
	unsigned long long its[STAT_FIELDS];

	if (!ours[STAT_START])
		sweep_read_stat(SELF, ours);
	sweep_read_stat(pid, its);
	return its[STAT_START] >= ours[STAT_START];
}

static int sweep_writes_to_workers_pipe(const char *pid,
					const struct sweep_marks *m)
{
	struct sweep_pipe_search s = {m, 0};
	char path[sizeof("/proc//fd") + NAME_MAX];
	int dir;

	if (!m->npipes || !sweep_is_younger(pid))
		return 0;
	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return 0;
	if (file_each_name(dir, sweep_check_file, &s) < 0)
		s.found = 0;
	close(dir);
	return s.found;
}

struct sweep_killing {
	const struct sweep_marks *marks;
	const char *except;
	int killed, in_exec;
};

/* pidfd was opened before anything was read about the process: if the process
 * has ended and its pid was reused, the signal hits nothing. Without pidfds
 * (Linux before 5.3, seccomp) it uses the pid. */
static int sweep_kill(int pidfd, pid_t pid)
{
	if (pidfd < 0)
		return kill(pid, SIGKILL);
	return (int)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

static void sweep_kill_if_marked(void *arg, int proc, const char *name)
{
	struct sweep_killing *k = arg;
	pid_t pid = sweep_pid_of(name);
	enum sweep_mark marked;
	int pidfd;

	if (!pid || pid == getpid())
		return;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	marked = sweep_find_mark(name, k->marks);
	if (marked != MARKED && sweep_writes_to_workers_pipe(name, k->marks))
		marked = MARKED;
	if (marked == MARKED && !sweep_is_named(name, k->except))
		k->killed += sweep_kill(pidfd, pid) == 0;
	k->in_exec += marked == IN_EXEC;
	if (pidfd >= 0)
		close(pidfd);
}

int sweep_kill_marked(const struct sweep_marks *marks, const char *except,
		      int *in_exec)
{
	struct sweep_killing k = {marks, except, 0, 0};
	int proc = sweep_open_proc(0);

	*in_exec = 0;
	if (proc < 0)
		return 0;
	if (file_each_name(proc, sweep_kill_if_marked, &k) < 0)
		log_warn("cannot read /proc: %s", strerror(errno));
	close(proc);
	*in_exec = k.in_exec;
	return k.killed;
}
