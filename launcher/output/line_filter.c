/* line_filter.c: does a line contain one of some strings? */
#include "launcher/output/line_filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Copies the word at p, each ",," as a comma; returns where the next begins. */
static const char *line_filter_take_word(const char *p, char *to, size_t *len)
{
	*len = 0;
	for (; *p; p++) {
		if (*p == ',' && p[1] != ',')
			return p + 1;
		if (*p == ',')
			p++;
		to[(*len)++] = *p;
	}
	return p;
}

int line_filter_init(struct line_filter *f, const char *text, const char *what,
		     struct err *e)
{
	size_t len = text ? strlen(text) : 0, n;
	const char *p = text;
	char *to;

	*f = (struct line_filter){.n = 0};
	if (!len)
		return 0;
	f->text = malloc(len);
	f->words = calloc(len, sizeof(*f->words));
	if (!f->text || !f->words) {
		line_filter_release(f);
		return err_set(e, -ENOMEM, "out of memory");
	}
	for (to = f->text; *p; to += n) {
		p = line_filter_take_word(p, to, &n);
		if (n)
			f->words[f->n++] = SLICE(to, n);
	}
	if (f->n)
		return 0;
	line_filter_release(f);
	return err_set(e, ERR_USAGE, "%s '%s': give strings with commas "
		       "between them", what, text);
}

void line_filter_release(struct line_filter *f)
{
	free(f->text);
	free(f->words);
	*f = (struct line_filter){.n = 0};
}

int line_filter_matches(const struct line_filter *f, struct slice line)
{
	for (size_t i = 0; i < f->n; i++) {
		if (memmem(line.data, line.len, f->words[i].data,
			   f->words[i].len))
			return 1;
	}
	return 0;
}
