/* host_data.h: a rank's data set: one rank per host reads or draws it, the
 * host's other ranks share the result. Makes the synthetic one. Knows ranks,
 * not models. */
#ifndef TRAINERS_HOST_DATA_H
#define TRAINERS_HOST_DATA_H

#include "base/error.h"
#include "trainers/data/cache.h"
#include "trainers/data/data_files.h"
#include "trainers/data/dataset.h"
#include "trainers/data/records.h"

enum data_kind { DATA_MNIST, DATA_CIFAR10, DATA_SYNTHETIC };

/* The data set that a trainer asks for. */
struct host_data_want {
	enum data_kind kind;
	const char *dir; /* NULL: not given */
	int side;        /* synthetic: height and width of an image */
	uint32_t least;  /* synthetic: at least this many for training */
	/* Called with a line for the user before work that takes seconds; may
	 * be NULL. */
	void (*on_wait)(void *arg, const char *text);
	void *arg;
};

struct host_data {
	struct host_data_want want;
	struct dataset set;
	struct cache_block block;
	struct data_files files;
	int is_packed; /* the set is in records instead of block */
	struct records records;
	struct cache_source source;
	char name[64]; /* name of the cache file */
	char identity[DATA_IDENTITY_MAX + 64];
	char note[ERR_TEXT_MAX]; /* a note for the user, or "" */
};

/* Called by every rank: chooses the source. MNIST's or CIFAR-10's files in dir;
 * without a dir, digits.h's digits instead of MNIST; or synthetic images,
 * which each rank makes itself. A packed data set in dir replaces CIFAR-10.
 * ERR_USAGE: CIFAR-10 without a dir. A dir without the files is an error. h
 * must not move until it is released. */
int host_data_find(struct host_data *h, const struct host_data_want *want,
		   struct err *e);

/* Called by the host's leader; may take a while. Sets note if the cache cannot
 * be used or was damaged. */
int host_data_prepare(struct host_data *h, struct err *e);

/* Called by the other ranks after every leader has succeeded. */
int host_data_open(struct host_data *h, struct err *e);

void host_data_release(struct host_data *h);

/* ---- synthetic images ----
 *
 * Images of noise for benchmarks, the same in every run. Each class is slightly
 * brighter in one channel. */

enum { SYNTHETIC_CLASSES = 10 };

/* Makes train and test images of [3][side][side]. The caller frees p->data. */
int synthetic_make(int side, uint32_t train, uint32_t test, struct payload *p,
		   struct err *e);

/* The number of images of this side to make: about 256 MB, at most 50,000. */
uint32_t synthetic_count(int side);

#endif
