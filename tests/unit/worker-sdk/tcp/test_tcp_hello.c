/* test_tcp_hello.c: the proof between two ranks that connect, against attackers
 * without the key: they gain nothing from listening, replaying or changing
 * messages; and silent callers do not keep others out. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sock.h"
#include "tests/unit/run_case.h"
#include "worker-sdk/tcp/tcp_callers.h"

enum {
	CALL = sizeof(struct ddp__link) + DDP__NONCE,
	ANSWER = CALL + DDP__MAC
};

static const unsigned char key[DDP__KEY] = {1, 2, 3};
static const unsigned char other_key[DDP__KEY] = {1, 2, 4};
static const struct ddp__link caller = {.magic = "ddptest", .round = 3,
					.from = 1, .to = 2, .link = 1,
					.links = 2};
static const struct ddp__link listener = {.magic = "ddptest", .round = 3,
					  .from = 2, .to = 1, .link = 1,
					  .links = 2};

/* Both ends of a connection, and each end's state. */
struct talk {
	int fd[2]; /* the caller's, the listener's */
	struct ddp__hello c, l;
};

static struct talk connected(void)
{
	struct talk t;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0,
				    t.fd), 0);
	memset(&t.l, 0, sizeof(t.l));
	ck_assert_int_eq(ddp__hello_call(&t.c, t.fd[0], &caller), 0);
	return t;
}

static void hang_up(struct talk *t)
{
	close(t->fd[0]);
	close(t->fd[1]);
}

/* Runs the exchange up to the caller's proof, which is on its way. */
static struct talk answered(void)
{
	struct talk t = connected();

	ck_assert_int_eq(ddp__hello_called(&t.l, t.fd[1]), 1);
	ck_assert_int_eq(ddp__hello_answer(&t.l, t.fd[1], &listener, key), 0);
	ck_assert_int_eq(ddp__hello_answered(&t.c, t.fd[0], key), 1);
	return t;
}

START_TEST(two_ends_with_the_key_authenticate)
{
	struct talk t = answered();

	ck_assert_int_eq(ddp__hello_proved(&t.l, t.fd[1], key), 1);
	ck_assert_mem_eq(&t.l.caller, &caller, sizeof(caller));
	ck_assert_mem_eq(&t.c.listener, &listener, sizeof(listener));
	hang_up(&t);
}
END_TEST

START_TEST(nothing_is_done_before_a_hello_is_complete)
{
	struct talk t = connected();
	char c[CALL];

	ck_assert_int_eq(ddp__hello_answered(&t.c, t.fd[0], key), 0);
	ck_assert_int_eq(recv(t.fd[1], c, CALL, 0), CALL);
	for (int i = 0; i < CALL; i++) {
		ck_assert_int_eq(ddp__hello_called(&t.l, t.fd[1]), 0);
		ck_assert_int_eq(send(t.fd[0], c + i, 1, 0), 1);
	}
	ck_assert_int_eq(ddp__hello_called(&t.l, t.fd[1]), 1);
	ck_assert_int_eq(ddp__hello_proved(&t.l, t.fd[1], key), 0);
	hang_up(&t);
}
END_TEST

START_TEST(a_listener_without_the_key_is_rejected)
{
	struct talk t = connected();
	char c;

	ck_assert_int_eq(ddp__hello_called(&t.l, t.fd[1]), 1);
	ck_assert_int_eq(ddp__hello_answer(&t.l, t.fd[1], &listener, other_key),
			 0);
	ck_assert_int_eq(ddp__hello_answered(&t.c, t.fd[0], key), -EPROTO);
	/* and the caller has received nothing signed */
	ck_assert_int_eq(recv(t.fd[1], &c, 1, 0), -1);
	hang_up(&t);
}
END_TEST

/* Every field of a listener's end is signed, and compared. */
START_TEST(a_listener_of_another_connection_is_rejected)
{
	struct ddp__link ends[] = {listener, listener, listener, listener,
				   listener};

	ends[0].magic[0] = 'x';
	ends[1].round = 4;
	ends[2].from = 3;
	ends[3].to = 0;
	ends[4].link = 0;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		struct talk t = connected();

		ck_assert_int_eq(ddp__hello_called(&t.l, t.fd[1]), 1);
		ck_assert_int_eq(ddp__hello_answer(&t.l, t.fd[1], &ends[i],
						   key), 0);
		ck_assert_int_eq(ddp__hello_answered(&t.c, t.fd[0], key),
				 -EPROTO);
		hang_up(&t);
	}
}
END_TEST

/* An attacker in the middle changes one bit, at any place. */
START_TEST(a_changed_hello_is_refused)
{
	for (int bit = 0; bit < 8 * ANSWER; bit++) {
		struct talk t = connected();
		unsigned char in[ANSWER];

		ck_assert_int_eq(ddp__hello_called(&t.l, t.fd[1]), 1);
		ck_assert_int_eq(ddp__hello_answer(&t.l, t.fd[1], &listener,
						   key), 0);
		ck_assert_int_eq(recv(t.fd[0], in, ANSWER, 0), ANSWER);
		in[bit / 8] ^= (unsigned char)(1 << bit % 8);
		ck_assert_int_eq(send(t.fd[1], in, ANSWER, 0), ANSWER);
		ck_assert_int_eq(ddp__hello_answered(&t.c, t.fd[0], key),
				 -EPROTO);
		hang_up(&t);
	}
}
END_TEST

START_TEST(a_changed_call_is_refused)
{
	for (int bit = 0; bit < 8 * CALL; bit++) {
		struct talk t = connected();
		unsigned char in[CALL];

		ck_assert_int_eq(recv(t.fd[1], in, CALL, 0), CALL);
		in[bit / 8] ^= (unsigned char)(1 << bit % 8);
		ck_assert_int_eq(send(t.fd[0], in, CALL, 0), CALL);
		ck_assert_int_eq(ddp__hello_called(&t.l, t.fd[1]), 1);
		ck_assert_int_eq(ddp__hello_answer(&t.l, t.fd[1], &listener,
						   key), 0);
		ck_assert_int_eq(ddp__hello_answered(&t.c, t.fd[0], key),
				 -EPROTO);
		hang_up(&t);
	}
}
END_TEST

START_TEST(a_proof_is_accepted_once)
{
	struct talk first = answered(), again = connected();
	unsigned char proof[DDP__MAC];

	ck_assert_int_eq(recv(first.fd[1], proof, DDP__MAC, 0), DDP__MAC);
	ck_assert_int_eq(ddp__hello_called(&again.l, again.fd[1]), 1);
	ck_assert_int_eq(ddp__hello_answer(&again.l, again.fd[1], &listener,
					   key), 0);
	ck_assert_int_eq(send(again.fd[0], proof, DDP__MAC, 0), DDP__MAC);
	ck_assert_int_eq(ddp__hello_proved(&again.l, again.fd[1], key),
			 -EPROTO);
	hang_up(&first);
	hang_up(&again);
}
END_TEST

START_TEST(an_answer_is_no_proof)
{
	struct talk t = connected();
	unsigned char answer[ANSWER];

	ck_assert_int_eq(ddp__hello_called(&t.l, t.fd[1]), 1);
	ck_assert_int_eq(ddp__hello_answer(&t.l, t.fd[1], &listener, key), 0);
	ck_assert_int_eq(recv(t.fd[0], answer, ANSWER, 0), ANSWER);
	ck_assert_int_eq(send(t.fd[0], answer + CALL, DDP__MAC, 0), DDP__MAC);
	ck_assert_int_eq(ddp__hello_proved(&t.l, t.fd[1], key), -EPROTO);
	hang_up(&t);
}
END_TEST

START_TEST(each_use_has_a_key_of_its_own)
{
	unsigned char cookie[DDP__COOKIE] = {9}, a[DDP__KEY], b[DDP__KEY];

	ddp__key_for(a, cookie, "collectives");
	ddp__key_for(b, cookie, "messages");
	ck_assert_mem_ne(a, b, DDP__KEY);
	ddp__key_for(b, cookie, "collectives");
	ck_assert_mem_eq(a, b, DDP__KEY);
	cookie[15] = 1;
	ddp__key_for(b, cookie, "collectives");
	ck_assert_mem_ne(a, b, DDP__KEY);
}
END_TEST

/* ---- a listener ---- */

struct host {
	struct ddp__callers callers;
	struct ddp__listener listener;
	struct sock_addr at;
	int came; /* the accepted descriptor, or -1 */
};

static int expects(void *owner, const struct ddp__link *said,
		   struct ddp__link *me)
{
	(void)owner;
	*me = listener;
	return ddp__link_fits(said, &listener);
}

static void came(void *owner, const struct ddp__hello *hello, int fd)
{
	struct host *h = owner;

	(void)hello;
	h->came = fd;
}

static void open_host(struct host *h, int max)
{
	struct endpoint ep = {"127.0.0.1", 0};
	struct err e = ERR_INIT;

	h->came = -1;
	ck_assert_int_eq(ddp__listen(&h->listener, ep.host, &ep.port, &e), 0);
	ck_assert_int_eq(sock_resolve(&ep, &h->at, 1, &e), 1);
	ck_assert_int_eq(ddp__callers_init(&h->callers, max), 0);
	h->callers.key = key;
	h->callers.owner = h;
	h->callers.expects = expects;
	h->callers.on_caller = came;
}

static void close_host(struct host *h)
{
	ddp__callers_close(&h->callers);
	ddp__listen_close(&h->listener);
	if (h->came >= 0)
		close(h->came);
}

static int dial(struct host *h)
{
	struct err e = ERR_INIT;
	int fd = sock_connect(&h->at, 1000, &e);

	ck_assert_msg(fd >= 0, "%s", e.text);
	return fd;
}

/* Waits until the listener has something to do, for at most ms. */
static int await(struct host *h, int ms)
{
	struct pollfd polls[64];
	int n = ddp__callers_polls(&h->callers, &h->listener, polls, 64);

	return poll(polls, (nfds_t)n, ms);
}

static void prove(struct host *h, int fd)
{
	struct ddp__hello hello;
	uint64_t start = clock_ns();
	int rc = 0;

	ck_assert_int_eq(ddp__hello_call(&hello, fd, &caller), 0);
	while (h->came < 0 && clock_ns() - start < 20000000000u) {
		await(h, 100);
		ddp__callers_serve(&h->callers, &h->listener);
		if (rc == 0)
			rc = ddp__hello_answered(&hello, fd, key);
		ck_assert_int_ge(rc, 0);
	}
	ck_assert_int_ge(h->came, 0);
}

START_TEST(silent_callers_are_closed_after_a_while)
{
	struct host h;
	int silent[8], fd;

	open_host(&h, 4);
	for (int i = 0; i < 8; i++)
		silent[i] = dial(&h);
	fd = dial(&h);
	prove(&h, fd);
	for (int i = 0; i < 8; i++)
		close(silent[i]);
	close(fd);
	close_host(&h);
}
END_TEST

/* A caller that has its answer, and whose proof is on its way, keeps its place
 * although the listener is full of other callers that came before and after
 * it. */
START_TEST(a_rank_during_its_proof_is_not_disconnected)
{
	struct ddp__hello hello;
	struct host h;
	int fd, others[16];

	open_host(&h, 2);
	fd = dial(&h);
	ck_assert_int_eq(ddp__hello_call(&hello, fd, &caller), 0);
	for (int i = 0; i < 16; i++)
		others[i] = dial(&h);
	ck_assert_int_eq(await(&h, 10000), 1);
	ddp__callers_serve(&h.callers, &h.listener);
	ddp__callers_serve(&h.callers, &h.listener);
	ck_assert_int_eq(h.callers.n, 2);
	ck_assert_int_eq(ddp__hello_answered(&hello, fd, key), 1);
	await(&h, 10000);
	ddp__callers_serve(&h.callers, &h.listener);
	ck_assert_int_ge(h.came, 0);
	for (int i = 0; i < 16; i++)
		close(others[i]);
	close(fd);
	close_host(&h);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("tcp_hello");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, two_ends_with_the_key_authenticate);
	tcase_add_test(tc, nothing_is_done_before_a_hello_is_complete);
	tcase_add_test(tc, a_listener_without_the_key_is_rejected);
	tcase_add_test(tc, a_listener_of_another_connection_is_rejected);
	tcase_add_test(tc, a_changed_hello_is_refused);
	tcase_add_test(tc, a_changed_call_is_refused);
	tcase_add_test(tc, a_proof_is_accepted_once);
	tcase_add_test(tc, an_answer_is_no_proof);
	tcase_add_test(tc, each_use_has_a_key_of_its_own);
	tcase_add_test(tc, silent_callers_are_closed_after_a_while);
	tcase_add_test(tc, a_rank_during_its_proof_is_not_disconnected);
	return run_case(tc);
}
