/* torch_wire.c: a request is its operation's number, then perhaps a count of
 * items, then strings, then perhaps a number, as the table says. */
#include "rendezvous/torch/torch_wire.h"

#include <assert.h>

struct shape {
	const char *name;
	uint8_t strings; /* in each item of a list, else in all */
	uint8_t list;
	uint8_t tail;    /* bytes of the number after the strings */
};

static const struct shape shapes[] = {
	[TORCH_VALIDATE] = {"VALIDATE", .tail = 4},
	[TORCH_SET] = {"SET", .strings = 2},
	[TORCH_COMPARE_SET] = {"COMPARE_SET", .strings = 3},
	[TORCH_GET] = {"GET", .strings = 1},
	[TORCH_ADD] = {"ADD", .strings = 1, .tail = 8},
	[TORCH_CHECK] = {"CHECK", .strings = 1, .list = 1},
	[TORCH_WAIT] = {"WAIT", .strings = 1, .list = 1},
	[TORCH_GETNUMKEYS] = {"GETNUMKEYS"},
	[TORCH_DELETE_KEY] = {"DELETE_KEY", .strings = 1},
	[TORCH_APPEND] = {"APPEND", .strings = 2},
	[TORCH_MULTI_GET] = {"MULTI_GET", .strings = 1, .list = 1},
	[TORCH_MULTI_SET] = {"MULTI_SET", .strings = 2, .list = 1},
	[TORCH_CANCEL_WAIT] = {"CANCEL_WAIT"},
	[TORCH_PING] = {"PING", .tail = 4},
	[TORCH_QUEUE_PUSH] = {"QUEUE_PUSH", .strings = 2},
	[TORCH_QUEUE_POP] = {"QUEUE_POP", .strings = 1},
	[TORCH_QUEUE_LEN] = {"QUEUE_LEN", .strings = 1},
	[TORCH_LIST_KEYS] = {"LIST_KEYS"},
	[TORCH_BARRIER] = {"BARRIER", .strings = 1, .tail = 8},
	[TORCH_WATCH_KEY] = {"WATCH_KEY", .strings = 1},
};
static_assert(sizeof(shapes) / sizeof(shapes[0]) == TORCH_OPS, "one for each");

/* The numbers of PyTorch 1.13, which end with DELETE_KEY, and of 2.0, which end
 * with CANCEL_WAIT. */
static const enum torch_op old_ops[] = {
	TORCH_SET, TORCH_COMPARE_SET, TORCH_GET, TORCH_ADD, TORCH_CHECK,
	TORCH_WAIT, TORCH_GETNUMKEYS, TORCH_WATCH_KEY, TORCH_DELETE_KEY,
	TORCH_APPEND, TORCH_MULTI_GET, TORCH_MULTI_SET, TORCH_CANCEL_WAIT,
};

enum { OLD_OPS = sizeof(old_ops) / sizeof(old_ops[0]) };

const char *torch_op_name(enum torch_op op)
{
	return shapes[op].name;
}

/* An old SET begins with 0 and its key's length. The length's low bytes never
 * equal the magic's 0xf7ce, which is more than TORCH_KEY_MAX. */
enum torch_generation torch_sniff(struct slice in)
{
	static const unsigned char magic[] = {0xce, 0xf7, 0x85, 0x3c};
	const unsigned char *p = (const unsigned char *)in.data;
	size_t at = in.len && p[0] == TORCH_VALIDATE, same = 0;

	if (!in.len)
		return TORCH_UNKNOWN;
	while (same < 2 && at + same < in.len && p[at + same] == magic[same])
		same++;
	if (same == 2)
		return at ? TORCH_MODERN : TORCH_MAGICAL;
	if (at + same == in.len)
		return TORCH_UNKNOWN;
	return p[0] < OLD_OPS ? TORCH_OLD : TORCH_NOT;
}

/* ---- one request ---- */

static uint64_t torch_wire_u64_at(struct slice in, size_t at)
{
	struct reader r;

	reader_init(&r, SLICE(in.data + at, in.len - at));
	return reader_u64(&r);
}

static int torch_wire_find_op(unsigned char byte, enum torch_generation g,
			      enum torch_op *op, struct err *e)
{
	if (g == TORCH_OLD ? byte >= OLD_OPS : byte >= TORCH_MODERN_OPS)
		return err_set(e, ERR_PROTOCOL,
			       "TCPStore: unknown operation %u", byte);
	*op = g == TORCH_OLD ? old_ops[byte] : (enum torch_op)byte;
	return 0;
}

/* The first string of each item is a key. */
static int torch_wire_is_key(const struct shape *s, uint32_t i)
{
	return s->list ? i % s->strings == 0 : i == 0;
}

static int torch_wire_too_much(const struct shape *s, const char *what,
			       uint64_t n, uint64_t most, struct err *e)
{
	return err_set(e, ERR_PROTOCOL,
		       "TCPStore: %s with %llu %s, but the limit is %llu",
		       s->name, (unsigned long long)n, what,
		       (unsigned long long)most);
}

/* 1: all strings before the tail are complete; 0: not yet; ERR_PROTOCOL. */
static int torch_wire_skip_strings(struct slice in, const struct shape *s,
				   uint64_t n, struct torch_cursor *c,
				   struct err *e)
{
	uint64_t len, most;

	while (c->strings < n) {
		if (in.len - c->at < 8)
			return 0;
		len = torch_wire_u64_at(in, c->at);
		most = torch_wire_is_key(s, c->strings) ? TORCH_KEY_MAX
							: TORCH_VALUE_MAX;
		if (len > most)
			return torch_wire_too_much(
				s,
				torch_wire_is_key(s, c->strings)
					? "bytes of a key"
					: "bytes of a value",
				len, most, e);
		if (c->at + 8 + len > TORCH_REQUEST_MAX)
			return torch_wire_too_much(s, "bytes in all",
						   c->at + 8 + len,
						   TORCH_REQUEST_MAX, e);
		if (in.len - c->at - 8 < len)
			return 0;
		c->at += 8 + len;
		c->strings++;
	}
	return 1;
}

static struct slice torch_wire_text_at(struct slice in, size_t *at)
{
	size_t len = torch_wire_u64_at(in, *at);
	struct slice s = SLICE(in.data + *at + 8, len);

	*at += 8 + len;
	return s;
}

/* The request is complete; its tail begins at the cursor. */
static int torch_wire_fill(struct slice in, const struct shape *s, size_t begin,
			   const struct torch_cursor *c,
			   struct torch_request *r, struct err *e)
{
	struct reader tail;

	if (s->list)
		r->items = SLICE(in.data + begin, c->at - begin);
	for (uint32_t i = 0; !s->list && i < s->strings; i++)
		r->text[i] = torch_wire_text_at(in, &begin);
	reader_init(&tail, SLICE(in.data + c->at, s->tail));
	r->number = s->tail == 8 ? (int64_t)reader_u64(&tail) :
		    s->tail == 4 ? reader_u32(&tail) : 0;
	if (r->op == TORCH_VALIDATE && r->number != TORCH_MAGIC)
		return err_set(e, ERR_PROTOCOL,
			       "TCPStore: VALIDATE with a wrong magic, 0x%llx",
			       (unsigned long long)r->number);
	return 0;
}

long torch_cut(struct slice in, enum torch_generation g,
	       struct torch_cursor *c, struct torch_request *r, struct err *e)
{
	const struct shape *s;
	uint64_t n;
	size_t begin = 1;
	long size;
	int rc;

	if (!in.len)
		return 0;
	*r = (struct torch_request){0};
	rc = torch_wire_find_op((unsigned char)in.data[0], g, &r->op, e);
	if (rc < 0)
		return rc;
	s = &shapes[r->op];
	n = s->strings;
	if (s->list) {
		if (in.len < 9)
			return 0;
		begin = 9;
		n = torch_wire_u64_at(in, 1);
		if (n > TORCH_KEYS_MAX)
			return torch_wire_too_much(s, "keys", n, TORCH_KEYS_MAX,
						   e);
		r->count = (uint32_t)n;
		n *= s->strings;
	}
	if (!c->at)
		c->at = begin;
	rc = torch_wire_skip_strings(in, s, n, c, e);
	if (rc > 0 && in.len - c->at < s->tail)
		rc = 0;
	if (rc > 0)
		rc = torch_wire_fill(in, s, begin, c, r, e) < 0 ? ERR_PROTOCOL
								: 1;
	if (rc <= 0)
		return rc;
	size = (long)(c->at + s->tail);
	*c = (struct torch_cursor){0};
	return size;
}

size_t torch_wants(struct slice in, const struct torch_cursor *c)
{
	size_t end = c->at + 8;

	/* torch_cut has checked it against the limits */
	if (c->at && in.len >= end)
		end += torch_wire_u64_at(in, c->at);
	return end > in.len ? end - in.len : 1;
}

struct slice torch_item(struct reader *r)
{
	uint64_t len = reader_u64(r);
	struct slice s = SLICE(r->p, len);

	if (r->bad || len > reader_left(r)) {
		r->bad = 1;
		return SLICE("", 0);
	}
	r->p += len;
	return s;
}

void torch_put_text(struct buf *b, struct slice s)
{
	buf_put_u64(b, s.len);
	buf_put(b, s.data, s.len);
}
