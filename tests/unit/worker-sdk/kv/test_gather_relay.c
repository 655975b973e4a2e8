/* test_gather_relay.c: what an eavesdropper on the network sees of a list that
 * ranks relay to each other, and what an attacker can do with it. */
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/unit/forked.h"
#include "tests/unit/run_case.h"
#include "worker-sdk/kv/gather_relay.h"

enum { LIST = 100001, TEXT = 20 };

static const char text[] = "the key of the mesh."; /* TEXT bytes, repeated */
static char list[LIST];

/* A rank that has the whole list, and relays it. */
static struct source {
	struct ddp__relay relay;
	struct wire_share m;
	pid_t pid;
} source;

static struct wire_shared told_of(uint32_t comers, uint16_t port)
{
	static char hash[WIRE_HASH_SIZE];

	crypto_generichash((unsigned char *)hash, sizeof(hash),
			   (const unsigned char *)list, LIST, NULL, 0);
	return (struct wire_shared){.comers = comers, .depth = 1,
				    .bytes = LIST,
				    .hash = SLICE(hash, sizeof(hash)),
				    .addr = SLICE_STR("127.0.0.1"),
				    .port = port, .token = source.m.token};
}

static int is_list(const char *got, size_t n)
{
	return n == LIST && !memcmp(got, list, LIST);
}

/* Runs in a child, which must not use ck_*. */
static int pass_on(const struct ddp__relay *relay,
		   const struct wire_shared *told)
{
	struct err e = ERR_INIT;
	char *got = NULL;
	size_t n = 0;
	int rc = ddp__relay_on(relay, NULL, told, 1, &got, &n, &e);

	rc = rc || !is_list(got, n);
	free(got);
	return rc;
}

static void start_source(uint32_t comers)
{
	struct wire_shared told;

	for (size_t i = 0; i < LIST; i++)
		list[i] = text[i % TEXT];
	ddp__relay_open(&source.relay, "127.0.0.1", &source.m);
	ck_assert_uint_ne(source.m.port, 0);
	told = told_of(comers, 0);
	told.values.count = 1;
	told.values.bytes = SLICE(list, LIST);
	fflush(NULL);
	source.pid = fork();
	if (source.pid == 0)
		_exit(pass_on(&source.relay, &told));
	ck_assert_int_gt(source.pid, 0);
	ddp__listen_close(&source.relay.listener);
}

static void ends_well(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

static int call_source(void)
{
	struct sock_addr a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(sock_addr_number("127.0.0.1", source.m.port, &a), 1);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&a.ss, a.len), 0);
	return fd;
}

static int say(const void *hello)
{
	int fd = call_source();

	ck_assert_int_eq(send(fd, hello, CIPHER_RELAY_HELLO, MSG_NOSIGNAL),
			 CIPHER_RELAY_HELLO);
	return fd;
}

/* Reads up to max bytes, or to the end. */
static size_t hear(int fd, char *to, size_t max)
{
	size_t n = 0;
	ssize_t k;

	while (n < max && (k = recv(fd, to + n, max - n, 0)) > 0)
		n += (size_t)k;
	return n;
}

/* ---- an attacker between two ranks ---- */

struct heard {
	char *data;
	size_t n;
};

/* Forwards bytes between the two, and keeps them; 0: `from` has ended. */
static int carry(int from, int to, struct heard *h)
{
	ssize_t n = recv(from, h->data + h->n, 2 * LIST - h->n, 0);

	if (n <= 0)
		return 0;
	ck_assert_int_eq(send(to, h->data + h->n, (size_t)n, MSG_NOSIGNAL), n);
	h->n += (size_t)n;
	return 1;
}

static void relay(int receiver, int passer, struct heard up_down[2])
{
	struct pollfd p[2] = {{receiver, POLLIN, 0}, {passer, POLLIN, 0}};
	int on = 1;

	for (int i = 0; i < 2; i++)
		up_down[i] = (struct heard){calloc(1, 2 * LIST), 0};
	while (on) {
		ck_assert_int_gt(poll(p, 2, -1), 0);
		if (p[0].revents)
			on = carry(receiver, passer, &up_down[0]);
		if (on && p[1].revents)
			on = carry(passer, receiver, &up_down[1]);
	}
	close(receiver);
	close(passer);
}

static int has(const struct heard *h, const void *what, size_t n)
{
	return memmem(h->data, h->n, what, n) != NULL;
}

START_TEST(a_network_reader_sees_neither_token_nor_list)
{
	struct err e = ERR_INIT;
	struct ddp__listener l;
	struct wire_shared told;
	struct ddp__relay none = {.listener = {.n = 0}};
	struct heard up_down[2];
	uint16_t port;
	pid_t receiver;

	start_source(1);
	ck_assert_int_eq(ddp__listen(&l, "127.0.0.1", &port, &e), 0);
	told = told_of(0, port);
	receiver = fork();
	if (receiver == 0)
		_exit(pass_on(&none, &told));
	ck_assert_int_eq(poll(&(struct pollfd){l.fd[0], POLLIN, 0}, 1, -1), 1);
	relay(accept(l.fd[0], NULL, NULL), call_source(), up_down);
	ddp__listen_close(&l);
	ends_well(receiver);
	ends_well(source.pid);
	ck_assert_uint_eq(up_down[0].n, CIPHER_RELAY_HELLO);
	ck_assert_uint_gt(up_down[1].n, LIST);
	for (int i = 0; i < 2; i++) {
		ck_assert(!has(&up_down[i], source.m.token.data,
			       WIRE_TOKEN_SIZE));
		ck_assert(!has(&up_down[i], text, TEXT / 2));
		free(up_down[i].data);
	}
}
END_TEST

/* Decrypts the recorded bytes; returns whether they are the list. */
static int opens(char *raw, size_t n)
{
	struct err e = ERR_INIT;
	struct cipher_way way;
	struct buf in = BUF_INIT(2 * LIST), out = BUF_INIT(2 * LIST);
	int is;

	cipher_relay_way(&way, source.m.token.data, raw);
	buf_put(&in, raw + CIPHER_RELAY_RANDOM, n - CIPHER_RELAY_RANDOM);
	is = cipher_take(&way, &in, &out, &e) == 0 && in.len == 0 &&
	     is_list(out.data, out.len);
	buf_release(&in);
	buf_release(&out);
	return is;
}

START_TEST(a_replayed_hello_gets_nothing)
{
	unsigned char hello[CIPHER_RELAY_HELLO];
	struct err e = ERR_INIT;
	char *got = malloc(2 * LIST);
	size_t n;
	int first, again;

	start_source(2);
	ck_assert_int_eq(cipher_relay_hello(hello, source.m.token.data, &e), 0);
	first = say(hello);
	ck_assert_uint_eq(hear(first, got, 1), 1);
	again = say(hello);
	ck_assert_uint_eq(hear(again, got + 1, 1), 0);
	n = 1 + hear(first, got + 1, 2 * LIST - 1);
	ck_assert(opens(got, n));
	close(first);
	close(again);
	/* nor after the rank that sent it has left */
	again = say(hello);
	ck_assert_uint_eq(hear(again, got, 1), 0);
	close(again);
	ck_assert_int_eq(cipher_relay_hello(hello, source.m.token.data, &e), 0);
	first = say(hello);
	ck_assert(opens(got, hear(first, got, 2 * LIST)));
	close(first);
	ends_well(source.pid);
	free(got);
}
END_TEST

START_TEST(a_wrong_hello_gets_nothing)
{
	static const char other[WIRE_TOKEN_SIZE] = "another";
	unsigned char hello[CIPHER_RELAY_HELLO];
	struct err e = ERR_INIT;
	char *got = malloc(2 * LIST);
	int fd;

	start_source(1);
	ck_assert_int_eq(cipher_relay_hello(hello, other, &e), 0);
	fd = say(hello);
	ck_assert_uint_eq(hear(fd, got, 1), 0);
	close(fd);
	ck_assert_int_eq(cipher_relay_hello(hello, source.m.token.data, &e), 0);
	hello[0] ^= 1;
	fd = say(hello);
	ck_assert_uint_eq(hear(fd, got, 1), 0);
	close(fd);
	hello[0] ^= 1;
	fd = say(hello);
	ck_assert(opens(got, hear(fd, got, 2 * LIST)));
	close(fd);
	ends_well(source.pid);
	free(got);
}
END_TEST

START_TEST(a_hello_may_arrive_in_parts)
{
	static const char other[WIRE_TOKEN_SIZE] = "another";
	enum { HALF = CIPHER_RELAY_HELLO / 2 };
	unsigned char hello[CIPHER_RELAY_HELLO], wrong[CIPHER_RELAY_HELLO];
	struct err e = ERR_INIT;
	char *got = malloc(2 * LIST);
	int fd, refused;

	start_source(1);
	ck_assert_int_eq(cipher_relay_hello(hello, source.m.token.data, &e), 0);
	ck_assert_int_eq(cipher_relay_hello(wrong, other, &e), 0);
	fd = call_source();
	ck_assert_int_eq(send(fd, hello, HALF, MSG_NOSIGNAL), HALF);
	/* once it has refused this one, it has read that half */
	refused = say(wrong);
	ck_assert_uint_eq(hear(refused, got, 1), 0);
	close(refused);
	ck_assert_int_eq(send(fd, hello + HALF, sizeof(hello) - HALF,
			      MSG_NOSIGNAL), (int)sizeof(hello) - HALF);
	ck_assert(opens(got, hear(fd, got, 2 * LIST)));
	close(fd);
	ends_well(source.pid);
	free(got);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pass");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_network_reader_sees_neither_token_nor_list);
	tcase_add_test(c, a_replayed_hello_gets_nothing);
	tcase_add_test(c, a_wrong_hello_gets_nothing);
	tcase_add_test(c, a_hello_may_arrive_in_parts);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
