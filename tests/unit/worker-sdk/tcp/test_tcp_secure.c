/* test_tcp_secure.c: the records between ranks of different hosts carry their
 * data through sockets of any size, and nothing but the sender's data is
 * accepted. */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/unit/run_case.h"
#include "worker-sdk/tcp/tcp_secure.h"

enum {
	MOST = 3 * DDP__SECURE_TEXT + 1000,
	EXTRA = 20 /* header and tag */
};

static const unsigned char key[DDP__KEY] = {1, 2, 3};

/* A caller, a listener, and an attacker between them; [0] faces the end. */
static struct path {
	int caller[2], listener[2];
	struct ddp__secure *c, *l;
} path;

static void proved(struct ddp__hello *h, uint32_t c, uint32_t l)
{
	memset(h, 0, sizeof(*h));
	h->caller.secure = c;
	h->listener.secure = l;
	h->nonces[0][0] = 7;
	h->nonces[1][0] = 8;
}

static void open_path(uint32_t c, uint32_t l)
{
	struct ddp__hello h;

	ck_assert_int_eq(setenv("DDP_ENCRYPT_DATA", "1", 1), 0);
	ck_assert_int_gt(ddp__secure_wanted(NULL), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0,
				    path.caller), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0,
				    path.listener), 0);
	proved(&h, c, l);
	ck_assert_int_eq(ddp__secure_new(&path.c, &h, 1, key), 0);
	ck_assert_int_eq(ddp__secure_new(&path.l, &h, 0, key), 0);
}

static void close_path(void)
{
	for (int i = 0; i < 2; i++) {
		close(path.caller[i]);
		close(path.listener[i]);
	}
	ddp__secure_free(path.c);
	ddp__secure_free(path.l);
}

/* The encryption that this processor offers in its hello. */
static uint32_t best(void)
{
	setenv("DDP_ENCRYPT_DATA", "1", 1);
	return (uint32_t)ddp__secure_wanted(NULL);
}

static void fill(char *data, size_t n)
{
	for (size_t i = 0; i < n; i++)
		data[i] = (char)(i * 2654435761u >> 7);
}

/* Forwards the caller's bytes to the listener's side; up to max bytes. */
static size_t pass_on(size_t max)
{
	static char some[64 << 10];
	size_t done = 0;
	ssize_t n = 1;

	while (done < max && n > 0) {
		size_t part = max - done;

		n = recv(path.caller[1], some,
			 part < sizeof(some) ? part : sizeof(some), 0);
		if (n > 0)
			ck_assert_int_eq(send(path.listener[1], some,
					      (size_t)n, 0), n);
		done += n > 0 ? (size_t)n : 0;
	}
	return done;
}

/* Sends n bytes in two parts, receives them in parts of up to `at_once`
 * bytes. */
static void carries(size_t n, size_t first, size_t at_once)
{
	char *from = malloc(n), *to = calloc(1, n);
	size_t sent = 0, got = 0;

	fill(from, n);
	while (got < n) {
		size_t part = sent < first ? first - sent : 0;
		struct iovec out[2] = {{from + sent, part},
				       {from + sent + part, n - sent - part}};
		struct iovec in = {to + got,
				   n - got < at_once ? n - got : at_once};
		ssize_t k = sent < n ? ddp__secure_send(path.c, path.caller[0],
							out, 2)
				     : 0;

		ck_assert(k >= 0 || errno == EAGAIN);
		sent += k > 0 ? (size_t)k : 0;
		pass_on(16 << 10);
		k = ddp__secure_recv(path.l, path.listener[0], &in, 1);
		ck_assert(k > 0 || (k < 0 && errno == EAGAIN));
		got += k > 0 ? (size_t)k : 0;
	}
	ck_assert_uint_eq(sent, n);
	ck_assert(!ddp__secure_has(path.l));
	ck_assert(!ddp__secure_is_torn(path.c));
	ck_assert_mem_eq(from, to, n);
	free(from);
	free(to);
}

START_TEST(messages_of_all_sizes_arrive_unchanged)
{
	static const size_t sizes[] = {1, 48, DDP__SECURE_TEXT - 1,
				       DDP__SECURE_TEXT, DDP__SECURE_TEXT + 1,
				       MOST};

	for (int aes = 0; aes < 2; aes++) {
		uint32_t can = aes ? best() : DDP__SECURE_CHACHA;

		open_path(can, can);
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			carries(sizes[i], 0, MOST);
			carries(sizes[i], 1, 70001);
		}
		close_path();
	}
}
END_TEST

START_TEST(ends_with_and_without_aes_understand_each_other)
{
	open_path(best(), DDP__SECURE_CHACHA);
	carries(1000, 48, 1000);
	close_path();
}
END_TEST

static void say(const char *text)
{
	struct iovec iov = {(void *)text, strlen(text)};

	ck_assert_int_eq(ddp__secure_send(path.c, path.caller[0], &iov, 1),
			 (ssize_t)strlen(text));
}

static ssize_t hear(char *out, size_t size)
{
	struct iovec iov = {out, size};

	return ddp__secure_recv(path.l, path.listener[0], &iov, 1);
}

START_TEST(peeking_at_a_record_leaves_it)
{
	char seen[16] = "";

	open_path(best(), best());
	say("hello");
	ck_assert_int_eq(ddp__secure_peek(path.l, path.listener[0], seen, 5),
			 -1);
	pass_on(5 + EXTRA - 1);
	ck_assert_int_eq(ddp__secure_peek(path.l, path.listener[0], seen, 5),
			 -1);
	pass_on(1);
	ck_assert_int_eq(ddp__secure_peek(path.l, path.listener[0], seen, 4),
			 4);
	ck_assert_str_eq(seen, "hell");
	ck_assert(ddp__secure_has(path.l));
	ck_assert_int_eq(hear(seen, 2), 2);
	ck_assert_int_eq(hear(seen + 2, 10), 3);
	ck_assert_str_eq(seen, "hello");
	ck_assert(!ddp__secure_has(path.l));
	close_path();
}
END_TEST

START_TEST(the_network_carries_no_readable_text)
{
	static const char text[] = "forty weights that nobody else shall see";
	char raw[128];

	open_path(best(), best());
	say(text);
	ck_assert_int_eq(recv(path.caller[1], raw, sizeof(raw), 0),
			 (ssize_t)strlen(text) + EXTRA);
	ck_assert_ptr_null(memmem(raw, sizeof(raw), text, 4));
	close_path();
}
END_TEST

/* The caller sends "one"; the listener receives the record as changed by
 * act. */
static void is_found(void (*act)(char *record, size_t n))
{
	char raw[64], seen[16];
	ssize_t n;

	open_path(best(), best());
	say("one");
	n = recv(path.caller[1], raw, sizeof(raw), 0);
	ck_assert_int_eq(n, 3 + EXTRA);
	act(raw, (size_t)n);
	/* a second attempt: no more data is accepted from that connection */
	for (int i = 0; i < 2; i++) {
		errno = 0;
		ck_assert_int_eq(hear(seen, sizeof(seen)), -1);
		ck_assert_int_eq(errno, EBADMSG);
	}
	ck_assert(ddp__secure_is_broken(path.l));
	close_path();
}

static void put(const char *record, size_t n)
{
	ck_assert_int_eq(send(path.listener[1], record, n, 0), (ssize_t)n);
}

static void flip_text(char *r, size_t n)
{
	r[5] ^= 1;
	put(r, n);
}

static void flip_tag(char *r, size_t n)
{
	r[n - 1] ^= 0x40;
	put(r, n);
}

static void lengthen(char *r, size_t n)
{
	r[0]++;
	put(r, n);
	put(r, 1);
}

static void send_huge(char *r, size_t n)
{
	r[3] = 1;
	put(r, n);
}

static void send_empty(char *r, size_t n)
{
	memset(r, 0, 4);
	put(r, n);
}

static void repeat(char *r, size_t n)
{
	char seen[16];

	put(r, n);
	put(r, n);
	ck_assert_int_eq(hear(seen, sizeof(seen)), 3);
}

static void leave_out(char *r, size_t n)
{
	(void)r;
	(void)n;
	say("two");
	pass_on(3 + EXTRA);
}

static void turn_back(char *r, size_t n)
{
	struct iovec iov = {(void *)"its", 3};

	(void)n;
	ck_assert_int_eq(ddp__secure_send(path.l, path.listener[0], &iov, 1),
			 3);
	ck_assert_int_eq(recv(path.listener[1], r, 64, 0), 3 + EXTRA);
	put(r, 3 + EXTRA);
}

START_TEST(tampering_with_a_record_is_detected)
{
	is_found(flip_text);
	is_found(flip_tag);
	is_found(lengthen);
	is_found(send_huge);
	is_found(send_empty);
	is_found(repeat);
	is_found(leave_out);
	is_found(turn_back);
}
END_TEST

START_TEST(a_short_message_without_room_is_dropped_whole)
{
	struct iovec iov = {NULL, MOST}, shorts[2] = {{(void *)"b", 1},
						      {(void *)"ye", 2}};
	char *data = calloc(1, MOST), seen[8] = "";
	size_t sent = 0, got = 0;
	ssize_t n;

	open_path(best(), best());
	do { /* until the socket is full */
		iov.iov_base = data;
		n = ddp__secure_send(path.c, path.caller[0], &iov, 1);
		sent += n > 0 ? (size_t)n : 0;
	} while (n == MOST);
	ck_assert(ddp__secure_is_torn(path.c));
	ddp__secure_post(path.c, path.caller[0], shorts, 2); /* no room */
	do {
		size_t moved = pass_on(64 << 10);

		n = hear(data, MOST);
		got += n > 0 ? (size_t)n : 0;
		n = n > 0 || moved;
	} while (n);
	ddp__secure_post(path.c, path.caller[0], shorts, 2);
	for (n = -1; n != 3; got += n > 3 ? (size_t)n : 0) {
		pass_on(1 << 20);
		n = hear(data, MOST);
	}
	ck_assert_uint_ge(got, sent);
	memcpy(seen, data, 3);
	ck_assert_str_eq(seen, "bye");
	free(data);
	close_path();
}
END_TEST

START_TEST(a_cut_record_is_the_end_of_the_connection)
{
	char seen[16];

	open_path(best(), best());
	say("one");
	pass_on(10);
	shutdown(path.listener[1], SHUT_WR);
	ck_assert_int_eq(hear(seen, sizeof(seen)), 0);
	close_path();
}
END_TEST

/* The keys of both directions, with one field of the hello changed at a
 * time. */
START_TEST(each_connection_and_direction_has_keys_of_its_own)
{
	struct ddp__hello h[6];
	unsigned char keys[12][DDP__KEY];

	for (int i = 0; i < 6; i++)
		proved(&h[i], 3, 3);
	h[1].nonces[0][15]++;
	h[2].nonces[1][15]++;
	h[3].caller.round++;
	h[4].caller.link++;
	h[5].listener.secure = DDP__SECURE_CHACHA;
	for (int i = 0; i < 6; i++)
		ddp__hello_keys(&h[i], key, keys + 2 * (ptrdiff_t)i);
	for (int i = 0; i < 12; i++)
		for (int k = 0; k < i; k++)
			ck_assert_mem_ne(keys[i], keys[k], DDP__KEY);
}
END_TEST

START_TEST(the_user_enables_encryption_or_not)
{
	struct err e = ERR_INIT;
	struct ddp__hello h;

	unsetenv("DDP_ENCRYPT_DATA");
	ck_assert_int_eq(ddp__secure_wanted(&e), 0);
	setenv("DDP_ENCRYPT_DATA", "0", 1);
	ck_assert_int_eq(ddp__secure_wanted(&e), 0);
	setenv("DDP_ENCRYPT_DATA", "yes", 1);
	ck_assert_int_eq(ddp__secure_wanted(&e), ERR_USAGE);
	ck_assert_str_eq(e.text, "DDP_ENCRYPT_DATA is 'yes': give 1 to encrypt "
				 "the data between hosts, or 0");
	proved(&h, 1, 3);
	ck_assert(ddp__secure_agree(&h));
	proved(&h, 0, 1);
	ck_assert(!ddp__secure_agree(&h));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("tcp_secure");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, messages_of_all_sizes_arrive_unchanged);
	tcase_add_test(c, ends_with_and_without_aes_understand_each_other);
	tcase_add_test(c, peeking_at_a_record_leaves_it);
	tcase_add_test(c, the_network_carries_no_readable_text);
	tcase_add_test(c, tampering_with_a_record_is_detected);
	tcase_add_test(c, a_short_message_without_room_is_dropped_whole);
	tcase_add_test(c, a_cut_record_is_the_end_of_the_connection);
	tcase_add_test(c, each_connection_and_direction_has_keys_of_its_own);
	tcase_add_test(c, the_user_enables_encryption_or_not);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
