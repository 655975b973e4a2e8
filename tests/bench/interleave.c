/* interleave.c: times commands side by side, round by round, so that a machine
 * that slows down slows all of them, and prints medians and ratios.
 * usage: interleave ROUNDS BASE < LINES, a line: label, tab, words. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COMMANDS_MAX = 64, WORDS_MAX = 64, ROUNDS_MAX = 101, LIMIT_S = 60 };

struct command {
	char *label;
	char *words[WORDS_MAX + 1];
	double ms[ROUNDS_MAX];
	int runs, failed, hung;
	long rss_kb; /* its largest process's */
};

static struct command commands[COMMANDS_MAX];
static volatile pid_t running;

static void on_alarm(int signal)
{
	kill(-running, SIGKILL);
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int read_commands(void)
{
	char *line = NULL;
	size_t cap = 0;
	int n = 0;

	while (n < COMMANDS_MAX && getline(&line, &cap, stdin) > 0) {
		char *tab = strchr(line, '\t'), *word;
		int words = 0;

		if (!tab)
			continue;
		*tab = '\0';
		commands[n].label = strdup(line);
		for (word = strtok(tab + 1, " \n"); word && words < WORDS_MAX;
		     word = strtok(NULL, " \n"))
			commands[n].words[words++] = strdup(word);
		n += words > 0;
	}
	free(line);
	return n;
}

static void run_child(char **words)
{
	int null = open("/dev/null", O_RDWR);

	setpgid(0, 0);
	dup2(null, 0);
	dup2(null, 1);
	if (!getenv("BENCH_STDERR"))
		dup2(null, 2);
	execvp(words[0], words);
	_exit(127);
}

static void run(struct command *c, int counted)
{
	double start = now_ms(), ms;
	struct rusage use;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		run_child(c->words);
	running = pid;
	alarm(LIMIT_S);
	while (wait4(pid, &status, 0, &use) < 0)
		continue;
	ms = now_ms() - start;
	if (alarm(0) == 0) {
		c->hung++;
		return;
	}
	if (status)
		c->failed++;
	if (!counted)
		return;
	c->ms[c->runs++] = ms;
	if (use.ru_maxrss > c->rss_kb)
		c->rss_kb = use.ru_maxrss;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(struct command *c)
{
	qsort(c->ms, (size_t)c->runs, sizeof(double), ascending);
	return c->runs ? c->ms[c->runs / 2] : 0;
}

static void print(int n, const char *base)
{
	double floor_ms = 0;

	for (int i = 0; i < n; i++) {
		if (strcmp(commands[i].label, base) == 0)
			floor_ms = median(&commands[i]);
	}
	printf("%-34s %4s %9s %9s %9s %8s %8s\n", "command", "runs", "min ms",
	       "median", "max", "ratio", "RSS MiB");
	for (int i = 0; i < n; i++) {
		struct command *c = &commands[i];
		double m = median(c);

		printf("%-34s %4d %9.2f %9.2f %9.2f %8.2f %8.1f", c->label,
		       c->runs, c->runs ? c->ms[0] : 0, m,
		       c->runs ? c->ms[c->runs - 1] : 0,
		       floor_ms > 0 ? m / floor_ms : 0,
		       (double)c->rss_kb / 1024);
		if (c->failed)
			printf("  failed %d", c->failed);
		if (c->hung)
			printf("  hung %d", c->hung);
		putchar('\n');
	}
}

int main(int argc, char **argv)
{
	int rounds = argc == 3 ? atoi(argv[1]) : 0, n;

	if (rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: interleave ROUNDS BASE < LINES\n");
		return 2;
	}
	signal(SIGALRM, on_alarm);
	n = read_commands();
	for (int r = -1; r < rounds; r++) /* the first warms up */
		for (int i = 0; i < n; i++)
			run(&commands[i], r >= 0);
	print(n, argv[2]);
	return 0;
}
