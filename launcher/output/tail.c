/* tail.c: the last lines of a stream. */
#include "launcher/output/tail.h"

void tail_init(struct tail *t)
{
	buf_init(&t->text, TAIL_BYTES);
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
	if (line.len > TAIL_BYTES - 1) {
		line.data += line.len - (TAIL_BYTES - 1);
		line.len = TAIL_BYTES - 1;
	}
	while (t->lines && (t->lines == TAIL_LINES ||
			    t->text.len + line.len + 1 > TAIL_BYTES))
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
