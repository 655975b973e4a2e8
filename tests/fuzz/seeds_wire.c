/* seeds_wire.c: a frame of each type and kind, with a value in each field. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/seeds.h"
#include "tests/fuzz/wire_uses.h"

static const struct wire_job_node node = {
	.host = {"h", 1}, .addr = {"10.0.0.1", 8}, .node_rank = 1, .nproc = 2,
	.base_rank = 2};
static const struct wire_rank rank = {
	.rank = 1, .pid = 7, .doing = RANK_CALLS, .peer = -1, .step = -1,
	.call = {"all_reduce", 10}, .words = {"sleeps", 6},
	.cause = {"swaps", 5}};
static const struct wire_group group = {
	.comm = 7, .size = 2, .waited = 300, .name = {"1.0", 3}};
static const struct wire_call call = {
	.rank = 1, .comm = 2, .number = 3, .words = {"f32 x 4", 7}};

static const struct wire_gpu gpu = {
	.index = 1, .uuid = {"GPU-1", 5}, .name = {"H200", 4},
	.temperature = 41, .utilization = -1,
};

static void seeds_wire_put_rank(struct buf *b)
{
	struct wire_rank with_group = rank;
	struct buf groups = BUF_INIT(SEED_MAX);

	wire_put_group_item(&groups, &group);
	with_group.groups = (struct wire_items){
		1, SLICE(groups.data, groups.len)};
	wire_put_rank_item(b, &with_group);
	buf_release(&groups);
}

/* Two items as this type's frames have them. */
static struct wire_items seeds_wire_items(enum wire_type type,
					  enum wire_kind kind, struct buf *b)
{
	for (uint32_t i = 0; i < 2; i++) {
		if (type == WIRE_JOB) {
			wire_put_job_node_item(b, &node);
		} else if (type == WIRE_GPUS) {
			wire_put_gpu_item(b, &gpu);
		} else if (type == WIRE_PROGRESS || type == WIRE_RANKS) {
			seeds_wire_put_rank(b);
		} else if (type == WIRE_DUMP_REPLY || type == WIRE_NODE) {
			wire_put_call_item(b, &call);
		} else {
			if (type == WIRE_MULTI_GET && kind == WIRE_REPLY)
				buf_put_u8(b, 1);
			buf_put_slice(b, SLICE("item", 4));
		}
	}
	return (struct wire_items){2, SLICE(b->data, b->len)};
}

#define VALUE_u8(name) m.name = 1;
#define VALUE_u16(name) m.name = 2;
#define VALUE_u32(name) m.name = 3;
#define VALUE_u64(name) m.name = 4;
#define VALUE_i32(name) m.name = -5;
#define VALUE_i64(name) m.name = -6;
#define VALUE_str(name) m.name = SLICE_STR(#name);
#define VALUE_list(name) m.name = seeds_wire_items(type, kind, &items);
#define VALUE(kind, name) VALUE_##kind(name)

#define PUT(message, FIELDS)                                                \
	static void seeds_put_##message(struct buf *b, enum wire_type type, \
					enum wire_kind kind)                \
	{                                                                   \
		struct buf items = BUF_INIT(SEED_MAX);                      \
		struct wire_##message m = {0};                              \
		FIELDS(VALUE)                                               \
		wire_put_##message(b, type, kind, 9, &m);                   \
		buf_release(&items);                                        \
	}

WIRE_MESSAGES(PUT)

static void seeds_put_empty(struct buf *b, enum wire_type type,
			    enum wire_kind kind)
{
	wire_put_empty(b, type, kind, 9);
}

typedef void putter(struct buf *b, enum wire_type type, enum wire_kind kind);

#define PUTTERS(type, message, reply) \
	[WIRE_##type] = {seeds_put_##message, seeds_put_##reply},

static putter *const putters[][2] = {WIRE_USES(PUTTERS)};

static void seeds_wire_type(enum wire_type type, struct buf *all)
{
	static const enum wire_kind kinds[] = {WIRE_REQUEST, WIRE_REPLY,
					       WIRE_ERROR_REPLY};
	struct buf b = BUF_INIT(SEED_MAX);

	buf_put_u8(&b, 0);
	for (int i = 0; i < 3; i++) {
		putter *put = i == 2 ? seeds_put_error : putters[type][i];

		put(&b, type, kinds[i]);
		put(all, type, kinds[i]);
	}
	seeds_write("wire", wire_type_name((int)type), &b);
}

void seeds_wire(void)
{
	struct buf all = BUF_INIT(SEED_MAX);

	buf_put_u8(&all, 0);
	for (int type = 0; type <= WIRE_RANKS; type++)
		if (putters[type][0])
			seeds_wire_type((enum wire_type)type, &all);
	seeds_write("wire", "all", &all);
}
