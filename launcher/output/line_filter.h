/* line_filter.h: a list of strings; a line matches if it contains one of them.
 * Pure. */
#ifndef LAUNCHER_LINE_FILTER_H
#define LAUNCHER_LINE_FILTER_H

#include "base/buf.h"
#include "base/error.h"

/* All zero: no strings, matches nothing. */
struct line_filter {
	char *text; /* the words point into it */
	struct slice *words;
	size_t n;
};

/* text: strings separated by commas; ",," stands for a comma in a string. NULL
 * and "" are the empty list. ERR_USAGE if there are only commas (what is the
 * option's name), or -ENOMEM. */
int line_filter_init(struct line_filter *f, const char *text, const char *what,
		     struct err *e);
void line_filter_release(struct line_filter *f);

int line_filter_matches(const struct line_filter *f, struct slice line);

#endif
