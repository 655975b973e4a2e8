/* again.c: takes the time from a blow to a job until its workers run again, or
 * until its launcher has ended. The workers print "pid NUMBER".
 * usage: again ROUNDS LABEL N lines|end BLOW COMMAND [COMMAND2]
 * BLOW: `worker` (kill -9 of one of them), `second` (kill -9 of COMMAND2), or a
 * shell command, whose own time counts; `after` in the environment is run when
 * a round is over. Commands are split at blanks; N lines are COMMAND's. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS_MAX = 256, ROUNDS_MAX = 101, WORDS_MAX = 64 };

struct times {
	double launch, again;
};

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void split(char *text, char **words)
{
	int n = 0;

	for (char *w = strtok(text, " "); w && n < WORDS_MAX - 1;
	     w = strtok(NULL, " "))
		words[n++] = w;
	words[n] = NULL;
}

static pid_t start(const char *command, FILE **out)
{
	char text[4096], *words[WORDS_MAX];
	int ends[2];
	pid_t pid;

	snprintf(text, sizeof(text), "%s", command);
	split(text, words);
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

/* Until n workers have said their pid; 0, or -1 if the output ended first. */
static int await(FILE *out, int n, pid_t *workers)
{
	char line[256];
	int have = 0;

	while (have < n && fgets(line, sizeof(line), out)) {
		const char *p = strstr(line, "pid ");

		if (p)
			workers[have++] = (pid_t)atol(p + 4);
	}
	return have < n ? -1 : 0;
}

static void finish(pid_t pid, int signal)
{
	if (pid <= 0)
		return;
	kill(pid, signal);
	waitpid(pid, NULL, 0);
}

static int once(char **argv, int n, int round, struct times *t)
{
	const char *blow = argv[5], *after = getenv("after");
	int until_end = strcmp(argv[4], "end") == 0, rc = 0;
	pid_t workers[WORKERS_MAX], first, second = 0;
	FILE *out, *out2 = NULL;

	t->launch = now_ms();
	first = start(argv[6], &out);
	if (argv[7])
		second = start(argv[7], &out2);
	rc = await(out, n, workers);
	t->launch = now_ms() - t->launch;
	if (rc == 0 && out2) {
		pid_t there[WORKERS_MAX];

		rc = await(out2, n, there);
	}
	t->again = now_ms();
	if (rc == 0 && strcmp(blow, "worker") == 0)
		rc = kill(workers[round % n], SIGKILL);
	else if (rc == 0 && strcmp(blow, "second") == 0)
		rc = kill(second, SIGKILL);
	else if (rc == 0)
		rc = system(blow);
	if (rc == 0 && until_end)
		waitpid(first, NULL, 0);
	else if (rc == 0)
		rc = await(out, n, workers);
	t->again = now_ms() - t->again;
	finish(until_end && rc == 0 ? 0 : first, SIGTERM);
	finish(second, SIGTERM);
	/* not every launcher ends its workers */
	for (int i = 0; rc == 0 && i < n; i++)
		kill(workers[i], SIGKILL);
	fclose(out);
	if (out2)
		fclose(out2);
	return after && system(after) != 0 ? -1 : rc;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int rounds = argc > 6 ? atoi(argv[1]) : 0;
	int n = argc > 6 ? atoi(argv[3]) : 0;
	double launch[ROUNDS_MAX], again[ROUNDS_MAX];

	if (rounds < 1 || rounds > ROUNDS_MAX || n < 1 || n > WORKERS_MAX) {
		fprintf(stderr, "usage: again ROUNDS LABEL N lines|end BLOW "
			"COMMAND [COMMAND2]\n");
		return 2;
	}
	for (int r = 0; r < rounds; r++) {
		struct times t;

		if (once(argv, n, r, &t) < 0) {
			printf("%-36s did not run\n", argv[2]);
			return 1;
		}
		launch[r] = t.launch;
		again[r] = t.again;
	}
	qsort(launch, (size_t)rounds, sizeof(double), ascending);
	qsort(again, (size_t)rounds, sizeof(double), ascending);
	printf("%-36s %4d %9.2f %9.2f %9.2f %9.2f\n", argv[2], rounds,
	       again[0], again[rounds / 2], again[rounds - 1],
	       launch[rounds / 2]);
	return 0;
}
