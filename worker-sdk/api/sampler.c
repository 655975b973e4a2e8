/* sampler.c: PyTorch's DistributedSampler, index by index. Pure. */
#include <stdlib.h>
#include <string.h>

#include "base/mt19937.h"
#include "worker-sdk/api/api_internal.h"
#include "worker-sdk/core/last_error.h"
#include "worker-sdk/ddp.h"

static void sampler_shuffle(uint32_t *p, uint64_t n, struct mt19937 *g)
{
	for (uint64_t i = 0; i < n; i++)
		p[i] = (uint32_t)i;
	for (uint64_t i = 0; i + 1 < n; i++) {
		uint64_t other = i + mt19937_next(g) % (n - i);
		uint32_t keep = p[i];
		p[i] = p[other];
		p[other] = keep;
	}
}

/* The inside-out shuffle; each number takes two draws, the high half first. */
static void sampler_shuffle_large(uint32_t *p, uint64_t n, struct mt19937 *g)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t high = mt19937_next(g), low = mt19937_next(g);
		uint64_t other = (high << 32 | low) % (i + 1);

		p[i] = (uint32_t)i;
		p[i] = p[other];
		p[other] = (uint32_t)i;
	}
}

void ddp__randperm(uint32_t *p, uint64_t n, uint64_t seed, uint64_t large)
{
	struct mt19937 g;

	mt19937_seed(&g, (uint32_t)seed);
	(n < large ? sampler_shuffle : sampler_shuffle_large)(p, n, &g);
}

static uint64_t sampler_share(uint64_t dataset_size, uint64_t world,
			      uint64_t rank, enum ddp_remainder remainder)
{
	uint64_t each = dataset_size / world, left = dataset_size % world;

	if (remainder == DDP_PAD)
		return each + (left > 0);
	return each + (remainder == DDP_EXACT && rank < left);
}

int ddp_sampler_init(struct ddp_sampler *s, uint64_t dataset_size, int rank,
		     int world_size, uint64_t seed, int shuffle,
		     enum ddp_remainder remainder)
{
	struct err *e = ddp__last_error();
	uint64_t world = (uint64_t)world_size;

	if (!s)
		return err_set(e, ERR_ARGUMENT, "ddp_sampler_init: s is NULL");
	memset(s, 0, sizeof(*s));
	if (world_size < 1 || rank < 0 || rank >= world_size)
		return err_set(e, ERR_ARGUMENT,
			       "ddp_sampler_init: there is no rank %d in a "
			       "world of %d",
			       rank, world_size);
	if (dataset_size > UINT32_MAX)
		return err_set(e, ERR_ARGUMENT,
			       "ddp_sampler_init: the data set has %llu "
			       "samples, but the limit is 4294967295",
			       (unsigned long long)dataset_size);
	if ((unsigned)remainder > DDP_EXACT)
		return err_set(e, ERR_ARGUMENT,
			       "ddp_sampler_init: unknown remainder %d",
			       (int)remainder);
	s->dataset_size = dataset_size;
	s->rank = rank;
	s->world_size = world_size;
	s->seed = seed;
	s->shuffle = shuffle;
	s->remainder = remainder;
	s->samples =
		sampler_share(dataset_size, world, (uint64_t)rank, remainder);
	s->order = malloc(dataset_size ? dataset_size * sizeof(*s->order) : 1);
	if (!s->order)
		return err_no_memory(
			e, "ddp_sampler_init: the order of %llu samples",
			(unsigned long long)dataset_size);
	ddp_sampler_set_epoch(s, 0);
	return 0;
}

void ddp_sampler_release(struct ddp_sampler *s)
{
	if (!s)
		return;
	free(s->order);
	memset(s, 0, sizeof(*s));
}

void ddp_sampler_set_epoch(struct ddp_sampler *s, uint64_t epoch)
{
	s->epoch = epoch;
	if (s->shuffle)
		ddp__randperm(s->order, s->dataset_size, s->seed + epoch,
			      DDP__RANDPERM_LARGE);
	else
		for (uint64_t i = 0; i < s->dataset_size; i++)
			s->order[i] = (uint32_t)i;
}

uint64_t ddp_sampler_size(const struct ddp_sampler *s)
{
	return s->samples;
}

uint32_t ddp_sampler_index(const struct ddp_sampler *s, uint64_t i)
{
	uint64_t at = i * (uint64_t)s->world_size + (uint64_t)s->rank;

	/* past the end: padding, which repeats the order from its start */
	return s->order[at % s->dataset_size];
}
