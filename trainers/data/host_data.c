/* host_data.c: which block of the cache serves which data folder. */
#include "trainers/data/host_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/data/digits.h"
#include "trainers/data/synthetic.h"

static int make_mnist(void *arg, struct payload *p, struct err *e)
{
	return mnist_decode(arg, p, e);
}

static int make_digits(void *arg, struct payload *p, struct err *e)
{
	return digits_make(DIGITS_TRAIN, DIGITS_TEST, p, e);
}

static int make_synthetic(void *arg, struct payload *p, struct err *e)
{
	const struct host_data_want *want = arg;
	uint32_t train = synthetic_count(want->side);

	return synthetic_make(want->side, train, train / 5 + 1, p, e);
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

static int find_mnist(struct host_data *h, const char *dir, struct err *e)
{
	char *real;
	int r;

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

static int find_synthetic(struct host_data *h)
{
	snprintf(h->name, sizeof h->name, "synthetic-%d", h->want.side);
	snprintf(h->identity, sizeof h->identity, "%s", SYNTHETIC_IDENTITY);
	h->source.identity = h->identity;
	h->source.make = make_synthetic;
	h->source.arg = &h->want;
	return 0;
}

int host_data_find(struct host_data *h, const struct host_data_want *want,
		   struct err *e)
{
	memset(h, 0, sizeof *h);
	h->want = *want;
	h->source.name = h->name;
	switch (want->kind) {
	case DATA_MNIST:
		return find_mnist(h, want->dir, e);
	case DATA_SYNTHETIC:
		return find_synthetic(h);
	case DATA_CIFAR10:
		break;
	}
	return err_set(e, ERR_USAGE, "CIFAR-10 cannot be read by this build; "
		       "use --synthetic");
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
