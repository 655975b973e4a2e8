/* copy.c: streaming stores, on CPUs that have them, and when to use them. */
#include "worker-sdk/math/copy.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include "base/clock.h"

enum {
	LINE = 64,
	SHORT = 4 * LINE,
	PAGE = 4096,
	REP_MIN = 2048 /* glibc's least threshold for "rep movsb" */
};

#ifdef __x86_64__
/* Where "rep movsb" is slow: copies all whole lines. Returns their size. */
static size_t copy_without_rep(char *dst, const char *src, size_t size)
{
	uintptr_t after = ((uintptr_t)dst - (uintptr_t)src) % PAGE;
	size_t done = 0;

	if (size < REP_MIN || !after || after >= LINE)
		return 0;
	for (; done + LINE <= size; done += LINE) {
		const __m128i *from = (const void *)(src + done);
		__m128i *to = (void *)(dst + done);
		__m128i a = _mm_loadu_si128(from);
		__m128i b = _mm_loadu_si128(from + 1);
		__m128i c = _mm_loadu_si128(from + 2);
		__m128i d = _mm_loadu_si128(from + 3);

		_mm_storeu_si128(to, a);
		_mm_storeu_si128(to + 1, b);
		_mm_storeu_si128(to + 2, c);
		_mm_storeu_si128(to + 3, d);
	}
	return done;
}

/* Copies whole lines to an aligned address: the CPU need not read a line that
 * is written in full. */
static void copy_lines(char *dst, const char *src, size_t lines)
{
	for (size_t i = 0; i < lines; i++) {
		const __m128i *from = (const void *)(src + i * LINE);
		__m128i *to = (void *)(dst + i * LINE);
		__m128i a = _mm_loadu_si128(from);
		__m128i b = _mm_loadu_si128(from + 1);
		__m128i c = _mm_loadu_si128(from + 2);
		__m128i d = _mm_loadu_si128(from + 3);

		_mm_stream_si128(to, a);
		_mm_stream_si128(to + 1, b);
		_mm_stream_si128(to + 2, c);
		_mm_stream_si128(to + 3, d);
	}
}

void ddp__copy_done(void)
{
	_mm_sfence();
}
#else
static size_t copy_without_rep(char *dst, const char *src, size_t size)
{
	(void)dst, (void)src, (void)size;
	return 0;
}

static void copy_lines(char *dst, const char *src, size_t lines)
{
	memcpy(dst, src, lines * LINE);
}

void ddp__copy_done(void)
{
}
#endif

void ddp__copy_plain(void *dst, const void *src, size_t size)
{
	size_t done = copy_without_rep(dst, src, size);

	if (size > done)
		memcpy((char *)dst + done, (const char *)src + done,
		       size - done);
}

void ddp__move(void *dst, const void *src, size_t size)
{
	uintptr_t to = (uintptr_t)dst, from = (uintptr_t)src;

	if (size && (to < from + size && from < to + size))
		memmove(dst, src, size);
	else
		ddp__copy_plain(dst, src, size);
}

void ddp__copy_stream(void *dst, const void *src, size_t size)
{
	size_t head = -(uintptr_t)dst % LINE, body;
	const char *from = src;
	char *to = dst;

	if (size < SHORT) {
		if (size)
			memcpy(dst, src, size);
		return;
	}
	body = (size - head) / LINE * LINE;
	memcpy(to, from, head);
	copy_lines(to + head, from + head, body / LINE);
	memcpy(to + head + body, from + head + body, size - head - body);
}

void ddp__copy(void *dst, const void *src, size_t size, int stream)
{
	if (!stream) {
		ddp__copy_plain(dst, src, size);
		return;
	}
	ddp__copy_stream(dst, src, size);
	ddp__copy_done();
}

/* ---- put */

/* Measured between two CPUs: GB/s of plain and of streaming stores to lines
 * that the other CPU reads in between. Threads of one core: 50 and 18; cores
 * that share a cache: 34 and 60 up to 4 KiB, 14 and 55 from 16 KiB on; other
 * cores: 2.4 and 55. Where a cache is shared, streamed data is slower to read
 * (4 KiB: 0.6 us instead of 0.14), so streaming never paid there (1 MiB
 * all_reduce in place: 57 us instead of 47). */
enum {
	FAR_RATE = 6,	   /* bytes per nanosecond; below this rate the reader
			    * is far */
	FAR_MIN = 512,	   /* smaller puts never bypass the caches */
	MEASURE = 4 << 10, /* smaller puts are too short to time */
	EVERY = 64	   /* puts between two measurements */
};

int ddp__put_streams(const struct ddp__put *p, size_t size)
{
	return p->far && size >= FAR_MIN;
}

/* Stores MEASURE bytes plainly and times the stores. The bytes come from the
 * nearest cache, so that only the stores count. An interrupt may falsify one
 * result, so only two equal measurements in a row change the choice. */
static void put_measure(struct ddp__put *p, void *to, const void *from)
{
	char near[MEASURE];
	uint64_t start;
	int far;

	memcpy(near, from, MEASURE);
	start = clock_ns();
	memcpy(to, near, MEASURE);
	atomic_thread_fence(memory_order_seq_cst);
	far = MEASURE < (clock_ns() - start) * FAR_RATE;
	p->until = far == p->seen ? EVERY : 0;
	if (far == p->seen)
		p->far = far;
	p->seen = far;
}

void ddp__put(struct ddp__put *p, void *to, const void *from, size_t size)
{
	size_t done = 0;

	if (p->until) {
		p->until--;
	} else if (size >= MEASURE) {
		done = MEASURE;
		put_measure(p, to, from);
	}
	ddp__copy((char *)to + done, (const char *)from + done, size - done,
		  ddp__put_streams(p, size));
}
