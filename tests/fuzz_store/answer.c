/* answer.c: decodes answers into acts on keys. */
#include <stdio.h>
#include <string.h>

#include "tests/fuzz_store/request.h"

enum { SEEN_MAX = 8 << 10, T_WOKEN = 0, T_CANCELED = 1 };

static const uint8_t act_of[] = {
	[R_SET] = ACT_SET, [R_GET] = ACT_GET, [R_ADD] = ACT_ADD,
	[R_COMPARE_SET] = ACT_COMPARE_SET, [R_APPEND] = ACT_APPEND,
	[R_DELETE] = ACT_DELETE, [R_WAIT] = ACT_HAS, [R_MULTI_SET] = ACT_SET,
	[R_MULTI_GET] = ACT_GET, [R_PUSH] = ACT_PUSH, [R_POP] = ACT_POP,
	[R_LENGTH] = ACT_LENGTH,
};

static struct act act_on(const struct request *r, uint32_t i, int answer)
{
	return (struct act){.number = r->number, .key = r->keys[i],
			    .kind = act_of[r->kind], .answer = (uint8_t)answer,
			    .a = r->a[i], .b = r->b, .delta = r->delta};
}

/* One act for each key; if a key is set twice, the second value counts. */
static uint32_t act_on_all(const struct request *r, struct act *acts,
			   int answer)
{
	uint32_t n = 0, j;

	for (uint32_t i = 0; i < r->n; i++) {
		for (j = i + 1; j < r->n && r->keys[j] != r->keys[i]; j++)
			;
		if (j == r->n)
			acts[n++] = act_on(r, i, answer);
	}
	return n;
}

static void look(struct fuzz *f, uint32_t key, struct slice value)
{
	if (key >= KEYS || value.len > SEEN_MAX)
		return;
	buf_reset(&f->seen[key]);
	buf_put(&f->seen[key], value.data, value.len);
}

static struct act read_value(const struct request *r, uint32_t i,
			     struct fuzz *f, int found, struct slice value)
{
	struct act a = act_on(r, i, ACT_VALUE);

	a.found = found != 0;
	a.r = model_value(value.data, value.len);
	if (found)
		look(f, a.key, value);
	return a;
}

static int bad(char why[512], const char *what)
{
	snprintf(why, 512, "%s", what);
	return -1;
}

/* A key that is named twice must have the same value twice. */
static int same_twice(const struct act *acts, uint32_t n, char why[512])
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < i; j++)
			if (acts[i].key == acts[j].key &&
			    !model_same(&acts[i].r, &acts[j].r))
				return bad(why, "MULTI_GET answers two values "
					   "for one key");
	return 1;
}

/* ---- ours ---- */

static int take_error(const struct request *r, const struct wire_frame *f,
		      struct act *acts, uint32_t *n, char why[512])
{
	struct wire_error m;

	if (wire_get_error(f, &m, NULL) < 0)
		return bad(why, "a torn error");
	if (m.code == ERR_ARGUMENT && r->kind == R_ADD) {
		acts[0] = act_on(r, 0, ACT_REFUSED);
		*n = 1;
		return 1;
	}
	if (m.code == ERR_TIMEOUT && r->kind == R_WAIT) {
		*n = r->n == 1;
		acts[0] = act_on(r, 0, ACT_DONE);
		acts[0].kind = ACT_LACKS;
		return 1;
	}
	snprintf(why, 512, "an error: %.*s", SLICE_FMT(m.text));
	return -1;
}

static int take_list(const struct request *r, struct fuzz *f,
		     const struct wire_frame *frame, struct act *acts,
		     uint32_t *n, char why[512])
{
	struct wire_list m;
	struct reader items;

	if (wire_get_list(frame, &m, NULL) < 0 || m.items.count != r->n)
		return bad(why, "a torn list");
	reader_init(&items, m.items.bytes);
	for (*n = 0; *n < r->n; ++*n) {
		int found = reader_u8(&items);

		acts[*n] = read_value(r, *n, f, found, reader_slice(&items));
	}
	return items.bad ? bad(why, "a torn list") : same_twice(acts, *n, why);
}

/* The values of all ranks, in their order. */
static int take_gathered(const struct request *r,
			 const struct wire_frame *frame, char why[512])
{
	struct wire_list m;
	struct reader items;
	char want[64];

	if (wire_get_list(frame, &m, NULL) < 0 ||
	    m.items.count != r->meeting->size)
		return bad(why, "a gather of another size");
	reader_init(&items, m.items.bytes);
	for (uint32_t i = 0; i < m.items.count; i++) {
		struct slice s = reader_slice(&items);
		int len = snprintf(want, sizeof(want), "%u of %u", i,
				   r->meeting->number);

		if (items.bad || s.len != (size_t)len ||
		    memcmp(s.data, want, s.len)) {
			snprintf(why, 512, "gather %u: rank %u's value is "
				 "'%.*s'", r->meeting->number, i,
				 SLICE_FMT(s));
			return -1;
		}
	}
	return 1;
}

static int take_reply(const struct request *r, struct fuzz *f,
		      const struct wire_frame *frame, struct act *acts,
		      uint32_t *n, char why[512])
{
	struct wire_value v;
	struct wire_int i;

	switch (r->kind) {
	case R_GET:
	case R_COMPARE_SET:
		if (wire_get_value(frame, &v, NULL) < 0)
			return bad(why, "a torn value");
		acts[(*n)++] = read_value(r, 0, f, v.found, v.value);
		return 1;
	case R_ADD:
	case R_APPEND:
	case R_DELETE:
		if (wire_get_int(frame, &i, NULL) < 0)
			return bad(why, "a torn number");
		acts[0] = act_on(r, 0, ACT_NUMBER);
		acts[(*n)++].n = i.value;
		return 1;
	case R_MULTI_GET:
		return take_list(r, f, frame, acts, n, why);
	case R_BARRIER:
		return 1;
	case R_GATHER:
		return take_gathered(r, frame, why);
	default:
		*n = act_on_all(r, acts, ACT_DONE);
		return 1;
	}
}

static int ours_answered(const struct request *r, struct fuzz *f,
			 struct peer *p, struct act *acts, uint32_t *n,
			 char why[512])
{
	struct wire_frame frame;
	struct err e = ERR_INIT;
	long size;
	int rc = 0;

	while (!rc && (size = wire_cut(SLICE(p->in.data, p->in.len),
				       WIRE_BODY_MAX, &frame, &e)) > 0) {
		if (frame.kind == WIRE_ERROR_REPLY &&
		    (frame.id == p->id || frame.id == 0))
			rc = take_error(r, &frame, acts, n, why);
		else if (frame.kind == WIRE_REPLY && frame.id == p->id)
			rc = take_reply(r, f, &frame, acts, n, why);
		buf_consume(&p->in, (size_t)size);
	}
	return rc || size == 0 ? rc : bad(why, e.text);
}

/* ---- PyTorch's ---- */

static struct slice read_text(struct reader *in)
{
	uint64_t len = reader_u64(in);
	struct slice s = SLICE("", 0);

	if (in->bad || len > reader_left(in)) {
		in->bad = 1;
		return s;
	}
	s = SLICE(in->p, (size_t)len);
	in->p += len;
	return s;
}

static int take_woken(const struct request *r, struct reader *in,
		      struct act *acts, uint32_t *n, char why[512])
{
	int byte = reader_u8(in);

	if (in->bad)
		return 0;
	if (byte == T_WOKEN) {
		*n = act_on_all(r, acts, ACT_DONE);
		/* the answer crossed our CANCEL_WAIT */
		if (r->canceled && reader_u8(in) != T_CANCELED && !in->bad)
			return bad(why, "WAIT: no answer to CANCEL_WAIT");
		return 1;
	}
	if (byte != T_CANCELED || !r->canceled)
		return bad(why, "WAIT: an answer that is none");
	*n = r->n == 1;
	acts[0] = act_on(r, 0, ACT_DONE);
	acts[0].kind = ACT_LACKS;
	return 1;
}

static int take_torch(const struct request *r, struct fuzz *f,
		      struct reader *in, struct act *acts, uint32_t *n,
		      char why[512])
{
	switch (r->kind) {
	case R_GET:
	case R_COMPARE_SET:
	case R_MULTI_GET:
		for (*n = 0; *n < r->n && !in->bad; ++*n)
			acts[*n] = read_value(r, *n, f, 1, read_text(in));
		return in->bad ? 1 : same_twice(acts, *n, why);
	case R_ADD:
	case R_DELETE:
	case R_LENGTH:
	case R_POP:
		acts[0] = act_on(r, 0, ACT_NUMBER);
		acts[0].n = (int64_t)reader_u64(in);
		if (r->kind == R_POP && acts[0].n > 0) {
			struct slice s = read_text(in);

			acts[0].r = model_value(s.data, s.len);
		}
		*n = 1;
		return 1;
	case R_WAIT:
		return take_woken(r, in, acts, n, why);
	default:
		if (reader_u32(in) != r->number && !in->bad)
			return bad(why, "another PING's answer");
		*n = act_on_all(r, acts, ACT_DONE);
		return 1;
	}
}

static int torch_answered(const struct request *r, struct fuzz *f,
			  struct peer *p, struct act *acts, uint32_t *n,
			  char why[512])
{
	struct reader in;
	int rc;

	reader_init(&in, SLICE(p->in.data, p->in.len));
	rc = take_torch(r, f, &in, acts, n, why);
	if (rc < 0 || in.bad) {
		*n = 0;
		return rc < 0 ? rc : 0;
	}
	if (reader_left(&in) && rc)
		return bad(why, "more than an answer");
	if (rc)
		buf_reset(&p->in);
	for (uint32_t i = 0; i < *n; i++)
		acts[i].torch = 1;
	return rc;
}

int request_answered(const struct request *r, struct fuzz *f, struct peer *p,
		     struct act *acts, uint32_t *n, char why[512])
{
	*n = 0;
	if (!p->in.len)
		return 0;
	return p->torch ? torch_answered(r, f, p, acts, n, why)
			: ours_answered(r, f, p, acts, n, why);
}

uint32_t request_lost(const struct request *r, struct act *acts)
{
	uint32_t n = 0;

	if (r->kind != R_GET && r->kind != R_WAIT && r->kind != R_MULTI_GET &&
	    r->kind != R_LENGTH)
		n = act_on_all(r, acts, ACT_UNKNOWN);
	for (uint32_t i = 0; i < n; i++)
		acts[i].torch = 1;
	return n;
}
