/* test_pmi_exchange.c: values that nodes exchange, the requests to the store by
 * which they do, and what it tells its relay and its fetch. */
/* replaces: round_client_start round_client_call round_client_close */
/* replaces: node_relay_start node_relay_offer node_relay_pass_on */
/* replaces: node_relay_close node_fetch_start node_fetch_close */
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

/* ---- other nodes ---- */

static struct node_relay *relay;
static struct node_fetch *fetch;
static int relay_starts, relay_start_fails, relay_closes, fetch_closes;
static char passed_on[100], fetched_from[100];
static uint32_t passed_to;

int __wrap_node_relay_start(struct node_relay *r, uv_loop_t *on,
			    const char *addr, uint32_t nnodes, struct err *e);
void __wrap_node_relay_offer(const struct node_relay *r, struct wire_share *m);
void __wrap_node_relay_pass_on(struct node_relay *r, struct slice list,
			       uint32_t comers);
void __wrap_node_relay_close(struct node_relay *r);
void __wrap_node_fetch_start(struct node_fetch *f, uv_loop_t *on,
			     const struct wire_shared *from, const char *own);
void __wrap_node_fetch_close(struct node_fetch *f);

int __wrap_node_relay_start(struct node_relay *r, uv_loop_t *on,
			    const char *addr, uint32_t nnodes, struct err *e)
{
	(void)on;
	ck_assert_str_eq(addr, "10.0.0.1");
	ck_assert_uint_eq(nnodes, NODES);
	relay_starts++;
	if (relay_start_fails)
		return err_set(e, ERR_SYSTEM, "no relay");
	relay = r;
	return 0;
}

void __wrap_node_relay_offer(const struct node_relay *r, struct wire_share *m)
{
	ck_assert_ptr_eq(r, relay);
	m->addr = SLICE_STR("10.0.0.1");
	m->port = 7;
	m->token = SLICE_STR("0123456789abcdef");
}

void __wrap_node_relay_pass_on(struct node_relay *r, struct slice list,
			       uint32_t comers)
{
	ck_assert_ptr_eq(r, relay);
	ck_assert_uint_le(list.len, sizeof(passed_on));
	memcpy(passed_on, list.data, list.len);
	passed_to = comers;
}

void __wrap_node_relay_close(struct node_relay *r)
{
	ck_assert_ptr_eq(r, relay);
	relay_closes++;
}

void __wrap_node_fetch_start(struct node_fetch *f, uv_loop_t *on,
			     const struct wire_shared *from, const char *own)
{
	(void)on;
	fetch = f;
	snprintf(fetched_from, sizeof(fetched_from), "%.*s:%u by %s",
		 SLICE_FMT(from->addr), from->port, own);
}

void __wrap_node_fetch_close(struct node_fetch *f)
{
	ck_assert_ptr_eq(f, fetch);
	fetch_closes++;
}

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

/* The list of these parts, each after its length. */
static struct buf list_of(const char *const parts[NODES], const size_t *lens)
{
	struct buf b = BUF_INIT(1000);

	for (int i = 0; i < NODES; i++)
		buf_put_slice(&b, SLICE(parts[i], lens[i]));
	return b;
}

/* A SHARE of this value; in_pieces: its value is elsewhere. */
static struct wire_share expect_share(const char *name, int in_pieces,
				      const char *value, size_t len)
{
	const struct wire_frame f = request_of(0, WIRE_SHARE);
	struct wire_share m;

	ck_assert_int_eq(wire_get_share(&f, &m, NULL), 0);
	expect_text(m.key, name);
	ck_assert_uint_eq(m.size, NODES);
	ck_assert_uint_eq(m.timeout_ms, WIRE_NO_TIMEOUT);
	ck_assert_uint_eq(m.of_nodes, 1);
	ck_assert_uint_eq(m.node, x.round.node_rank);
	ck_assert_uint_eq(m.value.len, 1 + len);
	ck_assert_int_eq(m.value.data[0], in_pieces);
	ck_assert(len == 0 || memcmp(m.value.data + 1, value, len) == 0);
	return m;
}

static void reply_shared(const struct wire_shared *m)
{
	struct buf b = BUF_INIT(1000);

	wire_put_shared(&b, WIRE_SHARE, WIRE_REPLY, x.client.id, m);
	reply_to(0, &b);
}

/* The whole list. `size`: the bytes of it that arrive. */
static void reply_list(const char *const parts[NODES], const size_t *lens,
		       uint32_t comers, size_t size)
{
	struct buf items = list_of(parts, lens);

	reply_shared(&(struct wire_shared){
		.comers = comers,
		.values = {NODES, SLICE(items.data, size < items.len
							    ? size
							    : items.len)}});
	buf_release(&items);
}

/* The first byte: whether the value is in pieces. */
static const char *const three[NODES] = {"\0of 0", "\0", "\0of 2"};
static const size_t three_lens[NODES] = {5, 1, 5};

START_TEST(a_value_is_shared_and_each_gets_all)
{
	ck_assert_int_eq(start(NULL), 0);
	ck_assert_ptr_eq(x.owner, &loop);
	no_request_of(0);
	for (int i = 0; i < 2; i++) {
		struct wire_share m;

		pmi_exchange_begin(&x, SLICE_STR(i ? "mine" : ""));
		m = expect_share(i ? "MPI/2 (of nodes)" : "MPI/1 (of nodes)",
				 0, "mine", i ? 4 : 0);
		ck_assert_uint_eq(m.port, 0);
		ck_assert_int_eq(done, i);
		reply_list(three, three_lens, 0, SIZE_MAX);
		ck_assert_int_eq(done, i + 1);
		for (int k = 0; k < NODES; k++)
			ck_assert_str_eq(values[k], three[k] + 1);
		no_request_of(0);
	}
	ck_assert_int_eq(failed, 0);
	ck_assert_int_eq(relay_starts, 0);
	end();
}

START_TEST(the_next_exchange_may_begin_at_the_end_of_one)
{
	ck_assert_int_eq(start(NULL), 0);
	begins_again = 1;
	pmi_exchange_begin(&x, SLICE_STR("first"));
	reply_list(three, three_lens, 0, SIZE_MAX);
	expect_share("MPI/2 (of nodes)", 0, "again", 5);
	end();
}

/* The size from which on this node offers to pass on the list. */
enum { OFFERS = PMI_EXCHANGE_PASSED_ON / NODES };

static void begin_large(size_t len)
{
	char *mine = calloc(1, len);

	x.round.addr = "10.0.0.1";
	pmi_exchange_begin(&x, SLICE(mine, len));
	free(mine);
}

static void close_relay(void)
{
	relay->on_closed(relay);
	relay = NULL;
}

static struct wire_share shared(void)
{
	const struct wire_frame f = request_of(0, WIRE_SHARE);
	struct wire_share m;

	ck_assert_int_eq(wire_get_share(&f, &m, NULL), 0);
	return m;
}

START_TEST(only_a_large_list_is_passed_on)
{
	ck_assert_int_eq(start(NULL), 0);
	begin_large(OFFERS - 2);
	ck_assert_uint_eq(shared().port, 0);
	reply_list(three, three_lens, 0, SIZE_MAX);
	begin_large(OFFERS - 1);
	ck_assert_uint_eq(shared().port, 7);
	expect_text(shared().addr, "10.0.0.1");
	expect_text(shared().token, "0123456789abcdef");
	reply_list(three, three_lens, 2, SIZE_MAX);
	ck_assert_int_eq(done, 2);
	ck_assert_uint_eq(passed_to, 2);
	ck_assert_mem_eq(passed_on, "\5\0\0\0\0of 0\1\0\0\0", 13);
	close_relay();
	ck_assert_int_eq(closed, 0);
	/* two nodes get it as often from the server */
	x.round.nnodes = 2;
	begin_large(OFFERS * 2);
	ck_assert_uint_eq(shared().port, 0);
	ck_assert_int_eq(relay_starts, 1);
	end();
}

START_TEST(a_node_that_cannot_pass_it_on_does_not_offer_it)
{
	ck_assert_int_eq(start(NULL), 0);
	relay_start_fails = 1;
	begin_large(OFFERS);
	ck_assert_int_eq(relay_starts, 1);
	ck_assert_uint_eq(shared().port, 0);
	end();
}

static const struct wire_shared from_node = {
	.comers = 1, .depth = 1, .bytes = 23,
	.hash = {"0123456789abcdef0123456789abcdef", 32},
	.addr = {"10.0.0.9", 8}, .port = 9, .token = {"0123456789abcdef", 16}};

static void expect_three(void)
{
	ck_assert_int_eq(done, 1);
	for (int k = 0; k < NODES; k++)
		ck_assert_str_eq(values[k], three[k] + 1);
}

static void close_fetch(void)
{
	fetch->on_closed(fetch);
	fetch = NULL;
}

START_TEST(a_list_comes_from_a_node_and_is_passed_on)
{
	struct buf all = list_of(three, three_lens);

	ck_assert_int_eq(start(NULL), 0);
	begin_large(OFFERS);
	reply_shared(&from_node);
	ck_assert_str_eq(fetched_from, "10.0.0.9:9 by 10.0.0.1");
	no_request_of(0);
	ck_assert_int_eq(done, 0);
	fetch->on_list(fetch, SLICE(all.data, all.len));
	expect_three();
	ck_assert_uint_eq(passed_to, 1);
	ck_assert_mem_eq(passed_on, all.data, all.len);
	close_fetch();
	close_relay();
	buf_release(&all);
	end();
}

START_TEST(the_server_sends_the_list_if_the_node_fails)
{
	struct buf all = list_of(three, three_lens), b = BUF_INIT(1000);

	ck_assert_int_eq(start(NULL), 0);
	begin_large(OFFERS);
	reply_shared(&from_node);
	fetch->on_list(fetch, SLICE(NULL, 0));
	close_fetch();
	request_of(0, WIRE_SHARED_LIST);
	ck_assert_int_eq(done, 0);
	wire_put_list(&b, WIRE_SHARED_LIST, WIRE_REPLY, x.client.id,
		      &(struct wire_list){{NODES, SLICE(all.data, all.len)}});
	reply_to(0, &b);
	expect_three();
	ck_assert_uint_eq(passed_to, 1);
	close_relay();
	buf_release(&all);
	end();
}

START_TEST(it_closes_when_its_relay_and_its_fetch_have)
{
	ck_assert_int_eq(start(NULL), 0);
	begin_large(OFFERS);
	reply_shared(&from_node);
	pmi_exchange_close(&x);
	ck_assert_int_eq(relay_closes, 1);
	ck_assert_int_eq(fetch_closes, 1);
	clients[0].c->events->on_closed(clients[0].c);
	close_fetch();
	ck_assert_int_eq(closed, 0);
	close_relay();
	ck_assert_int_eq(closed, 1);
	release_store();
}

/* The server came back. */
START_TEST(a_repeated_request_has_the_same_bytes)
{
	struct buf again = BUF_INIT(100000);
	const struct buf *b = &clients[0].request;

	ck_assert_int_eq(start(NULL), 0);
	begin_large(OFFERS);
	x.client.events->put(&x.client, &again, x.client.id);
	ck_assert_uint_eq(again.len, b->len);
	ck_assert_mem_eq(again.data, b->data, b->len);
	buf_release(&again);
	close_relay();
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
	static const char *const two[NODES] = {"\0of 0", "\1", "\1"};
	static const size_t lens[NODES] = {5, 1, 1};
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
	expect_share("MPI/1 (of nodes)", 1, "", 0);
	reply_list(two, lens, 0, SIZE_MAX);
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

/* As many nodes send more than one list holds. */
START_TEST(values_that_do_not_fit_into_one_list_are_set_in_pieces)
{
	size_t fits = PMI_EXCHANGE_REPLY_MAX / NODES - 1;
	char *mine = calloc(1, fits + 1);

	ck_assert_int_eq(start(NULL), 0);
	pmi_exchange_begin(&x, SLICE(mine, fits + (size_t)_i));
	if (_i) {
		expect_set_piece("MPI/1/node 1/0", mine, fits + 1);
		reply_empty(0, WIRE_SET);
		expect_share("MPI/1 (of nodes)", 1, "", 0);
	} else {
		expect_share("MPI/1 (of nodes)", 0, mine, fits);
	}
	free(mine);
	end();
}

START_TEST(a_piece_that_is_missing_or_torn_is_a_failure)
{
	static const char *const two[NODES] = {"\0of 0", "\1", "\0of 2"};
	static const size_t lens[NODES] = {5, 1, 5};
	struct buf b = BUF_INIT(100);

	ck_assert_int_eq(start(NULL), 0);
	x.round.node_rank = 0;
	pmi_exchange_begin(&x, SLICE_STR("mine"));
	reply_list(two, lens, 0, SIZE_MAX);
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
	static const char *const two[NODES] = {"\0of 0", "\0of 1", "\1"};
	static const size_t lens[NODES] = {5, 5, 1};
	char *piece = calloc(1, PMI_EXCHANGE_PIECE);

	ck_assert_int_eq(start(NULL), 0);
	pmi_exchange_begin(&x, SLICE_STR("mine"));
	reply_list(two, lens, 0, SIZE_MAX);
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

/* A list that ends early, one with an empty part, and none. */
START_TEST(a_list_that_is_torn_is_a_failure)
{
	static const size_t no_lens[NODES] = {5, 0, 5};

	ck_assert_int_eq(start(NULL), 0);
	pmi_exchange_begin(&x, SLICE_STR("mine"));
	if (_i == 0)
		reply_list(three, three_lens, 0, 20);
	else if (_i == 1)
		reply_list(three, no_lens, 0, SIZE_MAX);
	else
		reply_empty(0, WIRE_SHARE);
	ck_assert_int_eq(done, 0);
	ck_assert_int_eq(failed, 1);
	if (_i < 2)
		ck_assert_str_eq(why, _i ? "node 1's part of MPI's exchange 1 "
					   "is malformed"
					 : "node 2's part of MPI's exchange 1 "
					   "is malformed");
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

	tcase_add_test(c, a_value_is_shared_and_each_gets_all);
	tcase_add_test(c, the_next_exchange_may_begin_at_the_end_of_one);
	tcase_add_test(c, only_a_large_list_is_passed_on);
	tcase_add_test(c, a_node_that_cannot_pass_it_on_does_not_offer_it);
	tcase_add_test(c, a_list_comes_from_a_node_and_is_passed_on);
	tcase_add_test(c, the_server_sends_the_list_if_the_node_fails);
	tcase_add_test(c, it_closes_when_its_relay_and_its_fetch_have);
	tcase_add_test(c, a_repeated_request_has_the_same_bytes);
	tcase_add_loop_test(c, a_large_value_is_set_and_got_in_pieces, 0, 2);
	tcase_add_loop_test(
		c, values_that_do_not_fit_into_one_list_are_set_in_pieces, 0,
		2);
	tcase_add_loop_test(c, a_piece_that_is_missing_or_torn_is_a_failure, 0,
			    2);
	tcase_add_test(c, pieces_have_a_maximum);
	tcase_add_loop_test(c, a_list_that_is_torn_is_a_failure, 0, 3);
	tcase_add_test(c, a_value_that_is_too_long_is_a_failure);
	tcase_add_test(c, requests_and_errors_of_its_client_reach_the_owner);
	return run_case(c);
}
