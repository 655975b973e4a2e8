/* prefix.c: filling in a template. */
#include "launcher/prefix.h"

#include <stdio.h>
#include <string.h>

static int is_name_start(char c)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t name_length(const char *p)
{
	size_t n = 0;

	if (!is_name_start(*p))
		return 0;
	while (is_name_start(p[n]) || (p[n] >= '0' && p[n] <= '9'))
		n++;
	return n;
}

/* The value of a name, in room if it is a number; NULL: not known. */
static const char *value_of(struct slice name, const struct prefix_vars *v,
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
		{"node_rank", NULL, v->node_rank},
		{"world_size", NULL, v->world_size},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (strlen(rows[i].name) != name.len ||
		    memcmp(rows[i].name, name.data, name.len) != 0)
			continue;
		if (rows[i].text)
			return rows[i].text;
		snprintf(room, 16, "%u", rows[i].number);
		return room;
	}
	return NULL;
}

static void put_text(struct buf *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		/* escape codes are how people colour their prefixes */
		if (c == '\t' || c == 0x1b || (c >= 0x20 && c != 0x7f))
			buf_put(out, &text[i], 1);
	}
}

/* What the '$' at p stands for; returns how long it is. */
static size_t put_variable(struct buf *out, const char *p,
			   const struct prefix_vars *vars)
{
	int braced = p[1] == '{';
	size_t n = name_length(p + 1 + braced), all = n + 1;
	const char *value = NULL;
	char room[16];

	if (p[1] == '$') {
		put_text(out, "$", 1);
		return 2;
	}
	if (braced)
		all = p[2 + n] == '}' ? n + 3 : 1;
	if (n && all > 1)
		value = value_of(SLICE(p + 1 + braced, n), vars, room);
	if (value)
		put_text(out, value, strlen(value));
	else
		put_text(out, p, n && all > 1 ? all : 1);
	return n && all > 1 ? all : 1;
}

void prefix_put(struct buf *out, const char *template,
		const struct prefix_vars *vars)
{
	while (*template) {
		if (*template == '$') {
			template += put_variable(out, template, vars);
		} else {
			put_text(out, template, 1);
			template++;
		}
	}
}
