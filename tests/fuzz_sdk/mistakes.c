/* mistakes.c: a program that is wrong, once. At the next collective at the
 * latest each rank has an error; it names two ranks and what both called. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz_sdk/fuzz.h"

enum mistake {
	COUNT, TYPE, OP, KIND, ROOT, OTHER_ROOTS, SKIPPED, SWAPPED, MISSED,
	OTHER_MESSAGE, MISTAKES
};
static const char *const names[] = {
	"another count", "another type", "another operation", "another kind",
	"another root", "each another root", "a skipped call", "swapped calls",
	"missed broadcasts", "a message that is not what was sent"};

static int has_root(enum kind kind)
{
	return kind == REDUCE || kind == BROADCAST || kind == GATHER ||
	       kind == SCATTER;
}

/* Only what its callers compare: an empty call has the same words, too. */
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

/* As the culprit calls it. */
static struct call mistaken(struct rng *common, struct call c, enum mistake m)
{
	enum ddp_type type;

	switch (m) {
	case COUNT:
		c.count++;
		if (c.count > 2 && rng_chance(common, 50))
			c.count -= 2;
		break;
	case OTHER_MESSAGE:
	case TYPE:
		type = c.type;
		/* bits are not combined of floats */
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

/* What this rank does, the culprit or one of the others. */
static int act(struct rng *common, enum mistake m, int culprit, int *who)
{
	struct group *g = &fuzz.groups[0];
	struct call c = draw(common, g, m), wrong, next;
	static const unsigned numbers[] = {1,	2,   3,	  4,	5,    7,
					   100, 511, 512, 1023, 1024, 1025};
	unsigned missed = numbers[rng_below(common, 12)];
	int mine = g->rank == culprit, rc;

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
		/* oneself: all wait in a gather; the next one: in a scatter */
		c.root = (g->rank + (int)rng_below(common, 2)) % g->n;
		return call_try(&c);
	}
	wrong = mistaken(common, c, m);
	if (m != OTHER_MESSAGE)
		return call_try(mine ? &wrong : &c);
	*who = c.root;
	if (g->rank == c.root)
		return call_try(&wrong);
	return g->rank == c.to ? call_try(&c) : 0;
}

/* All ranks hear of it before the first leaves. */
static void await_all(void)
{
	char key[32];

	snprintf(key, sizeof(key), "told/%d", fuzz.rank);
	must(ddp_store_set(fuzz.groups[0].comm, key, "", 0), NULL,
	     "ddp_store_set");
	for (int r = 0; r < fuzz.size; r++) {
		snprintf(key, sizeof(key), "told/%d", r);
		if (ddp_store_get(fuzz.groups[0].comm, key, NULL, 0, 60000) < 0)
			fail(NULL, "rank %d was told nothing: %s", r,
			     ddp_last_error());
	}
}

/* "rank 1 on h called broadcast #2 (...), but rank 0 on h called ..." */
static int names_two_calls(const char *text)
{
	const char *first = strstr(text, " called "), *second;

	second = first ? strstr(first, ", but ") : NULL;
	return first && second && strstr(text, "rank ") &&
	       (strstr(second, " called ") || strstr(second, "here it is"));
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
	if (rc != DDP_ERR_ARGUMENT || !names_two_calls(text))
		fail(NULL, "%s of rank %d: this rank was told %d, %s", names[m],
		     who, rc, text);
	await_all();
	printf("rank %d: %s of rank %d: %s\n", fuzz.rank, names[m], who, text);
}
