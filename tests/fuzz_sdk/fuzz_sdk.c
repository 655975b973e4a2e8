/* fuzz_sdk.c: starts the worlds of one seed after another until its time is
 * over, and prints how to reproduce a world that fails.
 *
 *   fuzz_sdk                  for $FUZZ_SECONDS (20): first the seeds 1 to 12,
 *                             then new ones; from $FUZZ_SEED on, if it is set;
 *                             $FUZZ_FIRST: until the first failure
 *   fuzz_sdk SEED             the world of that seed
 *   fuzz_sdk SEED OPERATIONS  its first OPERATIONS operations
 *
 * As a rank, started by ddprun, it takes part in a world (rank.c). Exits with 1
 * if any failed. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz_sdk/fuzz.h"

enum { FIXED_SEEDS = 12, OUTPUT_MAX = 1 << 20, TRIES = 3, WORLD_S = 300 };

static char output[OUTPUT_MAX];
static pid_t launcher;
static const char *program;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* $DDPRUN, or that of this build, or that in $PATH. */
static const char *find_ddprun(const char *self)
{
	static char path[5000];
	const char *ddprun = getenv("DDPRUN"), *slash = strrchr(self, '/');

	snprintf(path, sizeof(path), "%.*s/../ddprun", (int)(slash - self),
		 self);
	if (ddprun)
		return ddprun;
	return access(path, X_OK) ? "ddprun" : path;
}

static void become_world(const struct setup *s, uint64_t seed,
			 unsigned operations, int out)
{
	char hosts[16], ranks[16], number[32], count[16], self[4096];
	char sockets[16];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		_exit(127);
	self[n] = '\0';
	snprintf(hosts, sizeof(hosts), "%d%s", s->hosts,
		 s->interleaved ? "i" : "");
	snprintf(ranks, sizeof(ranks), "%d", s->ranks);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)seed);
	snprintf(count, sizeof(count), "%u", operations);
	unsetenv("DDP_TEST_HOSTS");
	unsetenv("DDP_TEST_SHM");
	if (s->hosts)
		setenv("DDP_TEST_HOSTS", hosts, 1);
	if (s->no_shm)
		setenv("DDP_TEST_SHM", "fail", 1);
	unsetenv("DDP_TCP_SOCKETS");
	snprintf(sockets, sizeof(sockets), "%d", s->sockets);
	if (s->sockets)
		setenv("DDP_TCP_SOCKETS", sockets, 1);
	setenv("DDP_ENCRYPT_DATA", s->encrypts ? "1" : "0", 1);
	/* LeakSanitizer cannot be combined with the signals that the launcher
	 * sends to survivors (tests/lib.bash) */
	if (s->mode == KILL) {
		const char *asan = getenv("ASAN_OPTIONS");
		char options[1000];

		snprintf(options, sizeof(options), "%s:detect_leaks=0",
			 asan ? asan : "");
		setenv("ASAN_OPTIONS", options, 1);
	}
	dup2(out, 1);
	dup2(out, 2);
	execlp(find_ddprun(self), "ddprun", "--standalone", "--nproc-per-node",
	       ranks, self, number, count, NULL);
	fprintf(stderr, "cannot start ddprun: %s\n", strerror(errno));
	_exit(127);
}

/* Ends a world that hangs although each of its ranks has a watchdog. */
static void end_launcher(int sig)
{
	(void)sig;
	kill(launcher, SIGKILL);
}

/* Runs a world and collects its output. Returns its exit status. */
static int run_world(const struct setup *s, uint64_t seed, unsigned operations)
{
	int pipes[2], status;
	size_t len = 0;
	ssize_t n;

	if (pipe(pipes))
		return 127;
	launcher = fork();
	if (launcher == 0) {
		close(pipes[0]);
		become_world(s, seed, operations, pipes[1]);
	}
	close(pipes[1]);
	alarm(WORLD_S);
	while ((n = read(pipes[0], output + len, OUTPUT_MAX - 1 - len)) > 0 ||
	       (n < 0 && errno == EINTR))
		len += n > 0 ? (size_t)n : 0;
	output[len] = '\0';
	close(pipes[0]);
	while (waitpid(launcher, &status, 0) < 0 && errno == EINTR)
		;
	alarm(0);
	if (WIFSIGNALED(status) && len < OUTPUT_MAX - 100)
		sprintf(output + len, "fuzz_sdk: FAIL: ddprun was killed%s\n",
			WTERMSIG(status) == SIGKILL ? ": the world hangs" : "");
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 128 + WTERMSIG(status);
}

static int count(const char *what)
{
	int n = 0;

	for (const char *at = output; (at = strstr(at, what)); at++)
		n++;
	return n;
}

/* How many ranks may end without "ok": those that are killed. */
static int killed_at_most(const struct setup *s)
{
	return s->mode == KILL ? s->ranks > 2 ? 2 : 1 : 0;
}

static int is_well(const struct setup *s, int status)
{
	int ok = count(": ok");

	if (count("FAIL") || count("Sanitizer") || count("runtime error"))
		return 0;
	if (s->mode == KILL && (status == 137 || status == 0))
		return ok >= s->ranks - killed_at_most(s);
	return status == 0 && ok == s->ranks;
}

/* The first operation in which a rank failed, or the last one. */
static unsigned failed_at(unsigned operations)
{
	static const char mark[] = "FAIL operation ";
	unsigned first = operations - 1;

	for (const char *at = output; (at = strstr(at, mark)); at++) {
		unsigned k = (unsigned)strtoul(at + sizeof(mark) - 1, NULL, 10);

		if (k < first)
			first = k;
	}
	return first;
}

static void describe(const struct setup *s, uint64_t seed, unsigned operations,
		     int status)
{
	static const char *const modes[] = {"", ", then a mistake",
					    ", ranks killed meanwhile"};

	printf("%s\nfuzz_sdk: seed %llu FAILED: exit status %d; %d ranks, "
	       "DDP_TEST_HOSTS=%d%s%s, DDP_TCP_SOCKETS=%d%s, operations 0 to "
	       "%u%s\n",
	       output, (unsigned long long)seed, status, s->ranks, s->hosts,
	       s->interleaved ? "i" : "",
	       s->no_shm ? ", DDP_TEST_SHM=fail" : "", s->sockets,
	       s->encrypts ? ", DDP_ENCRYPT_DATA=1" : "",
	       operations - 1, modes[s->mode]);
}

/* Repeats only the operations up to the failed one. */
static void shorten(const struct setup *s, uint64_t seed, unsigned operations)
{
	unsigned fewer = failed_at(operations) + 1;
	int again = 0;

	for (int i = 0; i < TRIES; i++)
		again += !is_well(s, run_world(s, seed, fewer));
	printf("fuzz_sdk: again: %s %llu %u\n"
	       "fuzz_sdk: this failed in %d of %d more runs\n", program,
	       (unsigned long long)seed, fewer, again, TRIES);
}

static int try_seed(uint64_t seed, unsigned operations, int alone,
		    unsigned *done)
{
	struct setup s = setup_draw(seed);
	int status;

	if (!operations || operations > s.operations)
		operations = s.operations;
	status = run_world(&s, seed, operations);
	*done += operations;
	if (is_well(&s, status)) {
		if (alone)
			printf("%s", output);
		return 0;
	}
	describe(&s, seed, operations, status);
	if (!alone)
		shorten(&s, seed, operations);
	fflush(stdout);
	return 1;
}

int main(int argc, char **argv)
{
	const char *seconds = getenv("FUZZ_SECONDS");
	const char *from = getenv("FUZZ_SEED");
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	unsigned operations = argc > 2 ? (unsigned)atoi(argv[2]) : 0, done = 0;
	double end = now() + (seconds ? atof(seconds) : 20);
	uint64_t fresh = mix((uint64_t)time(NULL) ^ (uint64_t)getpid() << 32);
	int runs = 0, failed = 0;

	if (argc > 2 && getenv("RANK"))
		return rank_main(seed, operations);
	program = argv[0];
	signal(SIGALRM, end_launcher);
	if (argc > 1)
		return try_seed(seed, operations, 1, &done);
	seed = from ? strtoull(from, NULL, 10) : 1;
	for (; now() < end && !(failed && getenv("FUZZ_FIRST")); runs++) {
		failed += try_seed(seed, 0, 0, &done);
		seed = ++seed > FIXED_SEEDS && !from
			       ? mix(fresh + (uint64_t)runs) % 1000000000
			       : seed;
	}
	printf("fuzz_sdk: %d worlds, %u operations, %d failed\n", runs, done,
	       failed);
	return failed > 0;
}
