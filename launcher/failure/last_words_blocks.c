/* last_words_blocks.c: sentences of several lines: what is below a heading, and
 * what is in a box, between two rules. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "launcher/failure/last_words_internal.h"

enum {
	KEY_LINES = 8,	     /* "key: value", below a heading */
	PARAGRAPH_LINES = 4, /* below a heading */
	BOX_LINES = 40,
	TEXT_MAX = 2 << 10, /* both ends are shown */
};

/* Lines as one text. */
struct block {
	char text[TEXT_MAX];
	size_t len;
};

static void block_add(struct block *b, struct slice s)
{
	size_t room = sizeof(b->text) - b->len;

	s = last_words_without_marks(s);
	if (!s.len || room < 2)
		return;
	if (b->len) {
		b->text[b->len++] = ' ';
		room--;
	}
	if (s.len > room)
		s.len = room;
	memcpy(b->text + b->len, s.data, s.len);
	b->len += s.len;
}

static void block_put(struct buf *out, const struct block *b)
{
	last_words_put_cut(out, SLICE(b->text, b->len));
}

/* ---- below a heading ---- */

/* The length of "key" in "key: value", or 0. */
static size_t block_key(struct slice s)
{
	size_t n = 0;

	while (n < s.len && (isalnum((unsigned char)s.data[n]) ||
			     s.data[n] == '_'))
		n++;
	return n && n < s.len && s.data[n] == ':' ? n : 0;
}

/* The line with "message: TEXT" among the keys from line at on, or -1. */
static int block_find_message(const struct last_words_lines *ls, int at)
{
	static const char *const names[] = {"message", "msg", "reason",
					    "description"};

	for (int i = at; i < ls->n && i < at + KEY_LINES; i++) {
		size_t n = block_key(ls->line[i]);

		if (!n)
			break;
		for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++)
			if (strlen(names[k]) == n &&
			    !strncasecmp(ls->line[i].data, names[k], n))
				return i;
	}
	return -1;
}

/* The value of the key in line i; YAML's "key: |" has it in the indented lines
 * below it. */
static void block_add_value(struct block *b, const struct last_words_lines *ls,
			    int i)
{
	struct slice s = slice_skip(ls->line[i], block_key(ls->line[i]) + 1);

	while (s.len && s.data[0] == ' ')
		s = slice_skip(s, 1);
	if (s.len > 2 || !s.len || !strchr("|>", s.data[0]))
		block_add(b, s);
	else
		while (++i < ls->n && !ls->gap[i] &&
		       last_words_is_indented(ls->line[i]))
			block_add(b, ls->line[i]);
}

/* s without the prefix that both lines have, which ends with ": ". */
static struct slice block_without_prefix(struct slice s, struct slice heading)
{
	size_t n = 0, end = 0;

	while (n < s.len && n < heading.len && s.data[n] == heading.data[n])
		if (s.data[n++] == ' ' && n > 1 && s.data[n - 2] == ':')
			end = n;
	return slice_skip(s, end);
}

void last_words_put_below(struct buf *out, const struct last_words_lines *ls,
			  int i)
{
	struct block b = {.len = 0};
	int message = block_find_message(ls, i + 1), from = i;

	if (message >= 0)
		block_add_value(&b, ls, message);
	while (!b.len && ++i < ls->n)
		block_add(&b, block_without_prefix(ls->line[i],
						   ls->line[from]));
	if (!b.len)
		return;
	from = i;
	while (message < 0 && ++i < ls->n && i < from + PARAGRAPH_LINES &&
	       !ls->gap[i] && !last_words_is_new(ls, i))
		block_add(&b, ls->line[i]);
	buf_printf(out, " ");
	block_put(out, &b);
}

/* ---- boxes ---- */

/* Whether a rule is before line i, or after the last one. */
static int block_is_rule(const struct last_words_lines *ls, int i)
{
	return i < LINES_MAX && (ls->gap[i] & GAP_RULE);
}

int last_words_put_box(struct buf *out, const struct last_words_lines *ls,
		       int n, int max)
{
	struct block b = {.len = 0};
	int end = n, from, is_error = max == 0;

	while (end > 0 && !block_is_rule(ls, end))
		end--;
	for (from = end - 1; from > 0 && !block_is_rule(ls, from); from--)
		;
	if (end < 1 || n - end > max || end - from > BOX_LINES ||
	    !block_is_rule(ls, from))
		return 0;
	is_error |= ls->gap[from] & GAP_ERROR;
	if (from > 0 && ls->line[from - 1].data[ls->line[from - 1].len - 1] ==
				':')
		from--;
	for (int i = from; i < end; i++) {
		if (i > from && last_words_is_heading(ls->line[i]))
			break; /* a stack follows */
		is_error |= last_words_is_likely(ls->line[i]);
		block_add(&b, ls->line[i]);
	}
	if (is_error)
		block_put(out, &b);
	return is_error && b.len;
}
