/* augment.h: the random crop and flip of a training image, computed from (seed,
 * epoch, sample) alone, so the same for any world size, order and device. Pure;
 * CUDA's kernels use it as well. */
#ifndef TRAINERS_AUGMENT_H
#define TRAINERS_AUGMENT_H

#include <stdint.h>

#ifdef __CUDACC__
#define AUGMENT_FN static inline __host__ __device__
#else
#define AUGMENT_FN static inline
#endif

/* What happens to a training image: nothing; a crop with padding, below; or a
 * part of it, resized (crop.h). The last two also flip it. */
enum augment_kind { AUGMENT_NONE, AUGMENT_SHIFT, AUGMENT_RESIZE };

enum { AUGMENT_PADDING = 4 };

/* Pixel (y, x) of the result is pixel (y + dy, x' + dx) of the image, or a zero
 * byte outside it (torchvision's RandomCrop pads before it scales). x' is x, or
 * in a flip width - 1 - x. dy and dx are in
 * -AUGMENT_PADDING..AUGMENT_PADDING. */
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

	/* 2^20 is far more than 9: no offset is more likely than another by
	 * more than one in 100,000 */
	a.dy = (int)((z & 0xfffff) * places >> 20) - AUGMENT_PADDING;
	a.dx = (int)((z >> 20 & 0xfffff) * places >> 20) - AUGMENT_PADDING;
	a.flip = (int)(z >> 63);
	return a;
}

#endif
