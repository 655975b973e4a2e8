/* remote_frame.c: parses and writes records, frames and bodies. */
#include "launcher/ssh/remote_frame.h"

#include <string.h>

static const char mark[] = "\2ddprun ";

enum { MARK = sizeof(mark) - 1 };

long remote_frame_cut(struct slice in, struct remote_frame *f, struct err *e)
{
	struct reader r;
	uint32_t n;

	if (in.len < REMOTE_HEAD)
		return 0;
	reader_init(&r, in);
	n = reader_u32(&r);
	f->type = reader_u8(&r);
	f->host = reader_u32(&r);
	if (n > REMOTE_BODY_MAX || !f->type || f->type >= REMOTE_TYPES)
		return err_set(e, ERR_PROTOCOL,
			       "unexpected data over ssh, not from ddprun "
			       "(type %u, %u bytes)",
			       f->type, n);
	if (in.len - REMOTE_HEAD < n)
		return 0;
	f->body = SLICE(in.data + REMOTE_HEAD, n);
	f->bytes = SLICE(in.data, REMOTE_HEAD + n);
	return REMOTE_HEAD + (long)n;
}

void remote_frame_put(struct buf *b, uint8_t type, uint32_t host,
		      struct slice body)
{
	buf_put_u32(b, (uint32_t)body.len);
	buf_put_u8(b, type);
	buf_put_u32(b, host);
	buf_put(b, body.data, body.len);
}

/* ---- before the frames ---- */

static int remote_record_skip(struct slice *text, const char *with)
{
	size_t n = strlen(with);

	if (text->len < n || memcmp(text->data, with, n) != 0)
		return 0;
	*text = SLICE(text->data + n, text->len - n);
	return 1;
}

/* REMOTE_MORE if text begins with no known word. */
static enum remote_word remote_record_word(struct slice *text)
{
	static const struct {
		const char *text;
		enum remote_word word;
	} words[] = {
		{"far", REMOTE_FAR}, {"copied", REMOTE_COPIED},
		{"need ", REMOTE_NEED}, {"machine ", REMOTE_MACHINE},
		{"fail ", REMOTE_FAIL},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (remote_record_skip(text, words[i].text))
			return words[i].word;
	}
	return REMOTE_MORE;
}

/* The offset of the mark, or of its beginning at the end of in; in.len: none.
 */
static size_t remote_record_find_mark(struct slice in, size_t from)
{
	for (; from < in.len; from++) {
		size_t left = in.len - from;

		if (left > MARK)
			left = MARK;
		if (memcmp(in.data + from, mark, left) == 0)
			break;
	}
	return from;
}

void remote_record_find(struct slice in, struct remote_record *r)
{
	size_t at = remote_record_find_mark(in, 0);

	*r = (struct remote_record){.word = REMOTE_MORE};
	for (; at < in.len; at = remote_record_find_mark(in, at + 1)) {
		size_t left = in.len - at;
		const char *end = left < MARK ? NULL
			: memchr(in.data + at, 3, left < REMOTE_RECORD_MAX
						  ? left : REMOTE_RECORD_MAX);
		struct slice text;

		r->noise = r->size = at;
		if (!end && left < REMOTE_RECORD_MAX)
			return;
		if (!end)
			continue;
		text = SLICE(in.data + at + MARK,
			     (size_t)(end - in.data) - at - MARK);
		r->word = remote_record_word(&text);
		r->rest = text;
		r->size = (size_t)(end - in.data) + 1;
		if (r->word != REMOTE_MORE)
			return;
	}
	r->noise = r->size = in.len;
}

/* ---- bodies ---- */

void remote_list_add(struct buf *texts, const char *text)
{
	buf_put(texts, text, strlen(text) + 1);
}

const char *remote_list_next(const struct remote_list *l, size_t *at)
{
	const char *text = l->texts.data + *at;

	if (*at >= l->texts.len)
		return NULL;
	*at += strlen(text) + 1;
	return text;
}

/* A list whose last text is not terminated is bad. */
static struct remote_list remote_list_get(struct reader *r)
{
	struct slice s = reader_slice(r);

	if (s.len && s.data[s.len - 1])
		r->bad = 1;
	return (struct remote_list){s};
}

static int remote_body_check(const struct reader *r)
{
	return r->bad || reader_left(r) ? -1 : 0;
}

void remote_job_put(struct buf *b, const struct remote_job *j)
{
	buf_put_u8(b, j->check);
	buf_put_u8(b, j->lends_terminal);
	remote_window_put(b, &j->window);
	buf_put_u32(b, j->silent_ms);
	buf_put_u32(b, j->grace_ms);
	buf_put_slice(b, j->dir);
	buf_put_slice(b, j->secret);
	buf_put_slice(b, j->options.texts);
	buf_put_slice(b, j->words.texts);
	buf_put_slice(b, j->environment.texts);
}

int remote_job_get(struct slice body, struct remote_job *j)
{
	struct reader r;

	reader_init(&r, body);
	j->check = reader_u8(&r);
	j->lends_terminal = reader_u8(&r);
	j->window.rows = reader_u32(&r);
	j->window.columns = reader_u32(&r);
	j->silent_ms = reader_u32(&r);
	j->grace_ms = reader_u32(&r);
	j->dir = reader_slice(&r);
	j->secret = reader_slice(&r);
	j->options = remote_list_get(&r);
	j->words = remote_list_get(&r);
	j->environment = remote_list_get(&r);
	return remote_body_check(&r);
}

void remote_branch_put(struct buf *b, const struct remote_branch *m)
{
	buf_put_u32(b, m->width);
	buf_put_u32(b, m->timeout_ms);
	buf_put_u32(b, m->silent_ms);
	buf_put_slice(b, m->ssh);
	buf_put_slice(b, m->args.texts);
	buf_put_slice(b, m->hosts.texts);
}

int remote_branch_get(struct slice body, struct remote_branch *m)
{
	struct reader r;

	reader_init(&r, body);
	m->width = reader_u32(&r);
	m->timeout_ms = reader_u32(&r);
	m->silent_ms = reader_u32(&r);
	m->ssh = reader_slice(&r);
	m->args = remote_list_get(&r);
	m->hosts = remote_list_get(&r);
	return remote_body_check(&r);
}

void remote_ready_put(struct buf *b, const struct remote_ready *m)
{
	buf_put_u32(b, m->code);
	buf_put_slice(b, m->text);
	buf_put_slice(b, m->host);
	buf_put_slice(b, m->addr);
	buf_put_u32(b, m->nproc);
	buf_put_u32(b, m->cpus);
	buf_put_u32(b, m->gpus);
	buf_put_u64(b, m->unix_ms);
}

int remote_ready_get(struct slice body, struct remote_ready *m)
{
	struct reader r;

	reader_init(&r, body);
	m->code = reader_u32(&r);
	m->text = reader_slice(&r);
	m->host = reader_slice(&r);
	m->addr = reader_slice(&r);
	m->nproc = reader_u32(&r);
	m->cpus = reader_u32(&r);
	m->gpus = reader_u32(&r);
	m->unix_ms = reader_u64(&r);
	return remote_body_check(&r);
}

void remote_window_put(struct buf *b, const struct remote_window *w)
{
	buf_put_u32(b, w->rows);
	buf_put_u32(b, w->columns);
}

int remote_window_get(struct slice body, struct remote_window *w)
{
	struct reader r;

	reader_init(&r, body);
	w->rows = reader_u32(&r);
	w->columns = reader_u32(&r);
	return remote_body_check(&r);
}

int remote_u32_get(struct slice body, uint32_t *n)
{
	struct reader r;

	reader_init(&r, body);
	*n = reader_u32(&r);
	return remote_body_check(&r);
}
