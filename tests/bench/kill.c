/* kill.c: kills one of N sleeping workers with SIGKILL and takes the time until
 * their launcher has ended and every worker is gone.
 * usage: kill ROUNDS LABEL N WORDS... (the workers print "pid NUMBER") */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS_MAX = 256, ROUNDS_MAX = 101 };

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static pid_t start(char **words, FILE **out)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(ends[1], 1);
		dup2(null, 2);
		execvp(words[0], words);
		_exit(127);
	}
	close(ends[1]);
	*out = fdopen(ends[0], "r");
	return pid;
}

/* The process is gone, or a zombie that process 1 has not reaped yet. */
static int is_gone(pid_t pid)
{
	char path[64], state = 'X';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 1;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 'X';
	fclose(f);
	return state == 'Z' || state == 'X';
}

static int all_gone(const pid_t *workers, int n)
{
	for (int i = 0; i < n; i++) {
		if (!is_gone(workers[i]))
			return 0;
	}
	return 1;
}

/* One round: milliseconds until the launcher has ended, or < 0. */
static double once(char **words, int n, int round, int *code, int *left)
{
	pid_t workers[WORKERS_MAX], launcher;
	char line[256];
	int have = 0, status;
	double at;
	FILE *out;

	launcher = start(words, &out);
	if (launcher < 0)
		return -1;
	while (have < n && fgets(line, sizeof(line), out)) {
		const char *p = strstr(line, "pid ");

		if (p)
			workers[have++] = (pid_t)atol(p + 4);
	}
	if (have < n)
		return -1;
	at = now_ms();
	kill(workers[round % n], SIGKILL);
	while (waitpid(launcher, &status, 0) < 0)
		continue;
	at = now_ms() - at;
	*code = WIFEXITED(status) ? WEXITSTATUS(status)
				  : 1000 + WTERMSIG(status);
	*left = !all_gone(workers, n);
	for (int i = 0; *left && i < n; i++)
		kill(workers[i], SIGKILL);
	fclose(out);
	return at;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int rounds = argc > 4 ? atoi(argv[1]) : 0;
	int n = argc > 4 ? atoi(argv[3]) : 0, orphans = 0, code = 0;
	double ms[ROUNDS_MAX];

	if (rounds < 1 || rounds > ROUNDS_MAX || n < 1 || n > WORKERS_MAX) {
		fprintf(stderr, "usage: kill ROUNDS LABEL N WORDS...\n");
		return 2;
	}
	for (int r = 0; r < rounds; r++) {
		int left = 0;

		ms[r] = once(argv + 4, n, r, &code, &left);
		orphans += left;
		if (ms[r] < 0) {
			printf("%-34s did not start\n", argv[2]);
			return 1;
		}
	}
	qsort(ms, (size_t)rounds, sizeof(double), ascending);
	printf("%-34s %4d %9.2f %9.2f %9.2f  exit code %d, runs with workers "
	       "left %d\n", argv[2], rounds, ms[0], ms[rounds / 2],
	       ms[rounds - 1], code, orphans);
	return 0;
}
