/* buf.h: a growable byte buffer with a maximum that is fixed when it is made,
 * so that a peer cannot make it grow without bound; and a reader of bytes.
 * Integers are little-endian. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

/* Borrowed bytes: valid as long as the memory they point to. Not NUL-ended. */
struct slice {
	const char *data;
	size_t len;
};

#define SLICE(s, n) ((struct slice){(s), (n)})
#define SLICE_STR(s) ((struct slice){(s), strlen(s)})
/* For printf's "%.*s" */
#define SLICE_FMT(s) (int)(s).len, (s).data

static inline int slice_is_equal(struct slice a, struct slice b)
{
	return a.len == b.len && (!a.len || !memcmp(a.data, b.data, a.len));
}

/* Where part begins in s, or NULL. */
static inline const char *slice_find(struct slice s, const char *part)
{
	return s.len ? memmem(s.data, s.len, part, strlen(part)) : NULL;
}

static inline int slice_has(struct slice s, const char *part)
{
	return slice_find(s, part) != NULL;
}

static inline int slice_begins(struct slice s, const char *with)
{
	size_t n = strlen(with);

	return s.len >= n && (!n || !memcmp(s.data, with, n));
}

/* s without its first n bytes; n is at most its length. */
static inline struct slice slice_skip(struct slice s, size_t n)
{
	return SLICE(s.data + n, s.len - n);
}

/* Cuts the first line off text and returns it, without its newline. */
struct slice slice_next_line(struct slice *text);

struct buf {
	char *data;
	size_t len;
	size_t cap;
	size_t max; /* growing beyond it fails */
	int failed; /* sticky: 0, -ENOMEM, -ENOBUFS; puts then do nothing */
};

#define BUF_INIT(max_) {NULL, 0, 0, (max_), 0}

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b); /* frees; b is as after buf_init */
void buf_reset(struct buf *b);   /* empties, keeps the memory, clears failed */

/* Makes room for n more bytes at data + len and returns a pointer to it, or
 * NULL (and sets failed). The caller then adds the bytes it used to len. n may
 * be 0. */
MUST_CHECK char *buf_reserve(struct buf *b, size_t n);

/* Appends. Errors are sticky in b->failed: check it once after many puts. */
void buf_put(struct buf *b, const void *p, size_t n);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_u16(struct buf *b, uint16_t v);
void buf_put_u32(struct buf *b, uint32_t v);
void buf_put_u64(struct buf *b, uint64_t v);
void buf_put_slice(struct buf *b, struct slice s); /* u32 length, bytes */
void buf_printf(struct buf *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Appends another buffer: u32 length, bytes. If part failed, so does b. */
void buf_put_buf(struct buf *b, const struct buf *part);

/* The finished bytes; or the error that stopped the puts, and no bytes. Always
 * get the bytes to send from this call, so that half a message is never sent.
 */
MUST_CHECK int buf_bytes(const struct buf *b, struct slice *bytes);

/* Drops the first n bytes (n <= len) and moves the rest to the front. */
void buf_consume(struct buf *b, size_t n);

/* Reads from borrowed bytes. Reading past the end sets bad, which is sticky,
 * and returns zeroes and empty slices: check bad once, at the end. */
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
