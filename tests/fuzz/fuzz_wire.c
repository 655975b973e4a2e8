/* fuzz_wire.c: any bytes as a stream of frames: cut, parsed as the message that
 * their type names, lists walked; what parses is written again and must come
 * out as the same bytes. The first byte chooses the frame limit. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/wire_uses.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

/* Items as each user of the list walks them. */
static void walk(struct wire_items list, enum wire_type type)
{
	struct reader r;
	uint32_t i;

	reader_init(&r, list.bytes);
	for (i = 0; i < list.count && !r.bad; i++) {
		if (type == WIRE_JOB) {
			wire_get_job_node_item(&r);
		} else if (type == WIRE_GPUS) {
			wire_get_gpu_item(&r);
		} else if (type == WIRE_PROGRESS || type == WIRE_RANKS) {
			wire_get_rank_item(&r);
		} else if (type == WIRE_DUMP_REPLY || type == WIRE_NODE) {
			wire_get_call_item(&r);
		} else {
			if (type == WIRE_MULTI_GET)
				reader_u8(&r);
			reader_slice(&r);
		}
	}
	require(i <= WIRE_KEYS_MAX && reader_left(&r) <= list.bytes.len);
}

#define WALK_u8(name)
#define WALK_u16(name)
#define WALK_u32(name)
#define WALK_u64(name)
#define WALK_i32(name)
#define WALK_i64(name)
#define WALK_str(name)
#define WALK_list(name) walk(m.name, f->type);
#define WALK(kind, name) WALK_##kind(name)

#define ROUND_TRIP(name, FIELDS)                                              \
	static void try_##name(const struct wire_frame *f)                    \
	{                                                                     \
		struct buf b = BUF_INIT(WIRE_BODY_MAX + WIRE_HEADER_SIZE);    \
		struct err e = ERR_INIT;                                      \
		struct wire_##name m;                                         \
		int rc = wire_get_##name(f, &m, &e);                          \
		require(rc == 0 || (rc == ERR_PROTOCOL && e.text[0]));        \
		if (rc == 0) {                                                \
			wire_put_##name(&b, f->type, f->kind, f->id, &m);     \
			require(!b.failed);                                   \
			require(b.len == WIRE_HEADER_SIZE + f->body.len);     \
			require(!f->body.len ||                               \
				!memcmp(b.data + WIRE_HEADER_SIZE,            \
					f->body.data, f->body.len));          \
			FIELDS(WALK)                                          \
		}                                                             \
		buf_release(&b);                                              \
	}

WIRE_MESSAGES(ROUND_TRIP)

static void try_empty(const struct wire_frame *f)
{
}

typedef void parser(const struct wire_frame *f);

#define PARSERS(type, message, reply) \
	[WIRE_##type] = {try_##message, try_##reply},

/* request or notice, reply */
static parser *const parsers[][2] = {WIRE_USES(PARSERS)};

static void parse(const struct wire_frame *f)
{
	require(f->type < sizeof(parsers) / sizeof(parsers[0]));
	require(strncmp(wire_type_name(f->type), "type ", 5) != 0);
	require(parsers[f->type][0] != NULL);
	if (f->kind == WIRE_ERROR_REPLY)
		try_error(f);
	else
		parsers[f->type][f->kind == WIRE_REPLY](f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice in = SLICE((const char *)data, size);
	struct wire_frame f;
	struct err e = ERR_INIT;
	uint32_t max;
	long n;

	if (size == 0)
		return 0;
	max = data[0] & 1 ? WIRE_HELLO_MAX : WIRE_BODY_MAX;
	in.data++;
	in.len--;
	while ((n = wire_cut(in, max, &f, &e)) > 0) {
		require((size_t)n <= in.len && f.body.len <= max);
		require((size_t)n == WIRE_HEADER_SIZE + f.body.len);
		parse(&f);
		in.data += n;
		in.len -= (size_t)n;
	}
	require(n == 0 || (n == ERR_PROTOCOL && e.text[0]));
	return 0;
}
