/* request.c: draws operations and encodes them in both protocols. */
#include "tests/fuzz_store/request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	VALUE_MAX = 4 << 10,
	FAT_KEY = HOT + 1, /* its large values make the journal grow */
	FAT = 256 << 10,
	WAIT_MS = 400,   /* for a flag; long compared to the delays of a busy
			  * host */
	MEET_MS = 60000,
	NUMBERS_BELOW = 12, /* keys that usually have numbers */
	FAR_IN = 40, /* one in this many deltas is at a limit of int64 */
	QUEUED_MAX = MODEL_QUEUE_MAX - CLIENTS - 4,
};

/* PyTorch's numbers of operations. */
enum {
	T_SET = 1, T_COMPARE_SET, T_GET, T_ADD, T_CHECK, T_WAIT, T_NKEYS,
	T_DELETE, T_APPEND, T_MULTI_GET, T_MULTI_SET, T_CANCEL, T_PING,
	T_PUSH, T_POP, T_LENGTH,
};

uint32_t roll(uint64_t *dice, uint32_t sides)
{
	*dice ^= *dice << 13;
	*dice ^= *dice >> 7;
	*dice ^= *dice << 17;
	return (uint32_t)((*dice >> 32) % sides);
}

/* The first key has an empty name. */
void key_name(uint32_t key, struct buf *out)
{
	buf_reset(out);
	if (key >= FLAGS_AT)
		buf_printf(out, "flag/%u", key - FLAGS_AT);
	else if (key >= KEYS)
		buf_printf(out, "queue/%u", key - KEYS);
	else if (key)
		buf_printf(out, "key/%u", key);
}

/* ---- drawing ---- */

/* In PyTorch's protocol, ADD to a value that is not a number closes the
 * connection. */
static uint32_t draw_key(uint64_t *d, const struct request *r, int torch)
{
	if (r->kind == R_ADD && (torch ? roll(d, 50) : roll(d, 2)))
		return COUNTERS_AT + roll(d, KEYS - COUNTERS_AT);
	if (r->kind == R_APPEND)
		return roll(d, 2) ? roll(d, HOT) : roll(d, COUNTERS_AT);
	return roll(d, 2) ? roll(d, HOT) : roll(d, KEYS);
}

static int64_t draw_number(uint64_t *d)
{
	switch (roll(d, FAR_IN)) {
	case 0:
		return INT64_MAX - (int64_t)roll(d, 3);
	case 1:
		return INT64_MIN + (int64_t)roll(d, 3);
	default:
		return (int64_t)roll(d, 21) - 10;
	}
}

static void draw_value(uint64_t *d, uint32_t number, uint32_t key,
		       struct buf *out)
{
	uint32_t size = 0, what = roll(d, 20);

	buf_reset(out);
	if ((key < NUMBERS_BELOW && what < 12) ||
	    (key >= COUNTERS_AT && key < KEYS)) {
		buf_printf(out, "%" PRId64, draw_number(d));
		return;
	}
	if (what == 12)
		return; /* an empty value */
	buf_printf(out, "v%u.", number);
	if (what > 16)
		size = roll(d, what == 19 ? VALUE_MAX : 300);
	for (uint32_t i = 0; i < size; i++)
		buf_put_u8(out, (uint8_t)('a' + (i + number) % 26));
}

static enum request_kind draw_kind(uint64_t *d, int torch)
{
	static const uint8_t shares[] = {
		[R_SET] = 14, [R_GET] = 16, [R_ADD] = 14, [R_COMPARE_SET] = 12,
		[R_APPEND] = 10, [R_DELETE] = 8, [R_WAIT] = 6,
		[R_MULTI_SET] = 5, [R_MULTI_GET] = 5, [R_PUSH] = 6, [R_POP] = 6,
		[R_LENGTH] = 2,
	};
	uint32_t last = torch ? R_LENGTH : R_MULTI_GET, sum = 0, at, k = 0;

	for (uint32_t i = 0; i <= last; i++)
		sum += shares[i];
	at = roll(d, sum);
	while (at >= shares[k])
		at -= shares[k++];
	return (enum request_kind)k;
}

/* ---- bytes ---- */

static void put_text(struct buf *b, const struct buf *text)
{
	buf_put_u64(b, text->len);
	buf_put(b, text->data, text->len);
}

static struct slice all_of(const struct buf *b)
{
	return SLICE(b->data ? b->data : "", b->len);
}

/* Some operations have no answer: the answer to a PING shows that they are
 * done. */
static void put_ping(struct buf *out, uint32_t number)
{
	buf_put_u8(out, T_PING);
	buf_put_u32(out, number);
}

struct texts {
	struct buf key[REQUEST_KEYS], value[REQUEST_KEYS], other;
};

static void put_torch(const struct request *r, struct buf *out,
		      const struct texts *t)
{
	static const uint8_t ops[] = {
		[R_SET] = T_SET, [R_GET] = T_GET, [R_ADD] = T_ADD,
		[R_COMPARE_SET] = T_COMPARE_SET, [R_APPEND] = T_APPEND,
		[R_DELETE] = T_DELETE, [R_WAIT] = T_WAIT,
		[R_MULTI_SET] = T_MULTI_SET, [R_MULTI_GET] = T_MULTI_GET,
		[R_PUSH] = T_PUSH, [R_POP] = T_POP, [R_LENGTH] = T_LENGTH,
	};
	int list = r->kind == R_WAIT || r->kind == R_MULTI_SET ||
		   r->kind == R_MULTI_GET;

	buf_put_u8(out, ops[r->kind]);
	if (list)
		buf_put_u64(out, r->n);
	for (uint32_t i = 0; i < r->n; i++) {
		put_text(out, &t->key[i]);
		if (r->kind == R_MULTI_SET || r->kind == R_SET ||
		    r->kind == R_APPEND || r->kind == R_PUSH ||
		    r->kind == R_COMPARE_SET)
			put_text(out, &t->value[i]);
	}
	if (r->kind == R_COMPARE_SET)
		put_text(out, &t->other);
	if (r->kind == R_ADD)
		buf_put_u64(out, (uint64_t)r->delta);
	if (r->kind == R_SET || r->kind == R_APPEND || r->kind == R_PUSH ||
	    r->kind == R_MULTI_SET)
		put_ping(out, r->number);
}

static void put_list(const struct request *r, struct peer *p,
		     const struct texts *t)
{
	struct buf items = BUF_INIT(1 << 20);
	struct wire_wait w = {.timeout_ms = r->timeout_ms};
	struct wire_list l;

	for (uint32_t i = 0; i < r->n; i++) {
		buf_put_slice(&items, all_of(&t->key[i]));
		if (r->kind == R_MULTI_SET)
			buf_put_slice(&items, all_of(&t->value[i]));
	}
	l.items = w.keys = (struct wire_items){r->n, all_of(&items)};
	if (r->kind == R_WAIT)
		wire_put_wait(&p->out, WIRE_WAIT, WIRE_REQUEST, p->id, &w);
	else
		wire_put_list(&p->out, r->kind == R_MULTI_SET ? WIRE_MULTI_SET
			      : WIRE_MULTI_GET, WIRE_REQUEST, p->id, &l);
	buf_release(&items);
}

static void put_ours(const struct request *r, struct peer *p,
		     const struct texts *t)
{
	struct slice key = all_of(&t->key[0]), value = all_of(&t->value[0]);
	struct wire_key_value kv = {key, value};
	struct wire_key k = {key};
	struct wire_add add = {key, r->delta};
	struct wire_compare_set cas = {key, value, all_of(&t->other)};

	switch (r->kind) {
	case R_SET:
	case R_APPEND:
		wire_put_key_value(&p->out, r->kind == R_SET ? WIRE_SET :
				   WIRE_APPEND, WIRE_REQUEST, p->id, &kv);
		break;
	case R_GET:
	case R_DELETE:
		wire_put_key(&p->out, r->kind == R_GET ? WIRE_GET :
			     WIRE_DELETE, WIRE_REQUEST, p->id, &k);
		break;
	case R_ADD:
		wire_put_add(&p->out, WIRE_ADD, WIRE_REQUEST, p->id, &add);
		break;
	case R_COMPARE_SET:
		wire_put_compare_set(&p->out, WIRE_COMPARE_SET, WIRE_REQUEST,
				     p->id, &cas);
		break;
	default:
		put_list(r, p, t);
	}
}

/* ---- one request ---- */

static void draw_keys(struct request *r, struct fuzz *f, uint64_t *d,
		      int torch)
{
	r->n = r->kind == R_MULTI_SET || r->kind == R_MULTI_GET
	       ? 1 + roll(d, REQUEST_KEYS) : 1;
	for (uint32_t i = 0; i < r->n; i++)
		r->keys[i] = i && !roll(d, 4) ? r->keys[i - 1]
						: draw_key(d, r, torch);
	if (r->kind >= R_PUSH)
		r->keys[0] = KEYS + roll(d, QUEUES);
	if (r->kind == R_PUSH && f->queued[r->keys[0] - KEYS] >= QUEUED_MAX)
		r->kind = R_POP;
	if (r->kind == R_PUSH || r->kind == R_POP)
		f->queued[r->keys[0] - KEYS] += r->kind == R_PUSH ? 1 : -1;
	if (r->kind == R_POP && f->queued[r->keys[0] - KEYS] < 0)
		f->queued[r->keys[0] - KEYS] = 0;
}

/* Most wait for a flag, which some client raises once; some for keys that
 * appear and disappear. */
static void draw_wait(struct request *r, struct fuzz *f, uint64_t *d)
{
	if (roll(d, 4)) {
		r->keys[0] = FLAGS_AT + f->flag;
		r->timeout_ms = WAIT_MS + roll(d, WAIT_MS);
		return;
	}
	r->n = 1 + roll(d, REQUEST_KEYS);
	for (uint32_t i = 0; i < r->n; i++)
		r->keys[i] = draw_key(d, r, 0);
	r->timeout_ms = roll(d, 4) ? roll(d, 30) : 0;
}

static void begin(struct request *r, struct fuzz *f, struct peer *p)
{
	memset(r, 0, sizeof(*r));
	r->number = ++f->requests;
	if (p->id++ == 0)
		p->id = 2;
	buf_reset(&p->out);
}

void request_draw(struct request *r, struct fuzz *f, struct peer *p)
{
	uint64_t *d = &f->dice[p->number];
	struct texts t;

	begin(r, f, p);
	r->kind = draw_kind(d, p->torch);
	draw_keys(r, f, d, p->torch);
	if (r->kind == R_WAIT) {
		draw_wait(r, f, d);
	} else if (r->kind == R_SET && !roll(d, 6)) {
		r->keys[0] = FLAGS_AT + f->flag;
		if (f->flag + 1 < FLAGS_MAX)
			f->flag++;
	} else if (r->kind == R_SET && f->wants_bytes && !roll(d, 6)) {
		r->keys[0] = FAT_KEY;
	}
	r->delta = draw_number(d);
	for (uint32_t i = 0; i < r->n; i++) {
		buf_init(&t.key[i], 64);
		buf_init(&t.value[i], 1 << 20);
		key_name(r->keys[i], &t.key[i]);
		draw_value(d, r->number, r->keys[i], &t.value[i]);
		if (r->kind == R_APPEND && roll(d, 2)) {
			buf_reset(&t.value[i]);
			buf_put(&t.value[i], "x", 1);
		}
	}
	buf_init(&t.other, 1 << 20);
	while (r->keys[0] == FAT_KEY && r->kind == R_SET &&
	       t.value[0].len < FAT)
		buf_printf(&t.value[0], "%u fat ", r->number);
	if (r->kind == R_COMPARE_SET) {
		/* succeeds if it expects the last value that a client has
		 * read */
		draw_value(d, r->number, r->keys[0], &t.other);
		buf_reset(&t.value[0]);
		if (roll(d, 6))
			buf_put(&t.value[0], f->seen[r->keys[0]].data,
				f->seen[r->keys[0]].len);
		r->b = model_value(t.other.data, t.other.len);
	}
	for (uint32_t i = 0; i < r->n; i++)
		r->a[i] = model_value(t.value[i].data, t.value[i].len);
	if (p->torch)
		put_torch(r, &p->out, &t);
	else
		put_ours(r, p, &t);
	for (uint32_t i = 0; i < r->n; i++) {
		buf_release(&t.key[i]);
		buf_release(&t.value[i]);
	}
	buf_release(&t.other);
}

static void put_meeting_name(struct buf *out, const struct barrier_gather *m)
{
	/* few barriers, used again and again; a gather is used once */
	if (m->gather)
		buf_printf(out, "gather/%u", m->number);
	else
		buf_printf(out, "barrier/%u", m->number % 3);
}

void request_meet(struct request *r, struct fuzz *f, struct peer *p,
		  struct barrier_gather *m)
{
	struct buf key = BUF_INIT(64), value = BUF_INIT(64);
	struct wire_barrier b = {.size = m->size, .timeout_ms = MEET_MS};
	struct wire_gather g = {.size = m->size, .timeout_ms = MEET_MS};

	begin(r, f, p);
	r->kind = m->gather ? R_GATHER : R_BARRIER;
	r->meeting = m;
	put_meeting_name(&key, m);
	buf_printf(&value, "%u of %u", p->number, m->number);
	b.key = g.key = all_of(&key);
	g.value = all_of(&value);
	if (m->gather)
		wire_put_gather(&p->out, WIRE_GATHER, WIRE_REQUEST, p->id, &g);
	else
		wire_put_barrier(&p->out, WIRE_BARRIER, WIRE_REQUEST, p->id,
				 &b);
	buf_release(&key);
	buf_release(&value);
}

void request_cancel(struct request *r, struct peer *p)
{
	r->canceled = 1;
	buf_reset(&p->out);
	buf_put_u8(&p->out, T_CANCEL);
}
