/* mt19937.h: the Mersenne Twister, seeded and drawn from as PyTorch's CPU
 * generator does (aten/core/MT19937RNGEngine.h). Sampling orders and initial
 * weights come from it. */
#ifndef BASE_MT19937_H
#define BASE_MT19937_H

#include <stdint.h>

enum { MT19937_WORDS = 624, MT19937_SHIFT = 397 };

struct mt19937 {
	uint32_t word[MT19937_WORDS];
	int used;
};

static inline void mt19937_seed(struct mt19937 *g, uint32_t seed)
{
	g->word[0] = seed;
	for (uint32_t i = 1; i < MT19937_WORDS; i++) {
		uint32_t prev = g->word[i - 1];

		g->word[i] = 1812433253u * (prev ^ (prev >> 30)) + i;
	}
	g->used = MT19937_WORDS;
}

static inline void mt19937_twist(struct mt19937 *g)
{
	for (int i = 0; i < MT19937_WORDS; i++) {
		uint32_t y = (g->word[i] & 0x80000000u) |
			     (g->word[(i + 1) % MT19937_WORDS] & 0x7fffffffu);
		uint32_t x = g->word[(i + MT19937_SHIFT) % MT19937_WORDS];

		g->word[i] = x ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
	}
	g->used = 0;
}

static inline uint32_t mt19937_next(struct mt19937 *g)
{
	uint32_t y;

	if (g->used == MT19937_WORDS)
		mt19937_twist(g);
	y = g->word[g->used++];
	y ^= y >> 11;
	y ^= (y << 7) & 0x9d2c5680u;
	y ^= (y << 15) & 0xefc60000u;
	return y ^ (y >> 18);
}

#endif
