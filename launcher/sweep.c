/* sweep.c: reading /proc for processes left behind. */
#include "launcher/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

static int is_in(const pid_t *pids, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++) {
		if (pids[i] == pid)
			return 1;
	}
	return 0;
}

/* The children that were there first, and whether processes that we did not
 * start may become ours. */
static struct {
	pid_t *pids;
	size_t n;
	int come;
} strangers;

static int add(pid_t **pids, size_t *n, pid_t pid)
{
	pid_t *more = realloc(*pids, (*n + 1) * sizeof(*more));

	if (!more)
		return 0;
	*pids = more;
	more[(*n)++] = pid;
	return 1;
}

/* 0: it is not ours to signal. */
static int tell(struct sweep *s, pid_t pid, int signal)
{
	if (is_in(s->told, s->n, pid))
		return 1;
	if (kill(pid, signal) < 0 && errno == EPERM) {
		log_warn("pid %d, which a worker left behind, runs as another "
			 "user and cannot be ended: end it by hand", (int)pid);
		sweep_leave(pid);
		return 0;
	}
	add(&s->told, &s->n, pid); /* no memory: it will be told again */
	return 1;
}

/* 0 if it is gone. */
static pid_t parent_of(const char *pid)
{
	char path[sizeof("/proc//stat") + NAME_MAX], text[512];
	const char *end;
	pid_t parent = 0;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	file_read_text(path, text, sizeof(text));
	/* the name before it may have any characters */
	end = strrchr(text, ')');
	if (!end || sscanf(end + 1, " %*c %d", &parent) != 1)
		return 0;
	return parent;
}

/* A name in /proc as a pid; 0 if it is none. */
static pid_t pid_of(const char *name)
{
	char *end;
	long pid = strtol(name, &end, 10);

	return *end || pid < 1 || pid > INT_MAX ? 0 : (pid_t)pid;
}

/* In a PID namespace without a /proc of its own the numbers there are those of
 * other processes: to signal them would hit strangers, to wait for them would
 * never end. */
static int open_proc(int quiet)
{
	static int warned;
	char self[32];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);
	int proc = -1;

	self[n > 0 ? n : 0] = '\0';
	if (strtol(self, NULL, 10) == getpid())
		proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0 && !quiet && !warned++)
		log_warn("%s: what workers leave behind in the background is "
			 "not found and not ended", n > 0 ?
			 "/proc is not of this PID namespace (unshare has "
			 "--mount-proc)" : "cannot read /proc");
	return proc;
}

typedef void on_child(void *arg, pid_t pid);

struct search {
	on_child *found;
	void *arg;
};

static void look_at(void *arg, int proc, const char *name)
{
	const struct search *s = arg;

	if (pid_of(name) && parent_of(name) == getpid())
		s->found(s->arg, pid_of(name));
}

/* For kernels without the list of children: all of /proc. */
static void search_children(on_child *found, void *arg, int quiet)
{
	struct search s = {found, arg};
	int proc = open_proc(quiet);

	if (proc < 0)
		return;
	if (file_each_name(proc, look_at, &s) < 0 && !quiet)
		log_warn("cannot read /proc: %s", strerror(errno));
	close(proc);
}

static void list_children(on_child *found, void *arg, int quiet)
{
	char path[64];
	FILE *f;
	pid_t pid;

	/* children belong to a thread; this program has one */
	snprintf(path, sizeof(path), "/proc/self/task/%d/children",
		 (int)getpid());
	f = fopen(path, "re");
	if (!f) {
		search_children(found, arg, quiet);
		return;
	}
	while (fscanf(f, "%d", &pid) == 1)
		found(arg, pid);
	fclose(f);
}

/* The whole variable, between NULs. The text is read in overlapping pieces,
 * for environments may be megabytes. */
static int has_variable(int fd, const char *variable)
{
	enum { PIECE = 32 << 10 };
	char buf[PIECE + 1];
	size_t want = strlen(variable) + 1, have = 1;
	ssize_t n;

	buf[0] = '\0'; /* as if a variable ended before the first */
	while ((n = read(fd, buf + have, PIECE - have)) > 0) {
		char *p = buf, *end;

		have += (size_t)n;
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

static int is_marked(const char *pid, const char *mark)
{
	char path[sizeof("/proc//environ") + NAME_MAX];
	int fd, is;

	snprintf(path, sizeof(path), "/proc/%s/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	is = has_variable(fd, mark);
	close(fd);
	return is;
}

static void note_stranger(void *arg, pid_t pid)
{
	add(&strangers.pids, &strangers.n, pid);
	strangers.come = 1;
}

void sweep_note_strangers(void)
{
	strangers.come = getpid() == 1;
	list_children(note_stranger, NULL, 1);
}

void sweep_leave(pid_t pid)
{
	add(&strangers.pids, &strangers.n, pid);
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

static int is_ours(pid_t pid, const char *mark)
{
	char text[16];

	if (is_in(strangers.pids, strangers.n, pid))
		return 0;
	snprintf(text, sizeof(text), "%d", (int)pid);
	return !strangers.come || is_marked(text, mark);
}

struct visit {
	struct sweep *s;
	const pid_t *except;
	int nexcept;
	const char *mark;
	int signal, left;
};

static void on_found(void *arg, pid_t pid)
{
	struct visit *v = arg;

	if (!is_in(v->except, (size_t)v->nexcept, pid) &&
	    is_ours(pid, v->mark))
		v->left += tell(v->s, pid, v->signal);
}

int sweep_children(struct sweep *s, const pid_t *except, int nexcept,
		   const char *mark, int signal)
{
	struct visit v = {s, except, nexcept, mark, signal, 0};

	list_children(on_found, &v, 0);
	return v.left;
}

void sweep_forget(struct sweep *s)
{
	s->n = 0;
}

void sweep_release(struct sweep *s)
{
	free(s->told);
	*s = (struct sweep){NULL, 0};
}

static int is_called(const char *pid, const char *name)
{
	char path[sizeof("/proc//comm") + NAME_MAX], comm[32];

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	file_read_text(path, comm, sizeof(comm));
	comm[strcspn(comm, "\n")] = '\0';
	return strcmp(comm, name) == 0;
}

struct killing {
	const char *variable, *except;
	int killed;
};

/* The descriptor was there before anything was read of the process: if that has
 * ended since, and its number is another's, nobody is hit. Without one (Linux
 * before 5.3, seccomp) its number has to do. */
static int kill_it(int pidfd, pid_t pid)
{
	if (pidfd < 0)
		return kill(pid, SIGKILL);
	return (int)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

static void kill_if_marked(void *arg, int proc, const char *name)
{
	struct killing *k = arg;
	pid_t pid = pid_of(name);
	int pidfd;

	if (!pid || pid == getpid())
		return;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (is_marked(name, k->variable) && !is_called(name, k->except))
		k->killed += kill_it(pidfd, pid) == 0;
	if (pidfd >= 0)
		close(pidfd);
}

int sweep_kill_marked(const char *variable, const char *except)
{
	struct killing k = {variable, except, 0};
	int proc = open_proc(0);

	if (proc < 0)
		return 0;
	if (file_each_name(proc, kill_if_marked, &k) < 0)
		log_warn("cannot read /proc: %s", strerror(errno));
	close(proc);
	return k.killed;
}
