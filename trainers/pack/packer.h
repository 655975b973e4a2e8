/* packer.h: turns folders of JPEG and PNG files into a packed data set, on
 * several threads. The result does not depend on their number. */
#ifndef TRAINERS_PACKER_H
#define TRAINERS_PACKER_H

#include <stdint.h>

#include "base/error.h"

struct packer_options {
	const char *from; /* the folder with train and val or test */
	const char *to;	  /* the folder to make; must not exist */
	int side;	  /* height and width of the images */
	uint64_t shard_bytes;
	int threads;
	int skip_bad; /* leave out files that cannot be decoded */
	/* Gets a line about each such file, without "warning: ". */
	void (*note)(const char *line);
};

struct packer_result {
	uint64_t images[2]; /* train, test */
	uint32_t classes, files;
	uint64_t left_out; /* files that could not be decoded */
	uint64_t ignored;  /* files that are not images */
	uint64_t bytes;
};

/* On success all files are on the disk, in a folder that gets its name last; on
 * failure no folder of that name exists, nor any file. A kill leaves a folder
 * TO.partial-XXXXXX. ERR_DATA: a file cannot be decoded, or all were left out;
 * ERR_USAGE: TO exists; -errno. */
int packer_run(const struct packer_options *o, struct packer_result *result,
	       struct err *e);

#endif
