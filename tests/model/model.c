/* model.c: the search, and its output.
 *
 *   model [--seconds N] [--depth N] [--faults N] [--nodes N] [SETUP...]
 *   model --faults N --walk STEPS SETUP    prints one trace again
 *
 * Without --faults each run has one fault. The exit status is 1 if a property
 * does not hold. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/model/model.h"

static const struct setup setups[] = {
	{.name = "static-2",
	 .nodes = 2,
	 .min = 2,
	 .max = 2,
	 .hosted = 1,
	 .nproc = {1, 2}},
	{.name = "static-2-restart",
	 .nodes = 2,
	 .min = 2,
	 .max = 2,
	 .restarts = 1,
	 .nproc = {2, 1}},
	{.name = "static-2-in-vain",
	 .nodes = 2,
	 .min = 2,
	 .max = 2,
	 .restarts = 3,
	 .broken = 1,
	 .steps = 5,
	 .no_progress = 1,
	 .nproc = {1, 1}},
	{.name = "elastic-2-in-vain",
	 .nodes = 2,
	 .min = 1,
	 .max = 2,
	 .restarts = 3,
	 .broken = 2,
	 .steps = 5,
	 .no_progress = 2,
	 .nproc = {1, 1}},
	{.name = "spare-2-swap",
	 .nodes = 2,
	 .min = 1,
	 .max = 1,
	 .restarts = 3,
	 .spares = 1,
	 .hosted = 1,
	 .broken = 1,
	 .swap_after = 1,
	 .nproc = {1, 1}},
	{.name = "spare-3-swap",
	 .nodes = 3,
	 .min = 1,
	 .max = 2,
	 .restarts = 3,
	 .spares = 1,
	 .broken = 2,
	 .swap_after = 2,
	 .nproc = {1, 1, 1}},
	{.name = "elastic-2", .nodes = 2, .min = 1, .max = 2, .nproc = {1, 1}},
	{.name = "elastic-2-restart",
	 .nodes = 2,
	 .min = 1,
	 .max = 2,
	 .restarts = 1,
	 .hosted = 1,
	 .nproc = {1, 1}},
	{.name = "spare-2-restart",
	 .nodes = 2,
	 .min = 1,
	 .max = 1,
	 .restarts = 1,
	 .nproc = {1, 1}},
	{.name = "static-3",
	 .nodes = 3,
	 .min = 3,
	 .max = 3,
	 .hosted = 1,
	 .nproc = {1, 1, 1}},
	{.name = "static-3-restart",
	 .nodes = 3,
	 .min = 3,
	 .max = 3,
	 .restarts = 1,
	 .nproc = {1, 1, 1}},
	{.name = "spare-3", .nodes = 3, .min = 2, .max = 2, .nproc = {1, 1, 1}},
	{.name = "spare-3-restart",
	 .nodes = 3,
	 .min = 2,
	 .max = 2,
	 .restarts = 1,
	 .spares = 1,
	 .hosted = 1,
	 .nproc = {1, 1, 1}},
	{.name = "elastic-3",
	 .nodes = 3,
	 .min = 2,
	 .max = 3,
	 .hosted = 1,
	 .nproc = {1, 1, 1}},
	{.name = "elastic-3-restart",
	 .nodes = 3,
	 .min = 2,
	 .max = 3,
	 .restarts = 1,
	 .nproc = {1, 1, 1}},
	{.name = "elastic-spare-3",
	 .nodes = 3,
	 .min = 1,
	 .max = 2,
	 .restarts = 1,
	 .spares = 1,
	 .nproc = {1, 1, 1}},
};
enum { SETUPS = sizeof(setups) / sizeof(setups[0]) };

static struct {
	double seconds;
	uint32_t depth, nodes;
	uint8_t faults;
	const char *walk;
} opt = {.seconds = 60, .depth = UINT32_MAX, .faults = 1};

/* ---- the states found so far ---- */

struct found {
	uint32_t parent;
	struct step step;
	uint8_t unused;
};

static struct {
	uint64_t *hashes; /* open addressing; 0: free */
	size_t size, n;
	struct found *all; /* in the order in which they were found */
	size_t cap;
} seen;

static void *must(void *p)
{
	if (!p) {
		fprintf(stderr, "model: out of memory\n");
		exit(2);
	}
	return p;
}

static uint64_t hash_of(struct slice s)
{
	uint64_t h = 0x9e3779b97f4a7c15u, word;

	for (size_t i = 0; i < s.len; i += sizeof(word)) {
		word = 0;
		memcpy(&word, s.data + i,
		       s.len - i < sizeof(word) ? s.len - i : sizeof(word));
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	h = (h ^ s.len) * 0xc4ceb9fe1a85ec53u;
	h ^= h >> 29;
	return h ? h : 1;
}

static int seen_insert(uint64_t h)
{
	size_t i = h & (seen.size - 1);

	while (seen.hashes[i] && seen.hashes[i] != h)
		i = (i + 1) & (seen.size - 1);
	if (seen.hashes[i])
		return 0;
	seen.hashes[i] = h;
	return 1;
}

static void seen_grow(void)
{
	uint64_t *old = seen.hashes;
	size_t n = seen.size;

	seen.size = n ? 2 * n : 1 << 16;
	seen.hashes = must(calloc(seen.size, sizeof(*seen.hashes)));
	for (size_t i = 0; i < n; i++)
		if (old[i])
			seen_insert(old[i]);
	free(old);
}

/* 1 if the state is new; it then gets the next number. */
static int seen_add(struct slice state, uint32_t parent, struct step step)
{
	if (2 * (seen.n + 1) > seen.size)
		seen_grow();
	if (!seen_insert(hash_of(state)))
		return 0;
	if (seen.n == seen.cap) {
		seen.cap = seen.cap ? 2 * seen.cap : 1 << 16;
		seen.all =
			must(realloc(seen.all, seen.cap * sizeof(*seen.all)));
	}
	seen.all[seen.n++] = (struct found){parent, step, 0};
	return 1;
}

static void seen_clear(void)
{
	free(seen.hashes);
	free(seen.all);
	memset(&seen, 0, sizeof(seen));
}

/* ---- states of one level ---- */

struct level {
	struct buf bytes; /* u32 number, u32 length, state */
	size_t n;
};

static void level_put(struct level *l, uint32_t number, struct slice state)
{
	buf_put_u32(&l->bytes, number);
	buf_put_slice(&l->bytes, state);
	l->n++;
	if (l->bytes.failed)
		must(NULL);
}

/* ---- a trace ---- */

static size_t path_of(uint32_t number, struct step **steps)
{
	size_t n = 0;
	uint32_t at;

	for (at = number; at; at = seen.all[at].parent)
		n++;
	*steps = must(calloc(n + 2, sizeof(**steps)));
	for (size_t k = n, i = number; k--; i = seen.all[i].parent)
		(*steps)[k] = seen.all[i].step;
	return n;
}

static void print_state(struct run *r)
{
	struct wire_job m;

	run_load(r);
	for (int i = 0; i < (int)setup->nodes; i++) {
		const struct agent *a = &r->w.agents[i];

		if (a->life == LIFE_UP)
			printf("  %d %s", i, agent_state_names[a->state]);
		else
			printf("  %d %s", i,
			       a->life == LIFE_OUT	? "out"
			       : a->life == LIFE_KILLED ? "killed"
							: "exited");
		if (a->life == LIFE_EXITED)
			printf(" %d", a->exit_code);
	}
	if (!r->job) {
		printf("  no job\n");
		return;
	}
	job_status(r->job, &m);
	printf("  job %s round %u, %u joined, %u spares\n",
	       job_state_name(job_state(r->job)), m.round, m.joined, m.spares);
}

/* Repeats the steps and prints them in words. */
static void walk(const struct step *steps, size_t n)
{
	struct buf text = BUF_INIT(4096), state = BUF_INIT(1 << 20);
	struct run r;

	run_begin(&r, opt.faults);
	for (size_t k = 0; k < n; k++) {
		buf_reset(&text);
		buf_reset(&state);
		run_put(&r, &state);
		run_release(&r);
		run_set(&r, SLICE(state.data, state.len));
		step_text(&r, steps[k], &text);
		step_apply(&r, steps[k]);
		printf("%3zu %.*s\n    ", k + 1, (int)text.len, text.data);
		print_state(&r);
	}
	run_release(&r);
	buf_release(&text);
	buf_release(&state);
}

static void print_trace(const struct step *steps, size_t n)
{
	char why[sizeof(violation)];

	memcpy(why, violation, sizeof(why));
	printf("\n%s, %u faults: violated after %zu steps: %s\n", setup->name,
	       opt.faults, n, why);
	walk(steps, n);
	printf(">>> %s\nagain: build/tests/model --faults %u --walk ", why,
	       opt.faults);
	for (size_t k = 0; k < n; k++)
		printf("%s%x.%x.%x", k ? "," : "", steps[k].kind, steps[k].node,
		       steps[k].arg);
	printf(" %s\n", setup->name);
}

/* ---- the search ---- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(uint32_t number, const struct step *more, size_t n)
{
	struct step *steps;
	size_t k = path_of(number, &steps);

	steps = must(realloc(steps, (k + n + 1) * sizeof(*steps)));
	if (n)
		memcpy(steps + k, more, n * sizeof(*steps));
	print_trace(steps, k + n);
	free(steps);
}

/* 0, or 1 if a property does not hold. */
static int expand(struct slice state, uint32_t number, struct level *next,
		  uint64_t *edges)
{
	static struct buf bytes = BUF_INIT(1 << 20);
	struct step steps[STEPS_MAX];
	struct run r;
	size_t n;

	run_set(&r, state);
	n = step_list(&r, steps);
	property_quiet(&r, steps, n);
	run_release(&r);
	if (violation[0]) {
		fail(number, NULL, 0);
		return 1;
	}
	for (size_t k = 0; k < n; k++) {
		run_set(&r, state);
		step_apply(&r, steps[k]);
		++*edges;
		if (violation[0]) {
			run_release(&r);
			fail(number, &steps[k], 1);
			return 1;
		}
		buf_reset(&bytes);
		run_put(&r, &bytes);
		run_release(&r);
		if (seen_add(SLICE(bytes.data, bytes.len), number, steps[k]))
			level_put(next, (uint32_t)seen.n - 1,
				  SLICE(bytes.data, bytes.len));
	}
	return 0;
}

enum { RUN_MAX = 400 };

/* Runs a state that is not expanded to its end, by progress alone. */
static int run_out(struct slice state, uint32_t number)
{
	static struct buf bytes = BUF_INIT(1 << 20);
	struct step steps[STEPS_MAX], done[RUN_MAX];
	struct run r;
	size_t n, k;

	run_set(&r, state);
	for (k = 0; k < RUN_MAX; k++) {
		n = step_list(&r, steps);
		property_quiet(&r, steps, n);
		if (violation[0] || !n ||
		    (!step_is_progress(steps[0].kind) &&
		     steps[n - 1].kind < STEP_DEADLINE))
			break;
		done[k] = steps[step_is_progress(steps[0].kind) ? 0 : n - 1];
		step_apply(&r, done[k]);
		if (violation[0]) {
			k++;
			break;
		}
		buf_reset(&bytes);
		run_put(&r, &bytes);
		run_release(&r);
		run_set(&r, SLICE(bytes.data, bytes.len));
	}
	run_release(&r);
	if (k == RUN_MAX)
		violate("no end after %d more steps", RUN_MAX);
	if (!violation[0])
		return 0;
	fail(number, done, k < RUN_MAX ? k : 0);
	return 1;
}

static int run_out_all(const struct level *l, double until, size_t *n)
{
	struct reader in;

	reader_init(&in, SLICE(l->bytes.data, l->bytes.len));
	for (*n = 0; reader_left(&in) && now() < until; ++*n) {
		uint32_t number = reader_u32(&in);

		if (run_out(reader_slice(&in), number))
			return 1;
	}
	return 0;
}

static int search(double seconds)
{
	double began = now(), until = began + seconds;
	struct level levels[2] = {{BUF_INIT((size_t)4 << 30), 0},
				  {BUF_INIT((size_t)4 << 30), 0}};
	struct level *at = &levels[0], *next = &levels[1], *swap;
	struct buf bytes = BUF_INIT(1 << 20);
	uint64_t edges = 0;
	uint32_t depth = 0;
	size_t out = 0, total;
	struct run r;
	int rc = 0;

	run_begin(&r, opt.faults);
	run_put(&r, &bytes);
	seen_add(SLICE(bytes.data, bytes.len), 0, (struct step){0, 0, 0});
	level_put(at, 0, SLICE(bytes.data, bytes.len));
	for (; at->n && depth < opt.depth && !rc; depth++) {
		struct reader in;

		reader_init(&in, SLICE(at->bytes.data, at->bytes.len));
		while (reader_left(&in) && !rc) {
			uint32_t number = reader_u32(&in);

			/* keep time to run the other states to their ends */
			if (now() > began + seconds * 0.75)
				break;
			rc = expand(reader_slice(&in), number, next, &edges);
		}
		if (!rc && reader_left(&in)) {
			rc = run_out_all(next, until, &out);
			break;
		}
		buf_reset(&at->bytes);
		at->n = 0;
		swap = at;
		at = next;
		next = swap;
	}
	if (!rc && depth == opt.depth)
		rc = run_out_all(at, until, &out);
	total = seen.n;
	if (!rc)
		printf("%-18s %9zu states, %10llu steps, depth %3u%s, %.1f s"
		       "\n",
		       setup->name, total, (unsigned long long)edges, depth,
		       at->n ? "" : ": all there are", now() - began);
	if (!rc && out)
		printf("%-18s %9zu states of the last depth run to their end"
		       "\n",
		       "", out);
	fflush(stdout);
	buf_release(&levels[0].bytes);
	buf_release(&levels[1].bytes);
	buf_release(&bytes);
	seen_clear();
	return rc;
}

/* ---- the command ---- */

static int walk_again(const char *text)
{
	struct step steps[1024];
	size_t n = 0;
	unsigned kind, node, arg;
	int used;

	while (n < 1024 &&
	       sscanf(text, "%x.%x.%x%n", &kind, &node, &arg, &used) == 3) {
		steps[n++] = (struct step){(uint8_t)kind, (uint8_t)node,
					   (uint8_t)arg};
		text += used + (text[used] == ',');
	}
	walk(steps, n);
	printf("%s\n", violation[0] ? violation : "nothing is violated");
	return violation[0] != 0;
}

static int is_wanted(const struct setup *s, char **names)
{
	if (opt.nodes && s->nodes != opt.nodes)
		return 0;
	for (char **name = names; *name; name++)
		if (!strcmp(*name, s->name))
			return 1;
	return !*names;
}

/* Searches all wanted setups, each with its share of the time. */
static int search_all(char **names, double seconds)
{
	double until = now() + seconds;
	int wanted = 0, rc = 0;

	for (int i = 0; i < SETUPS; i++)
		wanted += is_wanted(&setups[i], names);
	printf("up to %u fault%s in a run:\n", opt.faults,
	       opt.faults == 1 ? "" : "s");
	for (int i = 0; i < SETUPS && !rc; i++) {
		if (!is_wanted(&setups[i], names))
			continue;
		setup = &setups[i];
		rc = search((until - now()) / wanted--);
	}
	return rc;
}

static int usage(void)
{
	fprintf(stderr, "usage: model [--seconds N] [--depth N] [--faults N] "
			"[--nodes N] [--walk STEPS] [SETUP...]\n"
			"       model --tables\n");
	return 2;
}

/* The three state tables of the real code that a search goes through. */
static int print_tables(void)
{
	printf("The agent (launcher/agent):\n");
	agent_print_states(stdout);
	printf("\nIts place in the job (launcher/membership):\n");
	membership_print(stdout);
	printf("\nThe job (rendezvous/round):\n");
	for (enum job_state s = 0; s < JOB_STATES; s++)
		for (enum job_event ev = 0; ev < JOB_EVENTS; ev++)
			printf("%-10s %-10s %s\n", job_state_name(s),
			       job_event_name(ev), job_policy(s, ev));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"seconds", 1, NULL, 's'}, {"depth", 1, NULL, 'd'},
		{"faults", 1, NULL, 'f'},  {"nodes", 1, NULL, 'n'},
		{"walk", 1, NULL, 'w'},	   {"tables", 0, NULL, 't'},
		{NULL, 0, NULL, 0},
	};
	uint32_t number;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == '?')
			return usage();
		if (c == 't')
			return print_tables();
		number = (uint32_t)strtoul(optarg, NULL, 10);
		if (c == 's')
			opt.seconds = number;
		else if (c == 'd')
			opt.depth = number;
		else if (c == 'f')
			opt.faults = (uint8_t)number;
		else if (c == 'n')
			opt.nodes = number;
		else
			opt.walk = optarg;
	}
	for (int i = 0; i < SETUPS && opt.walk && argv[optind]; i++) {
		setup = &setups[i];
		if (!strcmp(setup->name, argv[optind]))
			return walk_again(opt.walk);
	}
	if (opt.walk)
		return usage();
	return search_all(argv + optind, opt.seconds);
}
