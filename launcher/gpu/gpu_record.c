/* gpu_record.c: "gpu INDEX UUID NUMBERS... NAME", "xid INDEX XID INSTANCE",
 * "end", "note TEXT", "fail TEXT". */
#include "launcher/gpu/gpu_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gpu_record_init(struct gpu_record *r, uint32_t index)
{
	memset(r, 0, sizeof(*r));
	r->index = index;
#define F(field) r->field = -1;
	GPU_NUMBERS(F)
#undef F
}

/* ---- writing ---- */

/* A word without spaces, "-" if it is empty. */
static void gpu_record_put_word(struct buf *out, const char *word)
{
	buf_put(out, " ", 1);
	if (!*word)
		buf_put(out, "-", 1);
	for (; *word; word++)
		buf_put(out, (unsigned char)*word > ' ' ? word : "_", 1);
}

static void gpu_record_put_rest(struct buf *out, const char *text)
{
	buf_put(out, " ", 1);
	for (; *text; text++)
		buf_put(out, (unsigned char)*text >= ' ' ? text : " ", 1);
	buf_put(out, "\n", 1);
}

void gpu_record_put(struct buf *out, const struct gpu_record *r)
{
	buf_printf(out, "gpu %u", r->index);
	gpu_record_put_word(out, r->uuid);
#define F(field) buf_printf(out, " %lld", (long long)r->field);
	GPU_NUMBERS(F)
#undef F
	gpu_record_put_rest(out, r->name);
}

void gpu_record_put_xid(struct buf *out, uint32_t index, uint32_t xid,
			uint32_t instance)
{
	buf_printf(out, "xid %u %u %u\n", index, xid, instance);
}

void gpu_record_put_end(struct buf *out)
{
	buf_printf(out, "end\n");
}

void gpu_record_put_text(struct buf *out, int is_failure, const char *text)
{
	buf_printf(out, "%s", is_failure ? "fail" : "note");
	gpu_record_put_rest(out, text);
}

/* ---- parsing ---- */

struct gpu_words {
	char *at;
	int bad;
};

/* The next word, "" at the end. */
static char *gpu_words_next(struct gpu_words *w)
{
	char *word = w->at;

	w->at += strcspn(w->at, " ");
	if (*w->at)
		*w->at++ = '\0';
	w->bad |= !*word;
	return word;
}

static int64_t gpu_words_number(struct gpu_words *w, int64_t least,
				int64_t most)
{
	char *word = gpu_words_next(w), *end;
	long long n;

	errno = 0;
	n = strtoll(word, &end, 10);
	w->bad |= errno || end == word || *end || n < least || n > most;
	return w->bad ? least : n;
}

static int gpu_line_parse_record(struct gpu_words *w, struct gpu_record *r)
{
	const char *uuid;

	gpu_record_init(r, (uint32_t)gpu_words_number(w, 0,
						      GPU_WATCHED_MAX - 1));
	uuid = gpu_words_next(w);
	w->bad |= strlen(uuid) >= sizeof(r->uuid);
	if (!w->bad && strcmp(uuid, "-") != 0)
		memcpy(r->uuid, uuid, strlen(uuid) + 1);
#define F(field) r->field = gpu_words_number(w, -1, INT64_MAX);
	GPU_NUMBERS(F)
#undef F
	w->bad |= strlen(w->at) >= sizeof(r->name);
	if (!w->bad)
		memcpy(r->name, w->at, strlen(w->at) + 1);
	return w->bad ? -1 : 0;
}

static int gpu_line_parse_xid(struct gpu_words *w, struct gpu_line *l)
{
	l->index = (uint32_t)gpu_words_number(w, 0, GPU_WATCHED_MAX - 1);
	l->xid = (uint32_t)gpu_words_number(w, 0, UINT32_MAX);
	l->instance = (uint32_t)gpu_words_number(w, 0, UINT32_MAX);
	return w->bad || *w->at ? -1 : 0;
}

int gpu_line_parse(struct slice line, struct gpu_line *l)
{
	char text[GPU_LINE_MAX];
	struct gpu_words w = {text, 0};
	const char *kind;

	if (line.len >= sizeof(text) || memchr(line.data, '\0', line.len))
		return -1;
	memcpy(text, line.data, line.len);
	text[line.len] = '\0';
	kind = gpu_words_next(&w);
	if (strcmp(kind, "gpu") == 0) {
		l->kind = GPU_LINE_RECORD;
		return gpu_line_parse_record(&w, &l->record);
	}
	if (strcmp(kind, "xid") == 0) {
		l->kind = GPU_LINE_XID;
		return gpu_line_parse_xid(&w, l);
	}
	if (strcmp(kind, "end") == 0) {
		l->kind = GPU_LINE_END;
		return *w.at ? -1 : 0;
	}
	if (strcmp(kind, "note") != 0 && strcmp(kind, "fail") != 0)
		return -1;
	l->kind = *kind == 'n' ? GPU_LINE_NOTE : GPU_LINE_FAIL;
	snprintf(l->text, sizeof(l->text), "%s", w.at);
	return 0;
}
