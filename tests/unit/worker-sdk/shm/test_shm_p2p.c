/* test_shm_p2p.c: messages between ranks of one host, as forked processes. */
#include <errno.h>
#include <poll.h>

#include "tests/unit/refuse.h"
#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/shm/shm_ranks.h"

/* How messages are transferred in a test. */
struct way {
	struct group g;
	int spins;   /* 1: as with a CPU for each rank */
	int refused; /* 1: the kernel refuses process_vm_readv from the start;
		      * 2: from the first message on */
};

/* Waits until that rank's process has ended, even if its parent does not know
 * yet. */
static void await_end_of(const struct ddp__shm *s, int i)
{
	pid_t pid = (pid_t)ddp__shm_control(s, i)->pid;
	struct pollfd p = {(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};

	if (p.fd < 0 && errno == ESRCH)
		return;
	if (p.fd < 0)
		_exit(40);
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	close(p.fd);
}

static int refuse_reading(void)
{
	return reads_memory() ? refuse(SYS_process_vm_readv, EPERM) : 0;
}

static int join_so(struct ddp__shm *s, const struct way *w, int me)
{
	if (w->refused == 1 && refuse_reading())
		return 1;
	if (join(s, &w->g, me))
		return 1;
	s->spins = w->spins;
	return w->refused == 2 && refuse_reading();
}

static struct ddp__call call_of(int receives, size_t size, int peer,
				uint64_t number)
{
	return (struct ddp__call){receives ? DDP__RECV : DDP__SEND, DDP_U8,
				  DDP_SUM, peer, size, number};
}

static unsigned char byte_of(int from, int to, size_t number, size_t i)
{
	return (unsigned char)(i * 31 + i / 251 + number * 7 +
			       (size_t)(from * 3 + to));
}

static const size_t sizes[] = {0,	  1,	     4,	     32,      33,
			       1000,	  16384,     16385,  40000,   300001,
			       (3 << 20) + 5, 7,     64,     131072,  2};
enum { SIZES = sizeof(sizes) / sizeof(*sizes), MOST = (3 << 20) + 16 };

/* One direction between this rank and a peer: all sizes, one after the
 * other. */
struct stream {
	struct ddp__shm_msg m;
	struct ddp__call call;
	char *buf;
	int peer, receives, busy;
	size_t k;
};

static int begin(struct stream *t, struct ddp__shm *s)
{
	size_t size = sizes[t->k];

	t->call = call_of(t->receives, size, t->peer, t->k + 1);
	t->busy = 1;
	if (t->receives) {
		memset(t->buf, 0xee, size + 2);
		ddp__shm_recv(&t->m, s, &t->call, t->buf + 1, size, t->peer);
		return 0;
	}
	for (size_t i = 0; i < size; i++)
		t->buf[1 + i] = (char)byte_of(s->me, t->peer, t->k, i);
	ddp__shm_send(&t->m, s, &t->call, t->buf + 1, size, t->peer);
	return 0;
}

static int end(struct stream *t, const struct ddp__shm *s)
{
	size_t size = sizes[t->k];

	for (size_t i = 0; t->receives && i < size; i++)
		if ((unsigned char)t->buf[1 + i] !=
		    byte_of(t->peer, s->me, t->k, i))
			return 1;
	if (t->receives && ((unsigned char)t->buf[0] != 0xee ||
			    (unsigned char)t->buf[1 + size] != 0xee))
		return 1;
	t->busy = 0;
	t->k++;
	return 0;
}

/* All ranks send to all and receive from all, advanced in a random order. */
static int cross(int me, void *arg)
{
	const struct way *w = arg;
	int n = w->g.n, count = 0, left;
	unsigned seed = 12345u + (unsigned)me;
	struct stream t[16];
	struct err e = ERR_INIT;
	struct ddp__shm s;

	if (join_so(&s, w, me))
		return 1;
	for (int i = 0; i < n; i++)
		for (int r = 0; r < 2 && i != me; r++)
			t[count++] = (struct stream){.buf = malloc(MOST),
						     .peer = i,
						     .receives = r};
	for (left = count; left;) {
		struct stream *x = &t[next_random(&seed) % (unsigned)count];
		int rc;

		if (x->k == SIZES)
			continue;
		if (!x->busy && begin(x, &s))
			return 2;
		rc = ddp__shm_msg_advance(&x->m, &e);
		if (rc < 0)
			return 3;
		if (rc && end(x, &s))
			return 4;
		left -= rc && x->k == SIZES;
	}
	for (int i = 0; i < count; i++)
		free(t[i].buf);
	return 0;
}

START_TEST(moves_all_sizes)
{
	struct way w = {make(_i < 6 ? 2 : 4), _i & 1, _i % 6 / 2};

	run_forked(w.g.n, cross, &w);
	close(w.g.fd);
}
END_TEST

/* One send that need not wait, many that must, and large ones, all blocking. */
static int blocking(int me, void *arg)
{
	enum { MANY = 400 };
	const struct way *w = arg;
	char *buf = malloc(MOST);
	struct ddp__shm_msg m;
	struct ddp__call call;
	struct err e = ERR_INIT;
	struct ddp__shm s;

	if (join_so(&s, w, me))
		return 1;
	for (size_t i = 0; i < MANY + SIZES; i++) {
		size_t size = i < MANY ? i * 13 : sizes[i - MANY];

		call = call_of(me, size, !me, i + 1);
		for (size_t k = 0; k < size; k++)
			buf[k] = me ? 0 : (char)byte_of(0, 1, i, k);
		if (me)
			ddp__shm_recv(&m, &s, &call, buf, size, 0);
		else
			ddp__shm_send(&m, &s, &call, buf, size, 1);
		if (ddp__shm_msg_run(&m, &e))
			return 2;
		for (size_t k = 0; k < size; k++)
			if ((unsigned char)buf[k] != byte_of(0, 1, i, k))
				return 3;
	}
	free(buf);
	return 0;
}

START_TEST(waits_for_messages)
{
	struct way w = {make(2), _i & 1, _i / 2};

	run_forked(2, blocking, &w);
	close(w.g.fd);
}
END_TEST

/* Waits as the engine does when it also waits for sockets. */
static int by_bell(int me, void *arg)
{
	const struct way *w = arg;
	static char buf[100000];
	struct ddp__shm_msg m;
	struct ddp__call call;
	struct err e = ERR_INIT;
	struct ddp__shm s;
	struct pollfd p = {0, POLLIN, 0};

	if (join_so(&s, w, me))
		return 1;
	p.fd = ddp__shm_doorbell(&s, &e);
	if (p.fd < 0)
		return 2;
	for (size_t i = 0; i < 200; i++) {
		int receives = (int)((size_t)me + i) % 2, rc;
		size_t size = i % 5 ? i : 99999;

		call = call_of(receives, size, !me, i + 1);
		if (receives)
			ddp__shm_recv(&m, &s, &call, buf, size, !me);
		else
			ddp__shm_send(&m, &s, &call, buf, size, !me);
		while (!(rc = ddp__shm_msg_advance(&m, &e))) {
			if (!ddp__shm_arm(&s))
				poll(&p, 1, 1000);
			ddp__shm_disarm(&s);
		}
		if (rc < 0)
			return 3;
	}
	return 0;
}

START_TEST(rings_for_messages)
{
	struct way w = {make(2), _i, 0};

	run_forked(2, by_bell, &w);
	close(w.g.fd);
}
END_TEST

static int differs(int me, void *arg)
{
	const struct way *w = arg;
	struct ddp__call call = call_of(me, me ? 70000 : 90000, me ? 0 : 1,
					me ? 7 : 5);
	static char buf[90000];
	struct ddp__shm_msg m;
	struct err e = ERR_INIT;
	struct ddp__shm s;
	int rc;

	if (join_so(&s, w, me))
		return 1;
	if (me)
		ddp__shm_recv(&m, &s, &call, buf, call.count, 0);
	else
		ddp__shm_send(&m, &s, &call, buf, call.count, 1);
	rc = ddp__shm_msg_run(&m, &e);
	if (rc != ERR_ARGUMENT)
		return 2;
	return !strstr(e.text, "rank 10 on h1 called recv #7 (u8 x 70000, "
			       "from 0)") ||
	       !strstr(e.text, "rank 0 on h1 called send #5 (u8 x 90000, "
			       "to 1)");
}

START_TEST(names_both_calls_that_differ)
{
	struct way w = {make(2), _i, 0};

	run_forked(2, differs, &w);
	close(w.g.fd);
}
END_TEST

static int late(int me, void *arg)
{
	const struct way *w = arg;
	struct ddp__call barrier = {.kind = DDP__BARRIER, .number = 41};
	struct ddp__call call = call_of(1, 12, 1, 9);
	char buf[12];
	struct ddp__shm_op op;
	struct ddp__shm_msg m;
	struct err e = ERR_INIT;
	struct ddp__shm s;

	if (join_so(&s, w, me))
		return 1;
	ddp__shm_barrier(&op, &s, &barrier);
	if (ddp__shm_run(&op, &e))
		return 2;
	if (me) {
		/* gets the error when it comes */
		await_end_of(&s, 0);
		call = call_of(1, 12, 0, 1);
		ddp__shm_recv(&m, &s, &call, buf, 12, 0);
	} else {
		s.timeout_ms = 200;
		ddp__shm_recv(&m, &s, &call, buf, 12, 1);
	}
	if (ddp__shm_msg_run(&m, &e) != ERR_TIMEOUT)
		return 3;
	return !strstr(e.text, "recv #9 (u8 x 12, from 1): rank 10 on h1 has "
			       "not sent it for ") ||
	       !strstr(e.text, " s; last seen entering barrier #41");
}

START_TEST(names_a_late_rank)
{
	struct way w = {make(2), _i, 0};

	run_forked(2, late, &w);
	close(w.g.fd);
}
END_TEST

/* A message sent before its sender left is still received; the next one is
 * missed. */
static int leaves(int me, void *arg)
{
	const struct way *w = arg;
	static char buf[16000];
	struct ddp__call call = call_of(!me, sizeof(buf), !me, 1);
	struct ddp__shm_msg m;
	struct err e = ERR_INIT;
	struct ddp__shm s;

	if (join_so(&s, w, me))
		return 1;
	if (me) {
		ddp__shm_send(&m, &s, &call, buf, sizeof(buf), 0);
		if (ddp__shm_msg_run(&m, &e))
			return 2;
		ddp__shm_detach(&s);
		return 0;
	}
	await_end_of(&s, 1);
	for (int k = 0; k < 2; k++) {
		int rc;

		ddp__shm_recv(&m, &s, &call, buf, sizeof(buf), 1);
		rc = ddp__shm_msg_run(&m, &e);
		if (rc != (k ? ERR_REMOTE : 0))
			return 3;
	}
	return !strstr(e.text, "rank 10 on h1 left with ddp_finalize");
}

START_TEST(receives_what_was_sent_before_leaving)
{
	struct way w = {make(2), _i, 0};

	run_forked(2, leaves, &w);
	close(w.g.fd);
}
END_TEST

/* Both sides of a large message in one process. The sender sees when the
 * receiver reads its memory; otherwise it would think that nothing moves. */
START_TEST(a_sender_sees_its_receiver_read)
{
	enum { SIZE = 8 << 20 };
	struct ddp__call send = {DDP__SEND, DDP_U8, DDP_SUM, 1, SIZE, 1,
				 NULL, 0};
	struct ddp__call recv = send;
	struct group g = make(2);
	struct err e = ERR_INIT;
	struct ddp__shm s[2];
	struct ddp__shm_msg out, in;
	char *from = calloc(1, SIZE), *to = malloc(SIZE);
	uint64_t before;
	int ranks[] = {0, 10}, rc = 0, got;

	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ddp__shm_attach(&s[i], g.fd, i, 2, cookie,
						 &e), 0);
		s[i].ranks = ranks;
		s[i].peers = &peers;
		s[i].chunk = DDP__SHM_IN;
	}
	recv.kind = DDP__RECV;
	recv.root = 0;
	ddp__shm_send(&out, &s[0], &send, from, SIZE, 1);
	ddp__shm_recv(&in, &s[1], &recv, to, SIZE, 0);
	ck_assert_uint_eq(ddp__shm_msg_either_moved(&out), 0);
	ck_assert_int_eq(ddp__shm_msg_advance(&out, &e), 0);
	before = ddp__shm_msg_either_moved(&out);
	ck_assert_uint_ne(before, 0);
	ck_assert_uint_eq(ddp__shm_msg_either_moved(&out), before);
	got = ddp__shm_msg_advance(&in, &e);
	ck_assert_int_ge(got, 0);
	ck_assert_uint_ne(ddp__shm_msg_either_moved(&out), before);
	ck_assert_uint_ne(ddp__shm_msg_either_moved(&in), 0);
	while (rc == 0) {
		rc = ddp__shm_msg_advance(&out, &e);
		if (!got)
			got = ddp__shm_msg_advance(&in, &e);
	}
	ck_assert_int_eq(rc, 1);
	ck_assert_int_eq(got, 1);
	ddp__shm_detach(&s[0]);
	ddp__shm_detach(&s[1]);
	close(g.fd);
	free(from);
	free(to);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("shm_p2p");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, moves_all_sizes, 0, 12);
	tcase_add_loop_test(tc, waits_for_messages, 0, 6);
	tcase_add_test(tc, a_sender_sees_its_receiver_read);
	tcase_add_loop_test(tc, rings_for_messages, 0, 2);
	tcase_add_loop_test(tc, names_both_calls_that_differ, 0, 2);
	tcase_add_loop_test(tc, names_a_late_rank, 0, 2);
	tcase_add_loop_test(tc, receives_what_was_sent_before_leaving, 0, 2);
	return run_case(tc);
}
