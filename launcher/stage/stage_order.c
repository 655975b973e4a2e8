/* stage_order.c: both directions of the two pipes. */
#include "launcher/stage/stage_order.h"

#include <errno.h>
#include <stdlib.h>

void stage_order_put(struct buf *out, const struct stage_order *o)
{
	buf_put_slice(out, o->source);
	buf_put_slice(out, o->folder);
	buf_put_slice(out, o->copy);
	buf_put_slice(out, o->addr);
	buf_put_u16(out, o->port);
	buf_put_slice(out, o->name);
	buf_put(out, o->token.bytes, PROOF_SIZE);
	buf_put_u8(out, o->serves);
	buf_put(out, o->own.bytes, PROOF_SIZE);
	buf_put(out, o->shared.bytes, PROOF_SIZE);
}

static void order_get_token(struct reader *r, struct proof *token)
{
	for (int i = 0; i < PROOF_SIZE; i++)
		token->bytes[i] = reader_u8(r);
}

int stage_order_get(struct stage_order *o, struct slice in)
{
	struct reader r;

	reader_init(&r, in);
	o->source = reader_slice(&r);
	o->folder = reader_slice(&r);
	o->copy = reader_slice(&r);
	o->addr = reader_slice(&r);
	o->port = reader_u16(&r);
	o->name = reader_slice(&r);
	order_get_token(&r, &o->token);
	o->serves = reader_u8(&r);
	order_get_token(&r, &o->own);
	order_get_token(&r, &o->shared);
	return r.bad || reader_left(&r) ? -1 : 0;
}

/* Cuts a number and the blank after it off the text. */
static int report_number(struct slice *text, int64_t *value)
{
	char digits[24];
	const char *blank = memchr(text->data, ' ', text->len);
	size_t n = blank ? (size_t)(blank - text->data) : text->len;
	char *end;

	if (!n || n >= sizeof(digits))
		return -1;
	memcpy(digits, text->data, n);
	digits[n] = '\0';
	errno = 0;
	*value = strtoll(digits, &end, 10);
	if (*end || errno)
		return -1;
	n += blank != NULL;
	*text = SLICE(text->data + n, text->len - n);
	return 0;
}

int stage_report_parse(struct stage_report *r, struct slice line)
{
	int64_t first = 0, second = 0;
	int rc = 0;

	if (!line.len || (line.len > 1 && line.data[1] != ' '))
		return -1;
	*r = (struct stage_report){.kind = line.data[0]};
	r->text = line.len > 2 ? SLICE(line.data + 2, line.len - 2)
			       : SLICE("", 0);
	if (strchr("LPDE", r->kind))
		rc = report_number(&r->text, &first);
	else if (r->kind != 'N' && r->kind != 'A')
		return -1;
	if (rc == 0 && r->kind == 'L')
		rc = report_number(&r->text, &second);
	if (rc < 0 || second < 0 || second > UINT32_MAX ||
	    (r->kind != 'E' && first < 0))
		return -1;
	r->bytes = (uint64_t)first;
	r->number = (int)first;
	r->files = (uint32_t)second;
	return 0;
}
