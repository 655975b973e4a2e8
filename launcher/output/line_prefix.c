/* line_prefix.c: replaces the names of a template by their values. */
#include "launcher/output/line_prefix.h"

#include <stdio.h>
#include <string.h>

#include "launcher/output/template.h"

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
