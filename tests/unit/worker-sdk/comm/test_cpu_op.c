/* test_cpu_op.c: how an operation between hosts is cut into segments, for any
 * count; and a call's word keeps counts over 2^31. */
#include <check.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/comm/cpu_op.h"
#include "worker-sdk/core/call.h"

enum { LARGEST_SEGMENT = 64 << 20 };

/* An operation prepared on a rank of one host among two. */
static struct ddp__cpu_op prepare(size_t count, enum ddp_type type)
{
	static struct ddp_comm c = {.size = 4, .topology = {.nhosts = 2}};
	static struct ddp__call call;
	struct ddp__cpu_op op;

	call = (struct ddp__call){.kind = DDP__ALL_REDUCE, .type = type,
				  .op = DDP_SUM, .count = count};
	ddp__cpu_op_init(&op, &c, &call, NULL, NULL);
	return op;
}

static const size_t counts[] = {0,
				1,
				((size_t)1 << 31) - 1,
				(size_t)1 << 31,
				((size_t)1 << 31) + 5,
				((size_t)1 << 32) - 1,
				((size_t)1 << 32) + 1,
				DDP__COUNT_MAX};

START_TEST(segments_make_up_the_whole)
{
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		for (int type = 0; type < DDP_TYPES; type++) {
			size_t elem = ddp_type_size((enum ddp_type)type);
			struct ddp__cpu_op op =
				prepare(counts[i], (enum ddp_type)type);

			ck_assert_uint_eq(op.size / elem, counts[i]);
			ck_assert_uint_ge(op.segments, 1);
			ck_assert_uint_ge(op.segments * op.each, counts[i]);
			/* and the last segment is not empty */
			ck_assert((op.segments - 1) * op.each < counts[i] ||
				  op.segments == 1);
			ck_assert_uint_le(op.each * elem, LARGEST_SEGMENT);
		}
}
END_TEST

START_TEST(large_counts_survive_the_call_s_word)
{
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		struct ddp__call call = {.kind = DDP__BROADCAST,
					 .type = DDP_F64, .root = 77,
					 .count = counts[i]};
		struct ddp__call back;

		ddp__call_unpack(&back, ddp__call_pack(&call), 9);
		ck_assert_uint_eq(back.count, counts[i] < FLIGHT_COUNT_MOST
						      ? counts[i]
						      : FLIGHT_COUNT_MOST);
		ck_assert_int_eq(back.root, 77);
		ck_assert_int_eq(back.kind, DDP__BROADCAST);
	}
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("cpu_op");

	tcase_add_test(t, segments_make_up_the_whole);
	tcase_add_test(t, large_counts_survive_the_call_s_word);
	return run_case(t);
}
