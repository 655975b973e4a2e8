/* test_reach.c: a node calls ports of this host that refuse, do not answer, or
 * belong to something else; and two nodes reach each other. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/check/reach.h"

enum { ROUND = 7, QUEUED = 16, SOON_MS = 300, LATER_MS = 20000 };

struct node {
	struct reach r;
	uint16_t port;
	int rc;
	atomic_int is_done;
};

static struct node node[2];
static int listener, queued[QUEUED], n_queued;
static uint16_t port;

static void make_node(struct node *x, int me, uint32_t round, char key)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(
		reach_init(&x->r, me, 2, round, "127.0.0.1", &x->port, &e), 0);
	memset(x->r.key, key, sizeof(x->r.key));
}

static void set_peer(struct node *x, uint16_t at)
{
	struct reach_peer *p = &x->r.peers[!x->r.me];

	p->where.port = at;
	strcpy(p->where.host, "127.0.0.1");
}

static void set_up(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t len = sizeof(a);

	n_queued = 0;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(listener, (void *)&a, sizeof(a)), 0);
	ck_assert_int_eq(getsockname(listener, (void *)&a, &len), 0);
	port = ntohs(a.sin_port);
	make_node(&node[0], 0, ROUND, 'k');
	set_peer(&node[0], port);
}

static void tear_down(void)
{
	reach_release(&node[0].r);
	close(listener);
	while (n_queued > 0)
		close(queued[--n_queued]);
}

/* What node 0 finds out about the other one. */
static int code_of_call(int connect_ms, int answer_ms)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(reach_all(&node[0].r, connect_ms, answer_ms, &e), 0);
	ck_assert_int_eq(node[0].r.missing, 0);
	return node[0].r.peers[1].code;
}

START_TEST(a_refusal_is_told_from_other_failures)
{
	int code = code_of_call(LATER_MS, LATER_MS);

	ck_assert_int_eq(code, ECONNREFUSED);
	ck_assert_str_eq(reach_text(code),
			 "connection refused (does a firewall reject it?)");
	ck_assert_int_eq(node[0].r.peers[1].out, -1);
}
END_TEST

/* Connections beyond the queue of the listener get no answer. */
static void fill_queue(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(listen(listener, 0), 0);
	while (n_queued < QUEUED) {
		int fd = socket(AF_INET,
				SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		ck_assert_int_ge(fd, 0);
		queued[n_queued++] = fd;
		(void)!connect(fd, (void *)&a, sizeof(a));
	}
}

START_TEST(a_call_without_a_refusal_gets_no_answer)
{
	fill_queue();
	ck_assert_int_eq(code_of_call(SOON_MS, LATER_MS), REACH_NO_ANSWER);
	ck_assert_int_eq(node[0].r.peers[1].out, -1);
}
END_TEST

START_TEST(a_connection_without_a_proof_is_silent)
{
	ck_assert_int_eq(listen(listener, 8), 0);
	ck_assert_int_eq(code_of_call(SOON_MS, SOON_MS), REACH_SILENT);
	ck_assert_int_eq(node[0].r.peers[1].out, -1);
}
END_TEST

/* Answers one caller with what no node sends, and waits until it hangs up. */
static void *answer_garbage(void *arg)
{
	char garbage[512];
	int fd = accept(listener, NULL, NULL);

	memset(garbage, 'x', sizeof(garbage));
	if (send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL) > 0)
		while (read(fd, garbage, sizeof(garbage)) > 0)
			continue;
	close(fd);
	return arg;
}

START_TEST(another_program_is_a_stranger)
{
	pthread_t thread;

	ck_assert_int_eq(listen(listener, 8), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, answer_garbage, NULL),
			 0);
	ck_assert_int_eq(code_of_call(LATER_MS, LATER_MS), REACH_STRANGER);
	pthread_join(thread, NULL);
}
END_TEST

static void *run_node(void *arg)
{
	struct node *x = arg;
	struct err e = ERR_INIT;

	x->rc = reach_all(&x->r, LATER_MS, LATER_MS, &e);
	x->is_done = 1;
	return NULL;
}

/* Both call each other. Node 0 answers the call of the other, which may come
 * when its own is over, and reads its proof, which may come later still. */
static void run_both(void)
{
	pthread_t thread;

	set_peer(&node[0], node[1].port);
	set_peer(&node[1], node[0].port);
	ck_assert_int_eq(pthread_create(&thread, NULL, run_node, &node[1]), 0);
	run_node(&node[0]);
	while (!node[1].is_done || node[0].r.peers[1].in < 0) {
		reach_serve(&node[0].r);
		sched_yield();
	}
	pthread_join(thread, NULL);
}

START_TEST(two_nodes_of_a_job_reach_each_other)
{
	make_node(&node[1], 1, ROUND, 'k');
	run_both();
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(node[i].rc, 0);
		ck_assert_int_eq(node[i].r.peers[!i].code, REACH_OK);
		ck_assert_int_ge(node[i].r.peers[!i].out, 0);
	}
	reach_release(&node[1].r);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("reach");

	tcase_add_checked_fixture(c, set_up, tear_down);
	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_refusal_is_told_from_other_failures);
	tcase_add_test(c, a_call_without_a_refusal_gets_no_answer);
	tcase_add_test(c, a_connection_without_a_proof_is_silent);
	tcase_add_test(c, another_program_is_a_stranger);
	tcase_add_test(c, two_nodes_of_a_job_reach_each_other);
	return run_case(c);
}
