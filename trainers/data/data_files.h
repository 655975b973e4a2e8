/* data_files.h: finds the files of a data set, compressed or not, and makes a
 * text that changes when one of them does. */
#ifndef TRAINERS_DATA_FILES_H
#define TRAINERS_DATA_FILES_H

#include "base/error.h"

enum { DATA_FILES_MAX = 6, DATA_PATH_MAX = 4096, DATA_IDENTITY_MAX = 1024 };

/* The files of a data set and the usual subdirectories. */
struct data_files_spec {
	const char *set;           /* "MNIST" */
	const char *get;           /* the data set's name in get-data:
				    * "mnist" */
	const char *const *names;  /* names of its uncompressed files; ends with
				    * NULL */
	const char *const *below;  /* subdirectories to search after DIR itself;
				    * ends with NULL */
};

struct data_files {
	int count;
	char path[DATA_FILES_MAX][DATA_PATH_MAX]; /* in the spec's order */
	/* Size, mtime and inode of each. */
	char identity[DATA_IDENTITY_MAX];
};

/* Finds all files in dir, else in its subdirectories `below`; each plain, .gz
 * or .xz. -ENOENT: the text lists the files and folders searched. */
int data_files_find(struct data_files *f, const struct data_files_spec *s,
		    const char *dir, struct err *e);

#endif
