/* augment.h: what chance does to a training image, from (seed, epoch, sample)
 * alone: the same whatever the world size, the order or the device. Pure, and
 * for CUDA's kernels, too. */
#ifndef TRAINERS_AUGMENT_H
#define TRAINERS_AUGMENT_H

#include <stdint.h>

#ifdef __CUDACC__
#define AUGMENT_FN static inline __host__ __device__
#else
#define AUGMENT_FN static inline
#endif

enum { AUGMENT_PADDING = 4 };

/* Pixel (y, x) of the result is pixel (y + dy, x' + dx) of the image, a zero
 * byte outside of it (torchvision's RandomCrop pads before it scales); x' is x,
 * or counted from the right in a flip. dy and dx are -AUGMENT_PADDING..
 * AUGMENT_PADDING. */
struct augment {
	int dy, dx, flip;
};

/* Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014:
 * the mixing function of SplitMix64. */
AUGMENT_FN uint64_t augment_mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

AUGMENT_FN struct augment augment_draw(uint64_t seed, uint64_t epoch,
				       uint32_t sample)
{
	uint64_t z = augment_mix(augment_mix(augment_mix(seed) ^ epoch) ^
				 sample);
	const uint64_t places = 2 * AUGMENT_PADDING + 1;
	struct augment a;

	/* 2^20 is so much more than 9 that no place is preferred by more than
	 * one in 100,000 */
	a.dy = (int)((z & 0xfffff) * places >> 20) - AUGMENT_PADDING;
	a.dx = (int)((z >> 20 & 0xfffff) * places >> 20) - AUGMENT_PADDING;
	a.flip = (int)(z >> 63);
	return a;
}

#endif
