/* host_data.c: which block of the cache serves which data folder. */
#include "trainers/data/host_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/data/digits.h"

static int make_mnist(void *arg, struct payload *p, struct err *e)
{
	return mnist_decode(arg, p, e);
}

static int make_digits(void *arg, struct payload *p, struct err *e)
{
	return digits_make(DIGITS_TRAIN, DIGITS_TEST, p, e);
}

/* FNV-1a: two folders share a name only by a rare chance, and then their
 * identities still differ. */
static unsigned long long hash(const char *s)
{
	unsigned long long h = 0xcbf29ce484222325u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	return h;
}

int host_data_find(struct host_data *h, const char *dir, struct err *e)
{
	char *real;
	int r;

	memset(h, 0, sizeof *h);
	h->source.name = h->name;
	if (!dir) {
		snprintf(h->name, sizeof h->name, "digits");
		h->source.identity = DIGITS_IDENTITY;
		h->source.make = make_digits;
		return 0;
	}
	r = mnist_find(&h->files, dir, e);
	if (r < 0)
		return r;
	real = realpath(dir, NULL);
	snprintf(h->name, sizeof h->name, "mnist-%016llx",
		 hash(real ? real : dir));
	free(real);
	h->source.identity = h->files.identity;
	h->source.make = make_mnist;
	h->source.arg = &h->files;
	return 0;
}

int host_data_prepare(struct host_data *h, struct err *e)
{
	int r = cache_prepare(&h->source, &h->block, h->note, e);

	if (r < 0)
		return r;
	return dataset_view(h->block.data, h->block.size, &h->set, e);
}

int host_data_open(struct host_data *h, struct err *e)
{
	int r = cache_open(&h->source, &h->block, e);

	if (r < 0)
		return r;
	return dataset_view(h->block.data, h->block.size, &h->set, e);
}

void host_data_release(struct host_data *h)
{
	cache_release(&h->block);
	memset(&h->set, 0, sizeof h->set);
}
