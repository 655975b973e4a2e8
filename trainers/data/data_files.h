/* data_files.h: where the files of a data set are, whatever they are packed
 * with, and a text that changes when one of them does. */
#ifndef TRAINERS_DATA_FILES_H
#define TRAINERS_DATA_FILES_H

#include "base/error.h"

enum { DATA_FILES_MAX = 6, DATA_PATH_MAX = 4096, DATA_IDENTITY_MAX = 1024 };

/* What a set is made of, and where people keep it. */
struct data_files_spec {
	const char *set;           /* "MNIST" */
	const char *get;           /* what get-data calls it: "mnist" */
	const char *const *names;  /* of its files, unpacked; NULL ends it */
	const char *const *below;  /* folders in DIR where they may be, if not
				      in DIR itself; NULL ends it */
};

struct data_files {
	int count;
	char path[DATA_FILES_MAX][DATA_PATH_MAX]; /* in the spec's order */
	/* Size, mtime and inode of each. */
	char identity[DATA_IDENTITY_MAX];
};

/* Looks for all files in dir, then in its folders `below`, each plain, .gz or
 * .xz. -ENOENT with a text that says what was looked for. */
int data_files_find(struct data_files *f, const struct data_files_spec *s,
		    const char *dir, struct err *e);

#endif
