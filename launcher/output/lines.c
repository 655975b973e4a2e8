/* lines.c: the line cutter, and the last lines of a stream. */
#include "launcher/output/lines.h"

enum { KEEP_BYTES = 1024 }; /* memory kept for the next unfinished line */

void lines_init(struct lines *l)
{
	buf_init(&l->part, LINES_MAX);
	l->begun = l->redrawn = 0;
	l->shown = 0;
}

void lines_release(struct lines *l)
{
	buf_release(&l->part);
}

static void lines_emit_part(struct lines *l, int open, lines_emit emit,
			    void *arg)
{
	int flags = (l->begun ? LINES_BEGUN : 0) | (open ? LINES_OPEN : 0);
	struct slice text = SLICE(l->part.data, l->part.len);

	if (l->shown) { /* LINES_DRAWN has emitted what was drawn over */
		flags |= l->part.len == l->shown && !open ? LINES_SHOWN : 0;
		text = lines_last_segment(text);
	}
	emit(arg, text, flags);
	l->begun = open;
	l->redrawn = 0;
	l->shown = 0;
	/* hundreds of workers with full buffers would use too much memory */
	if (l->part.cap > KEEP_BYTES)
		buf_release(&l->part);
	else
		buf_reset(&l->part);
}

/* Keeps the start of a line; emits it in pieces if it exceeds LINES_MAX. */
static void lines_keep(struct lines *l, struct slice data, lines_emit emit,
		       void *arg)
{
	while (data.len) {
		size_t room = LINES_MAX - l->part.len;
		size_t n = data.len < room ? data.len : room;

		buf_put(&l->part, data.data, n);
		if (l->part.failed) { /* out of memory: emit what we have */
			l->part.failed = 0;
			lines_emit_part(l, 1, emit, arg);
			emit(arg, SLICE(data.data, n),
			     LINES_BEGUN | LINES_OPEN);
		}
		data = SLICE(data.data + n, data.len - n);
		if (l->part.len == LINES_MAX)
			lines_emit_part(l, 1, emit, arg);
	}
}

void lines_feed(struct lines *l, struct slice data, lines_emit emit, void *arg)
{
	while (data.len) {
		const char *end = memchr(data.data, '\n', data.len);
		size_t n = end ? (size_t)(end - data.data) : data.len;

		if (!end || l->part.len || l->begun || n > LINES_MAX)
			lines_keep(l, SLICE(data.data, n), emit, arg);
		else
			emit(arg, SLICE(data.data, n), 0);
		if (!end)
			return;
		/* a line that was cut exactly at its end gets an empty last
		 * piece, which marks the end */
		if (l->part.len || l->begun)
			lines_emit_part(l, 0, emit, arg);
		data = SLICE(end + 1, data.len - n - 1);
	}
}

void lines_end(struct lines *l, lines_emit emit, void *arg)
{
	if (l->part.len || l->begun)
		lines_emit_part(l, 0, emit, arg);
}

struct slice lines_last_segment(struct slice text)
{
	while (text.len && text.data[text.len - 1] == '\r')
		text.len--;
	for (size_t i = text.len; i > 0; i--) {
		if (text.data[i - 1] == '\r')
			return SLICE(text.data + i, text.len - i);
	}
	return text;
}

int lines_is_redrawn(const struct lines *l)
{
	return l->redrawn ||
	       (l->part.len && memchr(l->part.data, '\r', l->part.len));
}

/* Removes what was drawn over. */
static struct slice lines_drop_old(struct lines *l)
{
	struct slice last =
		lines_last_segment(SLICE(l->part.data, l->part.len));

	if (last.data > l->part.data)
		buf_consume(&l->part, (size_t)(last.data - l->part.data));
	l->redrawn = 1;
	return SLICE(l->part.data, last.len);
}

struct slice lines_redrawn(struct lines *l)
{
	if (!l->part.len || !lines_is_redrawn(l))
		return SLICE(NULL, 0);
	return lines_drop_old(l);
}

size_t lines_held(const struct lines *l)
{
	return l->part.len - l->shown;
}

void lines_show(struct lines *l, lines_emit emit, void *arg)
{
	struct slice before = lines_last_segment(SLICE(l->part.data, l->shown));
	struct slice text =
		lines_last_segment(SLICE(l->part.data, l->part.len));
	int same = l->shown && text.len == before.len &&
		   memcmp(text.data, before.data, text.len) == 0;

	if (!lines_held(l))
		return;
	if (!lines_is_redrawn(l)) {
		lines_emit_part(l, 1, emit, arg);
		return;
	}
	text = lines_drop_old(l);
	l->shown = l->part.len;
	l->begun = 0;
	if (text.len && !same)
		emit(arg, text, LINES_DRAWN);
}

/* ---- the last lines ---- */

void tail_init(struct tail *t, size_t max)
{
	buf_init(&t->text, max);
	t->lines = 0;
}

void tail_release(struct tail *t)
{
	buf_release(&t->text);
	t->lines = 0;
}

void tail_clear(struct tail *t)
{
	buf_reset(&t->text);
	t->lines = 0;
}

static void tail_drop_first(struct tail *t)
{
	const char *end = memchr(t->text.data, '\n', t->text.len);

	buf_consume(&t->text, (size_t)(end - t->text.data) + 1);
	t->lines--;
}

void tail_add(struct tail *t, struct slice line)
{
	size_t max = t->text.max;

	if (line.len > max - 1) {
		line.data += line.len - (max - 1);
		line.len = max - 1;
	}
	while (t->lines && (t->lines == TAIL_LINES ||
			    t->text.len + line.len + 1 > max))
		tail_drop_first(t);
	if (!buf_reserve(&t->text, line.len + 1)) {
		t->text.failed = 0; /* out of memory: leave the line out */
		return;
	}
	buf_put(&t->text, line.data, line.len);
	buf_put(&t->text, "\n", 1);
	t->lines++;
}

struct slice tail_text(const struct tail *t)
{
	return SLICE(t->text.data ? t->text.data : "", t->text.len);
}

struct slice tail_last(struct slice text, uint32_t n)
{
	size_t from = text.len;

	if (n && from && text.data[from - 1] == '\n')
		from--;
	while (n && from && (text.data[from - 1] != '\n' || --n))
		from--;
	return SLICE(text.data + from, text.len - from);
}
