/* macro.c: expands the only known name, local_rank. */
#include "launcher/plan/macro.h"

#include <stdio.h>
#include <string.h>

#include "launcher/output/template.h"

#define NAME "local_rank"
enum { DIGITS_MAX = 11 };

int macro_occurs(const char *text)
{
	struct template_piece piece;

	while ((text = strchr(text, '$'))) {
		const char *at = text++;

		if (template_next(&at, &piece) && template_names(&piece, NAME))
			return 1;
	}
	return 0;
}

char *macro_expand(const char *text, uint32_t local_rank, char *out)
{
	char number[DIGITS_MAX];
	struct template_piece piece;

	if (!macro_occurs(text))
		return stpcpy(out, text) + 1;
	snprintf(number, sizeof(number), "%u", local_rank);
	while (template_next(&text, &piece)) {
		if (template_names(&piece, NAME))
			out = stpcpy(out, number);
		else
			out = mempcpy(out, piece.text.data, piece.text.len);
	}
	*out++ = '\0';
	return out;
}
