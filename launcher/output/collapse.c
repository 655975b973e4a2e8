/* collapse.c: holds each line until the other ranks have printed it as well.
 *
 * Lines are emitted in the order of their numbers. A rank joins only a line
 * with a higher number than that of its own last line, or else adds a line at
 * the end: so its lines are emitted in the order in which it printed them. */
#include "launcher/output/collapse.h"

#include <errno.h>
#include <stdlib.h>

enum { WORD_BITS = 64, KEEP_BYTES = 1024 };

static size_t collapse_words(const struct collapse *c)
{
	return (c->n + WORD_BITS - 1) / WORD_BITS;
}

int collapse_init(struct collapse *c, uint32_t n, collapse_emit emit,
		  void *arg)
{
	*c = (struct collapse){.n = n, .emit = emit, .arg = arg};
	c->last = calloc(n, sizeof(*c->last));
	c->bits = calloc(COLLAPSE_LINES * collapse_words(c), sizeof(*c->bits));
	for (size_t i = 0; i < COLLAPSE_LINES; i++) {
		buf_init(&c->lines[i].text, COLLAPSE_BYTES);
		c->lines[i].who =
			c->bits ? c->bits + i * collapse_words(c) : NULL;
	}
	if (c->last && c->bits)
		return 0;
	collapse_release(c);
	return -ENOMEM;
}

void collapse_release(struct collapse *c)
{
	for (size_t i = 0; i < COLLAPSE_LINES; i++)
		buf_release(&c->lines[i].text);
	free(c->last);
	free(c->bits);
	c->last = c->bits = NULL;
}

static struct collapse_line *collapse_line_at(struct collapse *c,
					      uint64_t number)
{
	return &c->lines[number % COLLAPSE_LINES];
}

static void collapse_pop(struct collapse *c)
{
	struct collapse_line *line = collapse_line_at(c, c->first);

	c->emit(c->arg, line);
	c->bytes -= line->text.len;
	memset(line->who, 0, collapse_words(c) * sizeof(*line->who));
	if (line->text.cap > KEEP_BYTES)
		buf_release(&line->text);
	else
		buf_reset(&line->text);
	c->first++;
}

static void collapse_pop_complete(struct collapse *c)
{
	while (c->first < c->next && !collapse_line_at(c, c->first)->missing)
		collapse_pop(c);
}

static int collapse_line_has(const struct collapse_line *line, uint32_t i)
{
	return line->who[i / WORD_BITS] >> i % WORD_BITS & 1;
}

void collapse_open(struct collapse *c, uint32_t i)
{
	c->open++;
}

void collapse_close(struct collapse *c, uint32_t i)
{
	c->open--;
	for (uint64_t at = c->first; at < c->next; at++) {
		struct collapse_line *line = collapse_line_at(c, at);

		if (line->missing && !collapse_line_has(line, i))
			line->missing--;
	}
	collapse_pop_complete(c);
}

/* FNV-1a by words: only to distinguish most different lines quickly. */
static uint64_t collapse_hash(struct slice text)
{
	uint64_t h = 14695981039346656037u ^ text.len, word;
	size_t i = 0;

	for (; i + sizeof(word) <= text.len; i += sizeof(word)) {
		memcpy(&word, text.data + i, sizeof(word));
		h = (h ^ word) * 1099511628211u;
	}
	for (; i < text.len; i++)
		h = (h ^ (unsigned char)text.data[i]) * 1099511628211u;
	return h;
}

static struct collapse_line *collapse_find(struct collapse *c, uint64_t from,
					   struct slice text, int flags,
					   uint64_t hash, uint64_t *number)
{
	for (uint64_t at = from; at < c->next; at++) {
		struct collapse_line *line = collapse_line_at(c, at);

		if (line->hash != hash || line->flags != flags ||
		    line->text.len != text.len ||
		    (text.len &&
		     memcmp(line->text.data, text.data, text.len) != 0))
			continue;
		*number = at;
		return line;
	}
	return NULL;
}

static struct collapse_line *collapse_append(struct collapse *c,
					     struct slice text, int flags,
					     uint64_t hash, uint64_t now_ms)
{
	struct collapse_line *line;

	while (c->first < c->next &&
	       (c->next - c->first == COLLAPSE_LINES ||
		c->bytes + text.len > COLLAPSE_BYTES))
		collapse_pop(c);
	line = collapse_line_at(c, c->next);
	buf_put(&line->text, text.data, text.len);
	line->text.failed = 0; /* out of memory: an empty line shows that */
	c->bytes += line->text.len;
	line->flags = flags;
	line->hash = hash;
	line->missing = c->open;
	line->until_ms = now_ms + COLLAPSE_HOLD_MS;
	c->next++;
	return line;
}

void collapse_add(struct collapse *c, uint32_t i, struct slice text, int flags,
		  uint64_t now_ms)
{
	uint64_t from = c->last[i] > c->first ? c->last[i] : c->first;
	uint64_t hash = collapse_hash(text), number;
	struct collapse_line *line = collapse_find(c, from, text, flags, hash,
						   &number);

	if (!line) {
		line = collapse_append(c, text, flags, hash, now_ms);
		number = c->next - 1;
	}
	line->who[i / WORD_BITS] |= (uint64_t)1 << i % WORD_BITS;
	if (line->missing)
		line->missing--;
	c->last[i] = number + 1;
	collapse_pop_complete(c);
}

void collapse_expire(struct collapse *c, uint64_t now_ms)
{
	while (c->first < c->next &&
	       collapse_line_at(c, c->first)->until_ms <= now_ms)
		collapse_pop(c);
	collapse_pop_complete(c);
}

void collapse_flush(struct collapse *c)
{
	while (c->first < c->next)
		collapse_pop(c);
}

int collapse_holds(const struct collapse *c, uint64_t *until_ms)
{
	if (c->first == c->next)
		return 0;
	*until_ms = c->lines[c->first % COLLAPSE_LINES].until_ms;
	return 1;
}

void collapse_put_ranks(struct buf *out, const struct collapse *c,
			const struct collapse_line *line, uint32_t base)
{
	const char *comma = "";

	for (uint32_t i = 0; i < c->n; i++) {
		uint32_t first = i;

		if (!collapse_line_has(line, i))
			continue;
		while (i + 1 < c->n && collapse_line_has(line, i + 1))
			i++;
		buf_printf(out, "%s%u", comma, base + first);
		if (i > first)
			buf_printf(out, "-%u", base + i);
		comma = ",";
	}
	if (buf_reserve(out, 1))
		out->data[out->len] = '\0';
}
