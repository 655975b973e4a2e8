/* test_tcp_p2p.c: messages between ranks, as forked processes over loopback:
 * which rank connects when, order, mismatches, and peers that leave or do not
 * arrive. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/tcp/tcp_p2p_group.h"

static int run_all(struct ddp__tcp_msg *m, int n)
{
	struct err e = ERR_INIT;
	int ended[16] = {0}, left = n;

	while (left) {
		for (int i = 0; i < n; i++) {
			int rc = ended[i] ? 0 : ddp__tcp_msg_advance(&m[i], &e);

			if (rc < 0) {
				fprintf(stderr, "%s\n", e.text);
				return rc;
			}
			ended[i] |= rc;
			left -= rc;
		}
		sched_yield(); /* there are more ranks than CPUs */
	}
	return 0;
}

/* All ranks send to all at once, twice, with several sizes; a rank does not
 * send to itself. */
static int exchange(int me, void *arg)
{
	static const size_t counts[] = {0, 1, 1000, 3000000};
	enum { MOST = 3000000 };
	struct group *g = arg;
	struct ddp__tcp_p2p p;
	struct ddp__tcp_msg m[16];
	int32_t *out = malloc(MOST * 4 + 4), *in[HOSTS_MAX];

	if (join_p2p(&p, g, me))
		return 1;
	for (int h = 0; h < g->n; h++)
		in[h] = malloc(MOST * 4 + 4);
	for (int round = 0; round < 8; round++) {
		size_t count = counts[round / 2];
		int n = 0;

		for (size_t i = 0; i < count; i++)
			out[i] = (int32_t)i * (me + 1) + round;
		for (int h = 0; h < g->n; h++) {
			if (h == me)
				continue;
			send_to(&m[n++], &p, out, count, h);
			receive_from(&m[n++], &p, in[h], count, h);
		}
		if (run_all(m, n))
			return 2;
		for (int h = 0; h < g->n; h++)
			for (size_t i = 0; h != me && i < count; i++)
				if (in[h][i] != (int32_t)i * (h + 1) + round)
					return 3;
	}
	ddp__tcp_p2p_close(&p);
	free(out);
	for (int h = 0; h < g->n; h++)
		free(in[h]);
	return 0;
}

START_TEST(all_pairs_exchange_messages_at_once)
{
	run_group(_i ? 5 : 2, exchange);
}
END_TEST

/* Around a ring with blocking calls: rank 0 begins, and only two ranks at a
 * time have a message. */
static int round_the_ring(int me, void *arg)
{
	struct group *g = arg;
	struct ddp__tcp_p2p p;
	struct ddp__tcp_msg m;
	struct err e = ERR_INIT;
	int32_t v[50];
	int next = (me + 1) % g->n, prev = (me + g->n - 1) % g->n;

	if (join_p2p(&p, g, me))
		return 1;
	for (int lap = 0; lap < 20; lap++) {
		for (int i = 0; i < 50; i++)
			v[i] = lap;
		if (me == 0) {
			send_to(&m, &p, v, 50, next);
			if (ddp__tcp_msg_run(&m, &e))
				return 2;
		}
		receive_from(&m, &p, v, 50, prev);
		if (ddp__tcp_msg_run(&m, &e))
			return 3;
		for (int i = 0; i < 50; i++)
			if (v[i] != lap + (me ? me - 1 : g->n - 1))
				return 4;
			else
				v[i]++;
		if (me == 0)
			continue;
		send_to(&m, &p, v, 50, next);
		if (ddp__tcp_msg_run(&m, &e))
			return 5;
	}
	ddp__tcp_p2p_close(&p);
	return 0;
}

START_TEST(messages_go_around_a_ring_of_waiting_ranks)
{
	run_group(4, round_the_ring);
}
END_TEST

/* Several messages of a pair are transferred in the order in which they are
 * advanced. */
static int in_order(int me, void *arg)
{
	enum { EACH = 6, COUNT = 200000 };
	struct group *g = arg;
	struct ddp__tcp_p2p p;
	struct ddp__tcp_msg m[EACH];
	int32_t *v = malloc(EACH * COUNT * 4);

	if (join_p2p(&p, g, me))
		return 1;
	for (int k = 0; k < EACH; k++) {
		for (int i = 0; i < COUNT; i++)
			v[k * COUNT + i] = me == 0 ? k * 10 : 0;
		if (me == 0)
			send_to(&m[k], &p, v + k * COUNT, COUNT, 1);
		else
			receive_from(&m[k], &p, v + k * COUNT, COUNT, 0);
	}
	if (run_all(m, EACH))
		return 2;
	for (int k = 0; k < EACH; k++)
		if (v[k * COUNT] != k * 10 ||
		    v[k * COUNT + COUNT - 1] != k * 10)
			return 3;
	ddp__tcp_p2p_close(&p);
	free(v);
	return 0;
}

START_TEST(messages_of_a_pair_keep_their_order)
{
	run_group(2, in_order);
}
END_TEST

/* The receiver detects the mismatch. The sender, whose message is too large for
 * the kernel's buffers and so is not done yet, gets the error. */
static int differ(int me, void *arg)
{
	enum { MANY = 16 << 20 };
	struct ddp__tcp_p2p p;
	struct ddp__tcp_msg m;
	struct err e = ERR_INIT;
	int32_t *v = calloc(MANY, 4);
	int rc;

	if (join_p2p(&p, arg, me))
		return 1;
	if (me == 0)
		send_to(&m, &p, v, MANY, 1);
	else
		receive_from(&m, &p, v, 8, 0);
	rc = ddp__tcp_msg_run(&m, &e);
	ddp__tcp_p2p_abort(&p, &e);
	ddp__tcp_p2p_close(&p);
	free(v);
	return rc != ERR_ARGUMENT ||
	       !strstr(e.text,
		       "rank 0 on h0 called send #7 (i32 x 16777216, to 1), "
		       "but this rank called recv #7 (i32 x 8, from 0)");
}

START_TEST(both_ranks_learn_of_a_mismatch)
{
	run_group(2, differ);
}
END_TEST

/* Mode: which rank waits for which when rank 1 ends at once or stays silent. */
struct alone {
	struct group g;
	int waits, receives, dies;
	int given_up[2]; /* a pipe: the waiting rank has given up */
};

static int wait_in_vain(int me, void *arg)
{
	enum { MANY = 16 << 20 };
	struct alone *a = arg;
	struct ddp__tcp_p2p p;
	struct ddp__tcp_msg m;
	struct err e = ERR_INIT;
	int other = !a->waits, rc;
	int32_t first = 0, *v;
	char byte;

	if (join_p2p(&p, &a->g, me))
		return 1;
	if (me != a->waits) {
		/* a first message makes the connection */
		if (me > a->waits)
			receive_from(&m, &p, &first, 1, a->waits);
		else
			send_to(&m, &p, &first, 1, a->waits);
		if (ddp__tcp_msg_run(&m, &e))
			return 2;
		if (a->dies)
			_exit(0);
		return read(a->given_up[0], &byte, 1) != 1;
	}
	v = calloc(MANY, 4);
	if (me < other)
		send_to(&m, &p, v, 1, other);
	else
		receive_from(&m, &p, v, 1, other);
	if (ddp__tcp_msg_run(&m, &e))
		return 3;
	p.timeout_ms = a->dies ? 60000 : 250;
	if (a->receives)
		receive_from(&m, &p, v, MANY, other);
	else
		send_to(&m, &p, v, MANY, other);
	rc = ddp__tcp_msg_run(&m, &e);
	if (write(a->given_up[1], "", 1) != 1)
		return 4;
	ddp__tcp_p2p_abort(&p, &e);
	ddp__tcp_p2p_close(&p);
	free(v);
	if (a->dies)
		return rc != ERR_REMOTE || !strstr(e.text, "fate of ") ||
		       !strstr(e.text, "closed its connection");
	return rc != ERR_TIMEOUT ||
	       !strstr(e.text, a->receives ? "no data from rank "
					   : "no data read by rank ");
}

START_TEST(a_leaving_or_missing_rank_is_named)
{
	struct alone a = {make(2), _i & 1, _i >> 1 & 1, _i >> 2 & 1};

	ck_assert_int_eq(pipe(a.given_up), 0);
	run_forked(2, wait_in_vain, &a);
	close(a.given_up[0]);
	close(a.given_up[1]);
	done_with(&a.g);
}
END_TEST

static int call_the_dead(int me, void *arg)
{
	struct ddp__tcp_p2p p;
	struct ddp__tcp_msg m;
	struct err e = ERR_INIT;
	int32_t v = 0;

	if (me == 1)
		return 0;
	if (join_p2p(&p, arg, me))
		return 1;
	send_to(&m, &p, &v, 1, 1);
	return ddp__tcp_msg_run(&m, &e) != ERR_REMOTE ||
	       !strstr(e.text, "send #7 (i32 x 1, to 1): cannot reach rank 1 "
			       "on h0 at 127.0.0.1:") ||
	       !strstr(e.text, "fate of 1");
}

START_TEST(a_rank_gone_before_the_first_message_is_named)
{
	struct group g = make(2);

	/* only rank 1 keeps its listener open */
	ddp__listen_close(&g.listener[1]);
	run_forked(2, call_the_dead, &g);
	ddp__listen_close(&g.listener[0]);
}
END_TEST

static int has_gone(void *owner, int rank, const char *seen, struct err *e)
{
	return err_set(e, ERR_REMOTE, "rank %d has gone", rank);
}

struct last_word {
	struct group g;
	int pipe[2]; /* rank 0 writes when it has called, and when it is done */
	int back[2]; /* rank 1 writes when it has answered */
};

/* Rank 1 has answered rank 0's call. It does nothing more until rank 0 has sent
 * its proof and its message, and has ended. */
static int say_and_go(int me, void *arg)
{
	struct last_word *a = arg;
	struct ddp__tcp_p2p p;
	struct ddp__tcp_msg m;
	struct err e = ERR_INIT;
	int32_t v = me ? 0 : 42;
	char byte = 0;

	if (join_p2p(&p, &a->g, me))
		return 1;
	if (me == 0) {
		send_to(&m, &p, &v, 1, 1);
		while (p.pairs[1].state != DDP__PAIR_GREETED)
			if (ddp__tcp_msg_advance(&m, &e))
				return 2;
		if (write(a->pipe[1], &byte, 1) != 1 ||
		    read(a->back[0], &byte, 1) != 1 || ddp__tcp_msg_run(&m, &e))
			return 3;
		return write(a->pipe[1], &byte, 1) != 1;
	}
	receive_from(&m, &p, &v, 1, 0);
	if (read(a->pipe[0], &byte, 1) != 1 || ddp__tcp_msg_advance(&m, &e) ||
	    p.pairs[0].state == DDP__PAIR_READY)
		return 4;
	if (write(a->back[1], &byte, 1) != 1 || read(a->pipe[0], &byte, 1) != 1)
		return 5;
	p.peers = &(struct ddp__peers){NULL, name_of, has_gone};
	if (ddp__tcp_msg_check(&m, 0, &e))
		return 6;
	return ddp__tcp_msg_run(&m, &e) || v != 42;
}

START_TEST(messages_sent_before_leaving_arrive)
{
	struct last_word a = {make(2), {-1, -1}, {-1, -1}};

	ck_assert_int_eq(pipe(a.pipe), 0);
	ck_assert_int_eq(pipe(a.back), 0);
	run_forked(2, say_and_go, &a);
	for (int i = 0; i < 2; i++) {
		close(a.pipe[i]);
		close(a.back[i]);
	}
	done_with(&a.g);
}
END_TEST

START_TEST(strangers_do_not_disturb_messages)
{
	struct group g = make(3);
	struct err e = ERR_INIT;
	char noise[200];
	int fd[120];

	memset(noise, 'x', sizeof(noise));
	for (int i = 0; i < 120; i++) {
		struct sock_addr a;
		int n = i % 3 == 0 ? 0 : i % 3 == 1 ? 5 : 200;

		ck_assert_int_eq(sock_resolve(&g.sites[1 + i % 2].where, &a, 1,
					      &e), 1);
		fd[i] = sock_connect(&a, 1000, &e);
		ck_assert_int_ge(fd[i], 0);
		ck_assert_int_eq(send(fd[i], noise, (size_t)n, MSG_NOSIGNAL),
				 n);
	}
	run_forked(3, round_the_ring, &g);
	for (int i = 0; i < 120; i++)
		close(fd[i]);
	done_with(&g);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("tcp_p2p");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, all_pairs_exchange_messages_at_once, 0, 2);
	tcase_add_test(tc, messages_go_around_a_ring_of_waiting_ranks);
	tcase_add_test(tc, messages_of_a_pair_keep_their_order);
	tcase_add_test(tc, both_ranks_learn_of_a_mismatch);
	tcase_add_loop_test(tc, a_leaving_or_missing_rank_is_named, 0, 8);
	tcase_add_test(tc, a_rank_gone_before_the_first_message_is_named);
	tcase_add_test(tc, messages_sent_before_leaving_arrive);
	tcase_add_test(tc, strangers_do_not_disturb_messages);
	return run_case(tc);
}
