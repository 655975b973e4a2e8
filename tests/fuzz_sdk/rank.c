/* rank.c: a rank's run of a seed: it joins, makes the operations, and leaves.
 * Its result is one line: "rank R of N: ok", or what went wrong. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz_sdk/fuzz.h"

enum { COMPARE_EVERY = 24, PATIENCE_S = 250, TIMEOUT_MS = 120000 };

struct fuzz fuzz;

static const char *doing;

int is_left_out(const char *name)
{
	const char *list = getenv("FUZZ_WITHOUT");

	return list && strstr(list, name);
}

void fail(const struct call *c, const char *format, ...)
{
	char what[1200], call[400] = "";
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (c)
		call_text(c, call, sizeof(call));
	printf("rank %d of %d: FAIL operation %u (%s): %s%s%s\n", fuzz.rank,
	       fuzz.size, c ? c->number : fuzz.number, doing, call,
	       c ? ": " : "", what);
	fflush(stdout);
	_exit(1);
}

/* Another rank was killed: leaves as a program would. */
static void survive(int rc)
{
	printf("rank %d of %d: ok: told %d (%s)\n", fuzz.rank, fuzz.size, rc,
	       ddp_error_name(rc));
	for (int i = GROUPS_MAX - 1; i > 0; i--)
		ddp_comm_free(fuzz.groups[i].comm);
	ddp_finalize(fuzz.groups[0].comm);
	fflush(stdout);
	_exit(0);
}

void must(int rc, const struct call *c, const char *what)
{
	if (!rc)
		return;
	if (fuzz.setup.mode == KILL &&
	    (rc == DDP_ERR_REMOTE || rc == DDP_ERR_ABORTED))
		survive(rc);
	fail(c, "%s: %d: %s", what, rc, ddp_last_error());
}

/* No operation may take that long. */
static void hangs(int sig)
{
	char text[200];
	int n = snprintf(text, sizeof(text),
			 "rank %d of %d: FAIL operation %u (%s): hangs\n",
			 fuzz.rank, fuzz.size, fuzz.number, doing);

	(void)sig;
	if (write(1, text, (size_t)n) < 0)
		_exit(5);
	_exit(4);
}

/* ---- ranks that are killed ---- */

static useconds_t life;

static void *end_life(void *arg)
{
	(void)arg;
	usleep(life);
	kill(getpid(), SIGKILL);
	return NULL;
}

/* One or two ranks die within a few hundred milliseconds. */
static void draw_victims(void)
{
	struct rng common = rng_at(fuzz.seed, UINT64_MAX, 1);
	unsigned n = fuzz.size > 2 ? 1 + rng_below(&common, 2) : 1;
	unsigned longest = rng_chance(&common, 70) ? 60000 : 400000;
	pthread_t thread;

	while (n--) {
		int victim = (int)rng_below(&common, (unsigned)fuzz.size);
		useconds_t us = rng_below(&common, longest);

		if (victim != fuzz.rank || life)
			continue;
		life = us + 1;
		if (pthread_create(&thread, NULL, end_life, NULL))
			fail(NULL, "no thread");
	}
}

/* ---- operations ---- */

static void one_call(struct rng *common)
{
	struct call c = call_draw(common, group_draw(common), 0);

	call_make(&c);
}

static const struct {
	const char *name;
	unsigned weight;
	void (*run)(struct rng *common);
} kinds[] = {{"a collective", 57, one_call},
	     {"a message", 8, messages_one},
	     {"messages", 6, messages_burst},
	     {"a reducer", 6, reducer_steps},
	     {"ddp_check_replicas", 1, checks_replicas},
	     {"checks of gradients", 2, checks_gradients},
	     {"ddp_comm_split", 5, groups_split},
	     {"ddp_comm_free", 4, groups_free_one},
	     {"small broadcasts", 2, broadcasts_storm},
	     {"ddp_broadcast_spans", 3, others_spans},
	     {"ddp_sync_batch_norm", 2, others_batch_norm},
	     {"ddp_once", 2, others_once},
	     {"ddp_should_stop", 2, others_stop}};

static void operate(struct rng *common)
{
	unsigned which = rng_below(common, 100), i = 0;

	while (which >= kinds[i].weight)
		which -= kinds[i++].weight;
	doing = kinds[i].name;
	kinds[i].run(common);
}

static void dawdle(void)
{
	unsigned which = rng_below(&fuzz.own, 1000);

	if (which < 30)
		usleep(rng_below(&fuzz.own, 2000));
	else if (which < 33)
		usleep(20000);
}

static void compare(void)
{
	doing = "comparing results";
	calls_wait(0);
	digests_compare();
}

static void run(unsigned operations)
{
	struct rng rank = rng_at(fuzz.seed, UINT64_MAX - 1,
				 (uint64_t)fuzz.rank);
	unsigned most = rng_below(&rank, 16);
	unsigned thread_at = rng_chance(&rank, 35) ? rng_below(&rank, 30) : ~0u;

	for (unsigned k = 0; k < operations; k++) {
		struct rng common = rng_at(fuzz.seed, k, 0);

		fuzz.number = k;
		fuzz.own = rng_at(fuzz.seed, k, 1 + (uint64_t)fuzz.rank);
		alarm(PATIENCE_S);
		dawdle();
		if (k == thread_at)
			must(ddp_progress_start(fuzz.groups[0].comm, -1), NULL,
			     "ddp_progress_start");
		operate(&common);
		calls_wait(most);
		if ((k + 1) % COMPARE_EVERY == 0)
			compare();
	}
	compare();
	if (fuzz.setup.mode == MISTAKE) {
		struct rng common = rng_at(fuzz.seed, UINT64_MAX - 2, 0);

		doing = "a mistake";
		mistake_make(&common);
	}
}

int rank_main(uint64_t seed, unsigned operations)
{
	struct ddp_options options = {.backend = "cpu",
				      .timeout_ms = TIMEOUT_MS};
	ddp_comm *world;

	fuzz.seed = seed;
	fuzz.setup = setup_draw(seed);
	doing = "ddp_init";
	signal(SIGALRM, hangs);
	alarm(PATIENCE_S);
	/* a mistake must be reported before the timeout */
	if (fuzz.setup.mode == MISTAKE)
		options.timeout_ms = TIMEOUT_MS / 8;
	if (fuzz.setup.mode == KILL)
		signal(SIGTERM, SIG_IGN); /* ddprun sends it to the survivors */
	must(ddp_init(&world, &options), NULL, "ddp_init");
	fuzz.rank = ddp_rank(world);
	fuzz.size = ddp_world_size(world);
	fuzz.own = rng_at(seed, UINT64_MAX, 2 + (uint64_t)fuzz.rank);
	if (fuzz.size != fuzz.setup.ranks)
		fail(NULL, "this seed is for %d ranks", fuzz.setup.ranks);
	groups_begin(world);
	if (fuzz.setup.mode == KILL)
		draw_victims();
	run(operations);
	doing = "leaving";
	if (fuzz.setup.mode == ORDINARY)
		must(ddp_barrier(world), NULL, "the last barrier");
	groups_free_all();
	ddp_finalize(world);
	printf("rank %d of %d: ok\n", fuzz.rank, fuzz.size);
	return 0;
}
