/* bootstrap_record.c: encodes and decodes the record. */
#include "pmi/bootstrap_record.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

enum { BYTES_MAX = (BOOTSTRAP_TEXT_MAX - 1) / 2, WHY_MAX = 300 };

void bootstrap_record_put(const struct bootstrap_record *p, char *text)
{
	char bytes[BYTES_MAX + SOCK_HOST_MAX + 6];
	struct slice job = SLICE_STR(p->job), why = SLICE_STR(p->why.text);
	struct buf b;

	if (why.len > WHY_MAX)
		why.len = WHY_MAX;
	buf_init(&b, sizeof(bytes));
	buf_put_u32(&b, (uint32_t)p->why.code);
	buf_put_slice(&b, p->why.code ? why : job);
	if (!p->why.code)
		buf_put(&b, p->key, sizeof(p->key));
	for (int i = 0; i < p->n && !p->why.code; i++) {
		struct slice host = SLICE_STR(p->at[i].host);

		if (b.len + 4 + host.len + 2 > BYTES_MAX)
			continue;
		buf_put_slice(&b, host);
		buf_put_u16(&b, p->at[i].port);
	}
	text[0] = 0;
	for (size_t i = 0; i < b.len && !b.failed; i++)
		snprintf(text + 2 * i, 3, "%02x", (unsigned char)b.data[i]);
	buf_release(&b);
}

static int bootstrap_record_digit(char c)
{
	const char *all = "0123456789abcdef", *at = c ? strchr(all, c) : NULL;

	return at ? (int)(at - all) : -1;
}

static int bootstrap_record_take_text(struct slice s, char *out, size_t size)
{
	if (s.len >= size || memchr(s.data, 0, s.len))
		return -1;
	memcpy(out, s.data, s.len);
	out[s.len] = 0;
	return 0;
}

static int bootstrap_record_parse(struct bootstrap_record *p, struct reader *r)
{
	struct slice s;
	int bad;

	p->why.code = (int)reader_u32(r);
	s = reader_slice(r);
	if (r->bad)
		return -1;
	if (p->why.code)
		return p->why.code > 0 || reader_left(r) ||
		       bootstrap_record_take_text(s, p->why.text,
						  sizeof(p->why.text));
	bad = bootstrap_record_take_text(s, p->job, sizeof(p->job));
	for (size_t i = 0; i < sizeof(p->key); i++)
		p->key[i] = reader_u8(r);
	for (; !bad && reader_left(r); p->n++) {
		s = reader_slice(r);
		bad = p->n == BOOTSTRAP_PLACES_MAX || r->bad || !s.len ||
		      bootstrap_record_take_text(s, p->at[p->n].host,
						 SOCK_HOST_MAX);
		if (!bad)
			p->at[p->n].port = reader_u16(r);
		bad |= r->bad;
	}
	return bad || !p->n;
}

int bootstrap_record_get(struct bootstrap_record *p, const char *text,
			 struct err *e)
{
	char bytes[BYTES_MAX];
	size_t len = strlen(text);
	struct reader r;
	int bad = len % 2 || len / 2 > sizeof(bytes);

	memset(p, 0, sizeof(*p));
	for (size_t i = 0; !bad && i < len; i += 2) {
		int high = bootstrap_record_digit(text[i]),
		    low = bootstrap_record_digit(text[i + 1]);

		bad = high < 0 || low < 0;
		bytes[i / 2] = (char)(high * 16 + low);
	}
	reader_init(&r, SLICE(bytes, bad ? 0 : len / 2));
	if (!bad && !bootstrap_record_parse(p, &r))
		return 0;
	return err_set(
		e, ERR_PROTOCOL,
		"the address that rank 0 sent through the launcher does not "
		"parse ('%.100s'): start all ranks with the same version",
		text);
}
