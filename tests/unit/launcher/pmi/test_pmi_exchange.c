/* test_pmi_exchange.c: values that nodes exchange, and the requests to the
 * store by which they do. */
/* replaces: round_client_start round_client_call round_client_close */
#include <stdlib.h>

#include "launcher/pmi/pmi_exchange.h"
#include "tests/unit/launcher/pmi/round_store.h"

enum { NODES = 3 };

static const struct pmi_exchange_round round_of_three = {
	.name = "MPI", .node_rank = 1, .nnodes = NODES};
static struct pmi_exchange x;
static uv_loop_t loop;
static int done, failed, closed, begins_again;
static char values[NODES][20], last_bytes[NODES][4], why[ERR_TEXT_MAX];
static size_t sizes[NODES];

static void on_done(struct pmi_exchange *from, const struct slice *all)
{
	ck_assert_ptr_eq(from, &x);
	done++;
	for (int i = 0; i < NODES; i++) {
		snprintf(values[i], sizeof(values[i]), "%.*s",
			 SLICE_FMT(all[i]));
		sizes[i] = all[i].len;
		if (sizes[i] >= 3)
			memcpy(last_bytes[i], all[i].data + sizes[i] - 3, 3);
	}
	if (begins_again)
		pmi_exchange_begin(&x, SLICE_STR("again"));
}

static void on_failed(struct pmi_exchange *from, const struct err *e)
{
	ck_assert_ptr_eq(from, &x);
	failed++;
	snprintf(why, sizeof(why), "%s", e->text);
}

static void on_closed(struct pmi_exchange *from)
{
	ck_assert_ptr_eq(from, &x);
	closed++;
}

static const struct pmi_exchange_events events = {
	.on_done = on_done,
	.on_failed = on_failed,
	.on_closed = on_closed,
};

static int start(struct err *e)
{
	struct pmi_exchange_round round = round_of_three;

	round.self = store_self;
	x.owner = &loop;
	return pmi_exchange_start(&x, &loop, &round, &events, e);
}

static void end(void)
{
	pmi_exchange_close(&x);
	ck_assert_int_eq(clients[0].closed, 1);
	clients[0].c->events->on_closed(clients[0].c);
	ck_assert_int_eq(closed, 1);
	release_store();
}

static void expect_set(const char *name, const char *value)
{
	const struct wire_frame f = request_of(0, WIRE_SET);
	struct wire_key_value s;

	ck_assert_int_eq(wire_get_key_value(&f, &s, NULL), 0);
	expect_text(s.key, name);
	expect_text(s.value, value);
}

static void expect_barrier(const char *name)
{
	const struct wire_frame f = request_of(0, WIRE_BARRIER);
	struct wire_barrier b;

	ck_assert_int_eq(wire_get_barrier(&f, &b, NULL), 0);
	expect_text(b.key, name);
	ck_assert_uint_eq(b.size, NODES);
	ck_assert_uint_eq(b.timeout_ms, WIRE_NO_TIMEOUT);
}

static void expect_get(const char *const names[NODES])
{
	const struct wire_frame f = request_of(0, WIRE_MULTI_GET);
	struct wire_list l;
	struct reader r;

	ck_assert_int_eq(wire_get_list(&f, &l, NULL), 0);
	ck_assert_uint_eq(l.items.count, NODES);
	reader_init(&r, l.items.bytes);
	for (int i = 0; i < NODES; i++)
		expect_text(reader_slice(&r), names[i]);
	ck_assert(!r.bad && !reader_left(&r));
}

/* Values of `count` nodes; NULL: the store does not have it. `size`: the bytes
 * of them that arrive. */
static void reply_values(const char *const all[NODES], uint32_t count,
			 size_t size)
{
	struct buf items = BUF_INIT(1000), b = BUF_INIT(1000);
	struct wire_list l = {.items = {.count = count}};

	for (int i = 0; i < NODES; i++) {
		buf_put_u8(&items, all[i] != NULL);
		buf_put_slice(&items, SLICE_STR(all[i] ? all[i] : ""));
	}
	l.items.bytes = SLICE(items.data, size < items.len ? size : items.len);
	wire_put_list(&b, WIRE_MULTI_GET, WIRE_REPLY, x.client.id, &l);
	reply_to(0, &b);
	buf_release(&items);
}

static const char *const three[NODES] = {"of 0", "", "of 2"};

/* Up to the last request. */
static void exchange(const char *mine)
{
	pmi_exchange_begin(&x, SLICE_STR(mine));
	reply_empty(0, WIRE_SET);
	reply_empty(0, WIRE_BARRIER);
}

START_TEST(a_value_is_set_nodes_meet_and_each_gets_all)
{
	static const char *const names[][NODES] = {
		{"MPI/1/node 0", "MPI/1/node 1", "MPI/1/node 2"},
		{"MPI/2/node 0", "MPI/2/node 1", "MPI/2/node 2"}};

	ck_assert_int_eq(start(NULL), 0);
	ck_assert_ptr_eq(x.owner, &loop);
	no_request_of(0);
	for (int i = 0; i < 2; i++) {
		pmi_exchange_begin(&x, SLICE_STR(i ? "mine" : ""));
		expect_set(names[i][1], i ? "mine" : "");
		reply_empty(0, WIRE_SET);
		expect_barrier(i ? "MPI/2 (of nodes)" : "MPI/1 (of nodes)");
		reply_empty(0, WIRE_BARRIER);
		expect_get(names[i]);
		ck_assert_int_eq(done, i);
		reply_values(three, NODES, SIZE_MAX);
		ck_assert_int_eq(done, i + 1);
		for (int k = 0; k < NODES; k++)
			ck_assert_str_eq(values[k], three[k]);
		no_request_of(0);
	}
	ck_assert_int_eq(failed, 0);
	end();
}

START_TEST(the_next_exchange_may_begin_at_the_end_of_one)
{
	ck_assert_int_eq(start(NULL), 0);
	begins_again = 1;
	exchange("first");
	reply_values(three, NODES, SIZE_MAX);
	expect_set("MPI/2/node 1", "again");
	end();
}

/* The server came back. */
START_TEST(a_repeated_request_has_the_same_bytes)
{
	struct buf again = BUF_INIT(1000);

	ck_assert_int_eq(start(NULL), 0);
	pmi_exchange_begin(&x, SLICE_STR("mine"));
	for (int i = 0; i < 3; i++) {
		const struct buf *b = &clients[0].request;

		buf_reset(&again);
		x.client.events->put(&x.client, &again, x.client.id);
		ck_assert_uint_eq(again.len, b->len);
		ck_assert_mem_eq(again.data, b->data, b->len);
		if (i < 2)
			reply_empty(0, i ? WIRE_BARRIER : WIRE_SET);
	}
	buf_release(&again);
	end();
}

static void reply_value(int found, const char *bytes, size_t size)
{
	struct buf b = BUF_INIT(WIRE_BODY_MAX);

	wire_put_value(&b, WIRE_GET, WIRE_REPLY, x.client.id,
		       &(struct wire_value){(uint8_t)found,
					    SLICE(bytes, size)});
	reply_to(0, &b);
}

static void expect_get_piece(const char *name)
{
	const struct wire_frame f = request_of(0, WIRE_GET);
	struct wire_key k;

	ck_assert_int_eq(wire_get_key(&f, &k, NULL), 0);
	expect_text(k.key, name);
}

/* The size of this node's value: two pieces, or one and an empty one. */
static const size_t large[] = {PMI_EXCHANGE_PIECE + 9, PMI_EXCHANGE_PIECE};

static void expect_set_piece(const char *name, const char *bytes, size_t size)
{
	const struct wire_frame f = request_of(0, WIRE_SET);
	struct wire_key_value s;

	ck_assert_int_eq(wire_get_key_value(&f, &s, NULL), 0);
	expect_text(s.key, name);
	ck_assert_uint_eq(s.value.len, size);
	ck_assert(size == 0 || memcmp(s.value.data, bytes, size) == 0);
}

START_TEST(a_large_value_is_set_and_got_in_pieces)
{
	static const char *const two[NODES] = {"of 0", NULL, NULL};
	char *mine = malloc(large[0]);

	for (size_t i = 0; i < large[0]; i++)
		mine[i] = (char)('a' + i % 23);
	ck_assert_int_eq(start(NULL), 0);
	pmi_exchange_begin(&x, SLICE(mine, large[_i]));
	expect_set_piece("MPI/1/node 1/0", mine, PMI_EXCHANGE_PIECE);
	reply_empty(0, WIRE_SET);
	expect_set_piece("MPI/1/node 1/1", mine + PMI_EXCHANGE_PIECE,
			 large[_i] - PMI_EXCHANGE_PIECE);
	reply_empty(0, WIRE_SET);
	expect_barrier("MPI/1 (of nodes)");
	reply_empty(0, WIRE_BARRIER);
	reply_values(two, NODES, SIZE_MAX);
	expect_get_piece("MPI/1/node 2/0");
	reply_value(1, mine, PMI_EXCHANGE_PIECE);
	expect_get_piece("MPI/1/node 2/1");
	ck_assert_int_eq(done, 0);
	reply_value(1, "end", 3);
	ck_assert_int_eq(done, 1);
	ck_assert_uint_eq(sizes[0], 4);
	ck_assert_uint_eq(sizes[1], large[_i]);
	ck_assert_uint_eq(sizes[2], PMI_EXCHANGE_PIECE + 3);
	ck_assert_str_eq(values[0], "of 0");
	ck_assert_mem_eq(values[1], mine, sizeof(values[1]) - 1);
	ck_assert_str_eq(last_bytes[2], "end");
	no_request_of(0);
	ck_assert_int_eq(failed, 0);
	free(mine);
	end();
}

/* As many nodes send more than one reply holds. */
START_TEST(values_that_do_not_fit_into_one_reply_are_set_in_pieces)
{
	size_t fits = PMI_EXCHANGE_REPLY_MAX / NODES;
	char *mine = calloc(1, fits + 1);

	ck_assert_int_eq(start(NULL), 0);
	pmi_exchange_begin(&x, SLICE(mine, fits + (size_t)_i));
	expect_set_piece(_i ? "MPI/1/node 1/0" : "MPI/1/node 1", mine,
			 fits + (size_t)_i);
	reply_empty(0, WIRE_SET);
	expect_barrier("MPI/1 (of nodes)");
	free(mine);
	end();
}

START_TEST(a_piece_that_is_missing_or_torn_is_a_failure)
{
	static const char *const two[NODES] = {"of 0", NULL, "of 2"};
	struct buf b = BUF_INIT(100);

	ck_assert_int_eq(start(NULL), 0);
	x.round.node_rank = 0;
	exchange("mine");
	reply_values(two, NODES, SIZE_MAX);
	expect_get_piece("MPI/1/node 1/0");
	if (_i == 0) {
		reply_value(0, "", 0);
	} else {
		wire_put_empty(&b, WIRE_GET, WIRE_REPLY, x.client.id);
		reply_to(0, &b);
	}
	ck_assert_int_eq(done, 0);
	ck_assert_int_eq(failed, 1);
	if (_i == 0)
		ck_assert_str_eq(why, "the store lacks node 1's part of MPI's "
				      "exchange 1");
	end();
}

START_TEST(pieces_have_a_maximum)
{
	static const char *const two[NODES] = {"of 0", "of 1", NULL};
	char *piece = calloc(1, PMI_EXCHANGE_PIECE);

	ck_assert_int_eq(start(NULL), 0);
	exchange("mine");
	reply_values(two, NODES, SIZE_MAX);
	for (int i = 0; i <= PMI_EXCHANGE_VALUE_MAX / PMI_EXCHANGE_PIECE; i++) {
		ck_assert_int_eq(failed, 0);
		reply_value(1, piece, PMI_EXCHANGE_PIECE);
	}
	ck_assert_int_eq(failed, 1);
	ck_assert_str_eq(why, "node 2's part of MPI's exchange 1 has more than "
			      "67108864 bytes");
	no_request_of(0);
	free(piece);
	end();
}

START_TEST(a_value_that_is_missing_is_a_failure)
{
	static const char *const two[NODES] = {"of 0", NULL, "of 2"};

	ck_assert_int_eq(start(NULL), 0);
	x.round.node_rank = 0;
	exchange("mine");
	if (_i == 0) {
		reply_values(two, NODES, SIZE_MAX);
		reply_value(0, "", 0);
	} else {
		reply_values(three, NODES - 1, SIZE_MAX);
	}
	ck_assert_int_eq(done, 0);
	ck_assert_int_eq(failed, 1);
	ck_assert_str_eq(why, _i == 0 ? "the store lacks node 1's part of "
					"MPI's exchange 1"
				      : "the store lacks node 0's part of "
					"MPI's exchange 1");
	end();
}

START_TEST(values_that_are_torn_are_a_failure)
{
	ck_assert_int_eq(start(NULL), 0);
	exchange("mine");
	if (_i == 0)
		reply_values(three, NODES, 20);
	else
		reply_empty(0, WIRE_MULTI_GET);
	ck_assert_int_eq(done, 0);
	ck_assert_int_eq(failed, 1);
	if (_i == 0)
		ck_assert_str_eq(why, "MULTI_GET: malformed");
	end();
}

START_TEST(a_value_that_is_too_long_is_a_failure)
{
	char *mine = calloc(1, PMI_EXCHANGE_VALUE_MAX + 1);

	ck_assert_int_eq(start(NULL), 0);
	pmi_exchange_begin(&x, SLICE(mine, PMI_EXCHANGE_VALUE_MAX + 1));
	ck_assert_int_eq(failed, 1);
	ck_assert_str_eq(why, "this node's part of MPI's exchange has 67108865 "
			      "bytes, more than 67108864");
	no_request_of(0);
	free(mine);
	end();
}

START_TEST(requests_and_errors_of_its_client_reach_the_owner)
{
	struct err e = {.code = ERR_REMOTE, .text = "the server refused"};

	start_fails = 1;
	ck_assert_int_eq(start(&e), ERR_SYSTEM);
	start_fails = 0;
	ck_assert_int_eq(start(NULL), 0);
	ck_assert_ptr_eq(x.client.self.arg, &store_server);
	ck_assert_ptr_eq(x.client.loop, &loop);
	x.client.events->on_failed(&x.client, &e);
	ck_assert_int_eq(failed, 1);
	ck_assert_str_eq(why, e.text);
	end();
}

int main(void)
{
	TCase *c = tcase_create("pmi_exchange");

	tcase_add_test(c, a_value_is_set_nodes_meet_and_each_gets_all);
	tcase_add_test(c, the_next_exchange_may_begin_at_the_end_of_one);
	tcase_add_test(c, a_repeated_request_has_the_same_bytes);
	tcase_add_loop_test(c, a_large_value_is_set_and_got_in_pieces, 0, 2);
	tcase_add_loop_test(
		c, values_that_do_not_fit_into_one_reply_are_set_in_pieces, 0,
		2);
	tcase_add_loop_test(c, a_piece_that_is_missing_or_torn_is_a_failure, 0,
			    2);
	tcase_add_test(c, pieces_have_a_maximum);
	tcase_add_loop_test(c, a_value_that_is_missing_is_a_failure, 0, 2);
	tcase_add_loop_test(c, values_that_are_torn_are_a_failure, 0, 2);
	tcase_add_test(c, a_value_that_is_too_long_is_a_failure);
	tcase_add_test(c, requests_and_errors_of_its_client_reach_the_owner);
	return run_case(c);
}
