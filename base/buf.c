/* buf.c: the capped byte buffer and its reader. */
#include "base/buf.h"

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST_SIZE = 256 };

struct slice slice_next_line(struct slice *text)
{
	const char *end = text->len ? memchr(text->data, '\n', text->len)
				    : NULL;
	size_t n = end ? (size_t)(end - text->data) : text->len;
	struct slice line = SLICE(text->data, n);

	n += end != NULL;
	*text = SLICE(text->data + n, text->len - n);
	return line;
}

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf)BUF_INIT(max);
}

void buf_release(struct buf *b)
{
	size_t max = b->max;

	free(b->data);
	buf_init(b, max);
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	b->failed = 0;
}

static int buf_grow(struct buf *b, size_t need)
{
	size_t cap = b->cap ? b->cap : FIRST_SIZE;
	char *data;

	if (need > b->max)
		return -ENOBUFS;
	while (cap < need)
		cap *= 2;
	if (cap > b->max)
		cap = b->max;
	data = realloc(b->data, cap);
	if (!data)
		return -ENOMEM;
	b->data = data;
	b->cap = cap;
	return 0;
}

static char *buf_reserve_slow(struct buf *b, size_t n)
{
	if (b->failed)
		return NULL;
	b->failed = n > b->max - b->len ? -ENOBUFS : buf_grow(b, b->len + n);
	return b->failed ? NULL : b->data + b->len;
}

char *buf_reserve(struct buf *b, size_t n)
{
	if (b->data && !b->failed && n <= b->cap - b->len)
		return b->data + b->len;
	return buf_reserve_slow(b, n);
}

void buf_put(struct buf *b, const void *p, size_t n)
{
	char *to = buf_reserve(b, n);

	if (!to || n == 0)
		return;
	memcpy(to, p, n);
	b->len += n;
}

void buf_put_u8(struct buf *b, uint8_t v)
{
	buf_put(b, &v, sizeof(v));
}

void buf_put_u16(struct buf *b, uint16_t v)
{
	v = htole16(v);
	buf_put(b, &v, sizeof(v));
}

void buf_put_u32(struct buf *b, uint32_t v)
{
	v = htole32(v);
	buf_put(b, &v, sizeof(v));
}

void buf_put_u64(struct buf *b, uint64_t v)
{
	v = htole64(v);
	buf_put(b, &v, sizeof(v));
}

void buf_put_slice(struct buf *b, struct slice s)
{
	if (s.len > UINT32_MAX) {
		b->failed = -ENOBUFS;
		return;
	}
	buf_put_u32(b, (uint32_t)s.len);
	buf_put(b, s.data, s.len);
}

void buf_put_buf(struct buf *b, const struct buf *part)
{
	struct slice bytes;
	int rc = buf_bytes(part, &bytes);

	if (rc == 0)
		buf_put_slice(b, bytes);
	else if (!b->failed)
		b->failed = rc;
}

int buf_bytes(const struct buf *b, struct slice *bytes)
{
	*bytes = b->failed ? SLICE("", 0) : SLICE(b->data, b->len);
	return b->failed;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;
	char *to;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	/* room for the NUL of vsnprintf, which len does not count */
	to = n < 0 ? NULL : buf_reserve(b, (size_t)n + 1);
	if (to) {
		vsnprintf(to, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	va_end(again);
}

void buf_consume(struct buf *b, size_t n)
{
	if (n == 0)
		return;
	b->len -= n;
	if (b->len)
		memmove(b->data, b->data + n, b->len);
}

void reader_init(struct reader *r, struct slice s)
{
	r->p = s.data;
	r->end = s.len ? s.data + s.len : s.data;
	r->bad = 0;
}

size_t reader_left(const struct reader *r)
{
	return r->p ? (size_t)(r->end - r->p) : 0;
}

/* The next n bytes, or NULL with bad set. */
static const char *reader_take(struct reader *r, size_t n)
{
	const char *p = r->p;

	if (r->bad || reader_left(r) < n) {
		r->bad = 1;
		return NULL;
	}
	if (n)
		r->p += n;
	return p;
}

/* n is constant in each caller, so this compiles to one load. */
static inline uint64_t reader_take_le(struct reader *r, size_t n)
{
	const char *p = reader_take(r, n);
	uint64_t v = 0;

	if (p)
		memcpy(&v, p, n);
	return le64toh(v);
}

uint8_t reader_u8(struct reader *r)
{
	return (uint8_t)reader_take_le(r, 1);
}

uint16_t reader_u16(struct reader *r)
{
	return (uint16_t)reader_take_le(r, 2);
}

uint32_t reader_u32(struct reader *r)
{
	return (uint32_t)reader_take_le(r, 4);
}

uint64_t reader_u64(struct reader *r)
{
	return reader_take_le(r, 8);
}

struct slice reader_slice(struct reader *r)
{
	size_t n = reader_u32(r);
	const char *p = reader_take(r, n);

	return p ? SLICE(p, n) : SLICE("", 0);
}
