/* utf8.h: makes any bytes that a program wrote valid UTF-8 for JSON. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/buf.h"

/* Appends text; replaces each NUL and each invalid byte with U+FFFD. */
void utf8_put(struct buf *out, struct slice text);

#endif
