/* test_gather_fanout.c: each rank gets a gather's list through a tree with the
 * depth and fan-out that it was given, whichever ranks offer, in any order. */
#include <check.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/store/gather_fanout.h"
#include "rendezvous/store/store.h"
#include "tests/unit/run_case.h"

static struct share s;
static struct err e;

static void offer(uint32_t rank)
{
	char addr[32], token[WIRE_TOKEN_SIZE];
	struct wire_share m = {.port = (uint16_t)(1000 + rank)};

	snprintf(addr, sizeof(addr), "10.0.0.%u", rank);
	memset(token, (int)rank, sizeof(token));
	m.addr = SLICE_STR(addr);
	m.token = SLICE(token, sizeof(token));
	ck_assert_int_eq(gather_fanout_is_offer(&m, &e), 1);
	ck_assert_int_eq(gather_fanout_offer(&s, rank, &m, &e), 0);
}

/* Ranks first, first + a_host, ... of `size` offer, alternately from both ends,
 * as they may come in any order. */
static void offer_each(uint32_t first, uint32_t a_host, uint32_t size)
{
	uint32_t n = size > first ? (size - first + a_host - 1) / a_host : 0;

	for (uint32_t i = 0, j = n; i < j; i++) {
		offer(first + i * a_host);
		if (--j > i)
			offer(first + j * a_host);
	}
}

/* Checks that each rank reaches the server in as many steps as it was given,
 * and that each sender gets as many ranks as it was given. */
static void is_tree(uint32_t size)
{
	uint32_t *comers = calloc(size, sizeof(*comers)), roots = 0;

	for (uint32_t r = 0; r < size; r++) {
		struct share_part part = gather_fanout_part_of(&s, r, size),
				  up = part;
		uint32_t steps = 0;

		roots += !part.from;
		if (part.from) {
			ck_assert_uint_ne(part.from->rank, r);
			ck_assert_uint_eq(part.from->port,
					  1000 + part.from->rank);
			comers[part.from->rank]++;
		}
		for (; up.from; steps++)
			up = gather_fanout_part_of(&s, up.from->rank, size);
		ck_assert_uint_eq(steps, part.depth);
	}
	ck_assert_uint_eq(roots, 1);
	for (uint32_t r = 0; r < size; r++)
		ck_assert_uint_eq(gather_fanout_part_of(&s, r, size).comers,
				  comers[r]);
	free(comers);
}

START_TEST(every_rank_gets_the_list_from_a_relay_or_the_server)
{
	for (uint32_t a_host = 1; a_host < 6; a_host++)
		for (uint32_t size = 1; size < 60; size++)
			for (uint32_t first = 0; first < a_host && first < size;
			     first++) {
				offer_each(first, a_host, size);
				is_tree(size);
				gather_fanout_release(&s);
			}
}
END_TEST

START_TEST(a_relay_serves_four_hosts_and_its_own_at_most)
{
	const uint32_t size = 16384, a_host = 8;

	offer_each(0, a_host, size);
	ck_assert_uint_eq(s.n, 2048);
	is_tree(size);
	for (uint32_t r = 0; r < size; r++) {
		struct share_part part = gather_fanout_part_of(&s, r, size);

		ck_assert_uint_le(part.comers, SHARE_FANOUT + a_host - 1);
		ck_assert_uint_le(part.depth, 7);
		if (r % a_host)
			ck_assert_uint_eq(part.from->rank, r - r % a_host);
	}
	gather_fanout_release(&s);
}
END_TEST

START_TEST(without_relays_the_server_sends_the_whole_list)
{
	struct share_part part = gather_fanout_part_of(&s, 3, 5);

	ck_assert_ptr_null(part.from);
	ck_assert_uint_eq(part.comers + part.depth, 0);
}
END_TEST

START_TEST(a_withdrawn_relay_serves_nobody)
{
	offer_each(0, 2, 12);
	gather_fanout_withdraw(&s, 4);
	gather_fanout_withdraw(&s, 5); /* never offered */
	is_tree(12);
	ck_assert_uint_eq(gather_fanout_part_of(&s, 5, 12).from->rank, 2);
	gather_fanout_withdraw(&s, 0);
	is_tree(12);
	ck_assert_uint_eq(gather_fanout_part_of(&s, 0, 12).from->rank, 2);
	for (uint32_t r = 0; r < 12; r++)
		gather_fanout_withdraw(&s, r);
	ck_assert_uint_eq(s.n, 0);
	gather_fanout_release(&s);
}
END_TEST

/* Under UBSan: nothing is computed from an array that does not exist. */
START_TEST(withdrawing_where_nobody_offered_changes_nothing)
{
	gather_fanout_withdraw(&s, 3);
	ck_assert_uint_eq(s.n, 0);
	ck_assert_ptr_null(s.places);
}
END_TEST

static void come(struct store *st, struct store_waiter *w, uint32_t rank)
{
	const struct wire_share m = {
		.port = 1, .addr = SLICE_STR("10.0.0.1"),
		.token = SLICE("0123456789abcdef", WIRE_TOKEN_SIZE)};

	ck_assert_int_eq(store_gather(st, SLICE_STR("g"), 3, rank,
				      SLICE_STR("v"), w, &e), 0);
	ck_assert_int_eq(store_offer(w, &m, &e), 0);
}

START_TEST(an_offer_ends_with_its_caller)
{
	const struct store_limits limits = {1 << 10, 1 << 20, 1 << 10, 8};
	struct store *st = store_new(&limits);
	struct store_waiter a = {.owner = NULL}, b = a;
	struct share *share;

	come(st, &a, 0);
	come(st, &b, 1);
	share = store_share(a.meeting);
	ck_assert_uint_eq(share->n, 2);
	store_waiter_release(&a);
	ck_assert_uint_eq(share->n, 1);
	ck_assert_uint_eq(share->places[0].rank, 1);
	store_waiter_release(&b);
	store_free(st);
}
END_TEST

START_TEST(an_incomplete_offer_is_ignored)
{
	const struct slice token = SLICE("0123456789abcdef", WIRE_TOKEN_SIZE);
	const struct wire_share none = {.port = 0}, bad[] = {
		{.port = 1, .addr = SLICE_STR("h")},
		{.port = 1, .token = token},
		{.addr = SLICE_STR("h"), .token = token},
		{.addr = SLICE_STR("h")},
		{.token = token},
		{.port = 1, .addr = SLICE_STR("h"), .token = SLICE("0123", 4)},
		{.port = 1, .addr = SLICE("h\0x", 3), .token = token},
	};

	ck_assert_int_eq(gather_fanout_is_offer(&none, &e), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_int_eq(gather_fanout_is_offer(&bad[i], &e),
				 ERR_PROTOCOL);
}
END_TEST

static int join(struct store *st, struct store_waiter *w, int of_nodes,
		uint32_t node, uint32_t rank)
{
	const struct wire_share m = {
		.key = SLICE_STR("g"), .size = 2, .value = SLICE_STR("v"),
		.port = 1, .addr = SLICE_STR("10.0.0.1"),
		.token = SLICE("0123456789abcdef", WIRE_TOKEN_SIZE),
		.of_nodes = (uint8_t)of_nodes, .node = node};

	return gather_fanout_join(st, &m, rank, w, &e);
}

START_TEST(a_gather_of_nodes_does_not_fail_when_a_rank_leaves)
{
	const struct store_limits limits = {1 << 10, 1 << 20, 1 << 10, 8};
	struct store *st = store_new(&limits);
	struct store_waiter a = {.owner = NULL}, b = a, c = a;

	store_rank_left(st, 0, "rank 0 on h1 exited with code 0");
	ck_assert_int_eq(join(st, &a, 1, 0, 0), 0);
	ck_assert_ptr_null(store_woken(st));
	store_rank_left(st, 1, "rank 1 on h1 exited with code 0");
	store_waiter_release(&a); /* its connection was lost */
	ck_assert_int_eq(join(st, &a, 1, 0, 0), 0);
	ck_assert_int_eq(join(st, &c, 0, 0, 1), ERR_ARGUMENT);
	ck_assert_str_eq(e.text, "'g' is a gather of nodes of 2 for the other "
				 "callers, but a gather of 2 for this one");
	ck_assert_uint_eq(store_share(a.meeting)->n, 1);
	/* its ranks begin with 5 */
	ck_assert_int_eq(join(st, &b, 1, 1, 5), 0);
	ck_assert_uint_eq(store_share(a.meeting)->places[1].rank, 1);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(store_woken(st)->code, 0);
	store_waiter_release(&a);
	store_waiter_release(&b);
	store_free(st);
}
END_TEST

START_TEST(the_hash_is_of_the_bytes_that_are_passed_on)
{
	static const char bytes[] = "\x03\0\0\0one\0\0\0\0\x05\0\0\0three";
	const struct slice values[] = {SLICE_STR("one"), SLICE("", 0),
				       SLICE_STR("three")};
	unsigned char hash[WIRE_HASH_SIZE];

	crypto_generichash(hash, sizeof(hash), (const unsigned char *)bytes,
			   sizeof(bytes) - 1, NULL, 0);
	for (int again = 0; again < 2; again++)
		gather_fanout_digest(&s, values, 3);
	ck_assert_uint_eq(s.bytes, sizeof(bytes) - 1);
	ck_assert(!memcmp(s.hash, hash, sizeof(hash)));
	gather_fanout_release(&s);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("share");

	tcase_add_test(t, every_rank_gets_the_list_from_a_relay_or_the_server);
	tcase_add_test(t, a_relay_serves_four_hosts_and_its_own_at_most);
	tcase_add_test(t, without_relays_the_server_sends_the_whole_list);
	tcase_add_test(t, a_withdrawn_relay_serves_nobody);
	tcase_add_test(t, withdrawing_where_nobody_offered_changes_nothing);
	tcase_add_test(t, an_offer_ends_with_its_caller);
	tcase_add_test(t, an_incomplete_offer_is_ignored);
	tcase_add_test(t,
		       a_gather_of_nodes_does_not_fail_when_a_rank_leaves);
	tcase_add_test(t, the_hash_is_of_the_bytes_that_are_passed_on);
	return run_case(t);
}
