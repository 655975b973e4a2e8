/* others.c: what is built on collectives: more small broadcasts than there are
 * cells, spans, batch normalisation, ddp_once and ddp_should_stop. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz_sdk/fuzz.h"

/* The root of a broadcast need not wait for the receivers; one of them is
 * late. */
void broadcasts_storm(struct rng *common)
{
	const struct group *g = group_draw(common);
	struct call c = call_draw(common, g, CALL_ONLY_SMALL);
	unsigned n = g->hosts > 1 ? 50 + rng_below(common, 150)
				  : 900 + rng_below(common, 1700);
	int late = (int)rng_below(common, (unsigned)g->n);
	int one_root = rng_chance(common, 60);
	char got[64], want[64];

	c.kind = BROADCAST;
	c.special = c.large = 0;
	c.type = DDP_U8;
	if (g->rank == late)
		usleep(rng_below(&fuzz.own, 30000));
	for (unsigned i = 0; i < n && g->rank >= 0; i++) {
		c.count = 1 + rng_below(common, 48);
		if (!one_root)
			c.root = (int)rng_below(common, (unsigned)g->n);
		c.key = mix(c.key + i);
		values_fill(&c, c.root, 0, c.count, want);
		memset(got, 0x5a, sizeof(got));
		if (g->rank == c.root)
			memcpy(got, want, c.count);
		must(ddp_broadcast(g->comm, got, c.count, c.type, c.root), &c,
		     "called");
		if (memcmp(got, want, c.count))
			fail(&c, "broadcast %u of %u: the first byte is %d, "
			     "not %d", i, n, got[0], want[0]);
		if (got[c.count] != 0x5a)
			fail(&c, "broadcast %u wrote past its buffer", i);
	}
}

void others_spans(struct rng *common)
{
	enum { SPANS_MAX = 10 };
	const struct group *g = group_draw(common);
	int n = (int)rng_below(common, SPANS_MAX), root;
	struct ddp_span spans[SPANS_MAX];
	struct buffer buffers[SPANS_MAX];
	struct call calls[SPANS_MAX];

	root = (int)rng_below(common, (unsigned)g->n);
	for (int i = 0; i < n; i++) {
		struct call *c = &calls[i];

		*c = call_draw(common, g, CALL_ONLY_SMALL);
		c->kind = BROADCAST;
		c->root = root;
		if (g->rank < 0)
			continue;
		buffers[i] = buffer_new(c->count * ddp_type_size(c->type));
		spans[i] = (struct ddp_span){buffers[i].data, c->count,
					     c->type};
		if (g->rank == root)
			values_fill(c, root, 0, c->count, buffers[i].data);
	}
	if (g->rank < 0)
		return;
	must(ddp_broadcast_spans(g->comm, spans, n, root), NULL,
	     "ddp_broadcast_spans");
	for (int i = 0; i < n; i++) {
		values_check_copied(&calls[i], root, 0, calls[i].count,
				    buffers[i].data, 0);
		buffer_free(&buffers[i], &calls[i]);
	}
}

/* The mean, variance or count of a channel on a rank. */
static double statistic(uint64_t key, int r, int which, size_t channel)
{
	uint64_t x = mix(key + (uint64_t)r * 64 + channel * 1024 +
			 (uint64_t)which);

	if (which == 2)
		return x % 4 ? (double)(x % 1000) : 0;
	return (float)(x % 4000) / 1000 - (which ? 0 : 2);
}

static int is_near(double got, double want)
{
	return fabs(got - want) <= 1e-4 * (1 + fabs(want));
}

void others_batch_norm(struct rng *common)
{
	enum { CHANNELS_MAX = 40 };
	const struct group *g = group_draw(common);
	size_t channels = 1 + rng_below(common, CHANNELS_MAX);
	struct call c = call_draw(common, g, CALL_ONLY_SMALL);
	float mean[CHANNELS_MAX], var[CHANNELS_MAX];
	uint64_t count, total = 0;

	if (g->rank < 0)
		return;
	for (size_t k = 0; k < channels; k++) {
		mean[k] = (float)statistic(c.key, g->rank, 0, k);
		var[k] = (float)statistic(c.key, g->rank, 1, k);
	}
	count = (uint64_t)statistic(c.key, g->rank, 2, 0);
	must(ddp_sync_batch_norm(g->comm, mean, var, channels, &count), NULL,
	     "ddp_sync_batch_norm");
	for (int r = 0; r < g->n; r++)
		total += (uint64_t)statistic(c.key, r, 2, 0);
	if (count != total)
		fail(NULL, "ddp_sync_batch_norm: %llu values, not %llu",
		     (unsigned long long)count, (unsigned long long)total);
	for (size_t k = 0; k < channels && total; k++) {
		double sum = 0, squares = 0, m;

		for (int r = 0; r < g->n; r++)
			sum += statistic(c.key, r, 0, k) *
			       statistic(c.key, r, 2, 0);
		m = sum / (double)total;
		for (int r = 0; r < g->n; r++)
			squares += statistic(c.key, r, 2, 0) *
				   (statistic(c.key, r, 1, k) +
				    pow(statistic(c.key, r, 0, k) - m, 2));
		squares /= (double)total;
		if (!is_near(mean[k], m) || !is_near(var[k], squares))
			fail(NULL, "ddp_sync_batch_norm: channel %zu: mean %g "
			     "var %g, not %g %g", k, mean[k], var[k], m,
			     squares);
	}
	c.part = 0;
	if (total)
		digest_add(&c, values_hash(mean, channels * sizeof(*mean)) ^
				       values_hash(var,
						   channels * sizeof(*var)));
}

static int runs;

static int once(void *arg)
{
	runs++;
	if (rng_chance(&fuzz.own, 30))
		usleep(rng_below(&fuzz.own, 3000));
	return *(const int *)arg + fuzz.rank;
}

void others_once(struct rng *common)
{
	const struct group *g = group_draw(common);
	enum ddp_scope scope = rng_chance(common, 50) ? DDP_HOST : DDP_JOB;
	int base = (int)rng_below(common, 1000), runner, rc;

	if (g->rank < 0)
		return;
	runner = scope == DDP_JOB ? 0 : ddp_host_leader(g->comm);
	runs = 0;
	rc = ddp_once(g->comm, scope, once, &base);
	must(rc < 0 ? rc : 0, NULL, "ddp_once");
	if (rc != base + g->members[runner] || runs != (runner == g->rank))
		fail(NULL, "ddp_once returned %d, not %d, and ran %d times", rc,
		     base + g->members[runner], runs);
}

/* In the world: when a rank asks to stop late in the run, all ranks learn it in
 * the same call. */
void others_stop(struct rng *common)
{
	int asks = rng_chance(common, 10);
	int who = (int)rng_below(common, (unsigned)fuzz.size);
	ddp_comm *world = fuzz.groups[0].comm;
	int rc;

	if (asks && who == fuzz.rank)
		ddp_request_stop(world);
	fuzz.stop_asked |= asks;
	rc = ddp_should_stop(world);
	must(rc < 0 ? rc : 0, NULL, "ddp_should_stop");
	if (rc != fuzz.stop_asked)
		fail(NULL, "ddp_should_stop is %d", rc);
}
