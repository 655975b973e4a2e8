/* checks.c: ddp_check_replicas and ddp_check_gradients, with planted
 * differences: they must name the rank that differs, and report nothing where
 * none does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz_sdk/fuzz.h"

/* wrong: all ranks must have this error, with `what` in its text; else none may
 * have an error. */
static void expect(int rc, int wrong, const struct call *c, const char *what)
{
	if (wrong && rc == DDP_ERR_DATA && strstr(ddp_last_error(), what))
		return;
	if (rc != DDP_ERR_DATA)
		must(rc, c, "a check");
	if (rc || wrong)
		fail(c, "a check: not '%s' but %d, %s", wrong ? what : "0", rc,
		     rc ? ddp_last_error() : "nothing");
}

/* A rank has one digit. */
static void name(const struct group *g, int r, char *out, size_t size)
{
	snprintf(out, size, "rank %d", g->members[r]);
}

/* ---- ddp_check_replicas ---- */

/* The same spans on all ranks, except for one bit on one rank. */
void checks_replicas(struct rng *common)
{
	enum { SPANS_MAX = 12, SIZE_MAX_EACH = 3000 };
	const struct group *g = group_draw(common);
	int n = 1 + (int)rng_below(common, SPANS_MAX);
	int odd = (int)rng_below(common, (unsigned)g->n), bad = -1;
	uint64_t key = rng_next(common);
	struct call c = {.kind = BARRIER, .group = *g};
	struct ddp_span spans[SPANS_MAX];
	char who[64], text[96];
	unsigned bit = (unsigned)rng_next(common);

	for (int i = 0; i < n; i++) {
		size_t size = rng_chance(common, 20)
				      ? 0
				      : 1 + rng_below(common, SIZE_MAX_EACH);

		spans[i] = (struct ddp_span){NULL, size, DDP_U8};
		if (size && (bad < 0 || rng_chance(common, 30)))
			bad = i;
	}
	if (rng_chance(common, 40) || g->n == 1)
		bad = -1;
	if (g->rank < 0)
		return;
	for (int i = 0; i < n; i++) {
		unsigned char *data = malloc(spans[i].count + 1);

		if (!data)
			fail(&c, "no memory");
		for (size_t k = 0; k < spans[i].count; k++)
			data[k] = (unsigned char)mix(key + (uint64_t)i * 4096 +
						     k);
		if (i == bad && g->rank == odd) {
			unsigned at = bit % (unsigned)(spans[i].count * 8);

			data[at / 8] ^= (unsigned char)(1u << at % 8);
		}
		spans[i].data = data;
	}
	/* if there are two, the second counts as different */
	name(g, g->n == 2 ? 1 : odd, who, sizeof(who));
	snprintf(text, sizeof(text), "the data of %s", who);
	expect(ddp_check_replicas(g->comm, spans, n), bad >= 0, &c, text);
	snprintf(text, sizeof(text), "first in span %d of %d:", bad, n);
	if (bad >= 0 && !strstr(ddp_last_error(), text))
		fail(&c, "ddp_check_replicas: not '%s': %s", text,
		     ddp_last_error());
	for (int i = 0; i < n; i++)
		free(spans[i].data);
}

/* ---- A reducer's gradients ---- */

enum { PARAMETERS_MAX = 8, COUNT_MAX = 2000, FACTOR = 1000 };

struct gradients {
	const struct group *g;
	struct call call;
	size_t counts[PARAMETERS_MAX], at[PARAMETERS_MAX + 1];
	double scale[PARAMETERS_MAX];
	int n;
	float *f;
};

/* Fills each parameter with values of similar size, none of them 0. */
static void fill(struct gradients *x, uint64_t key)
{
	for (int p = 0; p < x->n; p++)
		for (size_t i = x->at[p]; i < x->at[p + 1]; i++) {
			uint64_t h = mix(key + i * RANKS_MAX +
					 (uint64_t)x->g->rank);
			double v = 0.1 + 0.8 * (double)(h % 4096) / 4096;

			x->f[i] = (float)(x->scale[p] * (h >> 63 ? v : -v));
		}
}

static int step(struct gradients *x, ddp_reducer *r)
{
	int order[PARAMETERS_MAX];

	for (int i = 0; i < x->n; i++) {
		int k = (int)rng_below(&fuzz.own, (unsigned)i + 1);

		order[i] = order[k];
		order[k] = i;
	}
	must(ddp_reducer_begin(r, 1), &x->call, "ddp_reducer_begin");
	for (int i = 0; i < x->n; i++)
		must(ddp_reducer_ready(r, order[i]), &x->call,
		     "ddp_reducer_ready");
	return ddp_reducer_finish(r);
}

/* The fault that is planted in a step. */
enum plant { NOTHING, NOT_A_NUMBER, FLIP, LOW_BIT, PLANTS };

static void plant(struct gradients *x, enum plant what, int odd, int p,
		  uint64_t spot)
{
	size_t at = x->at[p] + spot % x->counts[p];
	uint32_t bits;

	if (what == NOTHING || x->g->rank != odd)
		return;
	memcpy(&bits, &x->f[at], sizeof(bits));
	bits ^= what == FLIP ? 1u << 30 : what == LOW_BIT ? 1u << 2 : 0;
	memcpy(&x->f[at], &bits, sizeof(bits));
	if (what == NOT_A_NUMBER)
		x->f[at] = spot & 1 ? NAN : INFINITY;
}

static void one_step(struct gradients *x, ddp_reducer *r, struct rng *common)
{
	enum plant what = (enum plant)rng_below(common, PLANTS);
	int odd = (int)rng_below(common, (unsigned)x->g->n);
	int p = (int)rng_below(common, (unsigned)x->n);
	uint64_t key = rng_next(common), spot = rng_next(common);
	int is_wrong = what == NOT_A_NUMBER ||
		       (what == FLIP && x->g->n > 2);
	char who[64], text[160];

	if (x->g->rank < 0)
		return;
	fill(x, key);
	plant(x, what, odd, p, spot);
	name(x->g, odd, who, sizeof(who));
	snprintf(text, sizeof(text), what == FLIP
		 ? "the gradient of parameter %d has values up to "
		 : "the gradient of parameter %d is not finite on ", p);
	expect(step(x, r), is_wrong, &x->call, text);
	if (is_wrong && !strstr(ddp_last_error(), who))
		fail(&x->call, "not %s: %s", who, ddp_last_error());
}

void checks_gradients(struct rng *common)
{
	struct gradients x = {.g = group_draw(common)};
	unsigned steps = 1 + rng_below(common, 6);
	ddp_reducer *r = NULL;

	x.call = (struct call){.kind = BARRIER, .group = *x.g};
	x.n = 1 + (int)rng_below(common, PARAMETERS_MAX);
	for (int p = 0; p < x.n; p++) {
		x.counts[p] = 1 + rng_below(common, COUNT_MAX);
		x.at[p + 1] = x.at[p] + x.counts[p];
		x.scale[p] = ldexp(1, -(int)rng_below(common, 30));
	}
	if (x.g->rank >= 0) {
		x.f = calloc(x.at[x.n], sizeof(*x.f));
		if (!x.f)
			fail(&x.call, "no memory");
		must(ddp_reducer_new(&r, x.g->comm, x.f, DDP_F32, x.counts,
				     x.n, NULL), &x.call, "ddp_reducer_new");
		must(ddp_reducer_check_finite(r, 1), &x.call, "check_finite");
		must(ddp_reducer_check_norms(r, FACTOR), &x.call,
		     "check_norms");
	}
	for (unsigned i = 0; i < steps; i++)
		one_step(&x, r, common);
	ddp_reducer_free(r);
	free(x.f);
}
