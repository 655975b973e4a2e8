/* copy.h: memcpy that is fast for any two addresses, memcpy with stores that
 * bypass the caches, and the choice between them when another process reads the
 * result. No function fails; the ranges must not overlap; any alignment is
 * allowed. */
#ifndef SDK_COPY_H
#define SDK_COPY_H

#include <stddef.h>
#include <stdint.h>

/* memcpy, but not with "rep movsb" where that is slow: on AMD's Zen 3 and 4 it
 * copies 2.8 bytes per nanosecond instead of 40 if the destination lies just
 * after the source, modulo 4 KiB (glibc bug 30994). This is the usual case: a
 * large block of malloc begins 16 bytes after a page, a slot of shared memory
 * at a page. */
void ddp__copy_plain(void *dst, const void *src, size_t size);
/* As ddp__copy_plain, but the ranges may overlap. */
void ddp__move(void *dst, const void *src, size_t size);

/* ddp__copy_plain, or with stream a copy that bypasses the caches, for results
 * that are larger than the caches and are not read again soon; the CPU then
 * need not read the destination first, which saves a third of the traffic. As
 * with memcpy, the stores are ordered before every later store. */
void ddp__copy(void *dst, const void *src, size_t size, int stream);

/* As ddp__copy with stream, but unordered until ddp__copy_done. */
void ddp__copy_stream(void *dst, const void *src, size_t size);
void ddp__copy_done(void);

/* If another core has read a cache line, a writer must first take the line from
 * that core. How long this takes depends on the other core's place, and a
 * virtual machine's CPUs may move within seconds, so it is measured from time
 * to time. Zeroed is valid; for one thread at a time. */
struct ddp__put {
	int far;	/* plain stores are slow */
	int seen;	/* far, according to the last measurement */
	uint32_t until; /* puts until the next measurement */
};

/* ddp__copy with the kind of store that is faster now. */
void ddp__put(struct ddp__put *p, void *to, const void *from, size_t size);
/* 1 if a put of that size would bypass the caches: then it is better to compute
 * the data in a buffer first. */
int ddp__put_streams(const struct ddp__put *p, size_t size);

#endif
