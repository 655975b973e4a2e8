/* listen.c: listen fast|slow:MB|FILE WORKER COMMAND...: runs COMMAND with its
 * stdout in a pipe, read at full speed or at N MB a second, or in FILE.
 * Prints seconds, lines, the CPU seconds and peak memory (MiB) of COMMAND and
 * those of its children, and theirs, that are not called WORKER, which is what
 * carries the lines; last how many lines are not a talker's whole one. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <poll.h>
#include <unistd.h>

enum {
	PIECE = 64 << 10, CARRIERS = 64, LIMIT_S = 90, SAMPLE_MS = 20,
	TEXT_BYTES = 63, /* a talker's line, without its prefix */
	LINE_BYTES_MAX = 256,
};

struct carrier {
	int pid;
	double cpu;
	long kb;
};

struct lines {
	long n, torn;
	char begun[LINE_BYTES_MAX]; /* a line whose end has not arrived */
	size_t len;
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

/* "PREFIXstep       17 loss 7777777...", as talker.c writes it. */
static int is_whole(const char *line, size_t len)
{
	const char *text = line + len - TEXT_BYTES;

	if (len < TEXT_BYTES || memcmp(text, "step ", 5) != 0 ||
	    memcmp(text + 13, " loss ", 6) != 0 ||
	    memmem(line, len - TEXT_BYTES, "step", 4))
		return 0;
	for (int i = 19; i < TEXT_BYTES; i++) {
		if (text[i] != text[TEXT_BYTES - 1])
			return 0;
	}
	return 1;
}

static void take_lines(struct lines *l, const char *p, size_t n)
{
	const char *end = p + n, *newline;

	for (; (newline = memchr(p, '\n', (size_t)(end - p)));
	     p = newline + 1) {
		size_t len = (size_t)(newline - p);

		l->n++;
		if (l->len + len > LINE_BYTES_MAX) {
			l->torn++;
		} else if (l->len) {
			memcpy(l->begun + l->len, p, len);
			l->torn += !is_whole(l->begun, l->len + len);
		} else {
			l->torn += !is_whole(p, len);
		}
		l->len = 0;
	}
	n = (size_t)(end - p);
	if (l->len + n > LINE_BYTES_MAX)
		n = LINE_BYTES_MAX - l->len;
	memcpy(l->begun + l->len, p, n);
	l->len += n;
}

/* Reads to the end, mb MB per second: each piece when it is due. */
static void listen_to(int fd, double mb, const char *worker, struct lines *l)
{
	static char piece[PIECE];
	double begin = now(), sampled = 0, bytes = 0;
	struct pollfd ready = {.fd = fd, .events = POLLIN};

	for (;;) {
		double t = now();
		double due = mb > 0 ? begin + bytes / (mb * (1 << 20)) : t;
		ssize_t n;

		if (t - sampled > 0.1) {
			sample(worker);
			sampled = t;
		}
		if (due > t) {
			usleep((useconds_t)((due - t) * 1e6) + 1);
			continue;
		}
		if (poll(&ready, 1, 100) == 0)
			continue;
		n = read(fd, piece, sizeof(piece));
		if (n <= 0)
			return;
		take_lines(l, piece, (size_t)n);
		bytes += (double)n;
	}
}

static void read_file(const char *path, struct lines *l)
{
	int fd = open(path, O_RDONLY);
	static char piece[PIECE];
	ssize_t n;

	while (fd >= 0 && (n = read(fd, piece, sizeof(piece))) > 0)
		take_lines(l, piece, (size_t)n);
	close(fd);
}

int main(int argc, char **argv)
{
	const char *to = argv[1], *worker = argv[2];
	int is_pipe, ends[2], out, null = open("/dev/null", O_RDWR);
	double begin = now(), cpu = 0, mb = 0;
	struct pollfd gone = {.events = POLLIN};
	static struct lines lines;
	long kb = 0;
	pid_t pid;

	if (argc < 4 || pipe2(ends, O_CLOEXEC) < 0)
		return 2;
	is_pipe = !strcmp(to, "fast") || sscanf(to, "slow:%lf", &mb) == 1;
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
		listen_to(ends[0], mb, worker, &lines);
	gone.fd = pidfd_open(pid, 0);
	for (siginfo_t info = {.si_pid = 0};;) {
		sample(worker);
		waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG);
		if (info.si_pid)
			break;
		poll(&gone, 1, SAMPLE_MS);
	}
	begin = now() - begin;
	sample(worker);
	waitpid(pid, NULL, 0);
	if (!is_pipe)
		read_file(to, &lines);
	for (int i = 0; i < count; i++) {
		cpu += carriers[i].cpu;
		kb += carriers[i].kb;
	}
	printf("%.3f %ld %.2f %.1f %ld\n", begin, lines.n, cpu,
	       (double)kb / 1024, lines.torn);
	return 0;
}
