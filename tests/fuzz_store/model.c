/* model.c: the effect of each operation. */
#include "tests/fuzz_store/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values: polynomials modulo 2^61 - 1, which can be concatenated ---- */

static const uint64_t prime = (UINT64_C(1) << 61) - 1;
static const uint64_t base = UINT64_C(0x1234567890abcdf);

static uint64_t times(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)a * b;
	uint64_t n = (uint64_t)(p & prime) + (uint64_t)(p >> 61);

	return n >= prime ? n - prime : n;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	return a + b >= prime ? a + b - prime : a + b;
}

struct value model_value(const void *data, size_t len)
{
	const unsigned char *p = data;
	struct value v = {.len = (uint32_t)len};

	for (size_t i = 0; i < len; i++)
		v.hash = plus(times(v.hash, base), (uint64_t)p[i] + 1);
	if (len)
		memcpy(v.text, data, len < MODEL_SHORT ? len : MODEL_SHORT);
	return v;
}

struct value model_join(const struct value *a, const struct value *b)
{
	struct value v = *a;
	uint64_t power = 1, square = base;

	for (uint32_t n = b->len; n; n >>= 1, square = times(square, square))
		if (n & 1)
			power = times(power, square);
	v.hash = plus(times(a->hash, power), b->hash);
	v.len = a->len + b->len;
	for (uint32_t i = a->len; i < v.len && i < MODEL_SHORT; i++)
		v.text[i] = b->text[i - a->len];
	return v;
}

int model_same(const struct value *a, const struct value *b)
{
	return a->hash == b->hash && a->len == b->len;
}

/* ---- operations ---- */

static int is_here(const struct state *s, const struct value *v)
{
	return s->exists && model_same(&s->u.value, v);
}

static void set(struct state *s, const struct value *v)
{
	s->exists = 1;
	s->u.value = *v;
}

/* Our protocol only takes a decimal number. PyTorch's server uses C++'s stoll,
 * which stops at the first byte that is not a digit. */
static int parse(const struct state *s, int torch, int64_t *out)
{
	char text[MODEL_SHORT + 1], *end;
	const struct value *v = &s->u.value;

	*out = 0;
	if (!s->exists)
		return 1;
	memcpy(text, v->text, MODEL_SHORT);
	text[MODEL_SHORT] = '\0';
	errno = 0;
	*out = strtoll(text, &end, 10);
	if (end == text || errno)
		return 0;
	return torch || (v->len <= MODEL_SHORT &&
			 end == text + v->len);
}

static int apply_add(struct state *s, const struct act *a)
{
	int64_t sum;
	int ok = parse(s, a->torch, &sum) &&
		 !__builtin_add_overflow(sum, a->delta, &sum);
	struct value v;
	char text[24];

	if (a->answer == ACT_REFUSED)
		return !ok;
	if (!ok) /* without an answer: it was refused */
		return a->answer == ACT_UNKNOWN;
	v = model_value(text, (size_t)snprintf(text, sizeof(text), "%" PRId64,
					       sum));
	set(s, &v);
	return a->answer == ACT_UNKNOWN || a->n == sum;
}

/* In PyTorch's protocol a missing key looks like an empty value. */
static int reads(const struct state *s, const struct act *a)
{
	if (a->answer == ACT_UNKNOWN)
		return 1;
	if (a->torch && !s->exists)
		return a->r.len == 0;
	if (!a->torch && a->found != s->exists)
		return 0;
	return !s->exists || is_here(s, &a->r);
}

static int apply_compare_set(struct state *s, const struct act *a)
{
	if (s->exists ? is_here(s, &a->a) : a->a.len == 0)
		set(s, &a->b);
	if (a->answer == ACT_UNKNOWN)
		return 1;
	/* for a missing key, PyTorch's protocol returns the expected value */
	if (a->torch && !s->exists)
		return model_same(&a->r, &a->a);
	return reads(s, a);
}

static int apply_append(struct state *s, const struct act *a)
{
	struct value v = s->exists ? model_join(&s->u.value, &a->a) : a->a;

	set(s, &v);
	return a->answer != ACT_NUMBER || a->n == v.len;
}

static int apply_delete(struct state *s, const struct act *a)
{
	int existed = s->exists != 0;

	memset(s, 0, sizeof(*s));
	return a->answer != ACT_NUMBER || a->n == existed;
}

static int apply_push(struct state *s, const struct act *a)
{
	if (s->exists == MODEL_QUEUE_MAX)
		return 0; /* the test never pushes more */
	s->u.queued[s->exists++] = a->a.hash;
	return 1;
}

static int apply_pop(struct state *s, const struct act *a)
{
	uint64_t first = s->u.queued[0];

	if (a->answer == ACT_NUMBER && a->n != s->exists)
		return 0;
	if (!s->exists)
		return 1;
	s->exists--;
	memmove(s->u.queued, s->u.queued + 1,
		s->exists * sizeof(s->u.queued[0]));
	s->u.queued[s->exists] = 0;
	return a->answer == ACT_UNKNOWN || a->r.hash == first;
}

int model_apply(struct state *s, const struct act *a)
{
	switch (a->kind) {
	case ACT_SET:
		set(s, &a->a);
		return 1;
	case ACT_GET:
		return reads(s, a);
	case ACT_ADD:
		return apply_add(s, a);
	case ACT_COMPARE_SET:
		return apply_compare_set(s, a);
	case ACT_APPEND:
		return apply_append(s, a);
	case ACT_DELETE:
		return apply_delete(s, a);
	case ACT_HAS:
		return s->exists != 0;
	case ACT_LACKS:
		return s->exists == 0;
	case ACT_PUSH:
		return apply_push(s, a);
	case ACT_POP:
		return apply_pop(s, a);
	case ACT_LENGTH:
		return a->n == s->exists;
	}
	return 0;
}

/* ---- for people ---- */

static const char *const names[] = {
	[ACT_SET] = "SET", [ACT_GET] = "GET", [ACT_ADD] = "ADD",
	[ACT_COMPARE_SET] = "COMPARE_SET", [ACT_APPEND] = "APPEND",
	[ACT_DELETE] = "DELETE", [ACT_HAS] = "is there",
	[ACT_LACKS] = "is missing", [ACT_PUSH] = "QUEUE_PUSH",
	[ACT_POP] = "QUEUE_POP", [ACT_LENGTH] = "QUEUE_LEN",
};

static const char *quote(char *out, size_t size, const struct value *v)
{
	int n = (int)(v->len < MODEL_SHORT ? v->len : MODEL_SHORT);

	if (v->len <= MODEL_SHORT)
		snprintf(out, size, "'%.*s'", n, v->text);
	else
		snprintf(out, size, "'%.*s...' (%u bytes, #%04x)", n, v->text,
			 v->len, (unsigned)(v->hash & 0xffff));
	return out;
}

void model_print(char *out, size_t size, const struct act *a)
{
	char x[96], y[96], args[256] = "", answer[160];

	switch (a->kind) {
	case ACT_SET:
	case ACT_APPEND:
	case ACT_PUSH:
		snprintf(args, sizeof(args), " %s", quote(x, sizeof(x), &a->a));
		break;
	case ACT_ADD:
		snprintf(args, sizeof(args), " %" PRId64, a->delta);
		break;
	case ACT_COMPARE_SET:
		snprintf(args, sizeof(args), " %s to %s",
			 quote(x, sizeof(x), &a->a),
			 quote(y, sizeof(y), &a->b));
		break;
	default:
		break;
	}
	switch (a->answer) {
	case ACT_UNKNOWN:
		snprintf(answer, sizeof(answer), "no answer: perhaps");
		break;
	case ACT_DONE:
		snprintf(answer, sizeof(answer), "done");
		break;
	case ACT_REFUSED:
		snprintf(answer, sizeof(answer), "refused");
		break;
	case ACT_NUMBER:
		snprintf(answer, sizeof(answer), "%" PRId64 "%s%s", a->n,
			 a->kind == ACT_POP && a->n ? ", first " : "",
			 a->kind == ACT_POP && a->n
			 ? quote(x, sizeof(x), &a->r) : "");
		break;
	default:
		snprintf(answer, sizeof(answer), "%s", a->found || a->torch
			 ? quote(x, sizeof(x), &a->r) : "missing");
	}
	snprintf(out, size, "%11.6f to %11.6f s, client %u%s, #%u: %s%s -> %s",
		 (double)a->began / 1e9, (double)a->ended / 1e9, a->client,
		 a->torch ? " (PyTorch's)" : "", a->number, names[a->kind],
		 args, answer);
}
