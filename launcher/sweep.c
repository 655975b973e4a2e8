/* sweep.c: reading /proc for processes left behind. */
#include "launcher/sweep.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

int sweep_children(struct sweep *s, const pid_t *except, int nexcept,
		   int signal)
{
	char path[64];
	FILE *f;
	pid_t pid;
	int left = 0;

	/* children belong to a thread; this program has one */
	snprintf(path, sizeof(path), "/proc/self/task/%d/children",
		 (int)getpid());
	f = fopen(path, "re");
	while (f && fscanf(f, "%d", &pid) == 1) {
		if (is_in(except, (size_t)nexcept, pid))
			continue;
		left++;
		if (!is_in(s->told, s->n, pid))
			tell(s, pid, signal);
	}
	if (f)
		fclose(f);
	return left;
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
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, comm, sizeof(comm));
	close(fd);
	return n == (ssize_t)strlen(name) + 1 &&
	       memcmp(comm, name, (size_t)n - 1) == 0;
}

int sweep_kill_marked(const char *variable, const char *except)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int killed = 0;

	while (proc && (entry = readdir(proc))) {
		char path[sizeof("/proc//environ") + sizeof(entry->d_name)];
		pid_t pid;
		int fd;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		pid = (pid_t)atol(entry->d_name);
		if (pid == getpid())
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
