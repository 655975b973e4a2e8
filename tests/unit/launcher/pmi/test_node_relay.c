/* test_node_relay.c: nodes that pass a list on, over real sockets, and what
 * strangers get. */
#include <sodium.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "launcher/pmi/node_relay.h"
#include "tests/unit/run_case.h"

enum { LIST = 1000001, FETCHES = 6 };

static uv_loop_t loop;
static char list[LIST];
static struct node_relay relay;
static int relay_closed, fetches_closed;
static struct wire_share offer;

static struct taker {
	struct node_fetch fetch;
	int ended, is_right;
} takers[FETCHES];

static void on_relay_closed(struct node_relay *r)
{
	ck_assert_ptr_eq(r, &relay);
	relay_closed++;
}

static void on_list(struct node_fetch *f, struct slice got)
{
	struct taker *t = f->owner;

	t->ended++;
	t->is_right = got.len == LIST && !memcmp(got.data, list, LIST);
	ck_assert(t->is_right || !got.data);
}

static void on_fetch_closed(struct node_fetch *f)
{
	(void)f;
	fetches_closed++;
}

static void begin(void)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(uv_loop_init(&loop), 0);
	for (size_t i = 0; i < LIST; i++)
		list[i] = (char)(i * 7 + i / 1000);
	relay.owner = &loop;
	relay.on_closed = on_relay_closed;
	ck_assert_int_eq(node_relay_start(&relay, &loop, "127.0.0.1", 3, &e),
			 0);
	ck_assert_ptr_eq(relay.owner, &loop);
	node_relay_offer(&relay, &offer);
	ck_assert_uint_eq(offer.token.len, WIRE_TOKEN_SIZE);
	ck_assert_uint_ne(offer.port, 0);
}

/* As the server tells it; whole: 0 if the list that it has is another. */
static void fetch_as(int i, struct slice token, int whole)
{
	char hash[WIRE_HASH_SIZE];
	const struct wire_shared from = {
		.depth = 1, .bytes = LIST, .hash = SLICE(hash, sizeof(hash)),
		.addr = offer.addr, .port = offer.port, .token = token};

	crypto_generichash((unsigned char *)hash, sizeof(hash),
			   (const unsigned char *)list,
			   whole ? LIST : LIST - 1, NULL, 0);
	takers[i].fetch.owner = &takers[i];
	takers[i].fetch.on_list = on_list;
	takers[i].fetch.on_closed = on_fetch_closed;
	node_fetch_start(&takers[i].fetch, &loop, &from, "127.0.0.1");
	ck_assert_ptr_eq(takers[i].fetch.owner, &takers[i]);
}

static void fetch(int i)
{
	fetch_as(i, offer.token, 1);
}

static void run_until(const int *what, int n)
{
	int is_alive = 1;

	for (; *what < n; is_alive = uv_run(&loop, UV_RUN_ONCE))
		ck_assert(is_alive);
}

static void end(void)
{
	ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	ck_assert_int_eq(relay_closed, 1);
}

static void pass_on(uint32_t comers)
{
	node_relay_pass_on(&relay, SLICE(list, LIST), comers);
}

/* _i: how many connect before the list is there. */
START_TEST(nodes_get_the_list_and_then_the_relay_closes)
{
	begin();
	ck_assert_str_eq(relay.addr, "127.0.0.1");
	for (int i = 0; i < _i; i++)
		fetch(i);
	while ((int)relay.npeers < _i)
		uv_run(&loop, UV_RUN_ONCE);
	pass_on(3);
	for (int i = _i; i < 3; i++)
		fetch(i);
	end();
	ck_assert_int_eq(fetches_closed, 3);
	for (int i = 0; i < 3; i++)
		ck_assert(takers[i].ended == 1 && takers[i].is_right);
}

START_TEST(without_nodes_to_serve_it_closes_at_once)
{
	begin();
	pass_on(0);
	end();
}

START_TEST(a_wrong_token_gets_nothing)
{
	begin();
	pass_on(1);
	fetch_as(0, SLICE_STR("0123456789abcdef"), 1);
	run_until(&takers[0].ended, 1);
	ck_assert(!takers[0].is_right);
	fetch(1);
	end();
	ck_assert(takers[1].is_right);
}

START_TEST(a_list_without_the_servers_hash_is_refused)
{
	begin();
	pass_on(1);
	fetch_as(0, offer.token, 0);
	end();
	ck_assert(takers[0].ended == 1 && !takers[0].is_right);
}

static int connect_raw(const void *bytes, size_t n)
{
	struct sock_addr at;
	int fd;

	ck_assert(sock_addr_number("127.0.0.1", offer.port, &at));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&at.ss, at.len), 0);
	ck_assert_int_eq(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
	return fd;
}

/* Runs the loop until the relay has closed this connection. */
static ssize_t read_end(int fd)
{
	char c;
	ssize_t n = -1;

	while (n < 0) {
		uv_run(&loop, UV_RUN_NOWAIT);
		n = recv(fd, &c, 1, MSG_DONTWAIT);
		if (n < 0 && errno == ECONNRESET)
			n = 0;
	}
	close(fd);
	return n;
}

START_TEST(a_hello_is_valid_once_and_nothing_follows_it)
{
	unsigned char hello[CIPHER_RELAY_HELLO + 1] = {0};
	struct err e = ERR_INIT;
	int fd;

	begin();
	pass_on(3);
	ck_assert_int_eq(cipher_relay_hello(hello, offer.token.data, &e), 0);
	fd = connect_raw(hello, CIPHER_RELAY_HELLO);
	ck_assert_int_eq(read_end(fd), 1); /* the salt */
	fd = connect_raw(hello, CIPHER_RELAY_HELLO);
	ck_assert_int_eq(read_end(fd), 0);
	ck_assert_int_eq(cipher_relay_hello(hello, offer.token.data, &e), 0);
	fd = connect_raw(hello, sizeof(hello));
	ck_assert_int_eq(read_end(fd), 0);
	node_relay_close(&relay);
	end();
}

START_TEST(strangers_do_not_keep_nodes_out)
{
	int fds[NODE_RELAY_STRANGERS + 8];

	begin();
	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		fds[i] = connect_raw("x", 1);
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	ck_assert_int_eq(read_end(fds[0]), 0); /* the oldest makes room */
	pass_on(1);
	fetch(0);
	end();
	ck_assert(takers[0].is_right);
	for (size_t i = 1; i < sizeof(fds) / sizeof(*fds); i++)
		close(fds[i]);
}

START_TEST(a_node_whose_source_goes_gets_nothing)
{
	begin();
	if (_i) { /* in the middle of the list */
		pass_on(1);
		relay.sealed.len = LIST / 2;
	}
	fetch(0);
	while (!relay.npeers)
		uv_run(&loop, UV_RUN_ONCE);
	if (!_i)
		node_relay_close(&relay);
	end();
	ck_assert(takers[0].ended == 1 && !takers[0].is_right);
}

START_TEST(a_source_that_does_not_listen_is_given_up)
{
	static const struct slice addrs[] = {
		{"127.0.0.1", 9}, {"no address", 10}, {"", 0}};

	begin();
	node_relay_close(&relay);
	run_until(&relay_closed, 1);
	offer.addr = addrs[_i];
	offer.token = SLICE_STR("0123456789abcdef");
	fetch(0);
	ck_assert_int_eq(takers[0].ended, 0); /* not before start returns */
	end();
	ck_assert(takers[0].ended == 1 && !takers[0].is_right);
}

START_TEST(a_fetch_that_is_closed_reports_nothing)
{
	begin();
	pass_on(1);
	fetch(0);
	node_fetch_close(&takers[0].fetch);
	run_until(&fetches_closed, 1);
	ck_assert_int_eq(takers[0].ended, 0);
	node_relay_close(&relay);
	end();
}

int main(void)
{
	TCase *c = tcase_create("node_relay");

	tcase_add_loop_test(c, nodes_get_the_list_and_then_the_relay_closes, 0,
			    4);
	tcase_add_test(c, without_nodes_to_serve_it_closes_at_once);
	tcase_add_test(c, a_wrong_token_gets_nothing);
	tcase_add_test(c, a_list_without_the_servers_hash_is_refused);
	tcase_add_test(c, a_hello_is_valid_once_and_nothing_follows_it);
	tcase_add_test(c, strangers_do_not_keep_nodes_out);
	tcase_add_loop_test(c, a_node_whose_source_goes_gets_nothing, 0, 2);
	tcase_add_loop_test(c, a_source_that_does_not_listen_is_given_up, 0, 3);
	tcase_add_test(c, a_fetch_that_is_closed_reports_nothing);
	return run_case(c);
}
