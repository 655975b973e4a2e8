/* wire.c: the frames and messages of docs/protocol.txt to bytes and back. Knows
 * their layout and limits, not what they mean. */
#include "rendezvous/wire.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char wire_preface[WIRE_PREFACE_SIZE] = {'D', 'D', 'P', 'R',
					      WIRE_VERSION};

enum { TYPES_END = WIRE_RANKS + 1 };

static const char *const type_names[TYPES_END] = {
	[WIRE_HELLO] = "HELLO",
	[WIRE_SET] = "SET",
	[WIRE_GET] = "GET",
	[WIRE_WAIT] = "WAIT",
	[WIRE_ADD] = "ADD",
	[WIRE_COMPARE_SET] = "COMPARE_SET",
	[WIRE_APPEND] = "APPEND",
	[WIRE_DELETE] = "DELETE",
	[WIRE_MULTI_GET] = "MULTI_GET",
	[WIRE_MULTI_SET] = "MULTI_SET",
	[WIRE_BARRIER] = "BARRIER",
	[WIRE_GATHER] = "GATHER",
	[WIRE_SHARE] = "SHARE",
	[WIRE_SHARED_LIST] = "SHARED_LIST",
	[WIRE_JOIN] = "JOIN",
	[WIRE_STATE] = "STATE",
	[WIRE_START] = "START",
	[WIRE_EXITED] = "EXITED",
	[WIRE_FAILED] = "FAILED",
	[WIRE_LEAVE] = "LEAVE",
	[WIRE_END] = "END",
	[WIRE_PING] = "PING",
	[WIRE_STOP] = "STOP",
	[WIRE_VOUCH] = "VOUCH",
	[WIRE_VOUCHED] = "VOUCHED",
	[WIRE_RESUME] = "RESUME",
	[WIRE_PROGRESS] = "PROGRESS",
	[WIRE_STALLED] = "STALLED",
	[WIRE_SLOW] = "SLOW",
	[WIRE_GPUS] = "GPUS",
	[WIRE_GPU_NEWS] = "GPU_NEWS",
	[WIRE_ROLE_NEWS] = "ROLE_NEWS",
	[WIRE_LOOK] = "LOOK",
	[WIRE_STACK] = "STACK",
	[WIRE_FATE] = "FATE",
	[WIRE_GOODBYE] = "GOODBYE",
	[WIRE_WAITING] = "WAITING",
	[WIRE_DUMP] = "DUMP",
	[WIRE_DUMP_REQUEST] = "DUMP_REQUEST",
	[WIRE_DUMP_REPLY] = "DUMP_REPLY",
	[WIRE_NODE] = "NODE",
	[WIRE_STATUS] = "STATUS",
	[WIRE_JOB] = "JOB",
	[WIRE_RANKS] = "RANKS",
};

static int wire_type_exists(int type)
{
	return type >= 0 && type < TYPES_END && type_names[type];
}

const char *wire_type_name(int type)
{
	static _Thread_local char unknown[24];

	if (wire_type_exists(type))
		return type_names[type];
	snprintf(unknown, sizeof(unknown), "type %d", type);
	return unknown;
}

/* ---- frames ---- */

/* Checks the header field by field as it arrives, so that bytes which can never
 * become a frame are refused at once. */
long wire_cut(struct slice in, uint32_t body_max, struct wire_frame *f,
	      struct err *e)
{
	struct reader r;
	uint32_t len;
	int type, kind;

	if (in.len < 4)
		return 0;
	reader_init(&r, in);
	len = reader_u32(&r);
	if (len > body_max)
		return err_set(e, ERR_PROTOCOL,
			       "a frame has %u bytes, but the limit is %u", len,
			       body_max);
	if (in.len < WIRE_HEADER_SIZE)
		return 0;
	type = reader_u8(&r);
	kind = reader_u8(&r);
	if (!wire_type_exists(type))
		return err_set(e, ERR_PROTOCOL, "there is no message type %d",
			       type);
	if (kind > WIRE_NOTICE || reader_u16(&r) != 0)
		return err_set(e, ERR_PROTOCOL,
			       "%s: kind %d or the zero after it is invalid",
			       wire_type_name(type), kind);
	f->type = type;
	f->kind = kind;
	f->id = reader_u32(&r);
	if (reader_left(&r) < len)
		return 0;
	f->body = SLICE(r.p, len);
	return (long)WIRE_HEADER_SIZE + (long)len;
}

size_t wire_begin(struct buf *out, enum wire_type type, enum wire_kind kind,
		  uint32_t id)
{
	const uint8_t header[WIRE_HEADER_SIZE] = {
		0, 0, 0, 0, (uint8_t)type, (uint8_t)kind, 0, 0, (uint8_t)id,
		(uint8_t)(id >> 8), (uint8_t)(id >> 16), (uint8_t)(id >> 24)};
	size_t mark = out->len;

	buf_put(out, header, sizeof(header));
	return mark;
}

void wire_end(struct buf *out, size_t mark)
{
	size_t len;
	unsigned char *p;

	if (out->failed)
		return;
	len = out->len - mark - WIRE_HEADER_SIZE;
	p = (unsigned char *)out->data + mark;
	p[0] = (unsigned char)len;
	p[1] = (unsigned char)(len >> 8);
	p[2] = (unsigned char)(len >> 16);
	p[3] = (unsigned char)(len >> 24);
}

void wire_put_empty(struct buf *out, enum wire_type type, enum wire_kind kind,
		    uint32_t id)
{
	wire_end(out, wire_begin(out, type, kind, id));
}

/* ---- before the frames ---- */

void wire_put_greeting(struct buf *out, unsigned methods, const void *nonce,
		       const void *which)
{
	static const char any[WIRE_WHICH_SIZE];

	buf_put(out, wire_preface, WIRE_PREFACE_SIZE - 3);
	buf_put_u8(out, (uint8_t)methods);
	buf_put_u16(out, 0);
	buf_put(out, nonce, WIRE_NONCE_SIZE);
	buf_put(out, which ? which : any, WIRE_WHICH_SIZE);
}

int wire_get_greeting(struct slice in, unsigned *methods, struct err *e)
{
	enum { MARK = WIRE_MARK_SIZE };
	size_t n = in.len < MARK ? in.len : MARK;

	if (memcmp(in.data, wire_preface, n))
		return err_set(e, ERR_PROTOCOL,
			       "the process there is not a "
			       "ddprdzv; choose another port");
	if (in.len > MARK && in.data[MARK] != WIRE_VERSION)
		return err_set(e, ERR_PROTOCOL,
			       "it speaks version %d of the "
			       "protocol, but this program (ddprun " DDP_VERSION
			       ") speaks version %d; install the "
			       "same ddprun on all nodes",
			       in.data[MARK], WIRE_VERSION);
	if (in.len < WIRE_GREETING_SIZE)
		return 0;
	*methods = (unsigned char)in.data[MARK + 1];
	return 1;
}

struct slice wire_signed(struct slice body, struct slice proof)
{
	return SLICE(body.data, body.len - 4 - proof.len);
}

/* ---- fields ---- */

/* The limit of a field by its name: protocol.txt, section 2. */
static inline uint32_t wire_str_max(const char *name)
{
	if (!strcmp(name, "key"))
		return WIRE_KEY_MAX;
	if (!strcmp(name, "value") || !strcmp(name, "expected") ||
	    !strcmp(name, "desired"))
		return WIRE_VALUE_MAX;
	if (!strcmp(name, "text") || !strcmp(name, "tail") ||
	    !strcmp(name, "missing") || !strcmp(name, "error") ||
	    !strcmp(name, "cause") || !strcmp(name, "why"))
		return WIRE_TEXT_MAX;
	if (!strcmp(name, "page"))
		return WIRE_DUMP_REPLY_MAX;
	if (!strcmp(name, "out") || !strcmp(name, "err"))
		return WIRE_OUTPUT_MAX;
	if (!strcmp(name, "alike"))
		return WIRE_ALIKE_MAX;
	return WIRE_NAME_MAX;
}

struct fields {
	struct reader r;
	const char *wrong; /* the first field over its limit */
};

static inline void field_get_u8(struct fields *s, uint8_t *v, const char *name)
{
	*v = reader_u8(&s->r);
}

static inline void field_get_u16(struct fields *s, uint16_t *v,
				 const char *name)
{
	*v = reader_u16(&s->r);
}

static inline void field_get_u32(struct fields *s, uint32_t *v,
				 const char *name)
{
	*v = reader_u32(&s->r);
}

static inline void field_get_u64(struct fields *s, uint64_t *v,
				 const char *name)
{
	*v = reader_u64(&s->r);
}

static inline void field_get_i32(struct fields *s, int32_t *v, const char *name)
{
	*v = (int32_t)reader_u32(&s->r);
}

static inline void field_get_i64(struct fields *s, int64_t *v, const char *name)
{
	*v = (int64_t)reader_u64(&s->r);
}

static inline void field_get_str(struct fields *s, struct slice *v,
				 const char *name)
{
	*v = reader_slice(&s->r);
	if (v->len > wire_str_max(name) && !s->wrong)
		s->wrong = name;
}

/* A list is the last field, so it takes the rest of the body. Every item has at
 * least 4 bytes: a larger count is refused before anything is allocated. */
static inline void field_get_list(struct fields *s, struct wire_items *v,
				  const char *name)
{
	v->count = reader_u32(&s->r);
	v->bytes = SLICE(s->r.p, reader_left(&s->r));
	s->r.p = s->r.end;
	if ((v->count > WIRE_KEYS_MAX || v->count > v->bytes.len / 4 ||
	     (v->count == 0 && v->bytes.len)) && !s->wrong)
		s->wrong = name;
}

static inline void field_put_list(struct buf *b, struct wire_items v)
{
	buf_put_u32(b, v.count);
	buf_put(b, v.bytes.data, v.bytes.len);
}

#define field_put_u8 buf_put_u8
#define field_put_u16 buf_put_u16
#define field_put_u32 buf_put_u32
#define field_put_u64 buf_put_u64
#define field_put_i32(b, v) buf_put_u32((b), (uint32_t)(v))
#define field_put_i64(b, v) buf_put_u64((b), (uint64_t)(v))
#define field_put_str buf_put_slice

static int wire_fields_end(const struct fields *s, const struct wire_frame *f,
			   struct err *e)
{
	if (s->wrong)
		return err_set(e, ERR_PROTOCOL,
			       "%s: field '%s' exceeds its limit",
			       wire_type_name(f->type), s->wrong);
	if (s->r.bad)
		return err_set(e, ERR_PROTOCOL, "%s: the body is too short",
			       wire_type_name(f->type));
	if (reader_left(&s->r))
		return err_set(e, ERR_PROTOCOL,
			       "%s: the body has %zu excess bytes",
			       wire_type_name(f->type), reader_left(&s->r));
	return 0;
}

/* ---- messages ---- */

#define PUT_FIELD(kind, name) field_put_##kind(out, m->name);
#define GET_FIELD(kind, name) field_get_##kind(&s, &m->name, #name);
#define DEFINE(name, FIELDS)                                                   \
	void wire_put_##name(struct buf *out, enum wire_type type,             \
			     enum wire_kind kind, uint32_t id,                 \
			     const struct wire_##name *m)                      \
	{                                                                      \
		size_t mark = wire_begin(out, type, kind, id);                 \
		FIELDS(PUT_FIELD)                                              \
		wire_end(out, mark);                                           \
	}                                                                      \
	int wire_get_##name(const struct wire_frame *f, struct wire_##name *m, \
			    struct err *e)                                     \
	{                                                                      \
		struct fields s = {.wrong = NULL};                             \
		reader_init(&s.r, f->body);                                    \
		FIELDS(GET_FIELD)                                              \
		return wire_fields_end(&s, f, e);                              \
	}
WIRE_MESSAGES(DEFINE)

/* Where an END has slices. */
#define AT_u8(name)
#define AT_u32(name)
#define AT_u64(name)
#define AT_i32(name)
#define AT_i64(name)
#define AT_str(name) offsetof(struct wire_end, name),
#define AT_FIELD(kind, name) AT_##kind(name)
static const size_t end_slices[] = {WIRE_END_FIELDS(AT_FIELD)};

int wire_copy_end(struct wire_end *to, const struct wire_end *from,
		  struct buf *bytes)
{
	enum { N = sizeof(end_slices) / sizeof(*end_slices) };
	struct slice *s[N];
	size_t size = 0;

	*to = *from;
	for (int i = 0; i < N; i++) {
		s[i] = (struct slice *)(void *)((char *)to + end_slices[i]);
		size += s[i]->len;
	}
	buf_reset(bytes);
	/* all at once, so that the bytes do not move any more */
	if (!buf_reserve(bytes, size)) {
		for (int i = 0; i < N; i++)
			*s[i] = SLICE("", 0);
		return bytes->failed;
	}
	for (int i = 0; i < N; i++) {
		const char *at = bytes->data + bytes->len;

		buf_put(bytes, s[i]->data, s[i]->len);
		s[i]->data = at;
	}
	return 0;
}

void wire_put_job_node_item(struct buf *items, const struct wire_job_node *n)
{
	buf_put_slice(items, n->host);
	buf_put_slice(items, n->addr);
	buf_put_slice(items, n->role);
	buf_put_u32(items, (uint32_t)n->node_rank);
	buf_put_u8(items, n->state);
	buf_put_u32(items, n->nproc);
	buf_put_u32(items, n->base_rank);
	buf_put_u32(items, n->exited);
	buf_put_u32(items, n->connected);
	buf_put_u64(items, n->silent_ms);
}

struct wire_job_node wire_get_job_node_item(struct reader *r)
{
	struct wire_job_node n;

	n.host = reader_slice(r);
	n.addr = reader_slice(r);
	n.role = reader_slice(r);
	n.node_rank = (int32_t)reader_u32(r);
	n.state = reader_u8(r);
	n.nproc = reader_u32(r);
	n.base_rank = reader_u32(r);
	n.exited = reader_u32(r);
	n.connected = reader_u32(r);
	n.silent_ms = reader_u64(r);
	return n;
}

void wire_put_option(struct buf *alike, const struct wire_option *o)
{
	buf_put_slice(alike, o->name);
	buf_put_slice(alike, o->value);
}

struct wire_option wire_get_option(struct reader *r)
{
	struct wire_option o;

	o.name = reader_slice(r);
	o.value = reader_slice(r);
	return o;
}

int wire_find_option(struct slice alike, struct slice name,
		     struct slice *value)
{
	struct reader r;

	reader_init(&r, alike);
	while (reader_left(&r)) {
		const struct wire_option o = wire_get_option(&r);

		if (r.bad)
			return 0;
		*value = o.value;
		if (o.name.len == name.len &&
		    memcmp(o.name.data, name.data, name.len) == 0)
			return 1;
	}
	return 0;
}

void wire_put_rank_item(struct buf *items, const struct wire_rank *n)
{
	buf_put_u32(items, n->rank);
	buf_put_u32(items, n->local_rank);
	buf_put_u64(items, (uint64_t)n->pid);
	buf_put_u8(items, n->doing);
	buf_put_u64(items, n->quiet_ms);
	buf_put_u64(items, n->does_ms);
	buf_put_u64(items, n->world);
	buf_put_u32(items, n->comm);
	buf_put_u64(items, n->number);
	buf_put_u32(items, (uint32_t)n->peer);
	buf_put_u64(items, (uint64_t)n->step);
	buf_put_u64(items, n->step_us);
	buf_put_slice(items, n->call);
	buf_put_slice(items, n->words);
	buf_put_u32(items, (uint32_t)n->waited);
	buf_put_slice(items, n->cause);
	buf_put_u32(items, (uint32_t)n->cpu);
	buf_put_u64(items, (uint64_t)n->memory);
	buf_put_u32(items, n->groups.count);
	buf_put(items, n->groups.bytes.data, n->groups.bytes.len);
}

void wire_put_group_item(struct buf *items, const struct wire_group *g)
{
	buf_put_u32(items, g->comm);
	buf_put_u32(items, g->size);
	buf_put_u32(items, (uint32_t)g->waited);
	buf_put_slice(items, g->name);
}

struct wire_group wire_get_group_item(struct reader *r)
{
	struct wire_group g;

	g.comm = reader_u32(r);
	g.size = reader_u32(r);
	g.waited = (int32_t)reader_u32(r);
	g.name = reader_slice(r);
	return g;
}

/* The groups within a rank's item. */
static struct wire_items wire_get_groups(struct reader *r)
{
	struct wire_items groups = {.count = reader_u32(r)};

	groups.bytes.data = r->p;
	if (groups.count > WIRE_GROUPS_MAX)
		r->bad = 1;
	for (uint32_t i = 0; i < groups.count && !r->bad; i++)
		wire_get_group_item(r);
	groups.bytes.len = (size_t)(r->p - groups.bytes.data);
	if (r->bad)
		groups = (struct wire_items){0};
	return groups;
}

struct wire_rank wire_get_rank_item(struct reader *r)
{
	struct wire_rank n;

	n.rank = reader_u32(r);
	n.local_rank = reader_u32(r);
	n.pid = (int64_t)reader_u64(r);
	n.doing = reader_u8(r);
	n.quiet_ms = reader_u64(r);
	n.does_ms = reader_u64(r);
	n.world = reader_u64(r);
	n.comm = reader_u32(r);
	n.number = reader_u64(r);
	n.peer = (int32_t)reader_u32(r);
	n.step = (int64_t)reader_u64(r);
	n.step_us = reader_u64(r);
	n.call = reader_slice(r);
	n.words = reader_slice(r);
	n.waited = (int32_t)reader_u32(r);
	n.cause = reader_slice(r);
	n.cpu = (int32_t)reader_u32(r);
	n.memory = (int64_t)reader_u64(r);
	n.groups = wire_get_groups(r);
	return n;
}

void wire_put_gpu_item(struct buf *items, const struct wire_gpu *g)
{
	buf_put_u32(items, g->index);
	buf_put_slice(items, g->uuid);
	buf_put_slice(items, g->name);
#define F(field) buf_put_u64(items, (uint64_t)g->field);
	WIRE_GPU_NUMBERS(F)
#undef F
}

struct wire_gpu wire_get_gpu_item(struct reader *r)
{
	struct wire_gpu g;

	g.index = reader_u32(r);
	g.uuid = reader_slice(r);
	g.name = reader_slice(r);
#define F(field) g.field = (int64_t)reader_u64(r);
	WIRE_GPU_NUMBERS(F)
#undef F
	return g;
}

void wire_put_call_item(struct buf *items, const struct wire_call *c)
{
	buf_put_u32(items, c->rank);
	buf_put_u32(items, c->comm);
	buf_put_u64(items, c->number);
	buf_put_slice(items, c->words);
	buf_put_u32(items, c->place);
	buf_put_u32(items, c->peer);
	buf_put_u8(items, c->kind);
	buf_put_u8(items, c->waits);
}

struct wire_call wire_get_call_item(struct reader *r)
{
	struct wire_call c;

	c.rank = reader_u32(r);
	c.comm = reader_u32(r);
	c.number = reader_u64(r);
	c.words = reader_slice(r);
	c.place = reader_u32(r);
	c.peer = reader_u32(r);
	c.kind = reader_u8(r);
	c.waits = reader_u8(r);
	return c;
}
