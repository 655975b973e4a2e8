/* reducers.c: the life of a reducer: several steps in which each rank's
 * gradients become ready in its own order, with other collectives in
 * between. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz_sdk/fuzz.h"

enum { PARAMETERS_MAX = 12, INNER_MAX = 3 };

struct plan {
	const struct group *g;
	struct call call; /* how its gradients are reduced */
	size_t counts[PARAMETERS_MAX], at[PARAMETERS_MAX + 1];
	int n;
	struct ddp_reducer_options options;
	enum { NO_HOOK, BEGINS, BLOCKS } hook;
	/* collectives of the program between begin and finish */
	struct call inner[INNER_MAX];
	int inners, at_the_end; /* at_the_end: all after the last ready */
	/* which rank used which parameter since the last synchronised step */
	int used[RANKS_MAX][PARAMETERS_MAX];
	char *gradients;
	uint64_t key; /* the step's */
};

static int hook(void *arg, ddp_comm *c, void *bucket, size_t count,
		enum ddp_type type, ddp_request **request)
{
	const struct plan *p = arg;

	if (p->hook == BLOCKS)
		return ddp_all_reduce(c, bucket, bucket, count, type,
				      p->call.op);
	return ddp_all_reduce_async(c, bucket, bucket, count, type, p->call.op,
				    request);
}

static void draw_parameters(struct plan *p, struct rng *common)
{
	p->n = 1 + (int)rng_below(common, PARAMETERS_MAX);
	for (int i = 0; i < p->n; i++) {
		unsigned which = rng_below(common, 20);

		p->counts[i] = which == 0  ? 0
			       : which < 3 ? 5000 + rng_below(common, 20000)
					   : 1 + rng_below(common, 300);
		p->at[i + 1] = p->at[i] + p->counts[i];
	}
}

static void draw_inner(struct plan *p, struct rng *common)
{
	p->inners = rng_chance(common, 60) && !is_left_out("reducer-middle")
			    ? 1 + (int)rng_below(common, INNER_MAX)
			    : 0;
	/* ddp_reducer_ready may call a hook that blocks until other ranks'
	 * gradients are ready: these ranks must not wait in another collective
	 * meanwhile */
	p->at_the_end = p->hook == BLOCKS || rng_chance(common, 50);
	if (p->hook == BLOCKS && p->options.find_unused)
		p->inners = 0;
	for (int i = 0; i < p->inners; i++) {
		const struct group *g = rng_chance(common, 60)
						? p->g
						: group_draw(common);

		p->inner[i] = call_draw(common, g, CALL_ONLY_SMALL);
		p->inner[i].part = 1 + (unsigned)i;
	}
}

static struct plan draw(struct rng *common)
{
	struct plan p = {.g = group_draw(common)};
	unsigned hooks = rng_below(common, 10);

	p.call = call_draw(common, p.g, CALL_REDUCES);
	p.call.kind = ALL_REDUCE;
	p.call.type = rng_chance(common, 80) ? DDP_F32 : DDP_F64;
	p.call.special = p.call.large = 0;
	p.call.op = DDP_AVG;
	p.call.part = 0;
	draw_parameters(&p, common);
	p.options.first_bucket = rng_below(common, 2)
					 ? 4 + rng_below(common, 4000)
					 : 0;
	p.options.bucket = rng_below(common, 2) ? 4 + rng_below(common, 100000)
						: 0;
	p.options.bf16 = p.call.type == DDP_F32 && rng_chance(common, 30);
	p.options.find_unused = rng_chance(common, 35);
	p.hook = hooks == 0 ? BLOCKS : hooks == 1 ? BEGINS : NO_HOOK;
	if (p.hook) {
		p.options.hook = hook;
		p.call.op = rng_chance(common, 50) ? DDP_AVG : DDP_MAX;
	}
	draw_inner(&p, common);
	return p;
}

/* ---- a step ---- */

static size_t elem(const struct plan *p)
{
	return ddp_type_size(p->call.type);
}

/* The gradients of rank r of the group. */
static void fill(const struct plan *p, int r, int i, char *to)
{
	struct call c = p->call;

	c.op = DDP_SUM;
	c.key = p->key;
	values_fill(&c, r, p->at[i], p->counts[i], to);
}

static void inner_calls(const struct plan *p, int *done, int upto)
{
	for (; *done < upto; ++*done) {
		struct call c = p->inner[*done];

		c.key = mix(c.key + p->key);
		call_make(&c);
	}
}

/* In this rank's own order, with the program's collectives in between. */
static void make_ready(struct plan *p, ddp_reducer *r, int synchronised,
		       int *inner)
{
	int order[PARAMETERS_MAX], me = p->g->rank;

	for (int i = 0; i < p->n; i++) {
		int k = (int)rng_below(&fuzz.own, (unsigned)i + 1);

		order[i] = order[k];
		order[k] = i;
	}
	for (int i = 0; i < p->n; i++) {
		if (synchronised && !p->at_the_end &&
		    rng_chance(&fuzz.own, 20))
			inner_calls(p, inner, p->inners);
		if (p->used[me][order[i]] & 1)
			must(ddp_reducer_ready(r, order[i]), &p->call,
			     "ddp_reducer_ready");
	}
}

/* A single rank sends nothing, so nothing is rounded. */
static int rounds(const struct plan *p)
{
	return p->options.bf16 && (p->g->n > 1 || p->hook);
}

/* What the reducer sends for n elements, or what it leaves in the arena. 0, or
 * the position of an element that is not a bf16. */
static int as_sent(const struct plan *p, const char *from, size_t n, char *to)
{
	for (size_t i = 0; i < n && rounds(p); i++) {
		uint16_t half;
		float f, back;

		memcpy(&f, from + i * sizeof(f), sizeof(f));
		half = half_narrow(DDP_BF16, f);
		back = half_widen(DDP_BF16, half);
		memcpy(to + i * sizeof(half), &half, sizeof(half));
		if (back != f && to != from)
			return (int)i + 1;
	}
	if (!rounds(p) && to != from)
		memcpy(to, from, n * elem(p));
	return 0;
}

/* Elements k to k + n - 1 of parameter i. */
static void check_elements(const struct plan *p, int i, size_t k, size_t n)
{
	struct call c = p->call;
	char sent[RANKS_MAX][VALUES_BLOCK * 8], got[VALUES_BLOCK * 8];
	const char *text;
	size_t where;
	int bad;

	c.op = DDP_SUM;
	c.key = p->key;
	for (int r = 0; r < p->g->n; r++) {
		memset(sent[r], 0, sizeof(sent[r]));
		if (p->used[r][i])
			values_fill(&c, r, p->at[i] + k, n, sent[r]);
		as_sent(p, sent[r], n, sent[r]);
	}
	c = p->call;
	if (rounds(p))
		c.type = DDP_BF16;
	bad = as_sent(p, p->gradients + (p->at[i] + k) * elem(p), n, got);
	if (bad)
		fail(&c, "the reducer's parameter %d, element %zu, is no bf16",
		     i, k + (size_t)bad - 1);
	text = values_differ(&c, sent, n, got, &where);
	if (text)
		fail(&c, "the reducer's parameter %d, element %zu of %zu %s",
		     i, k + where, p->counts[i], text);
}

/* All ranks have the same bits, so each checks only a part of a large
 * parameter. */
static void check_parameter(const struct plan *p, int i)
{
	size_t ranks = (size_t)p->g->n, count = p->counts[i];

	for (size_t k = 0; k < count; k += VALUES_BLOCK) {
		size_t n = count - k;

		if (count > 8 * VALUES_BLOCK && n > VALUES_BLOCK &&
		    (k / VALUES_BLOCK + (size_t)p->g->rank) % ranks)
			continue;
		check_elements(p, i, k, n < VALUES_BLOCK ? n : VALUES_BLOCK);
	}
}

/* No rank used the parameter: it must not have changed. */
static void check_unused(const struct plan *p, int i)
{
	size_t size = p->counts[i] * elem(p);
	char *was = malloc(size + 1);

	if (!was)
		fail(&p->call, "no memory");
	fill(p, p->g->rank, i, was);
	if (memcmp(was, p->gradients + p->at[i] * elem(p), size))
		fail(&p->call, "the reducer changed parameter %d, which no "
		     "rank used", i);
	free(was);
}

static void check_step(const struct plan *p, const ddp_reducer *r)
{
	struct call c = p->call;
	int all = 1;

	for (int i = 0; i < p->n; i++) {
		int used = 0;

		for (int k = 0; k < p->g->n; k++)
			used |= p->used[k][i];
		if (ddp_reducer_used(r, i) != !!used)
			fail(&p->call, "ddp_reducer_used(%d) is %d", i,
			     ddp_reducer_used(r, i));
		all &= !!used;
		if (used)
			check_parameter(p, i);
		else
			check_unused(p, i);
	}
	c.key = p->key;
	if (all)
		digest_add(&c, values_hash(p->gradients,
					   p->at[p->n] * elem(p)));
}

static void step(struct plan *p, ddp_reducer *r, struct rng *common,
		 int synchronised)
{
	int inner = 0;

	p->key = rng_next(common);
	/* bit 0: in this step */
	for (int k = 0; k < p->g->n; k++)
		for (int i = 0; i < p->n; i++)
			p->used[k][i] = p->used[k][i] << 1 |
					(!p->options.find_unused ||
					 rng_chance(common, 65));
	if (p->g->rank >= 0) {
		for (int i = 0; i < p->n; i++)
			fill(p, p->g->rank, i,
			     p->gradients + p->at[i] * elem(p));
		must(ddp_reducer_begin(r, synchronised), &p->call,
		     "ddp_reducer_begin");
		make_ready(p, r, synchronised, &inner);
	}
	if (synchronised)
		inner_calls(p, &inner, p->inners);
	if (p->g->rank >= 0 && (synchronised || rng_chance(&fuzz.own, 50)))
		must(ddp_reducer_finish(r), &p->call, "ddp_reducer_finish");
	if (p->g->rank >= 0 && synchronised)
		check_step(p, r);
	if (synchronised)
		memset(p->used, 0, sizeof(p->used));
}

void reducer_steps(struct rng *common)
{
	struct plan p = draw(common);
	int steps = 1 + (int)rng_below(common, 4);
	struct buffer arena = {NULL, NULL, 0};
	ddp_reducer *r = NULL;

	if (p.g->rank >= 0) {
		arena = buffer_new(p.at[p.n] * elem(&p));
		p.gradients = arena.data;
		p.options.hook_arg = &p;
		must(ddp_reducer_new(&r, p.g->comm, p.gradients, p.call.type,
				     p.counts, p.n, &p.options),
		     &p.call, "ddp_reducer_new");
	}
	for (int i = 0; i < steps; i++)
		step(&p, r, common, i == steps - 1 || rng_chance(common, 75));
	ddp_reducer_free(r);
	buffer_free(&arena, &p.call);
}
