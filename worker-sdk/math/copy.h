/* copy.h: memcpy with stores that go to memory past the caches, and the choice
 * between them and plain stores where another process reads the result. No
 * function fails; the ranges must not overlap; any alignment will do. */
#ifndef SDK_COPY_H
#define SDK_COPY_H

#include <stddef.h>
#include <stdint.h>

/* memcpy. stream: past the caches, for results that are larger than the caches
 * and are not read again soon; the destination need not be read first, which
 * saves a third of the traffic. Like a memcpy's, the stores are ordered before
 * every later store. */
void ddp__copy(void *dst, const void *src, size_t size, int stream);

/* The same without that order, until ddp__copy_done. */
void ddp__copy_stream(void *dst, const void *src, size_t size);
void ddp__copy_done(void);

/* Where another core has read a cache line, that line must be taken from it
 * before it can be written. How long this takes depends on where that core is,
 * and a virtual machine's CPUs may move within seconds: so it is measured now
 * and then. Zeroed is valid; for one thread at a time. */
struct ddp__put {
	int far;	/* plain stores are slow */
	int seen;	/* the last measurement said so */
	uint32_t until; /* puts until the next measurement */
};

/* ddp__copy by whichever kind of store is faster now. */
void ddp__put(struct ddp__put *p, void *to, const void *from, size_t size);
/* Whether a put of that size would go past the caches: then the data is better
 * computed in a buffer first. */
int ddp__put_streams(const struct ddp__put *p, size_t size);

#endif
