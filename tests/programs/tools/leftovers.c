/* leftovers NAME=VALUE SECONDS: waits until no live process has NAME=VALUE in
 * the environment that it was started with; after SECONDS it lists those that
 * are left, kills them and exits with 1. A zombie is not alive. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

enum { TEXT_MAX = 1 << 20, FOUND_MAX = 1024 };

/* Reads /proc/pid/file whole into text; returns its length, 0 if it is gone. */
static size_t read_proc(long pid, const char *file, char *text, size_t size)
{
	char path[64];
	size_t len = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%ld/%s", pid, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	while (len < size && (n = read(fd, text + len, size - len)) > 0)
		len += (size_t)n;
	close(fd);
	return len;
}

static int has_entry(long pid, const char *entry)
{
	static char text[TEXT_MAX + 1];
	size_t len = read_proc(pid, "environ", text, TEXT_MAX);

	text[len] = 0;
	for (char *p = text; p < text + len; p += strlen(p) + 1)
		if (!strcmp(p, entry))
			return 1;
	return 0;
}

/* Fills pidfds of the live processes with the entry; returns how many. */
static int find(const char *entry, struct pollfd *fds, long *pids)
{
	DIR *proc = opendir("/proc");
	struct dirent *d;
	int n = 0;

	if (!proc) {
		perror("leftovers: /proc");
		exit(2);
	}
	while (n < FOUND_MAX && (d = readdir(proc))) {
		long pid = strtol(d->d_name, NULL, 10);
		if (pid <= 0 || pid == getpid() || !has_entry(pid, entry))
			continue;
		int fd = (int)syscall(SYS_pidfd_open, pid, 0);
		if (fd < 0)
			continue;
		fds[n] = (struct pollfd){.fd = fd, .events = POLLIN};
		pids[n++] = pid;
	}
	closedir(proc);
	return n;
}

static void show_and_kill(long pid)
{
	char text[256];
	size_t len = read_proc(pid, "cmdline", text, sizeof(text) - 1);

	for (size_t i = 0; i < len; i++)
		if (!text[i])
			text[i] = ' ';
	text[len] = 0;
	printf("left behind: pid %ld: %s\n", pid, text);
	kill((pid_t)pid, SIGKILL);
}

int main(int argc, char **argv)
{
	static struct pollfd fds[FOUND_MAX];
	static long pids[FOUND_MAX];

	if (argc != 3) {
		fprintf(stderr, "usage: leftovers NAME=VALUE SECONDS\n");
		return 2;
	}
	uint64_t end = clock_ms() + (uint64_t)(strtod(argv[2], NULL) * 1000);
	for (;;) {
		int n = find(argv[1], fds, pids), late = 0;
		if (n == 0)
			return 0;
		for (int i = 0; i < n; i++) {
			uint64_t now = clock_ms();
			int left = now < end ? (int)(end - now) : 0;
			if (!poll(&fds[i], 1, left)) {
				show_and_kill(pids[i]);
				late = 1;
			}
			close(fds[i].fd);
		}
		if (late)
			return 1;
	}
}
