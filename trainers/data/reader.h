/* reader.h: reads a plain, gzip or xz file, decompressed; the first bytes
 * decide which. Knows no data format; validates everything it reads. */
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
	unsigned long long done; /* bytes read so far, decompressed */
};

/* The caller closes r, also after an error. */
int reader_open(struct reader *r, const char *path, struct err *e);
void reader_close(struct reader *r);

/* Reads up to size bytes. Returns their number, which is less only at the end
 * of a complete file (checksum verified, if it has one). ERR_DATA: a compressed
 * file is truncated or damaged. */
long reader_take(struct reader *r, void *to, size_t size, struct err *e);

/* Reads exactly size bytes, else ERR_DATA; the text compares with `whole`, the
 * file's size according to its header. */
int reader_take_all(struct reader *r, void *to, size_t size,
		    unsigned long long whole, struct err *e);

#endif
