/* pickle.c: a machine with a stack and a memo, as Python's pickletools
 * describes it. An operation makes at most one value, so that memory is bounded
 * by the number of bytes, and each is read once. */
#include "launcher/traces/pickle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	VALUES_MAX = 4 << 20,
	KEYS_READ = 64, /* by pickle_get */
};

/* A stack, or the memo: numbers of values; 0 on the stack is a mark. */
struct pickle_numbers {
	uint32_t *list;
	uint32_t n, room;
};

struct pickle_machine {
	struct pickle *p;
	struct reader in;
	struct pickle_numbers stack, memo;
	uint32_t values_room, links_room;
	int rc; /* sticky */
};

static void pickle_fail(struct pickle_machine *m, int rc)
{
	if (!m->rc)
		m->rc = rc;
}

/* Makes room for one more. The new room is zero. */
static void *pickle_grow(struct pickle_machine *m, void *list, uint32_t n,
			 uint32_t *room, size_t size)
{
	uint32_t more = *room ? 2 * *room : 256;
	char *grown;

	if (n < *room)
		return list;
	if (more > VALUES_MAX) {
		pickle_fail(m, ERR_DATA);
		return list;
	}
	grown = realloc(list, more * size);
	if (!grown) {
		pickle_fail(m, -ENOMEM);
		return list;
	}
	memset(grown + *room * size, 0, (more - *room) * size);
	*room = more;
	return grown;
}

static void pickle_numbers_push(struct pickle_machine *m,
				struct pickle_numbers *s, uint32_t value)
{
	s->list = pickle_grow(m, s->list, s->n, &s->room, sizeof(*s->list));
	if (!m->rc)
		s->list[s->n++] = value;
}

/* 0: there is none, which is an error, or a mark. */
static uint32_t pickle_pop(struct pickle_machine *m)
{
	if (!m->stack.n) {
		pickle_fail(m, ERR_DATA);
		return 0;
	}
	return m->stack.list[--m->stack.n];
}

static uint32_t pickle_top(struct pickle_machine *m)
{
	uint32_t top = m->stack.n ? m->stack.list[m->stack.n - 1] : 0;

	if (!top)
		pickle_fail(m, ERR_DATA);
	return top;
}

/* Pushes a new value, and returns its number; 0 after an error. */
static uint32_t pickle_push(struct pickle_machine *m,
			    const struct pickle_value *v)
{
	struct pickle *p = m->p;

	if (!p->nvalues)
		p->nvalues = 1; /* 0 is none */
	p->values = pickle_grow(m, p->values, p->nvalues, &m->values_room,
				sizeof(*p->values));
	if (m->rc)
		return 0;
	p->values[p->nvalues] = *v;
	pickle_numbers_push(m, &m->stack, p->nvalues);
	return p->nvalues++;
}

static void pickle_push_type(struct pickle_machine *m, enum pickle_type type)
{
	pickle_push(m, &(struct pickle_value){.type = type});
}

static void pickle_push_number(struct pickle_machine *m, int64_t number)
{
	pickle_push(m, &(struct pickle_value){.type = PICKLE_INT,
					      .number = number});
}

static void pickle_append(struct pickle_machine *m, uint32_t list,
			  uint32_t value)
{
	struct pickle *p = m->p;
	struct pickle_value *to;

	if (!list || !value)
		pickle_fail(m, ERR_DATA);
	if (!p->nlinks)
		p->nlinks = 1; /* 0 is the end */
	p->links = pickle_grow(m, p->links, p->nlinks, &m->links_room,
			       sizeof(*p->links));
	if (m->rc)
		return;
	to = &p->values[list];
	p->links[p->nlinks] = (struct pickle_link){.value = value};
	if (to->last)
		p->links[to->last].next = p->nlinks;
	else
		to->first = p->nlinks;
	to->last = p->nlinks++;
}

/* The place behind the last mark; the stack's end if there is none. */
static uint32_t pickle_mark(struct pickle_machine *m)
{
	uint32_t i = m->stack.n;

	while (i && m->stack.list[i - 1])
		i--;
	if (!i)
		pickle_fail(m, ERR_DATA);
	return i ? i : m->stack.n;
}

/* Takes all from place `from` of the stack on into the list, and, behind a
 * mark, the mark. */
static void pickle_take(struct pickle_machine *m, uint32_t list, uint32_t from)
{
	for (uint32_t i = from; i < m->stack.n && !m->rc; i++)
		pickle_append(m, list, m->stack.list[i]);
}

static void pickle_append_all(struct pickle_machine *m)
{
	uint32_t from = pickle_mark(m);
	uint32_t list = from >= 2 ? m->stack.list[from - 2] : 0;

	pickle_take(m, list, from);
	if (!m->rc)
		m->stack.n = from - 1;
}

/* Replaces the stack from that place on by a list or a dict of it; drops the
 * mark before it if there is one. */
static void pickle_collect(struct pickle_machine *m, enum pickle_type type,
			   uint32_t from, int is_marked)
{
	uint32_t n = m->stack.n, list;

	if (m->rc)
		return;
	list = pickle_push(m, &(struct pickle_value){.type = type});
	if (m->rc)
		return;
	m->stack.n = n;
	pickle_take(m, list, from);
	m->stack.n = from - (is_marked ? 1 : 0);
	pickle_numbers_push(m, &m->stack, list);
}

static void pickle_collect_some(struct pickle_machine *m, uint32_t n)
{
	if (m->stack.n < n)
		pickle_fail(m, ERR_DATA);
	else
		pickle_collect(m, PICKLE_LIST, m->stack.n - n, 0);
}

/* ---- operands ---- */

static struct slice pickle_bytes(struct pickle_machine *m, uint64_t n)
{
	struct slice s = SLICE(m->in.p, 0);

	if (n > reader_left(&m->in)) {
		pickle_fail(m, ERR_DATA);
		return s;
	}
	s.len = n;
	m->in.p += n;
	return s;
}

static void pickle_push_text(struct pickle_machine *m, uint64_t n)
{
	pickle_push(m, &(struct pickle_value){.type = PICKLE_TEXT,
					      .text = pickle_bytes(m, n)});
}

/* Up to the end of a line, which a text operand has. */
static struct slice pickle_line(struct pickle_machine *m)
{
	size_t left = reader_left(&m->in);
	const char *end = left ? memchr(m->in.p, '\n', left) : NULL;
	struct slice s;

	if (!end) {
		pickle_fail(m, ERR_DATA);
		return SLICE("", 0);
	}
	s = pickle_bytes(m, (uint64_t)(end - m->in.p));
	m->in.p++;
	return s;
}

/* Little-endian, of n bytes with a sign; what does not fit is -1. */
static void pickle_push_long(struct pickle_machine *m, uint64_t n)
{
	struct slice s = pickle_bytes(m, n);
	uint64_t value = 0;

	for (size_t i = 0; i < s.len && i < sizeof(value); i++)
		value |= (uint64_t)(unsigned char)s.data[i] << 8 * i;
	if (s.len && s.len < sizeof(value) && s.data[s.len - 1] & 0x80)
		value |= ~(uint64_t)0 << 8 * s.len;
	pickle_push_number(m, s.len > sizeof(value) ? -1 : (int64_t)value);
}

/* Big-endian. */
static void pickle_push_float(struct pickle_machine *m)
{
	uint64_t bits = __builtin_bswap64(reader_u64(&m->in));
	double d;

	memcpy(&d, &bits, sizeof(d));
	pickle_push(m, &(struct pickle_value){
			       .type = PICKLE_FLOAT,
			       .number = d > -1e18 && d < 1e18 ? (int64_t)d
							       : -1,
		       });
}

static void pickle_memo_put(struct pickle_machine *m, uint32_t at)
{
	uint32_t value = pickle_top(m);

	if (at >= VALUES_MAX)
		pickle_fail(m, ERR_DATA);
	while (!m->rc && m->memo.n <= at)
		pickle_numbers_push(m, &m->memo, 0);
	if (!m->rc)
		m->memo.list[at] = value;
}

static void pickle_memo_get(struct pickle_machine *m, uint32_t at)
{
	if (at >= m->memo.n || !m->memo.list[at])
		pickle_fail(m, ERR_DATA);
	else
		pickle_numbers_push(m, &m->stack, m->memo.list[at]);
}

/* A call: its function is not called, its first argument is its value. */
static void pickle_reduce(struct pickle_machine *m)
{
	uint32_t args = pickle_pop(m), value = 0;

	pickle_pop(m);
	if (!m->rc && args && m->p->values[args].first)
		value = m->p->links[m->p->values[args].first].value;
	if (value)
		pickle_numbers_push(m, &m->stack, value);
	else
		pickle_push_type(m, PICKLE_OTHER);
}

static void pickle_append_top(struct pickle_machine *m, int is_pair)
{
	uint32_t value = pickle_pop(m), key = is_pair ? pickle_pop(m) : 0;
	uint32_t list = pickle_top(m);

	if (is_pair)
		pickle_append(m, list, key);
	pickle_append(m, list, value);
}

/* ---- operations ---- */

/* Operations without values, and those of the memo. 0: another operation. */
static int pickle_do_memo(struct pickle_machine *m, unsigned char op)
{
	struct reader *in = &m->in;

	switch (op) {
	case 0x80: /* PROTO */
		reader_u8(in);
		return 1;
	case 0x95: /* FRAME */
		reader_u64(in);
		return 1;
	case '(': /* MARK */
		pickle_numbers_push(m, &m->stack, 0);
		return 1;
	case '0': /* POP */
		pickle_pop(m);
		return 1;
	case 'q': /* BINPUT */
		pickle_memo_put(m, reader_u8(in));
		return 1;
	case 'r': /* LONG_BINPUT */
		pickle_memo_put(m, reader_u32(in));
		return 1;
	case 0x94: /* MEMOIZE */
		pickle_memo_put(m, m->memo.n);
		return 1;
	case 'h': /* BINGET */
		pickle_memo_get(m, reader_u8(in));
		return 1;
	case 'j': /* LONG_BINGET */
		pickle_memo_get(m, reader_u32(in));
		return 1;
	default:
		return 0;
	}
}

static int pickle_do_number(struct pickle_machine *m, unsigned char op)
{
	struct reader *in = &m->in;

	switch (op) {
	case 'N': /* NONE */
		pickle_push_type(m, PICKLE_NONE);
		return 1;
	case 0x88: /* NEWTRUE */
	case 0x89: /* NEWFALSE */
		pickle_push_number(m, op == 0x88);
		return 1;
	case 'J': /* BININT */
		pickle_push_number(m, (int32_t)reader_u32(in));
		return 1;
	case 'K': /* BININT1 */
		pickle_push_number(m, reader_u8(in));
		return 1;
	case 'M': /* BININT2 */
		pickle_push_number(m, reader_u16(in));
		return 1;
	case 0x8a: /* LONG1 */
		pickle_push_long(m, reader_u8(in));
		return 1;
	case 0x8b: /* LONG4 */
		pickle_push_long(m, reader_u32(in));
		return 1;
	case 'G': /* BINFLOAT */
		pickle_push_float(m);
		return 1;
	default:
		return 0;
	}
}

static int pickle_do_text(struct pickle_machine *m, unsigned char op)
{
	struct reader *in = &m->in;

	switch (op) {
	case 0x8c: /* SHORT_BINUNICODE */
	case 'U':  /* SHORT_BINSTRING */
	case 'C':  /* SHORT_BINBYTES */
		pickle_push_text(m, reader_u8(in));
		return 1;
	case 'X': /* BINUNICODE */
	case 'T': /* BINSTRING */
	case 'B': /* BINBYTES */
		pickle_push_text(m, reader_u32(in));
		return 1;
	case 0x8d: /* BINUNICODE8 */
	case 0x8e: /* BINBYTES8 */
		pickle_push_text(m, reader_u64(in));
		return 1;
	case 'c': /* GLOBAL */
		pickle_line(m);
		pickle_line(m);
		pickle_push_type(m, PICKLE_OTHER);
		return 1;
	case 0x93: /* STACK_GLOBAL */
		pickle_pop(m);
		pickle_pop(m);
		pickle_push_type(m, PICKLE_OTHER);
		return 1;
	default:
		return 0;
	}
}

static int pickle_do_list(struct pickle_machine *m, unsigned char op)
{
	switch (op) {
	case ']':  /* EMPTY_LIST */
	case ')':  /* EMPTY_TUPLE */
	case 0x8f: /* EMPTY_SET */
		pickle_push_type(m, PICKLE_LIST);
		return 1;
	case '}': /* EMPTY_DICT */
		pickle_push_type(m, PICKLE_DICT);
		return 1;
	case 'e':  /* APPENDS */
	case 'u':  /* SETITEMS */
	case 0x90: /* ADDITEMS */
		pickle_append_all(m);
		return 1;
	case 'a': /* APPEND */
	case 's': /* SETITEM */
		pickle_append_top(m, op == 's');
		return 1;
	case 't':  /* TUPLE */
	case 'l':  /* LIST */
	case 0x91: /* FROZENSET */
		pickle_collect(m, PICKLE_LIST, pickle_mark(m), 1);
		return 1;
	case 'd': /* DICT */
		pickle_collect(m, PICKLE_DICT, pickle_mark(m), 1);
		return 1;
	case 0x85: /* TUPLE1 */
	case 0x86: /* TUPLE2 */
	case 0x87: /* TUPLE3 */
		pickle_collect_some(m, op - 0x84u);
		return 1;
	case 'R': /* REDUCE */
		pickle_reduce(m);
		return 1;
	default:
		return 0;
	}
}

static void pickle_run(struct pickle_machine *m)
{
	while (!m->rc) {
		unsigned char op = reader_u8(&m->in);

		if (op == '.' && !m->in.bad) { /* STOP */
			m->p->root = pickle_top(m);
			return;
		}
		if (!pickle_do_memo(m, op) && !pickle_do_number(m, op) &&
		    !pickle_do_text(m, op) && !pickle_do_list(m, op))
			pickle_fail(m, ERR_DATA);
		if (m->in.bad)
			pickle_fail(m, ERR_DATA);
	}
}

int pickle_read(struct pickle *p, struct slice bytes, struct err *e)
{
	struct pickle_machine m = {.p = p};

	*p = (struct pickle){NULL};
	reader_init(&m.in, bytes);
	pickle_run(&m);
	free(m.stack.list);
	free(m.memo.list);
	if (m.rc == -ENOMEM)
		return err_no_memory(e, "a pickle");
	return m.rc ? err_set(e, ERR_DATA,
			      "not a pickle of plain data, or truncated")
		    : 0;
}

void pickle_release(struct pickle *p)
{
	free(p->values);
	free(p->links);
	*p = (struct pickle){NULL};
}

/* ---- reading the values ---- */

const struct pickle_value *pickle_root(const struct pickle *p)
{
	return &p->values[p->root];
}

const struct pickle_value *pickle_next(const struct pickle *p,
				       const struct pickle_value *list,
				       uint32_t *at)
{
	if (!list || (list->type != PICKLE_LIST && list->type != PICKLE_DICT))
		return NULL;
	*at = *at ? p->links[*at].next : list->first;
	return *at ? &p->values[p->links[*at].value] : NULL;
}

const struct pickle_value *pickle_get(const struct pickle *p,
				      const struct pickle_value *dict,
				      const char *key)
{
	const struct pickle_value *k, *v;
	uint32_t at = 0;

	if (!dict || dict->type != PICKLE_DICT)
		return NULL;
	for (int i = 0; i < KEYS_READ; i++) {
		k = pickle_next(p, dict, &at);
		v = k ? pickle_next(p, dict, &at) : NULL;
		if (!v)
			return NULL;
		if (k->type == PICKLE_TEXT && k->text.len == strlen(key) &&
		    memcmp(k->text.data, key, k->text.len) == 0)
			return v;
	}
	return NULL;
}

struct slice pickle_get_text(const struct pickle *p,
			     const struct pickle_value *dict, const char *key)
{
	const struct pickle_value *v = pickle_get(p, dict, key);

	return v && v->type == PICKLE_TEXT ? v->text : SLICE("", 0);
}

int64_t pickle_get_number(const struct pickle *p,
			  const struct pickle_value *dict, const char *key)
{
	const struct pickle_value *v = pickle_get(p, dict, key);

	return v && (v->type == PICKLE_INT || v->type == PICKLE_FLOAT)
		       ? v->number : -1;
}
