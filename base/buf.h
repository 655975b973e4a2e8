/* buf.h: a growable byte buffer whose maximum is set at birth, and a reader.
 * A buffer that a peer fills can so never grow without bound.
 * All integers are little-endian on the wire. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

/* Borrowed bytes: valid as long as what they point into. Not NUL-ended. */
struct slice {
	const char *data;
	size_t len;
};

#define SLICE(s, n) ((struct slice){(s), (n)})
#define SLICE_STR(s) ((struct slice){(s), strlen(s)})
/* For printf's "%.*s" */
#define SLICE_FMT(s) (int)(s).len, (s).data

struct buf {
	char *data;
	size_t len;
	size_t cap;
	size_t max; /* growing past this fails */
	int failed; /* sticky: 0, -ENOMEM, -ENOBUFS; puts then do nothing */
};

#define BUF_INIT(max_) {NULL, 0, 0, (max_), 0}

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b); /* frees; b is as after buf_init */
void buf_reset(struct buf *b);   /* empties, keeps the memory, clears failed */

/* Room for n more bytes at data+len: returns a pointer to it, or NULL (and
 * sets failed). The caller then raises len by what it used. */
MUST_CHECK char *buf_reserve(struct buf *b, size_t n);

/* Appends. Errors stick in b->failed, so a run of puts is checked once. */
void buf_put(struct buf *b, const void *p, size_t n);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_u16(struct buf *b, uint16_t v);
void buf_put_u32(struct buf *b, uint32_t v);
void buf_put_u64(struct buf *b, uint64_t v);
void buf_put_slice(struct buf *b, struct slice s); /* u32 length, bytes */
void buf_printf(struct buf *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A buffer as a part of another one: u32 length, bytes. A part that failed
 * makes the whole fail. */
void buf_put_buf(struct buf *b, const struct buf *part);

/* What the puts made, or the error that stopped them, and then no bytes. Bytes
 * that leave this process are taken by this call, so that half of a message is
 * never sent. */
MUST_CHECK int buf_bytes(const struct buf *b, struct slice *bytes);

/* Drops the first n bytes (n <= len), moving the rest to the front. */
void buf_consume(struct buf *b, size_t n);

/* Reads from bytes that it does not own. Running out sets bad, sticky, and
 * gives zeroes and empty slices from then on: check bad once, at the end. */
struct reader {
	const char *p;
	const char *end;
	int bad;
};

void reader_init(struct reader *r, struct slice s);
size_t reader_left(const struct reader *r);
uint8_t reader_u8(struct reader *r);
uint16_t reader_u16(struct reader *r);
uint32_t reader_u32(struct reader *r);
uint64_t reader_u64(struct reader *r);
struct slice reader_slice(struct reader *r); /* u32 length, bytes */

#endif
