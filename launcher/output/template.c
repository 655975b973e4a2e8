/* template.c: finds where a placeholder begins and ends, and replaces the names
 * of a prefix by their values. */
#include "launcher/output/template.h"

#include <stdio.h>
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

/* ---- the prefix of a worker's lines ---- */

/* The value of a name, in room if it is a number; NULL: unknown name. */
static const char *line_prefix_value(const struct template_piece *piece,
				     const struct line_prefix_vars *v,
				     char room[16])
{
	const struct {
		const char *name, *text;
		uint32_t number;
	} rows[] = {
		{"rank", v->rank, 0},
		{"local_rank", v->local_rank, 0},
		{"role_name", v->role_name, 0},
		{"hostname", v->host, 0},
		{"stream", v->stream, 0},
		{"node_rank", NULL, v->node_rank},
		{"world_size", NULL, v->world_size},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (!template_names(piece, rows[i].name))
			continue;
		if (rows[i].text)
			return rows[i].text;
		snprintf(room, 16, "%u", rows[i].number);
		return room;
	}
	return NULL;
}

static void line_prefix_put_text(struct buf *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		/* escape codes are how people colour their prefixes */
		if (c == '\t' || c == 0x1b || (c >= 0x20 && c != 0x7f))
			buf_put(out, &text[i], 1);
	}
}

void line_prefix_put(struct buf *out, const char *template,
		     const struct line_prefix_vars *vars)
{
	struct template_piece piece;
	char room[16];

	while (template_next(&template, &piece)) {
		const char *value = line_prefix_value(&piece, vars, room);

		if (value)
			line_prefix_put_text(out, value, strlen(value));
		else
			line_prefix_put_text(out, piece.text.data,
					     piece.text.len);
	}
}
