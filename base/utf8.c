/* utf8.c: RFC 3629. */
#include "base/utf8.h"

/* The number of bytes of a character from its first one; 0: invalid. The range
 * of the second byte depends on the first; the others are 80..BF. */
static size_t utf8_expected(unsigned char first, unsigned char *low,
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

/* The length of the character at the start of text, which is not empty; 0 if it
 * is invalid (overlong, cut off, a surrogate, or beyond Unicode). */
static size_t utf8_length(struct slice text)
{
	const unsigned char *p = (const unsigned char *)text.data;
	unsigned char low, high;
	size_t n = utf8_expected(p[0], &low, &high);

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
		size_t n = utf8_length(text);

		if (n == 0 || text.data[0] == '\0')
			buf_put(out, "\xef\xbf\xbd", 3);
		else
			buf_put(out, text.data, n);
		n += n == 0;
		text = SLICE(text.data + n, text.len - n);
	}
}
