/* shm_put.h: writing where another process has read, plainly or past the
 * caches, whichever is quicker between the CPUs that the ranks are on now.
 * Knows nothing of segments. */
#ifndef SDK_SHM_PUT_H
#define SDK_SHM_PUT_H

#include <stddef.h>
#include <stdint.h>

/* A line that another core has read must be taken from it before it can be
 * written. How long that takes depends on where that core is; a virtual
 * machine's CPUs may come to be elsewhere within seconds. Zeroed is fine; one
 * thread at a time. */
struct ddp__put {
	int far;	/* plain stores are slow */
	int seen;	/* so it looked last */
	uint32_t until; /* so many puts it is not looked at */
};

/* memcpy, in order before every later store; to and from do not overlap. Now
 * and then it times itself to find out. */
void ddp__put(struct ddp__put *p, void *to, const void *from, size_t size);
/* Whether one of that size would go past the caches: then what is to be put is
 * better made elsewhere first. */
int ddp__put_streams(const struct ddp__put *p, size_t size);

#endif
