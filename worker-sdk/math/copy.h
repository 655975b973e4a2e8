/* copy.h: copies that go past the caches. Pure. */
#ifndef SDK_COPY_H
#define SDK_COPY_H

#include <stddef.h>

/* memcpy. stream: with stores that go to memory past the caches, for what is
 * larger than they are and is not read again soon; dst need not be read first,
 * so a third of the traffic is saved. They are ordered before every later store
 * as a memcpy's are. Any alignment; they must not overlap. */
void ddp__copy(void *dst, const void *src, size_t size, int stream);

/* The same without that order: ddp__copy_done after the last of several. */
void ddp__copy_stream(void *dst, const void *src, size_t size);
void ddp__copy_done(void);

#endif
