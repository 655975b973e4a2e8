/* host_data.h: the data set of a rank: one rank a host reads or draws it, the
 * others of the host share what it made. Knows ranks, not models. */
#ifndef TRAINERS_HOST_DATA_H
#define TRAINERS_HOST_DATA_H

#include "base/error.h"
#include "trainers/data/cache.h"
#include "trainers/data/data_files.h"
#include "trainers/data/dataset.h"

enum data_kind { DATA_MNIST, DATA_CIFAR10, DATA_SYNTHETIC };

/* What a trainer wants. */
struct host_data_want {
	enum data_kind kind;
	const char *dir; /* NULL: none was named */
	int side;        /* synthetic: of its images */
	uint32_t least;  /* synthetic: at least so many to train with */
	/* May be NULL. Told before what takes seconds: a line for people. */
	void (*on_wait)(void *arg, const char *text);
	void *arg;
};

struct host_data {
	struct host_data_want want;
	struct dataset set;
	struct cache_block block;
	struct data_files files;
	struct cache_source source;
	char name[64]; /* of the file in the cache */
	char identity[DATA_IDENTITY_MAX + 64];
	char note[ERR_TEXT_MAX]; /* what the user should be told, or "" */
};

/* Names what is to be read: MNIST's or CIFAR-10's files in dir; for MNIST
 * without a dir, digits that digits.h draws; synthetic.h's images, which each
 * rank draws for itself. CIFAR-10 without a dir is ERR_USAGE; a dir without the
 * files is an error. Every rank does. h stays where it is until it is released.
 */
int host_data_find(struct host_data *h, const struct host_data_want *want,
		   struct err *e);

/* The host's leader; may take a while. Sets note where the cache cannot be
 * used, or was damaged. */
int host_data_prepare(struct host_data *h, struct err *e);

/* The other ranks, after every leader has succeeded. */
int host_data_open(struct host_data *h, struct err *e);

void host_data_release(struct host_data *h);

#endif
