/* messages.c: single messages between other operations, and bursts in which all
 * ranks have many messages under way and each begins them in its own order. */
#include "tests/fuzz_sdk/fuzz.h"

enum { BURST_MAX = 96, BURST_BYTES = 6 << 20 };

static struct call draw(struct rng *common, const struct group *g)
{
	struct call c = call_draw(common, g, 0);

	c.kind = MESSAGE;
	c.root = (int)rng_below(common, (unsigned)g->n);
	c.to = (int)rng_below(common, (unsigned)g->n);
	return c;
}

void messages_one(struct rng *common)
{
	struct call c = draw(common, group_draw(common));

	call_make(&c);
}

/* One side of a message. */
struct side {
	const struct call *call;
	int peer, receives, begun;
};

/* Whether an earlier message of the same peer and direction has not begun. */
static int has_to_wait(const struct side *sides, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (!sides[k].begun && sides[k].peer == sides[i].peer &&
		    sides[k].receives == sides[i].receives)
			return 1;
	return 0;
}

/* Begins all before it waits for any: two ranks that both wait for their sends
 * before they receive would wait for ever. */
static void begin_all(struct side *sides, unsigned n)
{
	for (unsigned left = n; left > 0; left--) {
		unsigned i = rng_below(&fuzz.own, n);

		while (sides[i].begun || has_to_wait(sides, i))
			i = (i + 1) % n;
		sides[i].begun = 1;
		call_begin(sides[i].call, sides[i].receives);
	}
}

/* Between random ranks, or all from one rank to another and more than a ring
 * holds. */
void messages_burst(struct rng *common)
{
	const struct group *g = group_draw(common);
	int one_way = rng_chance(common, 30);
	unsigned n = 2 + rng_below(common, one_way ? BURST_MAX - 2 : 40), m = 0;
	static struct call calls[BURST_MAX];
	struct side sides[2 * BURST_MAX];
	size_t total = 0;

	for (unsigned i = 0; i < n; i++) {
		struct call *c = &calls[i];
		size_t elem;

		*c = draw(common, g);
		elem = ddp_type_size(c->type);
		if (one_way && i) {
			c->root = calls[0].root;
			c->to = calls[0].to;
		}
		if (one_way && rng_chance(common, 70))
			c->count = ((12 << 10) + rng_below(common, 8 << 10)) /
				   elem;
		if (total + c->count * elem > BURST_BYTES)
			c->count = rng_below(common, 100);
		total += c->count * elem;
		if (g->rank == c->root)
			sides[m++] = (struct side){c, c->to, 0, 0};
		if (g->rank == c->to)
			sides[m++] = (struct side){c, c->root, 1, 0};
	}
	begin_all(sides, m);
}
