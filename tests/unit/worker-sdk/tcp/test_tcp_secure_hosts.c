/* test_tcp_secure_hosts.c: ranks of several hosts with encrypted connections:
 * sums and messages are the same as with plain text; both ends name a rank that
 * does not encrypt, and one whose bytes were changed on the way. */
#include <poll.h>
#include <signal.h>
#include <stdint.h>

#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/tcp/tcp_p2p_group.h"

enum { COUNT = 300001 };

static const struct ddp__call call = {.kind = DDP__ALL_REDUCE,
				      .type = DDP_I32,
				      .op = DDP_SUM,
				      .count = COUNT,
				      .number = 3};

static int join_group(struct ddp__tcp *t, const struct group *g, int me,
		      struct err *e)
{
	return join_as(t, g, me, 1, e);
}

/* Runs an all_reduce; -1: it ended well, but with wrong sums. */
static int sum(struct ddp__tcp *t, int n, struct err *e)
{
	int32_t *v = malloc(COUNT * sizeof(*v));
	struct ddp__schedule op;
	int rc;

	for (int32_t i = 0; i < COUNT; i++)
		v[i] = i + t->me;
	ddp__schedule_all_reduce(&op, tcp_path(t), &call, v, COUNT, 0);
	rc = ddp__schedule_run(&op, e);
	for (int32_t i = 0; i < COUNT && !rc; i++)
		if (v[i] != n * i + n * (n - 1) / 2)
			rc = -1;
	free(v);
	return rc;
}

static int adds_up(int me, void *arg)
{
	struct err e = ERR_INIT;
	struct ddp__tcp t;
	int rc;

	if (join_group(&t, arg, me, &e))
		return 1;
	rc = !t.secure[((me + 1) % 3) * t.links] || sum(&t, 3, &e);
	ddp__tcp_close(&t);
	return rc ? 2 : 0;
}

START_TEST(sums_are_right)
{
	setenv("DDP_ENCRYPT_DATA", "1", 1);
	run_group(3, adds_up);
}
END_TEST

struct differing {
	struct group g;
	int encrypts; /* the rank */
};

/* Only host 1 encrypts. */
static int differs(int me, void *arg)
{
	struct err e = ERR_INIT;
	struct ddp__tcp t;
	int rc;

	setenv("DDP_ENCRYPT_DATA", me == 1 ? "1" : "0", 1);
	rc = join_group(&t, arg, me, &e);
	if (rc != ERR_USAGE)
		return rc ? 2 : 1;
	return strcmp(e.text, me ? "ddp_init: rank 0 on h0 has "
				   "DDP_ENCRYPT_DATA=0, rank 10 on h1 has 1: "
				   "give all ranks the same (ddprun "
				   "--encrypt-data)"
				 : "ddp_init: rank 10 on h1 has "
				   "DDP_ENCRYPT_DATA=1, rank 0 on h0 has 0: "
				   "give all ranks the same (ddprun "
				   "--encrypt-data)")
		       ? 3
		       : 0;
}

START_TEST(a_leader_that_does_not_encrypt_is_named_by_both)
{
	run_group(2, differs);
}
END_TEST

/* Only one rank encrypts: rank 1, which is called, or rank 0, which calls. */
static int differs_in_message(int me, void *arg)
{
	struct differing *d = arg;
	struct err e = ERR_INIT;
	struct ddp__tcp_p2p p;
	struct ddp__tcp_msg m;
	char want[DDP__BROKE_TEXT];
	int32_t v = 42;
	int rc;

	setenv("DDP_ENCRYPT_DATA", me == d->encrypts ? "1" : "0", 1);
	if (join_p2p(&p, &d->g, me))
		return 1;
	if (me == 0)
		send_to(&m, &p, &v, 1, 1);
	else
		receive_from(&m, &p, &v, 1, 0);
	rc = ddp__tcp_msg_run(&m, &e);
	ddp__tcp_p2p_abort(&p, &e);
	ddp__tcp_p2p_close(&p);
	snprintf(want, sizeof(want),
		 "rank %d on h0 has DDP_ENCRYPT_DATA=%d, rank %d on h0 has %d: "
		 "give all ranks the same (ddprun --encrypt-data)",
		 !me, me != d->encrypts, me, me == d->encrypts);
	return rc != ERR_USAGE || !strstr(e.text, want);
}

START_TEST(both_ends_name_the_rank_that_does_not_encrypt)
{
	struct differing d = {make(2), _i};

	run_forked(2, differs_in_message, &d);
	done_with(&d.g);
}
END_TEST

/* ---- an attacker that changes a byte ---- */

/* Offset of the changed byte in the caller's data: in its second record. */
enum { CHANGED_AT = 70000 };

/* Forwards the bytes that arrive, but changes the caller's byte CHANGED_AT. */
static int pass_on(int from, int to, size_t *count)
{
	char some[4096];
	ssize_t n = recv(from, some, sizeof(some), 0);

	if (n <= 0) {
		shutdown(to, SHUT_WR);
		return 0;
	}
	if (count && *count <= CHANGED_AT && *count + (size_t)n > CHANGED_AT)
		some[CHANGED_AT - *count] ^= 1;
	if (count)
		*count += (size_t)n;
	return send(to, some, (size_t)n, MSG_NOSIGNAL) == n;
}

static int call_host(const struct endpoint *where)
{
	struct sock_addr a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!sock_addr_number(where->host, where->port, &a) ||
	    connect(fd, (struct sockaddr *)&a.ss, a.len))
		_exit(1);
	return fd;
}

enum { PASSED_MAX = 8 };

/* Connections in the order in which they were made: an abort is forwarded
 * before the end of a later connection. */
struct relay {
	int fd[2 * PASSED_MAX]; /* a caller's, then its host's */
	size_t count[PASSED_MAX];
	struct pollfd polls[2 * PASSED_MAX + 1]; /* the last: the listener */
	int n;
};

static void relay_accept(struct relay *r, int listener,
			 const struct endpoint *to)
{
	if (r->n == 2 * PASSED_MAX)
		_exit(1);
	r->fd[r->n] = accept(listener, NULL, NULL);
	r->fd[r->n + 1] = call_host(to);
	for (int i = r->n; i < r->n + 2; i++)
		r->polls[i] = (struct pollfd){r->fd[i], POLLIN, 0};
	r->n += 2;
}

static void relay(const struct ddp__listener *l, const struct endpoint *to)
{
	static struct relay r;

	for (;;) {
		struct pollfd *last = &r.polls[r.n];

		*last = (struct pollfd){l->fd[0], POLLIN, 0};
		poll(r.polls, (nfds_t)r.n + 1, -1);
		for (int i = 0; i < r.n; i++)
			if (r.polls[i].revents &&
			    !pass_on(r.fd[i], r.fd[i ^ 1],
				     i & 1 ? NULL : &r.count[i / 2]))
				r.polls[i].fd = -1;
		if (last->revents)
			relay_accept(&r, l->fd[0], to);
	}
}

static int is_told(int me, void *arg)
{
	static const char what[] =
		"all_reduce #3 (i32 x 300001, sum): data from rank 10 on h1 at "
		"127.0.0.1 does not authenticate: something between the hosts "
		"changes it";
	struct err e = ERR_INIT;
	struct ddp__tcp t;
	int rc;

	if (join_group(&t, arg, me, &e))
		return 1;
	rc = sum(&t, 2, &e);
	if (rc != ERR_PROTOCOL || !strstr(e.text, what))
		return 2;
	ddp__tcp_abort(&t, &e);
	ddp__tcp_close(&t);
	return 0;
}

/* Runs body in a group of 2, in which host `at` is called through a relay. */
static void run_relayed(int at, int (*body)(int me, void *arg))
{
	struct group g = make(2);
	struct endpoint host = g.sites[at].where;
	struct ddp__listener l;
	struct err e = ERR_INIT;
	int status;
	pid_t pid;

	setenv("DDP_ENCRYPT_DATA", "1", 1);
	g.sites[at].where.port = 0;
	ck_assert_int_eq(ddp__listen(&l, "127.0.0.1", &g.sites[at].where.port,
				     &e), 0);
	pid = fork();
	if (pid == 0)
		relay(&l, &host);
	run_forked(2, body, &g);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ddp__listen_close(&l);
	done_with(&g);
}

START_TEST(a_changed_byte_is_detected_and_both_hosts_report)
{
	run_relayed(0, is_told);
}
END_TEST

/* Three records, with the frame; the kernel's buffers take them all. */
enum { MESSAGE = 2 * DDP__SECURE_TEXT / 4 };

static int hears_of_message(struct ddp__tcp_p2p *p, int me, struct err *e)
{
	struct ddp__tcp_msg m;
	int32_t v[MESSAGE];
	int rc;

	for (int i = 0; i < MESSAGE; i++)
		v[i] = me ? 0 : i + 1;
	if (me == 0) {
		send_to(&m, p, v, MESSAGE, 1);
		rc = ddp__tcp_msg_run(&m, e);
		receive_from(&m, p, v, 1, 1);
		return rc ? rc : ddp__tcp_msg_run(&m, e);
	}
	receive_from(&m, p, v, MESSAGE, 0);
	rc = ddp__tcp_msg_run(&m, e);
	for (int i = 0; i < MESSAGE; i++)
		if (v[i] && v[i] != i + 1)
			return -1;
	return v[0] && !v[MESSAGE - 1] ? rc : -1;
}

static int is_told_of_message(int me, void *arg)
{
	static const char what[] =
		"recv #7 (i32 x 32768, from 0): data from rank 0 on h0 at "
		"127.0.0.1 does not authenticate: something between the hosts "
		"changes it";
	struct err e = ERR_INIT;
	struct ddp__tcp_p2p p;
	int rc;

	if (join_p2p(&p, arg, me))
		return 1;
	rc = hears_of_message(&p, me, &e);
	if (rc != ERR_PROTOCOL || !strstr(e.text, what))
		return 2;
	ddp__tcp_p2p_abort(&p, &e);
	ddp__tcp_p2p_close(&p);
	return 0;
}

START_TEST(a_changed_message_is_dropped_and_named_by_both_ranks)
{
	run_relayed(1, is_told_of_message);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("tcp_secure_hosts");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, sums_are_right);
	tcase_add_test(c, a_leader_that_does_not_encrypt_is_named_by_both);
	tcase_add_loop_test(
		c, both_ends_name_the_rank_that_does_not_encrypt, 0, 2);
	tcase_add_test(c, a_changed_byte_is_detected_and_both_hosts_report);
	tcase_add_test(
		c, a_changed_message_is_dropped_and_named_by_both_ranks);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
