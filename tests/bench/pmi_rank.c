/* pmi_rank.c: a rank that pmi.sh starts: it speaks PMI-1 without an MPI
 * library. It puts a key as large as MPICH's address, enters a barrier, gets
 * the keys of 8 other ranks, and enters a second one. Rank 0 prints the CPU
 * time (ms) that the process WATCH_PID needed meanwhile, and what it wrote
 * (MiB). */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 2048, VALUE = 240, OTHERS = 8 };

static int fd;

static void die(const char *what)
{
	fprintf(stderr, "pmi_rank: %s: %s\n", what,
		errno ? strerror(errno) : "wrong");
	exit(1);
}

/* Sends a command and reads the line that answers it. */
static void pmi(char answer[LINE], const char *format, ...)
{
	char text[LINE];
	size_t n = 0;
	va_list ap;

	va_start(ap, format);
	n = (size_t)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (write(fd, text, n) != (ssize_t)n)
		die("PMI_FD");
	n = 0;
	do {
		ssize_t got = read(fd, answer + n, LINE - 1 - n);

		if (got <= 0)
			die("PMI_FD");
		n += (size_t)got;
	} while (answer[n - 1] != '\n' && n < LINE - 1);
	answer[n] = '\0';
}

/* CPU time (ns) and bytes written so far. Both servers have one thread. */
static void watch(unsigned long long *ns, unsigned long long *bytes)
{
	const char *pid = getenv("WATCH_PID");
	char path[64], line[256];
	FILE *f;

	*ns = *bytes = 0;
	if (!pid)
		die("WATCH_PID");
	snprintf(path, sizeof(path), "/proc/%s/schedstat", pid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%llu", ns) != 1)
		die(path);
	fclose(f);
	snprintf(path, sizeof(path), "/proc/%s/io", pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "wchar: %llu", bytes) == 1)
			break;
	if (!f)
		die(path);
	fclose(f);
}

int main(void)
{
	const char *at = getenv("PMI_FD"), *my = getenv("PMI_RANK");
	const char *all = getenv("PMI_SIZE");
	unsigned long long ns[2], bytes[2];
	char answer[LINE], name[256] = "", value[VALUE + 1];
	int rank = my ? atoi(my) : 0, size = all ? atoi(all) : 0;

	if (!at || !size)
		die("PMI_FD, PMI_RANK, PMI_SIZE");
	fd = atoi(at);
	if (rank == 0)
		watch(&ns[0], &bytes[0]);
	pmi(answer, "cmd=init pmi_version=1 pmi_subversion=1\n");
	pmi(answer, "cmd=get_my_kvsname\n");
	if (sscanf(answer, "cmd=my_kvsname kvsname=%255s", name) != 1)
		die(answer);
	memset(value, 'x', VALUE);
	value[VALUE] = '\0';
	pmi(answer, "cmd=put kvsname=%s key=address-%d value=%s\n", name, rank,
	    value);
	pmi(answer, "cmd=barrier_in\n");
	for (int i = 1; i <= OTHERS; i++) {
		pmi(answer, "cmd=get kvsname=%s key=address-%d\n", name,
		    (int)((rank + (long)i * 977) % size));
		if (!strstr(answer, value))
			die(answer);
	}
	pmi(answer, "cmd=barrier_in\n");
	if (rank == 0) {
		watch(&ns[1], &bytes[1]);
		printf("%.2f %.3f\n", (double)(ns[1] - ns[0]) / 1e6,
		       (double)(bytes[1] - bytes[0]) / (1 << 20));
	}
	pmi(answer, "cmd=finalize\n");
	return 0;
}
