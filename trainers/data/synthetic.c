/* synthetic.c: noise by SplitMix64, eight pixels from each number. */
#include "trainers/data/synthetic.h"

#include <string.h>

#include "trainers/data/augment.h"

enum { CHANNELS = 3, BYTES = 256 << 20, MOST = 50000 };

uint32_t synthetic_count(int side)
{
	size_t sample = CHANNELS * (size_t)side * (size_t)side;
	size_t n = BYTES / sample;

	return n > MOST ? MOST : n < 1 ? 1 : (uint32_t)n;
}

/* Noise of 0..127, and up to 72 more in one channel. */
static uint8_t synthetic_draw(uint64_t number, size_t plane, uint8_t *pixels)
{
	uint64_t state = augment_mix(number);
	unsigned label = (unsigned)(state % SYNTHETIC_CLASSES);
	uint8_t *shines = pixels + label % CHANNELS * plane;
	size_t size = CHANNELS * plane;

	for (size_t i = 0; i < size; i += 8) {
		uint64_t bits = augment_mix(state + i) & 0x7f7f7f7f7f7f7f7fu;

		memcpy(pixels + i, &bits, size - i < 8 ? size - i : 8);
	}
	for (size_t i = 0; i < plane; i++)
		shines[i] = (uint8_t)(shines[i] + 8 * label);
	return (uint8_t)label;
}

int synthetic_make(int side, uint32_t train, uint32_t test, struct payload *p,
		   struct err *e)
{
	const struct image_shape shape = {
		CHANNELS, side, side, SYNTHETIC_CLASSES,
		{.25f, .25f, .25f}, {.15f, .15f, .15f}};
	const uint32_t count[2] = {train, test};
	size_t plane = (size_t)side * (size_t)side;
	struct dataset_room room;
	uint64_t number = 0;
	int r = dataset_alloc(p, &shape, train, test, &room, e);

	if (r < 0)
		return r;
	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; i < count[k]; i++)
			room.labels[k][i] = synthetic_draw(
				number++, plane,
				room.pixels[k] + i * CHANNELS * plane);
	return 0;
}
