/* mpi_floor.c: the floor of mpi.sh: starts RANKS processes of a program on this
 * host, and answers their PMI-1 from one loop, from an array, without checks,
 * output, logs, groups or restarts. What is left is the program's own time.
 * With `alone` before RANKS it answers nothing: each is a world of one.
 * usage: mpi_floor [alone] RANKS PROGRAM [WORDS...] */
#include <errno.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 1024, LINE = 4096, KEYS_MAX = 8192 };

static struct pollfd fds[RANKS_MAX];
static char lines[RANKS_MAX][LINE];
static size_t lens[RANKS_MAX];
static struct { char *key, *value; } keys[KEYS_MAX];
static int n, nkeys, waiting, left;
extern char **environ;

static void die(const char *what)
{
	fprintf(stderr, "mpi_floor: %s: %s\n", what,
		errno ? strerror(errno) : "wrong");
	exit(2);
}

static void answer(int rank, const char *format, ...)
{
	char text[LINE];
	va_list ap;
	int len;

	va_start(ap, format);
	len = vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (send(fds[rank].fd, text, (size_t)len, MSG_NOSIGNAL) != len)
		die("send");
}

static void put(const char *line)
{
	const char *key = strstr(line, "key=") + 4;
	const char *value = strstr(line, "value=") + 6;

	if (nkeys == KEYS_MAX)
		die("too many keys");
	keys[nkeys].key = strndup(key, strcspn(key, " "));
	keys[nkeys++].value = strdup(value);
}

static void get(int rank, const char *key)
{
	if (strcmp(key, "PMI_process_mapping") == 0) {
		answer(rank, "cmd=get_result rc=0 value=(vector,(0,1,%d))\n",
		       n);
		return;
	}
	for (int i = 0; i < nkeys; i++)
		if (strcmp(keys[i].key, key) == 0) {
			answer(rank, "cmd=get_result rc=0 value=%s\n",
			       keys[i].value);
			return;
		}
	answer(rank, "cmd=get_result rc=-1 msg=none\n");
}

static void barrier(void)
{
	if (++waiting < n)
		return;
	waiting = 0;
	for (int i = 0; i < n; i++)
		answer(i, "cmd=barrier_out rc=0\n");
}

static void take(int rank, const char *line)
{
	if (strncmp(line, "cmd=init ", 9) == 0)
		answer(rank, "cmd=response_to_init pmi_version=1 "
			     "pmi_subversion=1 rc=0\n");
	else if (strncmp(line, "cmd=get_maxes", 13) == 0)
		answer(rank, "cmd=maxes kvsname_max=256 keylen_max=64 "
			     "vallen_max=1024\n");
	else if (strncmp(line, "cmd=get_appnum", 14) == 0)
		answer(rank, "cmd=appnum appnum=0\n");
	else if (strncmp(line, "cmd=get_universe", 16) == 0)
		answer(rank, "cmd=universe_size size=%d\n", n);
	else if (strncmp(line, "cmd=get_my_kvsname", 18) == 0)
		answer(rank, "cmd=my_kvsname kvsname=floor_%d\n",
		       (int)getpid());
	else if (strncmp(line, "cmd=put", 7) == 0) {
		put(line);
		answer(rank, "cmd=put_result rc=0\n");
	} else if (strncmp(line, "cmd=get ", 8) == 0)
		get(rank, strstr(line, "key=") + 4);
	else if (strncmp(line, "cmd=barrier_in", 14) == 0)
		barrier();
	else if (strncmp(line, "cmd=finalize", 12) == 0)
		answer(rank, "cmd=finalize_ack\n");
	else
		die(line);
}

static void hear(int rank)
{
	char *line = lines[rank], *end;
	ssize_t got = read(fds[rank].fd, line + lens[rank],
			   LINE - 1 - lens[rank]);

	if (got <= 0) {
		close(fds[rank].fd);
		fds[rank].fd = -1;
		left++;
		return;
	}
	lens[rank] += (size_t)got;
	line[lens[rank]] = '\0';
	while ((end = strchr(line, '\n'))) {
		*end = '\0';
		take(rank, line);
		line = end + 1;
	}
	lens[rank] = strlen(line);
	memmove(lines[rank], line, lens[rank] + 1);
}

/* The child's end has no close-on-exec; the other ends have. */
static void start(int rank, int alone, char **words)
{
	char text[32];
	pid_t pid;
	int pair[2];

	if (alone) {
		if (posix_spawnp(&pid, words[0], NULL, NULL, words, environ))
			die(words[0]);
		return;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair");
	fds[rank] = (struct pollfd){pair[0], POLLIN, 0};
	snprintf(text, sizeof(text), "%d", dup(pair[1]));
	close(pair[1]);
	setenv("PMI_FD", text, 1);
	pair[1] = atoi(text);
	snprintf(text, sizeof(text), "%d", rank);
	setenv("PMI_RANK", text, 1);
	snprintf(text, sizeof(text), "%d", n);
	setenv("PMI_SIZE", text, 1);
	if (posix_spawnp(&pid, words[0], NULL, NULL, words, environ))
		die(words[0]);
	close(pair[1]);
}

int main(int argc, char **argv)
{
	int alone = argc > 1 && strcmp(argv[1], "alone") == 0, status, rc = 0;

	argc -= alone;
	argv += alone;
	n = argc > 2 ? atoi(argv[1]) : 0;
	if (n < 1 || n > RANKS_MAX)
		die("usage: mpi_floor [alone] RANKS PROGRAM [WORDS...]");
	for (int i = 0; i < n; i++)
		start(i, alone, argv + 2);
	while (!alone && left < n) {
		if (poll(fds, (nfds_t)n, -1) < 0)
			die("poll");
		for (int i = 0; i < n; i++)
			if (fds[i].fd >= 0 && fds[i].revents)
				hear(i);
	}
	while (wait(&status) > 0)
		rc |= status != 0;
	return rc;
}
