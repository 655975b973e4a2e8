/* sweep.c: reading /proc for processes left behind. */
#include "launcher/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void tell(struct sweep *s, pid_t pid, int signal)
{
	pid_t *more = realloc(s->told, (s->n + 1) * sizeof(*more));

	kill(pid, signal);
	if (!more)
		return; /* it will be told again */
	s->told = more;
	s->told[s->n++] = pid;
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

/* A directory entry of /proc as a pid; 0 if it is none. */
static pid_t pid_of(const struct dirent *entry)
{
	char *end;
	long pid = strtol(entry->d_name, &end, 10);

	return *end || pid < 1 || pid > INT_MAX ? 0 : (pid_t)pid;
}

/* In a PID namespace without a /proc of its own the numbers there are those of
 * other processes: to signal them would hit strangers, to wait for them would
 * never end. */
static DIR *open_proc(void)
{
	static int warned;
	char self[32];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);
	DIR *proc = NULL;

	self[n > 0 ? n : 0] = '\0';
	if (strtol(self, NULL, 10) == getpid())
		proc = opendir("/proc");
	if (!proc && !warned++)
		log_warn("%s: what workers leave behind in the background is "
			 "not found and not ended", n > 0 ?
			 "/proc is not of this PID namespace (unshare has "
			 "--mount-proc)" : "cannot read /proc");
	return proc;
}

typedef void on_child(void *arg, pid_t pid);

/* For kernels without the list of children: all of /proc. */
static void search_children(on_child *found, void *arg)
{
	DIR *proc = open_proc();
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		if (pid_of(entry) && parent_of(entry->d_name) == getpid())
			found(arg, pid_of(entry));
	}
	if (proc)
		closedir(proc);
}

static void list_children(on_child *found, void *arg)
{
	char path[64];
	FILE *f;
	pid_t pid;

	/* children belong to a thread; this program has one */
	snprintf(path, sizeof(path), "/proc/self/task/%d/children",
		 (int)getpid());
	f = fopen(path, "re");
	if (!f) {
		search_children(found, arg);
		return;
	}
	while (fscanf(f, "%d", &pid) == 1)
		found(arg, pid);
	fclose(f);
}

struct visit {
	struct sweep *s;
	const pid_t *except;
	int nexcept, signal, left;
};

static void on_found(void *arg, pid_t pid)
{
	struct visit *v = arg;

	if (is_in(v->except, (size_t)v->nexcept, pid))
		return;
	v->left++;
	if (!is_in(v->s->told, v->s->n, pid))
		tell(v->s, pid, v->signal);
}

int sweep_children(struct sweep *s, const pid_t *except, int nexcept,
		   int signal)
{
	struct visit v = {s, except, nexcept, signal, 0};

	list_children(on_found, &v);
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

static int is_called(const char *pid, const char *name)
{
	char path[sizeof("/proc//comm") + NAME_MAX], comm[32];

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	file_read_text(path, comm, sizeof(comm));
	comm[strcspn(comm, "\n")] = '\0';
	return strcmp(comm, name) == 0;
}

int sweep_kill_marked(const char *variable, const char *except)
{
	DIR *proc = open_proc();
	struct dirent *entry;
	int killed = 0;

	while (proc && (entry = readdir(proc))) {
		char path[sizeof("/proc//environ") + sizeof(entry->d_name)];
		pid_t pid;
		int fd;

		pid = pid_of(entry);
		if (!pid || pid == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/%s/environ", entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (has_variable(fd, variable) &&
		    !is_called(entry->d_name, except))
			killed += kill(pid, SIGKILL) == 0;
		close(fd);
	}
	if (proc)
		closedir(proc);
	return killed;
}
