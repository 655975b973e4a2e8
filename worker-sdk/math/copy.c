/* copy.c: streaming stores where the CPU has them. */
#include "worker-sdk/math/copy.h"

#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

enum { LINE = 64, SHORT = 4 * LINE };

#ifdef __x86_64__
/* Whole lines, to where a line begins: a line that is written in full needs no
 * read of what it was. */
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
static void copy_lines(char *dst, const char *src, size_t lines)
{
	memcpy(dst, src, lines * LINE);
}

void ddp__copy_done(void)
{
}
#endif

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
		if (size)
			memcpy(dst, src, size);
		return;
	}
	ddp__copy_stream(dst, src, size);
	ddp__copy_done();
}
