/* mistakes.c: a program that makes one mistake. At the latest in the next
 * collective each rank must get an error that names two ranks and their
 * calls. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz_sdk/fuzz.h"

enum mistake {
	COUNT, TYPE, OP, KIND, ROOT, OTHER_ROOTS, SKIPPED, SWAPPED, MISSED,
	OTHER_MESSAGE, ORDER, STEPS, MISTAKES
};
static const char *const names[] = {
	"another count", "another type", "another operation", "another kind",
	"another root", "each another root", "a skipped call", "swapped calls",
	"missed broadcasts", "a message that is not what was sent",
	"another order of groups", "a reducer's step less"};

static int has_root(enum kind kind)
{
	return kind == REDUCE || kind == BROADCAST || kind == GATHER ||
	       kind == SCATTER;
}

/* Only calls that the mistake can affect. */
static struct call draw(struct rng *common, const struct group *g,
			enum mistake m)
{
	struct call c;

	do
		c = call_draw(common, g, m == OP ? CALL_REDUCES : 0);
	while (c.kind == BARRIER ||
	       ((m == ROOT || m == OTHER_ROOTS) && !has_root(c.kind)));
	if (m == OTHER_MESSAGE) {
		c.kind = MESSAGE;
		c.root = (int)rng_below(common, (unsigned)g->n);
		c.to = (c.root + 1) % g->n;
	}
	return c;
}

/* The call as the culprit makes it. */
static struct call mistaken(struct rng *common, struct call c, enum mistake m,
			    int culprit)
{
	enum ddp_type type;
	int n = c.group.n;

	switch (m) {
	case COUNT:
		if (has_counts(c.kind)) {
			c.wrong = (int)rng_below(common, (unsigned)n - 1);
			c.wrong = 1 + (culprit + 1 + c.wrong) % n;
			break;
		}
		c.count++;
		if (c.count > 2 && rng_chance(common, 50))
			c.count -= 2;
		break;
	case OTHER_MESSAGE:
	case TYPE:
		type = c.type;
		/* floats have no bitwise operations */
		do
			c.type = rng_below(common, DDP_TYPES);
		while (c.type == type ||
		       (is_float(c.type) && c.op >= DDP_BAND));
		break;
	case OP:
		c.op = (c.op + 1 + rng_below(common, DDP_BAND - 1)) % DDP_BAND;
		break;
	case KIND:
		c.kind = (c.kind + 1 + rng_below(common, BARRIER - 1)) %
			 BARRIER;
		break;
	default:
		c.root = (c.root + 1 +
			  (int)rng_below(common, (unsigned)c.group.n - 1)) %
			 c.group.n;
	}
	return c;
}

static int several(const struct call *c, unsigned n)
{
	int rc = 0;

	while (n-- && !rc)
		rc = call_try(c);
	return rc;
}

static int drop(struct call c)
{
	c.kind = BARRIER;
	return call_try(&c);
}

/* One blocking call of all ranks, or several asynchronous ones. */
static int go_through(struct rng *common, ddp_comm *c)
{
	static float x[70000], y[70000];
	unsigned count = rng_below(common, 70000), n = rng_below(common, 4);
	ddp_request *r[3];
	int rc;

	if (n == 3)
		return ddp_barrier(c);
	for (unsigned i = 0; i <= n && i < 3; i++) {
		rc = ddp_all_reduce_async(c, x, y, count, DDP_F32, DDP_MAX,
					  &r[i]);
		if (rc)
			return rc;
	}
	return ddp_wait_all(r, (int)n + 1);
}

/* The culprit uses two groups in the opposite order. */
static int groups_in_order(struct rng *common, int mine)
{
	ddp_comm *world = fuzz.groups[0].comm, *groups[2];
	int rc;

	for (int i = 0; i < 2; i++)
		must(ddp_comm_split(world, 0, fuzz.rank, &groups[i]), NULL,
		     "ddp_comm_split");
	rc = go_through(common, groups[mine]);
	for (int i = 0; i < 2; i++)
		ddp_comm_free(groups[i]);
	return rc;
}

static int step(ddp_reducer *r, int n)
{
	int rc = ddp_reducer_begin(r, 1);

	for (int i = n - 1; i >= 0 && !rc; i--)
		rc = ddp_reducer_ready(r, i);
	return rc ? rc : ddp_reducer_finish(r);
}

/* The culprit makes one reducer step less than the others. */
static int steps(struct rng *common, int mine)
{
	enum { PARAMETERS = 5, EACH = 3000 };
	static const size_t counts[] = {EACH, EACH, EACH, EACH, EACH};
	static float grads[PARAMETERS * EACH];
	const struct ddp_reducer_options options = {
		.first_bucket = 4 * (1 + rng_below(common, PARAMETERS * EACH)),
		.bucket = 4 * (1 + rng_below(common, PARAMETERS * EACH))};
	unsigned right = rng_below(common, 3);
	ddp_reducer *r;
	int rc = 0;

	must(ddp_reducer_new(&r, fuzz.groups[0].comm, grads, DDP_F32, counts,
			     PARAMETERS, &options), NULL, "ddp_reducer_new");
	for (unsigned i = 0; i < right; i++)
		must(step(r, PARAMETERS), NULL, "a step");
	if (!mine)
		rc = step(r, PARAMETERS);
	if (!rc)
		rc = go_through(common, fuzz.groups[0].comm);
	ddp_reducer_free(r);
	return rc;
}

/* This rank's part, as the culprit or as one of the others. */
static int act(struct rng *common, enum mistake m, int culprit, int *who)
{
	struct group *g = &fuzz.groups[0];
	struct call c = draw(common, g, m), wrong, next;
	static const unsigned numbers[] = {1,	2,   3,	  4,	5,    7,
					   100, 511, 512, 1023, 1024, 1025};
	unsigned missed = numbers[rng_below(common, 12)];
	int mine = g->rank == culprit, rc;

	if (m == ORDER)
		return groups_in_order(common, mine);
	if (m == STEPS)
		return steps(common, mine);
	if (m == SKIPPED || m == SWAPPED) {
		do
			next = draw(common, g, m);
		while (next.kind == c.kind);
		rc = mine && m == SKIPPED ? 0 : call_try(mine ? &next : &c);
		return rc ? rc : call_try(mine && m == SWAPPED ? &c : &next);
	}
	if (m == MISSED) {
		c.kind = BROADCAST;
		c.type = DDP_U8;
		c.count = 1 + rng_below(common, 48);
		if (g->hosts > 1 && missed > 100)
			missed = 100;
		if (c.root == culprit)
			c.root = (culprit + 1) % g->n;
		return mine ? 0 : several(&c, missed);
	}
	if (m == OTHER_ROOTS) {
		/* the rank itself: all wait in a gather; the next rank: in a
		 * scatter */
		c.root = (g->rank + (int)rng_below(common, 2)) % g->n;
		return call_try(&c);
	}
	wrong = mistaken(common, c, m, culprit);
	if (m != OTHER_MESSAGE)
		return call_try(mine ? &wrong : &c);
	*who = c.root;
	if (g->rank == c.root)
		return call_try(&wrong);
	return g->rank == c.to ? call_try(&c) : 0;
}

/* Returns when all ranks have had the error, so that none leaves early. */
static void await_all(void)
{
	char key[32];

	snprintf(key, sizeof(key), "told/%d", fuzz.rank);
	must(ddp_store_set(fuzz.groups[0].comm, key, "", 0), NULL,
	     "ddp_store_set");
	for (int r = 0; r < fuzz.size; r++) {
		snprintf(key, sizeof(key), "told/%d", r);
		if (ddp_store_get(fuzz.groups[0].comm, key, NULL, 0, 60000) < 0)
			fail(NULL, "rank %d got no error: %s", r,
			     ddp_last_error());
	}
}

/* Either "rank 1 on h called broadcast #2 (...), but rank 0 on h called ...",
 * or "rank 0 on h waits in barrier #2 for rank 1 on h, which waits in ...". */
static int names_two_calls(const char *text, enum mistake m)
{
	const char *first = strstr(text, " called "), *second;

	if (m == ORDER || m == STEPS)
		return strstr(text, " waits in ") &&
		       strstr(text, ", which waits in ");
	if (m == COUNT && strstr(text, "_v #")) /* and both counts */
		return strstr(text, "rank ") &&
		       (strstr(text, " passed ") ? strstr(text, ", but rank ")
						 : strstr(text, " expects "));
	second = first ? strstr(first, ", but ") : NULL;
	return first && second && strstr(text, "rank ") &&
	       strstr(second, " called ");
}

void mistake_make(struct rng *common)
{
	enum mistake m;
	int culprit, rc, who;
	struct call after = {.kind = BARRIER, .group = fuzz.groups[0]};
	char text[600];

	m = (enum mistake)rng_below(common, MISTAKES);
	culprit = (int)rng_below(common, (unsigned)fuzz.size);
	who = culprit;
	calls_wait(0);
	rc = act(common, m, culprit, &who);
	if (!rc)
		rc = drop(after);
	snprintf(text, sizeof(text), "%s", ddp_last_error());
	if (!rc)
		fail(NULL, "%s of rank %d: this rank was not told", names[m],
		     who);
	if (rc != DDP_ERR_ARGUMENT || !names_two_calls(text, m))
		fail(NULL, "%s of rank %d: this rank got %d, %s", names[m],
		     who, rc, text);
	await_all();
	printf("rank %d: %s of rank %d: %s\n", fuzz.rank, names[m], who, text);
}
