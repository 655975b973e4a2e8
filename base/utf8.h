/* utf8.h: what programs write, made fit for JSON: valid UTF-8 without NUL. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/buf.h"

/* Bytes of the character at the start of text, 0 if it is not valid UTF-8 (too
 * long, cut, a surrogate, or beyond Unicode). text is not empty. */
size_t utf8_length(struct slice text);

/* Appends text; each byte that is no UTF-8, and each NUL, becomes U+FFFD. */
void utf8_put(struct buf *out, struct slice text);

#endif
