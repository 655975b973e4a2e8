/* test_topology.c: hosts from names, the endpoint record, and calls as words.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/comm/endpoint_record.h"
#include "worker-sdk/core/call.h"
#include "worker-sdk/core/topology.h"

START_TEST(neighbours_share_a_host)
{
	struct slice ids[] = {SLICE("b", 1), SLICE("b", 1), SLICE("a", 1),
			      SLICE("a", 1), SLICE("a", 1)};
	struct ddp__topology t;

	ck_assert_int_eq(ddp__topology_init(&t, ids, 5), 0);
	ck_assert_int_eq(t.nhosts, 2);
	ck_assert_int_eq(t.in_order, 1);
	/* numbered by their lowest rank, not by name */
	ck_assert_int_eq(t.hosts[0].ranks[0], 0);
	ck_assert_int_eq(t.hosts[0].n, 2);
	ck_assert_int_eq(t.hosts[1].ranks[0], 2);
	ck_assert_int_eq(t.hosts[1].n, 3);
	ck_assert_int_eq(t.hosts[1].first, 2);
	ck_assert_int_eq(t.host_of[4], 1);
	ck_assert_int_eq(t.index_of[4], 2);
	ddp__topology_release(&t);
}
END_TEST

START_TEST(ranks_of_hosts_interleave)
{
	struct slice ids[] = {SLICE("xx", 2), SLICE("x", 1), SLICE("xx", 2),
			      SLICE("", 0), SLICE("x", 1)};
	static const int order[] = {0, 2, 1, 4, 3};
	struct ddp__topology t;

	ck_assert_int_eq(ddp__topology_init(&t, ids, 5), 0);
	ck_assert_int_eq(t.nhosts, 3);
	ck_assert_int_eq(t.in_order, 0);
	ck_assert_mem_eq(t.order, order, sizeof(order));
	ck_assert_int_eq(t.host_of[4], 1);
	ck_assert_int_eq(t.index_of[4], 1);
	ck_assert_int_eq(t.host_of[3], 2);
	ck_assert_int_eq(t.hosts[2].first, 4);
	ddp__topology_release(&t);
}
END_TEST

static struct ddp__endpoint_record sample(void)
{
	struct ddp__endpoint_record c = {.version = SLICE_STR("0.1.0"),
					 .backend = SLICE_STR("cpu"),
					 .world_size = 8,
					 .host_id =
						 SLICE_STR("boot 4026531836"),
					 .host_name = SLICE_STR("h2"),
					 .pid = 4711,
					 .memory = -1,
					 .cookie = {1, 2, 3},
					 .addr = SLICE_STR("10.0.0.2"),
					 .port = 40001,
					 .p2p_port = 40002};
	return c;
}

START_TEST(an_endpoint_record_survives_its_encoding)
{
	struct buf b = BUF_INIT(DDP__ENDPOINT_RECORD_MAX);
	struct ddp__endpoint_record in = sample(), out;
	struct err e = ERR_INIT;

	ddp__endpoint_record_put(&b, &in);
	ck_assert_int_eq(b.failed, 0);
	ck_assert_int_eq(
		ddp__endpoint_record_get(&out, SLICE(b.data, b.len), &e), 0);
	ck_assert_int_eq(ddp__endpoint_record_agree(&in, 0, &out, 1, &e), 0);
	ck_assert_int_eq(out.pid, 4711);
	ck_assert_int_eq(out.memory, -1);
	ck_assert_mem_eq(out.cookie, in.cookie, sizeof(in.cookie));
	ck_assert_uint_eq(out.port, 40001);
	ck_assert_uint_eq(out.p2p_port, 40002);
	ck_assert_mem_eq(out.addr.data, "10.0.0.2", 8);
	for (size_t n = 0; n < b.len; n++)
		ck_assert_int_lt(
			ddp__endpoint_record_get(&out, SLICE(b.data, n), &e),
			0);
	buf_put_u8(&b, 0);
	ck_assert_int_eq(
		ddp__endpoint_record_get(&out, SLICE(b.data, b.len), &e),
		ERR_PROTOCOL);
	b.data[0] = 9; /* another record; the version of libddp is named */
	ck_assert_int_eq(
		ddp__endpoint_record_get(&out, SLICE(b.data, b.len), &e),
		ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "libddp 0.1.0"));
	buf_release(&b);
}
END_TEST

START_TEST(differences_are_named)
{
	struct ddp__endpoint_record mine = sample(), other = sample();
	struct err e = ERR_INIT;

	other.version = SLICE_STR("0.2.0");
	ck_assert_int_eq(ddp__endpoint_record_agree(&mine, 0, &other, 3, &e),
			 ERR_USAGE);
	ck_assert_str_eq(e.text,
			 "rank 3 on h2 runs libddp 0.2.0, rank 0 on h2 runs "
			 "0.1.0: start all ranks with the same libddp");
	other = sample();
	other.backend = SLICE_STR("nccl");
	ck_assert_int_eq(ddp__endpoint_record_agree(&mine, 0, &other, 3, &e),
			 ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "rank 3 on h2 uses backend nccl"));
	other = sample();
	other.world_size = 4;
	ck_assert_int_eq(ddp__endpoint_record_agree(&mine, 0, &other, 3, &e),
			 ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "WORLD_SIZE 4"));
}
END_TEST

START_TEST(calls_as_words)
{
	struct ddp__call c = {DDP__ALL_REDUCE, DDP_F32, DDP_AVG, 0, 39760, 12};
	struct ddp__call d;
	char text[DDP__CALL_TEXT];

	ddp__call_unpack(&d, ddp__call_pack(&c), 12);
	ck_assert_uint_eq(ddp__call_pack(&d), ddp__call_pack(&c));
	ck_assert_str_eq(ddp__call_text(&d, text),
			 "all_reduce #12 (f32 x 39760, avg)");
	c = (struct ddp__call){DDP__BROADCAST, DDP_I64, DDP_SUM, 65535,
			       DDP__COUNT_MAX, 1};
	ddp__call_unpack(&d, ddp__call_pack(&c), 1);
	ck_assert_str_eq(ddp__call_text(&d, text),
			 "broadcast #1 (i64 x 8589934591 or more, root 65535)");
	/* counts too large for the word are compared as well */
	d = c;
	d.count -= (size_t)1 << 33;
	ck_assert_uint_eq(ddp__call_pack(&d), ddp__call_pack(&c));
	ck_assert_uint_ne(ddp__call_mark(&d, ddp__call_pack(&d), 0),
			  ddp__call_mark(&c, ddp__call_pack(&c), 0));
	ddp__call_unpack(&d, ~(uint64_t)0, 7); /* from a confused peer */
	ck_assert_str_eq(ddp__call_text(&d, text), "? #7");
	c.kind = DDP__BARRIER;
	ck_assert_str_eq(ddp__call_text(&c, text), "barrier #1");
	c.kind = DDP__INIT;
	ck_assert_str_eq(ddp__call_text(&c, text), "ddp_init");
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("topology");

	tcase_set_timeout(tc, 10);
	tcase_add_test(tc, neighbours_share_a_host);
	tcase_add_test(tc, ranks_of_hosts_interleave);
	tcase_add_test(tc, an_endpoint_record_survives_its_encoding);
	tcase_add_test(tc, differences_are_named);
	tcase_add_test(tc, calls_as_words);
	return run_case(tc);
}
