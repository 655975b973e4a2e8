/* utf8.h: what programs write, made fit for JSON: valid UTF-8 without NUL. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/buf.h"

/* Appends text; each byte that is no UTF-8, and each NUL, becomes U+FFFD. */
void utf8_put(struct buf *out, struct slice text);

#endif
