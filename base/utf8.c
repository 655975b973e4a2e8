/* utf8.c: RFC 3629. */
#include "base/utf8.h"

/* The range of a second byte depends on the first; all others are 80..BF. */
static size_t wanted(unsigned char first, unsigned char *low,
		     unsigned char *high)
{
	*low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	*high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		return 2;
	if (first >= 0xe0 && first <= 0xef)
		return 3;
	return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* Bytes of the character at the start of text, 0 if it is not valid UTF-8 (too
 * long, cut, a surrogate, or beyond Unicode). text is not empty. */
static size_t length_of(struct slice text)
{
	const unsigned char *p = (const unsigned char *)text.data;
	unsigned char low, high;
	size_t n = wanted(p[0], &low, &high);

	if (n > text.len || (n > 1 && (p[1] < low || p[1] > high)))
		return 0;
	for (size_t i = 2; i < n; i++) {
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	}
	return n;
}

void utf8_put(struct buf *out, struct slice text)
{
	while (text.len) {
		size_t n = length_of(text);

		if (n == 0 || text.data[0] == '\0')
			buf_put(out, "\xef\xbf\xbd", 3);
		else
			buf_put(out, text.data, n);
		n += n == 0;
		text = SLICE(text.data + n, text.len - n);
	}
}
