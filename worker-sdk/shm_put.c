/* shm_put.c: how fast plain stores are, and the way that follows from it. */
#include "worker-sdk/shm_put.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "worker-sdk/copy.h"

/* Measured between two CPUs, GB/s written plainly and past the caches, to lines
 * that the other reads in between: threads of one core 50 and 18; cores with a
 * common cache 34 and 60 up to 4 KiB, 14 and 55 from 16 KiB on; others 2.4 and
 * 55. Reading what went past the caches is slower where there is a cache in
 * common (4 KiB: 0.6 us, not 0.14), so there it only pays where much is put. */
enum {
	FAR_RATE = 6, /* bytes a nanosecond below which it is */
	APART_RATE = 25,
	FAR_MIN = 512,	      /* bytes that go past the caches */
	APART_MIN = 32 << 10,
	LOOK_MIN = 4 << 10, /* less is too short to be timed, */
	LOOK_MOST = 16 << 10, /* more takes too long */
	EVERY = 64
};

int ddp__put_streams(const struct ddp__put *p, size_t size)
{
	return size >= (p->reach == DDP__PUT_FAR	    ? FAR_MIN
			: p->reach == DDP__PUT_APART ? APART_MIN
						    : SIZE_MAX);
}

static enum ddp__reach judge(const struct ddp__put *p, size_t size, uint64_t ns)
{
	if (size < ns * FAR_RATE)
		return DDP__PUT_FAR;
	if (size == LOOK_MOST)
		return size < ns * APART_RATE ? DDP__PUT_APART : DDP__PUT_NEAR;
	return p->reach == DDP__PUT_FAR ? DDP__PUT_NEAR : p->reach;
}

/* Puts size bytes plainly. They come out of the nearest cache, so that only
 * storing counts; and as it may be interrupted, what it sees holds when it was
 * seen twice. */
static void look(struct ddp__put *p, void *to, const void *from, size_t size)
{
	char near[LOOK_MOST];
	enum ddp__reach reach;
	uint64_t start;

	memcpy(near, from, size);
	start = clock_ns();
	memcpy(to, near, size);
	atomic_thread_fence(memory_order_seq_cst);
	reach = judge(p, size, clock_ns() - start);
	p->until = reach == p->seen ? EVERY : 0;
	if (reach == p->seen)
		p->reach = reach;
	p->seen = reach;
}

void ddp__put(struct ddp__put *p, void *to, const void *from, size_t size)
{
	size_t done = 0;

	if (p->until) {
		p->until--;
	} else if (size >= LOOK_MIN) {
		done = size < LOOK_MOST ? size : LOOK_MOST;
		look(p, to, from, done);
	}
	ddp__copy((char *)to + done, (const char *)from + done, size - done,
		  ddp__put_streams(p, size));
}
