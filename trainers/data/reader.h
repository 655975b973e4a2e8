/* reader.h: a data file's bytes, unpacked on the way: plain, gzip or xz, told
 * by how the file begins. Knows no format of data; trusts no byte. */
#ifndef TRAINERS_READER_H
#define TRAINERS_READER_H

#include <stddef.h>
#include <zlib.h>

#include "base/error.h"

struct reader_xz;

struct reader {
	const char *path; /* borrowed */
	gzFile gz;        /* gzip and plain */
	struct reader_xz *xz;
	unsigned long long done; /* unpacked bytes so far */
};

/* The caller closes it, also after an error. */
int reader_open(struct reader *r, const char *path, struct err *e);
void reader_close(struct reader *r);

/* Up to size bytes: their number, which is less only where the file ends, and
 * then it was whole (its checksum too, where it has one). ERR_DATA for a packed
 * file that is truncated or damaged. */
long reader_take(struct reader *r, void *to, size_t size, struct err *e);

/* All of size bytes, or ERR_DATA; whole is how many the file has by its header,
 * for the text. */
int reader_take_all(struct reader *r, void *to, size_t size,
		    unsigned long long whole, struct err *e);

#endif
