/* c_chaos.c: the worker of tests/chaos: a small training job whose results are
 * all known. It computes steps, checks each sum, saves checkpoints, resumes
 * from them, and reports what it does to a FIFO, line by line:
 *
 *   NS HOST NODE RANK SIZE ATTEMPT ROUND PID WHAT...
 *
 * NS is CLOCK_MONOTONIC. WHAT is
 *   born, begin             before and after ddp_init
 *   overlap OTHER           a worker of another round lives on this host
 *   resumed STEP            rank 0, from the checkpoint (0: there is none)
 *   torn WHY                it is damaged, or not what was written
 *   step N                  rank 0, when it is done
 *   saving N, saved N, unsaved N WHY    rank 0
 *   wrong WHY               a result that cannot be
 *   done, end               before and after ddp_finalize
 *   error WHY               a call failed; it exits with 17
 *
 * From the environment: CHAOS_EVENTS (the FIFO), CHAOS_DIR (where checkpoint
 * and locks are), CHAOS_STEPS, CHAOS_PACE (ms of a step), CHAOS_SAVE (every N
 * steps it saves). CHAOS_PLANT="sum torn" plants these faults, which must be
 * found. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "worker-sdk/ddp.h"

enum {
	COUNT_MAX = 50000,
	BLOB = 256 * 1024,
	EXIT_VICTIM = 17, /* exit code after another rank's failure */
	EXIT_WRONG = 18,
	LINE = 512,
};

struct state {
	uint64_t step, chain;
	unsigned char blob[BLOB];
};

static ddp_comm *world;
static int rank = -1, size = -1;
static struct state state;
static float values[COUNT_MAX];

static const char *env(const char *name)
{
	const char *text = getenv(name);

	return text ? text : "-1";
}

static int is_planted(const char *what)
{
	return strstr(env("CHAOS_PLANT"), what) != NULL;
}

/* ---- What is reported ---- */

/* Whole lines: a write of less than a page to a FIFO is not torn. */
__attribute__((format(printf, 1, 2)))
static void report(const char *fmt, ...)
{
	static int fd = -2;
	static char host[64];
	struct timespec t;
	char line[LINE];
	va_list args;
	size_t len;

	if (fd == -2) {
		fd = open(env("CHAOS_EVENTS"), O_WRONLY | O_CLOEXEC);
		gethostname(host, sizeof(host) - 1);
	}
	clock_gettime(CLOCK_MONOTONIC, &t);
	len = (size_t)snprintf(line, sizeof(line),
			       "%lld%09ld %s %s %s %s %s %s %ld ",
			       (long long)t.tv_sec, t.tv_nsec, host,
			       env("GROUP_RANK"), env("RANK"),
			       env("WORLD_SIZE"),
			       env("TORCHELASTIC_RESTART_COUNT"),
			       env("DDP_ROUND"), (long)getpid());
	va_start(args, fmt);
	vsnprintf(line + len, sizeof(line) - len - 1, fmt, args);
	va_end(args);
	len = strlen(line);
	for (size_t i = 0; i < len; i++)
		if (line[i] == '\n')
			line[i] = ' ';
	line[len] = '\n';
	if (write(fd, line, len + 1) < 0)
		_exit(EXIT_WRONG); /* no rank is there to report to */
}

static void must(int64_t rc, const char *call)
{
	if (rc >= 0)
		return;
	report("error %s: %s", call, ddp_last_error());
	fprintf(stderr, "%s: %s\n", call, ddp_last_error());
	ddp_record_error(ddp_last_error());
	exit(EXIT_VICTIM);
}

static void is(int right, const char *what, uint64_t got, uint64_t want)
{
	if (right)
		return;
	report("wrong %s at step %llu: %llu, not %llu", what,
	       (unsigned long long)state.step, (unsigned long long)got,
	       (unsigned long long)want);
	exit(EXIT_WRONG);
}

/* ---- No two rounds on one host ---- */

static int hold(const char *path, int how)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	return fd >= 0 && !flock(fd, how | LOCK_NB) ? fd : (close(fd), -1);
}

/* Each worker holds a lock of its own until it is dead, and tries the locks of
 * other rounds, as other workers may at the same time. Without a descriptor to
 * open a lock, it learns nothing about its owner. */
static void look_for_others(void)
{
	char mine[128], host[64] = "", path[4096];
	DIR *dir;
	struct dirent *d;
	size_t len;

	gethostname(host, sizeof(host) - 1);
	snprintf(mine, sizeof(mine), "lock.%s.%s.", host, env("DDP_ROUND"));
	snprintf(path, sizeof(path), "%s/%s%ld", env("CHAOS_DIR"), mine,
		 (long)getpid());
	hold(path, LOCK_EX);
	len = strlen("lock.") + strlen(host) + 1;
	dir = opendir(env("CHAOS_DIR"));
	while (dir && (d = readdir(dir))) {
		if (strncmp(d->d_name, mine, len) ||
		    !strncmp(d->d_name, mine, strlen(mine)))
			continue;
		snprintf(path, sizeof(path), "%s/%s", env("CHAOS_DIR"),
			 d->d_name);
		int fd = hold(path, LOCK_SH);
		if (fd >= 0)
			close(fd);
		else if (errno == EWOULDBLOCK)
			report("overlap %s", d->d_name + len);
	}
	if (dir)
		closedir(dir);
}

/* ---- The model: a chain of numbers, the same for any number of ranks ---- */

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9;
	x ^= x >> 27;
	x *= 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static void fill_blob(unsigned char *blob, uint64_t step)
{
	uint64_t x = step + 1;

	for (size_t i = 0; i < BLOB; i += sizeof(x)) {
		x = mix(x + i);
		memcpy(blob + i, &x, sizeof(x));
	}
}

static uint64_t chain_of(uint64_t step)
{
	uint64_t chain = 1;

	for (uint64_t k = 0; k < step; k++)
		chain = mix(chain + k);
	return chain;
}

/* ---- The checkpoint ---- */

static struct ddp_section sections[] = {
	{"step", &state.step, sizeof(state.step)},
	{"chain", &state.chain, sizeof(state.chain)},
	{"blob", state.blob, sizeof(state.blob)},
};

static const char *checkpoint(void)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/keep/checkpoint", env("CHAOS_DIR"));
	return path;
}

static void save(void)
{
	unsigned long long step = state.step;

	fill_blob(state.blob, state.step);
	if (is_planted("torn"))
		state.blob[BLOB - 1] ^= 1;
	report("saving %llu", step);
	if (ddp_checkpoint_save(checkpoint(), "c_chaos", sections, 3) < 0)
		report("unsaved %llu %s", step, ddp_last_error());
	else
		report("saved %llu", step);
}

static void load(void)
{
	static unsigned char want[BLOB];
	int rc = ddp_checkpoint_load(checkpoint(), "c_chaos", sections, 3);

	if (rc == -ENOENT) {
		state.step = 0;
		state.chain = 1;
	} else if (rc < 0) {
		report("torn %s", ddp_last_error());
		exit(EXIT_WRONG);
	} else {
		fill_blob(want, state.step);
		if (state.chain != chain_of(state.step) ||
		    memcmp(want, state.blob, BLOB)) {
			report("torn it is of step %llu, not as saved",
			       (unsigned long long)state.step);
			exit(EXIT_WRONG);
		}
	}
	report("resumed %llu", (unsigned long long)state.step);
}

/* ---- Steps ---- */

static void check_sum(void)
{
	static const size_t counts[] = {1, 700, COUNT_MAX, 17, 9000};
	size_t n = counts[state.step % 5];
	int turn = (int)(state.step % 13);

	for (size_t i = 0; i < n; i++)
		values[i] = (float)((rank + 1) * (1 + (int)(i % 7)) + turn);
	if (is_planted("sum") && rank == 0 && state.step == 3)
		values[n / 2]++;
	must(ddp_all_reduce(world, values, values, n, DDP_F32, DDP_SUM),
	     "all_reduce");
	for (size_t i = 0; i < n; i++) {
		int want = size * (size + 1) / 2 * (1 + (int)(i % 7)) +
			   size * turn;
		is(values[i] == (float)want, "a sum", (uint64_t)values[i],
		   (uint64_t)want);
	}
}

static void check_broadcast(void)
{
	uint64_t chain = state.chain;
	int root = (int)(state.step % (uint64_t)size);

	if (rank != root)
		chain = 0;
	must(ddp_broadcast(world, &chain, 1, DDP_I64, root), "broadcast");
	is(chain == state.chain, "a broadcast", chain, state.chain);
}

/* Each round has a store of its own, and each ADD counts once, whatever happens
 * to the server meanwhile. */
static void check_store(void)
{
	char key[64];
	int64_t n;

	snprintf(key, sizeof(key), "step/%llu", (unsigned long long)state.step);
	must(ddp_store_add(world, key, rank + 1, &n), "add");
	must(ddp_barrier(world), "barrier");
	must(ddp_store_add(world, key, 0, &n), "add");
	is(n == (int64_t)size * (size + 1) / 2, "a count in the store",
	   (uint64_t)n, (uint64_t)size * (uint64_t)(size + 1) / 2);
}

static void step(void)
{
	check_sum();
	if (state.step % 4 == 1)
		check_broadcast();
	if (state.step % 6 == 2)
		check_store();
	state.chain = mix(state.chain + state.step);
	state.step++;
	if (rank == 0)
		report("step %llu", (unsigned long long)state.step);
}

static void resume(void)
{
	uint64_t both[2];

	if (rank == 0)
		load();
	both[0] = state.step;
	both[1] = state.chain;
	must(ddp_broadcast(world, both, 2, DDP_I64, 0), "broadcast");
	state.step = both[0];
	state.chain = both[1];
	is(state.chain == chain_of(state.step), "the chain", state.chain,
	   chain_of(state.step));
}

int main(void)
{
	uint64_t steps = (uint64_t)atoll(env("CHAOS_STEPS"));
	uint64_t every = (uint64_t)atoll(env("CHAOS_SAVE"));
	int pace = atoi(env("CHAOS_PACE"));

	report("born");
	look_for_others();
	must(ddp_init(&world, NULL), "init");
	rank = ddp_rank(world);
	size = ddp_world_size(world);
	report("begin");
	resume();
	while (state.step < steps) {
		step();
		if (rank == 0 && state.step % every == 0)
			save();
		poll(NULL, 0, pace);
	}
	must(ddp_barrier(world), "barrier");
	report("done");
	ddp_finalize(world);
	report("end");
	return 0;
}
