/* fuzz_wire.c: any bytes as a stream of frames: cut, parsed as the message that
 * their type names, lists walked; what parses is written again and must come
 * out as the same bytes. The first byte chooses the frame limit. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/wire.h"

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

#define ROUND_TRIP(name, WALK)                                                \
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
			WALK                                                  \
		}                                                             \
		buf_release(&b);                                              \
	}

ROUND_TRIP(hello, )
ROUND_TRIP(welcome, )
ROUND_TRIP(key, )
ROUND_TRIP(key_value, )
ROUND_TRIP(wait, walk(m.keys, f->type);)
ROUND_TRIP(add, )
ROUND_TRIP(compare_set, )
ROUND_TRIP(barrier, )
ROUND_TRIP(gather, )
ROUND_TRIP(share, )
ROUND_TRIP(shared, walk(m.values, f->type);)
ROUND_TRIP(int, )
ROUND_TRIP(value, )
ROUND_TRIP(list, walk(m.items, f->type);)
ROUND_TRIP(text, )
ROUND_TRIP(error, )
ROUND_TRIP(join, walk(m.addrs, f->type);)
ROUND_TRIP(vouch, )
ROUND_TRIP(vouched, )
ROUND_TRIP(state, )
ROUND_TRIP(start, )
ROUND_TRIP(exited, )
ROUND_TRIP(failed, )
ROUND_TRIP(leave, )
ROUND_TRIP(stop, )
ROUND_TRIP(end, )
ROUND_TRIP(resume, )
ROUND_TRIP(resumed, )
ROUND_TRIP(fate, )
ROUND_TRIP(dump, )
ROUND_TRIP(dump_request, )
ROUND_TRIP(dump_reply, walk(m.calls, f->type);)
ROUND_TRIP(node_dump, walk(m.calls, f->type);)
ROUND_TRIP(asked, )
ROUND_TRIP(waiting, )
ROUND_TRIP(job, walk(m.nodes, f->type);)
ROUND_TRIP(progress, walk(m.ranks, f->type);)
ROUND_TRIP(stalled, )
ROUND_TRIP(slow, )
ROUND_TRIP(ranks, walk(m.ranks, f->type);)

typedef void parser(const struct wire_frame *f);

/* request or notice, reply */
static parser *const parsers[][2] = {
	[WIRE_HELLO] = {try_hello, try_welcome},
	[WIRE_SET] = {try_key_value, NULL},
	[WIRE_GET] = {try_key, try_value},
	[WIRE_WAIT] = {try_wait, NULL},
	[WIRE_ADD] = {try_add, try_int},
	[WIRE_COMPARE_SET] = {try_compare_set, try_value},
	[WIRE_APPEND] = {try_key_value, try_int},
	[WIRE_DELETE] = {try_key, try_int},
	[WIRE_MULTI_GET] = {try_list, try_list},
	[WIRE_MULTI_SET] = {try_list, NULL},
	[WIRE_BARRIER] = {try_barrier, NULL},
	[WIRE_GATHER] = {try_gather, try_list},
	[WIRE_SHARE] = {try_share, try_shared},
	[WIRE_SHARED_LIST] = {NULL, try_list},
	[WIRE_JOIN] = {try_join, NULL},
	[WIRE_STATE] = {try_state, NULL},
	[WIRE_START] = {try_start, NULL},
	[WIRE_EXITED] = {try_exited, NULL},
	[WIRE_FAILED] = {try_failed, NULL},
	[WIRE_LEAVE] = {try_leave, NULL},
	[WIRE_END] = {try_end, NULL},
	[WIRE_PING] = {NULL, NULL},
	[WIRE_STOP] = {try_stop, NULL},
	[WIRE_VOUCH] = {try_vouch, NULL},
	[WIRE_VOUCHED] = {try_vouched, NULL},
	[WIRE_RESUME] = {try_resume, try_resumed},
	[WIRE_FATE] = {try_fate, try_text},
	[WIRE_GOODBYE] = {NULL, NULL},
	[WIRE_DUMP] = {try_dump, try_asked},
	[WIRE_DUMP_REQUEST] = {try_dump_request, NULL},
	[WIRE_DUMP_REPLY] = {try_dump_reply, NULL},
	[WIRE_NODE] = {try_node_dump, NULL},
	[WIRE_WAITING] = {try_waiting, NULL},
	[WIRE_STATUS] = {NULL, try_asked},
	[WIRE_JOB] = {try_job, NULL},
	[WIRE_PROGRESS] = {try_progress, NULL},
	[WIRE_STALLED] = {try_stalled, NULL},
	[WIRE_SLOW] = {try_slow, NULL},
	[WIRE_RANKS] = {try_ranks, NULL},
};

static void parse(const struct wire_frame *f)
{
	parser *p;

	require(f->type < sizeof(parsers) / sizeof(parsers[0]));
	require(strncmp(wire_type_name(f->type), "type ", 5) != 0);
	p = f->kind == WIRE_ERROR_REPLY ? try_error :
	    parsers[f->type][f->kind == WIRE_REPLY];
	if (p)
		p(f);
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
