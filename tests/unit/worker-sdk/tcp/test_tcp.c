/* test_tcp.c: leaders of several hosts, as forked processes over loopback: how
 * they meet in spite of strangers, and what happens when one leaves. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/tcp/tcp_group.h"

static int reduce_three(struct ddp__tcp *t)
{
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_I64, DDP_AVG, 0, 3, 1};
	int64_t v[3] = {t->me, 5 * t->me, -t->me};
	struct ddp__schedule op;
	struct err e = ERR_INIT;
	int64_t mean = (t->n - 1) * t->n / 2 / t->n;

	ddp__schedule_all_reduce(&op, tcp_path(t), &call, v, 3, t->n);
	return ddp__schedule_run(&op, &e) || v[0] != mean;
}

static int just_join(int me, void *arg)
{
	struct ddp__tcp t;
	int rc = join(&t, arg, me);

	if (!rc)
		rc = reduce_three(&t);
	ddp__tcp_close(&t);
	return rc ? 1 : 0;
}

/* Connections that stay silent, or send garbage or another job's hello. */
START_TEST(strangers_are_turned_away)
{
	struct group g = make(3);
	struct err e = ERR_INIT;
	char noise[200];
	int fd[150];

	memset(noise, 'x', sizeof(noise));
	for (int i = 0; i < 150; i++) {
		struct sock_addr a;
		int n = i % 3 == 0 ? 0 : i % 3 == 1 ? 5 : 200;

		ck_assert_int_eq(sock_resolve(&g.sites[i % 2].where, &a, 1,
					      &e), 1);
		fd[i] = sock_connect(&a, 1000, &e);
		ck_assert_int_ge(fd[i], 0);
		ck_assert_int_eq(send(fd[i], noise, (size_t)n, MSG_NOSIGNAL),
				 n);
	}
	run_forked(3, just_join, &g);
	for (int i = 0; i < 150; i++)
		close(fd[i]);
	done_with(&g);
}
END_TEST

static int join_with_own_rails(int me, void *arg)
{
	struct group g = *(struct group *)arg;
	struct err e = ERR_INIT;
	struct ddp__tcp t;

	g.rails = me + 1;
	return join_as(&t, &g, me, 1, &e) != ERR_USAGE ||
	       !strstr(e.text, me ? "rank 0 on h0 opens 1 sockets per host, "
				    "but this rank 2"
				  : "rank 10 on h1 opens 2 sockets per host, "
				    "but this rank 1");
}

START_TEST(unequal_numbers_of_sockets_are_named_on_both_ranks)
{
	run_group(2, join_with_own_rails);
}
END_TEST

/* Listeners are on ::1 only. The name of this host (_i) also has 127.0.0.1,
 * which is tried first, and refuses too late for connect to return it. */
START_TEST(over_ipv6_and_past_an_address_that_refuses)
{
	struct group g = {.n = 3, .timeout_ms = 20000};
	struct err e = ERR_INIT;

	for (int i = 0; i < 3; i++) {
		uint16_t port = 0;

		ck_assert_msg(ddp__listen(&g.listener[i], "::1", &port, &e) ==
			      0, "%s", e.text);
		strcpy(g.sites[i].where.host, _i ? "localhost" : "::1");
		g.sites[i].where.port = port;
		g.sites[i].leader = 10 * i;
	}
	run_forked(3, just_join, &g);
	done_with(&g);
}
END_TEST

/* Whether localhost is both 127.0.0.1 and ::1, which the test needs. */
static int has_two_addresses(void)
{
	struct endpoint ep = {"localhost", 1};
	struct err e = ERR_INIT;
	struct sock_addr a[4];

	return sock_resolve(&ep, a, 4, &e) == 2;
}

static int join_with_own_key(int me, void *arg)
{
	struct err e = ERR_INIT;
	struct ddp__tcp t;
	int rc = join_as(&t, arg, me, (unsigned char)me, &e);

	/* the rank that connects sees a stranger; the other waits for ever */
	if (me == 0)
		return rc != ERR_TIMEOUT ||
		       !strstr(e.text, "no connection with rank 10 on h1");
	return rc != ERR_SYSTEM ||
	       !strstr(e.text, "rank 10 on h1 cannot reach rank 0 on h0 at ") ||
	       !strstr(e.text, ": another program listens there");
}

START_TEST(another_key_is_refused)
{
	struct group g = make(2);

	g.timeout_ms = 2000;
	run_forked(2, join_with_own_key, &g);
	done_with(&g);
}
END_TEST

static int call_the_dead(int me, void *arg)
{
	struct err e = ERR_INIT;
	struct ddp__tcp t;
	int rc;

	if (me == 0)
		return 0;
	rc = join_as(&t, arg, me, 1, &e);
	return rc != ERR_SYSTEM ||
	       !strstr(e.text, "rank 10 on h1 cannot reach rank 0 on h0 at "
			       "127.0.0.1:") ||
	       !strstr(e.text, "Connection refused") ||
	       !strstr(e.text, ": fate of 0");
}

START_TEST(unreachable_is_named)
{
	struct group g = make(2);

	ddp__listen_close(&g.listener[0]);
	run_forked(2, call_the_dead, &g);
	ddp__listen_close(&g.listener[1]);
}
END_TEST

static int one_goes(int me, void *arg)
{
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_F64, DDP_SUM, 0,
				 1 << 20, 3};
	static double v[1 << 20];
	struct err e = ERR_INIT;
	struct ddp__schedule op;
	struct ddp__tcp t;
	int rc;

	if (join(&t, arg, me))
		return 1;
	if (me == 1)
		return 0; /* exits: its sockets close */
	ddp__schedule_all_reduce(&op, tcp_path(&t), &call, v, 1 << 20, 1);
	rc = ddp__schedule_run(&op, &e);
	if (rc != ERR_REMOTE || !strstr(e.text, "fate of 10"))
		return 2;
	ddp__tcp_abort(&t, &e);
	ddp__schedule_all_reduce(&op, tcp_path(&t), &call, v, 1, 1);
	return ddp__schedule_run(&op, &e) != ERR_ABORTED;
}

START_TEST(names_a_rank_that_exited)
{
	run_group(4, one_goes);
}
END_TEST

/* Waits until all others have closed. */
static void wait_for_others(struct ddp__tcp *t)
{
	char byte[256];

	for (int i = 0; i < t->n * t->links; i++) {
		struct pollfd p = {t->fd[i], POLLIN, 0};

		while (t->fd[i] >= 0 && poll(&p, 1, -1) == 1 &&
		       recv(t->fd[i], byte, sizeof(byte), 0) > 0)
			;
	}
}

static int one_aborts(int me, void *arg)
{
	struct ddp__call call = {.kind = DDP__BARRIER, .number = 3};
	struct err e = ERR_INIT;
	struct ddp__schedule op;
	struct ddp__tcp t;
	int rc;

	if (join(&t, arg, me))
		return 1;
	if (me == 1) {
		err_set(&e, ERR_TIMEOUT, "rank 11 on h1 has not arrived");
		ddp__tcp_abort(&t, &e);
		wait_for_others(&t);
		return 0;
	}
	ddp__schedule_barrier(&op, tcp_path(&t), &call);
	rc = ddp__schedule_run(&op, &e);
	ddp__tcp_abort(&t, &e);
	ddp__tcp_close(&t);
	return rc != ERR_TIMEOUT ||
	       strcmp(e.text, "rank 11 on h1 has not arrived");
}

START_TEST(the_reason_of_an_abort_reaches_all_ranks)
{
	run_group(4, one_aborts);
}
END_TEST

static int one_is_late(int me, void *arg)
{
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_F64, DDP_SUM, 0, 4, 3};
	double v[4] = {0};
	struct err e = ERR_INIT;
	struct ddp__schedule op;
	struct ddp__tcp t;
	int rc;

	if (join(&t, arg, me))
		return 1;
	t.timeout_ms = 300;
	if (me == 1) {
		wait_for_others(&t);
		return 0;
	}
	ddp__schedule_all_reduce(&op, tcp_path(&t), &call, v, 4, 1);
	rc = ddp__schedule_run(&op, &e);
	ddp__tcp_close(&t);
	return rc != ERR_TIMEOUT ||
	       !strstr(e.text, "all_reduce #3 (f64 x 4, sum): no data from "
			       "rank 10 on h1 for ");
}

START_TEST(names_a_late_rank)
{
	run_group(2, one_is_late);
}
END_TEST

static int differs(int me, void *arg)
{
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_F64, DDP_SUM, 0, 4, 3};
	double v[8] = {0};
	struct err e = ERR_INIT;
	struct ddp__schedule op;
	struct ddp__tcp t;

	if (join(&t, arg, me))
		return 1;
	call.count = me ? 8 : 4;
	ddp__schedule_all_reduce(&op, tcp_path(&t), &call, v, call.count, 1);
	if (ddp__schedule_run(&op, &e) != ERR_ARGUMENT)
		return 2;
	return !strstr(e.text, me ? "rank 0 on h0 called all_reduce #3 "
				    "(f64 x 4, sum), but rank 10 on h1 called "
				    "all_reduce #3 (f64 x 8, sum): "
				  : "rank 10 on h1 called all_reduce #3 "
				    "(f64 x 8, sum), but rank 0 on h0 called ");
}

/* Two hosts name themselves as root of a broadcast, in which neither has
 * anything to wait for; `later` correct broadcasts follow. The next barrier
 * detects it on all hosts. */
static int parted(int me, const struct group *g, int later)
{
	struct ddp__call call = {DDP__BROADCAST, DDP_F64, DDP_SUM, 0, 4, 1};
	struct ddp__call barrier = {.kind = DDP__BARRIER};
	struct err e = ERR_INIT;
	double v[4] = {0};
	struct ddp__schedule op;
	struct ddp__tcp t;
	int rc = 0;

	if (join(&t, g, me))
		return 1;
	call.root = me < 2 ? me : 0;
	for (int i = 0; i <= later && !rc; i++, call.number++) {
		ddp__schedule_broadcast(&op, tcp_path(&t), &call, v, sizeof(v),
					call.root);
		rc = ddp__schedule_run(&op, &e);
		call.root = 0;
	}
	barrier.number = call.number;
	if (!rc) {
		ddp__schedule_barrier(&op, tcp_path(&t), &barrier);
		rc = ddp__schedule_run(&op, &e);
	}
	ddp__tcp_abort(&t, &e);
	ddp__tcp_close(&t);
	if (rc != ERR_ARGUMENT)
		return 2;
	return later ? 0
		     : !strstr(e.text, " called broadcast #1 (f64 x 4, root "
				       "0)") ||
			       !strstr(e.text, "rank 10 on h1 called broadcast "
					       "#1 (f64 x 4, root 1)");
}

static int parted_now(int me, void *arg)
{
	return parted(me, arg, 0);
}

static int parted_long_ago(int me, void *arg)
{
	return parted(me, arg, 5);
}

START_TEST(hosts_that_each_name_themselves_as_root_are_found)
{
	run_group(_i, parted_now);
	run_group(_i, parted_long_ago);
}
END_TEST

enum { MISSED = 3000 };

struct missing {
	struct group g;
	int done[2]; /* a pipe: host 0 has its result */
};

/* Host 0 makes MISSED broadcasts that host 1 does not make. Both learn of that
 * in an all_reduce, from each other's frames: host 1 closes its sockets after
 * host 0 has read them. */
static int misses(int me, void *arg)
{
	struct missing *m = arg;
	struct ddp__call call = {DDP__BROADCAST, DDP_F64, DDP_SUM, 0, 1, 1};
	struct err e = ERR_INIT;
	struct ddp__schedule op;
	struct ddp__tcp t;
	double v[1] = {0};
	char done = 0;
	int rc = 0;

	if (join(&t, &m->g, me))
		return 1;
	for (int n = me ? 1 : 1 + MISSED; n && !rc; n--, call.number++) {
		ddp__schedule_broadcast(&op, tcp_path(&t), &call, v, sizeof(v),
					0);
		rc = ddp__schedule_run(&op, &e);
	}
	call.kind = DDP__ALL_REDUCE;
	if (!rc) {
		ddp__schedule_all_reduce(&op, tcp_path(&t), &call, v, 1, 1);
		rc = ddp__schedule_run(&op, &e);
	}
	if ((me ? read(m->done[0], &done, 1) : write(m->done[1], "", 1)) != 1)
		return 2;
	ddp__tcp_close(&t);
	if (rc != ERR_ARGUMENT)
		return 3;
	return !strstr(e.text, "rank 0 on h0 called broadcast #2 (f64 x 1, "
			       "root 0)") ||
	       !strstr(e.text, "rank 10 on h1 called all_reduce #2 (f64 x 1, "
			       "sum)");
}

START_TEST(a_call_is_named_however_many_equal_ones_followed)
{
	struct missing m = {.g = make(2)};

	ck_assert_int_eq(pipe(m.done), 0);
	run_forked(2, misses, &m);
	close(m.done[0]);
	close(m.done[1]);
	done_with(&m.g);
}
END_TEST

START_TEST(names_a_rank_with_another_call)
{
	run_group(2, differs);
}
END_TEST

/* The address is on no interface here, as behind a NAT: listens on every
 * interface. */
START_TEST(listens_behind_a_nat)
{
	struct endpoint ep = {"127.0.0.1", 0};
	struct err e = ERR_INIT;
	struct sock_addr a;
	struct ddp__listener l;
	int client;

	ck_assert_msg(ddp__listen(&l, "192.0.2.1", &ep.port, &e) == 0, "%s",
		      e.text);
	ck_assert_int_eq(sock_resolve(&ep, &a, 1, &e), 1);
	client = sock_connect(&a, 1000, &e);
	ck_assert_msg(client >= 0, "%s", e.text);
	close(client);
	client = ddp__listen_accept(&l);
	ck_assert_int_ge(client, 0);
	close(client);
	ddp__listen_close(&l);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("tcp");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, strangers_are_turned_away);
	tcase_add_test(tc, another_key_is_refused);
	tcase_add_test(tc,
		       unequal_numbers_of_sockets_are_named_on_both_ranks);
	if (!has_two_addresses())
		puts("localhost is one address here: one test less");
	tcase_add_loop_test(tc, over_ipv6_and_past_an_address_that_refuses, 0,
			    1 + has_two_addresses());
	tcase_add_test(tc, unreachable_is_named);
	tcase_add_test(tc, names_a_rank_that_exited);
	tcase_add_test(tc, the_reason_of_an_abort_reaches_all_ranks);
	tcase_add_test(tc, names_a_late_rank);
	tcase_add_test(tc, names_a_rank_with_another_call);
	tcase_add_test(tc, a_call_is_named_however_many_equal_ones_followed);
	tcase_add_loop_test(tc,
			    hosts_that_each_name_themselves_as_root_are_found,
			    2, 6);
	tcase_add_test(tc, listens_behind_a_nat);
	return run_case(tc);
}
