/* host_data.c: chooses the cache block that serves a data folder. Synthetic
 * images are noise by SplitMix64, eight pixels from each number. */
#include "trainers/data/host_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/data/augment.h"
#include "trainers/data/data_files.h"
#include "trainers/data/digits.h"

/* ---- synthetic images ---- */

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

enum { SYNTHETIC_MIB_MAX = 4096 };

static int host_data_make_mnist(void *arg, struct payload *p, struct err *e)
{
	struct host_data *h = arg;

	return mnist_decode(&h->files, p, e);
}

static int host_data_make_cifar(void *arg, struct payload *p, struct err *e)
{
	struct host_data *h = arg;

	if (h->want.on_wait)
		h->want.on_wait(
			h->want.arg,
			"reading CIFAR-10: takes a few seconds, once per host");
	return cifar_decode(&h->files, p, e);
}

static int host_data_make_digits(void *arg, struct payload *p, struct err *e)
{
	return digits_make(DIGITS_TRAIN, DIGITS_TEST, p, e);
}

static int host_data_make_synthetic(void *arg, struct payload *p, struct err *e)
{
	const struct host_data_want *want = &((struct host_data *)arg)->want;
	uint32_t train = synthetic_count(want->side);

	if (train < want->least)
		train = want->least;
	return synthetic_make(want->side, train, train / 5 + 1, p, e);
}

/* FNV-1a. Two folders rarely share a name, and if they do, their identities
 * still differ. */
static unsigned long long host_data_hash(const char *s)
{
	unsigned long long h = 0xcbf29ce484222325u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	return h;
}

/* The files were found: the cache block is named after their folder. */
static void host_data_set_files(struct host_data *h, const char *set,
				const char *dir)
{
	char *real = realpath(dir, NULL);

	snprintf(h->name, sizeof(h->name), "%s-%016llx", set,
		 host_data_hash(real ? real : dir));
	free(real);
	snprintf(h->identity, sizeof(h->identity), "%s; %s", DATASET_FORMAT,
		 h->files.identity);
	h->source.name = h->name;
	h->source.identity = h->identity;
}

static int host_data_find_mnist(struct host_data *h, const char *dir,
				struct err *e)
{
	int r;

	if (!dir) {
		h->source.name = "digits";
		h->source.identity = DIGITS_IDENTITY;
		h->source.make = host_data_make_digits;
		return 0;
	}
	r = mnist_find(&h->files, dir, e);
	if (r < 0)
		return r;
	host_data_set_files(h, "mnist", dir);
	h->source.make = host_data_make_mnist;
	return 0;
}

static int host_data_find_cifar(struct host_data *h, const char *dir,
				struct err *e)
{
	int r;

	if (!dir)
		return err_set(
			e, ERR_USAGE,
			"no data: set --data (or DDP_DATA) to the folder with "
			"CIFAR-10's files (trainers/get-data cifar10 DIR "
			"downloads them) or with a packed data set "
			"(pack_data), or give --synthetic for generated "
			"images");
	h->is_packed = records_exist(dir);
	if (h->is_packed)
		return 0;
	r = cifar_find(&h->files, dir, e);
	if (r < 0)
		return r;
	host_data_set_files(h, "cifar10", dir);
	h->source.make = host_data_make_cifar;
	return 0;
}

/* Synthetic images are drawn faster than read, so they get no cache file. */
static int host_data_find_synthetic(struct host_data *h, struct err *e)
{
	const struct host_data_want *w = &h->want;
	uint64_t bytes = 3 * (uint64_t)w->side * (uint64_t)w->side * w->least;

	if (bytes >> 20 > SYNTHETIC_MIB_MAX)
		return err_set(e, ERR_USAGE,
			       "a batch of %u images of %d x %d takes %llu "
			       "MiB, but synthetic images are limited to %d; "
			       "give a smaller --batch-size or --image-size",
			       w->least, w->side, w->side,
			       (unsigned long long)(bytes >> 20),
			       SYNTHETIC_MIB_MAX);
	h->source.make = host_data_make_synthetic;
	return 0;
}

int host_data_find(struct host_data *h, const struct host_data_want *want,
		   struct err *e)
{
	memset(h, 0, sizeof(*h));
	h->want = *want;
	h->source.arg = h;
	switch (want->kind) {
	case DATA_MNIST:
		return host_data_find_mnist(h, want->dir, e);
	case DATA_CIFAR10:
		return host_data_find_cifar(h, want->dir, e);
	case DATA_SYNTHETIC:
		return host_data_find_synthetic(h, e);
	}
	return err_set(e, ERR_INTERNAL, "unknown kind of data: %d",
		       (int)want->kind);
}

/* Every rank maps the files themselves. */
static int host_data_map(struct host_data *h, struct err *e)
{
	int r = records_open(&h->records, h->want.dir, e);

	if (r == 0)
		h->set = h->records.set;
	return r;
}

int host_data_prepare(struct host_data *h, struct err *e)
{
	int r;

	if (h->is_packed)
		return host_data_map(h, e);
	r = cache_prepare(&h->source, &h->block, h->note, e);
	if (r < 0)
		return r;
	return dataset_view(h->block.data, h->block.size, &h->set, e);
}

int host_data_open(struct host_data *h, struct err *e)
{
	int r;

	if (h->is_packed)
		return host_data_map(h, e);
	r = cache_open(&h->source, &h->block, e);
	if (r < 0)
		return r;
	return dataset_view(h->block.data, h->block.size, &h->set, e);
}

void host_data_release(struct host_data *h)
{
	cache_release(&h->block);
	records_release(&h->records);
	memset(&h->set, 0, sizeof(h->set));
}
