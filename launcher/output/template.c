/* template.c: finds where a placeholder begins and ends. */
#include "launcher/output/template.h"

#include <string.h>

static int template_is_name_start(char c)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t template_name_length(const char *p)
{
	size_t n = 0;

	if (!template_is_name_start(*p))
		return 0;
	while (template_is_name_start(p[n]) || (p[n] >= '0' && p[n] <= '9'))
		n++;
	return n;
}

/* Takes the placeholder that begins with the $ at p; returns its length. */
static size_t template_take_dollar(const char *p, struct template_piece *piece)
{
	int braced = p[1] == '{';
	const char *name = p + 1 + braced;
	size_t n = template_name_length(name), all = 1 + n;

	piece->text = SLICE(p, 1);
	if (p[1] == '$')
		return 2;
	if (n == 0 || (braced && name[n] != '}'))
		return 1;
	if (braced)
		all += 2;
	piece->text = SLICE(p, all);
	piece->name = SLICE(name, n);
	return all;
}

int template_next(const char **template, struct template_piece *piece)
{
	const char *p = *template;
	size_t n = strcspn(p, "$");

	*piece = (struct template_piece){.text = SLICE(p, n)};
	if (n == 0 && *p)
		n = template_take_dollar(p, piece);
	*template = p + n;
	return n > 0;
}

int template_names(const struct template_piece *piece, const char *name)
{
	return piece->name.len == strlen(name) &&
	       memcmp(piece->name.data, name, piece->name.len) == 0;
}
