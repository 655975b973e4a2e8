/* line_filter.h: strings of which a line must contain one. Pure. */
#ifndef LAUNCHER_LINE_FILTER_H
#define LAUNCHER_LINE_FILTER_H

#include "base/buf.h"
#include "base/error.h"

/* All zero: no strings, matches nothing. */
struct line_filter {
	char *text; /* what the words point into */
	struct slice *words;
	size_t n;
};

/* Strings with commas between; ",," is a comma in one. NULL and "" are no
 * strings; commas alone are ERR_USAGE (what names the option). -ENOMEM. */
int line_filter_init(struct line_filter *f, const char *text, const char *what,
		     struct err *e);
void line_filter_release(struct line_filter *f);

int line_filter_matches(const struct line_filter *f, struct slice line);

#endif
