/* test_tcp.c: leaders of several hosts, as forked processes over loopback:
 * meeting in spite of strangers, results, and what happens when one goes. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "tests/unit/forked.h"
#include "worker-sdk/tcp_collective.h"

enum { HOSTS_MAX = 8 };

static char *name_of(void *owner, int rank, char *out)
{
	snprintf(out, DDP__NAME_MAX, "rank %d on h%d", rank, rank / 10);
	return out;
}

static int fate_of(void *owner, int rank, const char *seen, struct err *e)
{
	return seen ? err_set(e, ERR_REMOTE, "%s: fate of %d", seen, rank) : 0;
}

static const struct ddp__peers peers = {NULL, name_of, fate_of};

struct group {
	int n, timeout_ms;
	int listener[HOSTS_MAX];
	struct ddp__tcp_site sites[HOSTS_MAX];
};

static struct group make(int n)
{
	struct group g = {.n = n, .timeout_ms = 20000};
	struct err e = ERR_INIT;

	for (int i = 0; i < n; i++) {
		uint16_t port = 0;

		g.listener[i] = ddp__tcp_listen("127.0.0.1", &port, &e);
		ck_assert_msg(g.listener[i] >= 0, "%s", e.text);
		strcpy(g.sites[i].where.host, "127.0.0.1");
		g.sites[i].where.port = port;
		g.sites[i].leader = 10 * i;
	}
	return g;
}

static void done_with(struct group *g)
{
	for (int i = 0; i < g->n; i++)
		close(g->listener[i]);
}

static int join_as(struct ddp__tcp *t, const struct group *g, int me,
		   unsigned char cookie, struct err *e)
{
	struct ddp__tcp_setup s = {.sites = g->sites,
				   .me = me,
				   .n = g->n,
				   .listener = g->listener[me],
				   .cookie = {cookie, 5, 6},
				   .round = 7,
				   .timeout_ms = g->timeout_ms,
				   .peers = &peers};

	return ddp__tcp_connect(t, &s, e);
}

static int join(struct ddp__tcp *t, const struct group *g, int me)
{
	struct err e = ERR_INIT;

	return join_as(t, g, me, 1, &e);
}

static int reduce_right(struct ddp__tcp *t, size_t count)
{
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_I64, DDP_AVG, 0, count,
				 count + 1};
	int64_t *v = malloc(count * 8 + 8);
	struct err e = ERR_INIT;
	int bad = 0;

	t->call = &call;
	for (size_t i = 0; i < count; i++)
		v[i] = (int64_t)i * (t->me + 1);
	if (ddp__tcp_all_reduce(t, v, count, t->n, &e))
		bad = 1;
	for (size_t i = 0; i < count && !bad; i++)
		bad = v[i] != (int64_t)i * (t->n * (t->n + 1) / 2) / t->n;
	free(v);
	return bad;
}

static int move_right(struct ddp__tcp *t, size_t block)
{
	struct ddp__call call = {.kind = DDP__ALL_GATHER, .type = DDP_I32,
				 .count = block, .number = 1};
	size_t begin[HOSTS_MAX + 1], bytes[HOSTS_MAX + 1], all = 0;
	int32_t *v;
	struct err e = ERR_INIT;
	int bad = 0;

	/* hosts of different sizes, the second has nothing */
	for (int h = 0; h <= t->n; h++) {
		begin[h] = all;
		bytes[h] = all * 4;
		if (h < t->n)
			all += h == 1 ? 0 : block + (size_t)h;
	}
	v = malloc(all * 4 + 4);
	t->call = &call;
	for (size_t i = begin[t->me]; i < begin[t->me + 1]; i++)
		v[i] = (int32_t)i;
	if (ddp__tcp_all_gather(t, v, bytes, &e))
		bad = 1;
	for (size_t i = 0; i < all && !bad; i++)
		bad = v[i] != (int32_t)i;
	call.kind = DDP__REDUCE_SCATTER;
	if (!bad && ddp__tcp_reduce_scatter(t, v, begin, 1, &e))
		bad = 1;
	for (size_t i = begin[t->me]; i < begin[t->me + 1] && !bad; i++)
		bad = v[i] != (int32_t)i * t->n;
	for (size_t i = 0; i < all; i++)
		v[i] = t->me == t->n - 1 ? (int32_t)(i * 3) : 0;
	call.kind = DDP__BROADCAST;
	if (!bad && ddp__tcp_broadcast(t, v, all * 4, t->n - 1, &e))
		bad = 1;
	for (size_t i = 0; i < all && !bad; i++)
		bad = v[i] != (int32_t)(i * 3);
	free(v);
	return bad;
}

static int all_sizes(int me, void *arg)
{
	static const size_t sizes[] = {0, 1, 5, 1000, 5000, 100003, 600000};
	struct ddp__call call = {.kind = DDP__BARRIER, .number = 9};
	struct err e = ERR_INIT;
	struct ddp__tcp t;

	if (join(&t, arg, me))
		return 1;
	for (int i = 0; i < 7; i++) {
		if (reduce_right(&t, sizes[i]))
			return 10 + i;
		if (move_right(&t, sizes[i]))
			return 20 + i;
	}
	t.call = &call;
	for (int i = 0; i < 200; i++)
		if (ddp__tcp_barrier(&t, &e))
			return 30;
	ddp__tcp_close(&t);
	return 0;
}

START_TEST(collectives)
{
	static const int hosts[] = {2, 3, 4, 7};
	struct group g = make(hosts[_i]);

	run_forked(g.n, all_sizes, &g);
	done_with(&g);
}
END_TEST

static int just_join(int me, void *arg)
{
	struct ddp__tcp t;
	int rc = join(&t, arg, me);

	if (!rc)
		rc = reduce_right(&t, 3);
	ddp__tcp_close(&t);
	return rc ? 1 : 0;
}

/* Connections that say nothing, garbage, or another job's hello. */
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

static int join_with_own_cookie(int me, void *arg)
{
	struct err e = ERR_INIT;
	struct ddp__tcp t;
	int rc = join_as(&t, arg, me, (unsigned char)me, &e);

	/* the one who connects is hung up on; the other waits in vain */
	if (me == 0)
		return rc != ERR_TIMEOUT ||
		       !strstr(e.text, "no connection with rank 10 on h1");
	return rc != ERR_REMOTE ||
	       !strstr(e.text, "rank 0 on h0 closed its connection");
}

START_TEST(another_cookie_is_refused)
{
	struct group g = make(2);

	g.timeout_ms = 2000;
	run_forked(2, join_with_own_cookie, &g);
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
	       !strstr(e.text, "Connection refused");
}

START_TEST(unreachable_is_named)
{
	struct group g = make(2);

	close(g.listener[0]);
	g.listener[0] = -1;
	run_forked(2, call_the_dead, &g);
	close(g.listener[1]);
}
END_TEST

static int one_goes(int me, void *arg)
{
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_F64, DDP_SUM, 0,
				 1 << 20, 3};
	static double v[1 << 20];
	struct err e = ERR_INIT;
	struct ddp__tcp t;
	int rc;

	if (join(&t, arg, me))
		return 1;
	if (me == 1)
		return 0; /* exits: its sockets close */
	t.call = &call;
	rc = ddp__tcp_all_reduce(&t, v, 1 << 20, 1, &e);
	if (rc != ERR_REMOTE || !strstr(e.text, "fate of 10"))
		return 2;
	ddp__tcp_abort(&t, &e);
	return ddp__tcp_all_reduce(&t, v, 1, 1, &e) != ERR_ABORTED;
}

START_TEST(names_who_went)
{
	struct group g = make(4);

	run_forked(4, one_goes, &g);
	done_with(&g);
}
END_TEST

static int one_aborts(int me, void *arg)
{
	struct ddp__call call = {.kind = DDP__BARRIER, .number = 3};
	struct err e = ERR_INIT;
	struct ddp__tcp t;
	char byte;
	int rc;

	if (join(&t, arg, me))
		return 1;
	t.call = &call;
	if (me == 1) {
		err_set(&e, ERR_TIMEOUT, "rank 11 on h1 has not arrived");
		ddp__tcp_abort(&t, &e);
		/* until the others have heard of it */
		for (int h = 0; h < t.n; h++)
			if (h != me) {
				struct pollfd p = {t.fd[h], POLLIN, 0};

				while (poll(&p, 1, 1000) >= 0 &&
				       recv(t.fd[h], &byte, 1, MSG_DONTWAIT) !=
					       0)
					;
			}
		return 0;
	}
	rc = ddp__tcp_barrier(&t, &e);
	ddp__tcp_abort(&t, &e);
	ddp__tcp_close(&t);
	return rc != ERR_TIMEOUT ||
	       strcmp(e.text, "rank 11 on h1 has not arrived");
}

START_TEST(why_one_aborts_is_passed_on)
{
	struct group g = make(4);

	run_forked(4, one_aborts, &g);
	done_with(&g);
}
END_TEST

static int one_is_late(int me, void *arg)
{
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_F64, DDP_SUM, 0, 4, 3};
	double v[4] = {0};
	struct err e = ERR_INIT;
	struct ddp__tcp t;
	char byte;
	int rc;

	if (join(&t, arg, me))
		return 1;
	t.call = &call;
	t.timeout_ms = 300;
	if (me == 1) {
		struct pollfd p = {t.fd[0], POLLIN, 0};

		/* until the other has given up and closed */
		while (poll(&p, 1, -1) == 1 && recv(t.fd[0], &byte, 1, 0) == 1)
			;
		return 0;
	}
	rc = ddp__tcp_all_reduce(&t, v, 4, 1, &e);
	return rc != ERR_TIMEOUT ||
	       !strstr(e.text, "all_reduce #3 (f64 x 4, sum): nothing came "
			       "from rank 10 on h1 for ");
}

START_TEST(names_who_is_late)
{
	struct group g = make(2);

	run_forked(2, one_is_late, &g);
	done_with(&g);
}
END_TEST

static int differs(int me, void *arg)
{
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_F64, DDP_SUM, 0, 4, 3};
	double v[8] = {0};
	struct err e = ERR_INIT;
	struct ddp__tcp t;

	if (join(&t, arg, me))
		return 1;
	call.count = me ? 8 : 4;
	t.call = &call;
	if (ddp__tcp_all_reduce(&t, v, call.count, 1, &e) != ERR_ARGUMENT)
		return 2;
	return !strstr(e.text, me ? "rank 0 on h0 called all_reduce #3 "
				    "(f64 x 4, sum), but here it is"
				  : "rank 10 on h1 called all_reduce #3 "
				    "(f64 x 8, sum), but here it is");
}

START_TEST(names_who_called_something_else)
{
	struct group g = make(2);

	run_forked(2, differs, &g);
	done_with(&g);
}
END_TEST

/* An address of no interface here, as behind a NAT: every interface then. */
START_TEST(listens_behind_a_nat)
{
	struct endpoint ep = {"127.0.0.1", 0};
	struct err e = ERR_INIT;
	struct sock_addr a;
	int fd = ddp__tcp_listen("192.0.2.1", &ep.port, &e), client;

	ck_assert_msg(fd >= 0, "%s", e.text);
	ck_assert_int_eq(sock_resolve(&ep, &a, 1, &e), 1);
	client = sock_connect(&a, 1000, &e);
	ck_assert_msg(client >= 0, "%s", e.text);
	close(client);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tcp");
	TCase *tc = tcase_create("tcp");
	SRunner *runner = srunner_create(suite);
	int failed;

	suite_add_tcase(suite, tc);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, collectives, 0, 4);
	tcase_add_test(tc, strangers_are_turned_away);
	tcase_add_test(tc, another_cookie_is_refused);
	tcase_add_test(tc, unreachable_is_named);
	tcase_add_test(tc, names_who_went);
	tcase_add_test(tc, why_one_aborts_is_passed_on);
	tcase_add_test(tc, names_who_is_late);
	tcase_add_test(tc, names_who_called_something_else);
	tcase_add_test(tc, listens_behind_a_nat);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed;
}
