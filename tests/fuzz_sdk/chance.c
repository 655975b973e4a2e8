/* chance.c: numbers drawn from the seed. A stream depends only on the place
 * where it is used, so the first operations of a seed stay the same however
 * many follow. */
#include "tests/fuzz_sdk/fuzz.h"

/* splitmix64's */
uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

struct rng rng_at(uint64_t seed, uint64_t a, uint64_t b)
{
	return (struct rng){mix(mix(mix(seed) + a) + b)};
}

uint64_t rng_next(struct rng *r)
{
	r->state += 0x9e3779b97f4a7c15u;
	return mix(r->state);
}

unsigned rng_below(struct rng *r, unsigned n)
{
	return (unsigned)((rng_next(r) >> 32) * n >> 32);
}

int rng_chance(struct rng *r, unsigned percent)
{
	return rng_below(r, 100) < percent;
}

/* ---- worlds ---- */

static const struct setup worlds[] = {
	{.ranks = 1},
	{.ranks = 2},
	{.ranks = 3},
	{.ranks = 4},
	{.ranks = 5},
	{.ranks = 8},
	{.ranks = 2, .hosts = 2},
	{.ranks = 3, .hosts = 3},
	{.ranks = 3, .hosts = 2},
	{.ranks = 4, .hosts = 2},
	{.ranks = 4, .hosts = 2, .interleaved = 1},
	{.ranks = 5, .hosts = 3, .interleaved = 1},
	{.ranks = 6, .hosts = 3},
	{.ranks = 7, .hosts = 7},
	{.ranks = 8, .hosts = 2, .interleaved = 1},
	{.ranks = 8, .hosts = 4},
	{.ranks = 8, .hosts = 5},
	{.ranks = 8, .hosts = 8},
	{.ranks = 3, .no_shm = 1},
	{.ranks = 5, .hosts = 2, .no_shm = 1},
};

struct setup setup_draw(uint64_t seed)
{
	static const enum mode modes[] = {ORDINARY, ORDINARY, ORDINARY, MISTAKE,
					  KILL};
	struct rng r = rng_at(seed, UINT64_MAX, 0);
	struct setup s = worlds[rng_below(&r, sizeof(worlds) /
						      sizeof(*worlds))];

	s.sockets = s.hosts && rng_chance(&r, 50) ? 1 + (int)rng_below(&r, 4)
						  : 0;
	s.mode = s.ranks > 1 ? modes[seed % 5] : ORDINARY;
	s.operations = s.mode == ORDINARY ? 60 + rng_below(&r, 80)
		       : s.mode == KILL	  ? 100
					  : 1 + rng_below(&r, 12);
	s.encrypts = (s.hosts || s.no_shm) && rng_chance(&r, 50);
	return s;
}

int setup_host(const struct setup *s, int rank)
{
	if (s->no_shm)
		return rank;
	if (!s->hosts)
		return 0;
	return s->interleaved ? rank % s->hosts : rank * s->hosts / s->ranks;
}
