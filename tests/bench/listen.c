/* listen.c: listen fast|slow|FILE WORKER COMMAND...: runs COMMAND with its
 * stdout in a pipe, read at full speed or 8 MB a second, or in FILE. Prints
 * seconds, lines, the CPU seconds and peak memory (MiB) of COMMAND and those of
 * its children, and theirs, that are not called WORKER, which is what carries
 * the lines. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <poll.h>
#include <unistd.h>

enum { PIECE = 64 << 10, SLOW_BYTES = 8 << 20, CARRIERS = 64, LIMIT_S = 90 };

struct carrier {
	int pid;
	double cpu;
	long kb;
};

static struct carrier carriers[CARRIERS];
static int count;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct carrier *find(int pid)
{
	for (int i = 0; i < count; i++) {
		if (carriers[i].pid == pid)
			return &carriers[i];
	}
	return NULL;
}

/* Its name, parent and CPU seconds; 0 if it is gone. */
static int read_stat(int pid, char *name, int *parent, double *cpu)
{
	char path[64], text[1024], *p;
	unsigned long user, system;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	p = strrchr(text, ')');
	if (!p || sscanf(text, "%*d (%15[^)]", name) != 1)
		return 0;
	if (sscanf(p + 2, "%*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
		   parent, &user, &system) != 3)
		return 0;
	*cpu = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
	return 1;
}

static long peak_kb(int pid)
{
	char path[64], line[256];
	long kb = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmHWM: %ld", &kb) == 1)
			break;
	}
	if (f)
		fclose(f);
	return kb;
}

static void sample(const char *worker)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	char name[16];
	int parent;
	double cpu;

	while (dir && (entry = readdir(dir))) {
		int pid = atoi(entry->d_name);
		struct carrier *c = find(pid);
		long kb;

		if (pid <= 0 || !read_stat(pid, name, &parent, &cpu) ||
		    strcmp(name, worker) == 0)
			continue;
		if (!c && find(parent) && count < CARRIERS) {
			c = &carriers[count++];
			c->pid = pid;
		}
		if (!c)
			continue;
		c->cpu = cpu;
		kb = peak_kb(pid);
		c->kb = kb > c->kb ? kb : c->kb;
	}
	if (dir)
		closedir(dir);
}

static long count_lines(const char *p, size_t n)
{
	long lines = 0;

	for (const char *end = p + n; (p = memchr(p, '\n', (size_t)(end - p)));
	     p++)
		lines++;
	return lines;
}

/* Reads to the end; slow: a piece when its time has come. */
static long listen_to(int fd, int slow, const char *worker)
{
	static char piece[PIECE];
	double begin = now(), sampled = 0;
	long lines = 0, bytes = 0;
	struct pollfd ready = {.fd = fd, .events = POLLIN};

	for (;;) {
		double t = now(), due = begin + (double)bytes / SLOW_BYTES;
		ssize_t n;

		if (t - sampled > 0.1) {
			sample(worker);
			sampled = t;
		}
		if (slow && due > t) {
			usleep((useconds_t)((due - t) * 1e6) + 1);
			continue;
		}
		if (poll(&ready, 1, 100) == 0)
			continue;
		n = read(fd, piece, sizeof(piece));
		if (n <= 0)
			return lines;
		lines += count_lines(piece, (size_t)n);
		bytes += n;
	}
}

static long lines_of(const char *path)
{
	int fd = open(path, O_RDONLY);
	static char piece[PIECE];
	long lines = 0;
	ssize_t n;

	while (fd >= 0 && (n = read(fd, piece, sizeof(piece))) > 0)
		lines += count_lines(piece, (size_t)n);
	close(fd);
	return lines;
}

int main(int argc, char **argv)
{
	const char *to = argv[1], *worker = argv[2];
	int is_pipe, ends[2], out, null = open("/dev/null", O_RDWR);
	double begin = now(), cpu = 0;
	long lines = 0, kb = 0;
	pid_t pid;

	if (argc < 4 || pipe2(ends, O_CLOEXEC) < 0)
		return 2;
	is_pipe = !strcmp(to, "fast") || !strcmp(to, "slow");
	out = is_pipe ? ends[1] : open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	pid = fork();
	if (pid == 0) {
		alarm(LIMIT_S);
		dup2(null, 0);
		dup2(out, 1);
		execvp(argv[3], argv + 3);
		_exit(127);
	}
	close(ends[1]);
	carriers[count++].pid = pid;
	/* where all goes into a file the pipe has no writer: it ends at once */
	if (is_pipe)
		lines = listen_to(ends[0], !strcmp(to, "slow"), worker);
	for (siginfo_t info = {.si_pid = 0};;) {
		sample(worker);
		waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG);
		if (info.si_pid)
			break;
		usleep(20000);
	}
	begin = now() - begin;
	sample(worker);
	waitpid(pid, NULL, 0);
	if (!is_pipe)
		lines = lines_of(to);
	for (int i = 0; i < count; i++) {
		cpu += carriers[i].cpu;
		kb += carriers[i].kb;
	}
	printf("%.3f %ld %.2f %.1f\n", begin, lines, cpu, (double)kb / 1024);
	return 0;
}
