/* shm_put.h: writing where another process has read, plainly or past the
 * caches, whichever is quicker between the CPUs that the ranks are on now.
 * Knows nothing of segments. */
#ifndef SDK_SHM_PUT_H
#define SDK_SHM_PUT_H

#include <stddef.h>
#include <stdint.h>

/* A line that another core has read must be taken from it before it can be
 * written. How long that takes depends on where that core is; a virtual
 * machine's CPUs may come to be elsewhere within seconds. */
enum ddp__reach {
	DDP__PUT_NEAR,	/* plain stores are as quick as any */
	DDP__PUT_APART, /* so are small ones */
	DDP__PUT_FAR	/* none but the smallest */
};

/* Zeroed is fine. One thread at a time. */
struct ddp__put {
	enum ddp__reach reach, seen; /* what holds; what was seen last */
	uint32_t until;		   /* so many puts it is not looked at */
};

/* memcpy, in order before every later store; to and from do not overlap. Now
 * and then it times itself to find out. */
void ddp__put(struct ddp__put *p, void *to, const void *from, size_t size);
/* Whether one of that size would go past the caches: then what is to be put is
 * better made elsewhere first. */
int ddp__put_streams(const struct ddp__put *p, size_t size);

#endif
