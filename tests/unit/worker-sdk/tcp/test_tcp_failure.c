/* test_tcp_failure.c: a host ends, or stops responding, in the middle of each
 * collective: the others fail and name it. With plain text, and encrypted. */
#include <errno.h>
#include <poll.h>

#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/tcp/tcp_group.h"

enum { COUNT = 1 << 20, KINDS = 9 };

/* One call of each kind, larger than the kernel's buffers. */
struct work {
	struct ddp__tcp t;
	struct ddp__schedule op;
	struct ddp__call call;
	size_t begin[HOSTS_MAX + 1], bytes[HOSTS_MAX + 1];
	int32_t *v, *w;
	struct err e;
};

static int allocate(struct work *k)
{
	for (int h = 0; h <= k->t.n; h++) {
		k->begin[h] = (size_t)h * COUNT;
		k->bytes[h] = k->begin[h] * 4;
	}
	k->v = calloc((size_t)k->t.n * COUNT, 4);
	k->w = calloc((size_t)k->t.n * COUNT, 4);
	return k->v && k->w;
}

static void prepare(struct work *k, int kind)
{
	struct ddp__tcp *t = &k->t;
	struct ddp__call *c = &k->call;

	*c = (struct ddp__call){kind < 8 ? DDP__ALL_REDUCE : DDP__BARRIER,
				DDP_I32, DDP_SUM, 0, COUNT, 5};
	switch (kind) {
	case 0:
		ddp__schedule_all_reduce(&k->op, tcp_path(t), c, k->v,
					 3 * COUNT, 1);
		break;
	case 1:
		ddp__schedule_reduce(&k->op, tcp_path(t), c, k->v, 3 * COUNT, 0,
				     1);
		break;
	case 2:
		ddp__schedule_reduce_scatter(&k->op, tcp_path(t), c, k->v,
					     k->begin, 1);
		break;
	case 3:
		ddp__schedule_all_gather(&k->op, tcp_path(t), c, k->v,
					 k->bytes);
		break;
	case 4:
		ddp__schedule_gather(&k->op, tcp_path(t), c, k->w, k->v,
				     k->bytes, 0);
		break;
	case 5:
		ddp__schedule_scatter(&k->op, tcp_path(t), c, k->v, k->w,
				      k->bytes, 1);
		break;
	case 6:
		ddp__schedule_broadcast(&k->op, tcp_path(t), c, k->v,
					12 * COUNT, 1);
		break;
	case 7:
		ddp__schedule_all_to_all(&k->op, tcp_path(t), c, k->v, k->bytes,
					 k->w, k->bytes);
		break;
	default:
		ddp__schedule_barrier(&k->op, tcp_path(t), c);
	}
}

struct fault {
	struct group g;
	int kind;
	int midway; /* after a part of the call, else before it */
	int stands; /* stops responding, else ends */
	int over[2]; /* a pipe: its end tells the reader that the test is
		      * over */
};

/* Returns 0 if all of it was sent, in one record where t encrypts. */
static int send_whole(const struct ddp__tcp *t, int link, const void *frame,
		      const void *data, size_t n)
{
	struct iovec iov[2] = {{(void *)frame, DDP__FRAME}, {(void *)data, n}};

	return ddp__secure_send(t->secure[link], t->fd[link], iov, 2) !=
	       (ssize_t)(DDP__FRAME + n);
}

/* For each message that could be sent now, sends its frame and a little more;
 * if encrypted, also the start of another record. */
static int send_a_part(struct work *k)
{
	if (k->op.step(&k->op, &k->e))
		return -1;
	for (int i = 0; i < k->t.busy; i++) {
		const struct ddp__stream *s = &k->t.streams[i];
		size_t n = s->head->size < 1000 ? s->head->size : 1000;

		if (!s->sends || s->head->after)
			continue;
		if (send_whole(&k->t, s->link, s->head->frame, s->head->data,
			       n))
			return -1;
		if (k->t.secure[s->link] &&
		    send(k->t.fd[s->link], "\1", 2, 0) != 2)
			return -1;
	}
	return 0;
}

/* Host 1's part, which every other host needs. */
static int misbehave(struct fault *f, struct work *k)
{
	char byte;

	if (f->midway && send_a_part(k))
		return 1;
	if (!f->stands)
		_exit(0);
	close(f->over[1]);
	return read(f->over[0], &byte, 1) != 0;
}

static int with_fault(int me, void *arg)
{
	struct fault *f = arg;
	struct work k = {.e = ERR_INIT};
	int rc;

	if (join(&k.t, &f->g, me))
		return 1;
	if (!allocate(&k))
		return 2;
	prepare(&k, f->kind);
	if (me == 1)
		return misbehave(f, &k);
	k.t.timeout_ms = f->stands ? 100 : 60000;
	rc = ddp__schedule_run(&k.op, &k.e);
	if (rc)
		ddp__tcp_abort(&k.t, &k.e);
	ddp__tcp_close(&k.t);
	free(k.v);
	free(k.w);
	if (!rc)
		return 100; /* this call did not need the host that is gone */
	if (!f->stands)
		return rc == ERR_REMOTE && strstr(k.e.text, "fate of ") ? 0 : 3;
	return rc == ERR_TIMEOUT && strstr(k.e.text, " for ") ? 0 : 4;
}

/* At least one of the others must have failed, and all results must be
 * certain. */
static void run_fault(struct fault *f)
{
	int failed = 0, status;
	pid_t pid[3];

	fflush(NULL);
	for (int i = 0; i < 3; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			if (i != 1)
				close(f->over[0]);
			_exit(with_fault(i, f));
		}
		ck_assert_int_gt(pid[i], 0);
	}
	close(f->over[1]);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert_msg(WIFEXITED(status), "%d: status 0x%x", i, status);
		status = WEXITSTATUS(status);
		ck_assert_msg(!status || (status == 100 && i != 1),
			      "kind %d, host %d: %d", f->kind, i, status);
		failed += i != 1 && !status;
	}
	ck_assert_int_gt(failed, 0);
}

START_TEST(a_host_fails_in_each_collective)
{
	struct fault f = {.g = make(3),
			  .kind = _i % KINDS,
			  .midway = _i / KINDS & 1,
			  .stands = _i / KINDS >> 1};

	ck_assert_int_eq(pipe(f.over), 0);
	run_fault(&f);
	close(f.over[0]);
	done_with(&f.g);
}
END_TEST

/* Hosts make calls with different kinds, counts or types: 0 differs from the
 * others. */
static int differs(int me, void *arg)
{
	static const struct ddp__call others[] = {
		{DDP__REDUCE, DDP_I32, DDP_SUM, 0, COUNT, 5},
		{DDP__BROADCAST, DDP_I32, DDP_SUM, 0, COUNT, 5},
		{DDP__ALL_GATHER, DDP_I32, DDP_SUM, 0, COUNT, 5},
		{DDP__ALL_TO_ALL, DDP_I32, DDP_SUM, 0, COUNT, 5},
		{DDP__SCATTER, DDP_I32, DDP_SUM, 0, COUNT, 5},
		{DDP__ALL_REDUCE, DDP_I32, DDP_MAX, 0, COUNT, 5},
		{DDP__ALL_REDUCE, DDP_F32, DDP_SUM, 0, COUNT, 5},
		{DDP__ALL_REDUCE, DDP_I32, DDP_SUM, 0, COUNT - 1, 5}};
	static const int way[] = {1, 6, 3, 7, 5, 0, 0, 0};
	struct fault *f = arg;
	struct work k = {.e = ERR_INIT};
	int rc;

	if (join(&k.t, &f->g, me))
		return 1;
	if (!allocate(&k))
		return 2;
	prepare(&k, me == 0 ? way[f->kind] : 0);
	if (me == 0)
		k.op.call = others[f->kind];
	rc = ddp__schedule_run(&k.op, &k.e);
	ddp__tcp_abort(&k.t, &k.e);
	ddp__tcp_close(&k.t);
	free(k.v);
	free(k.w);
	return rc == ERR_ARGUMENT && strstr(k.e.text, "called all_reduce #5") &&
			       strstr(k.e.text, ", but rank ")
		       ? 0
	       : rc == ERR_ARGUMENT && strstr(k.e.text, "rank 0 on h0 called ")
		       ? 0
		       : 3;
}

START_TEST(calls_that_differ_are_found)
{
	struct fault f = {.g = make(3), .kind = _i};

	run_forked(3, differs, &f);
	done_with(&f.g);
}
END_TEST

/* The same call, but with another number of bytes. */
static int other_size(int me, void *arg)
{
	static char data[64];
	struct ddp__call call = {DDP__BROADCAST, DDP_U8, DDP_SUM, 1, 40, 5};
	unsigned char frame[DDP__FRAME];
	struct err e = ERR_INIT;
	struct ddp__schedule op;
	struct ddp__tcp t;
	char c;
	int rc;

	if (join(&t, arg, me))
		return 1;
	if (me == 1) {
		ddp__frame_put(frame, &call, 44, NULL);
		if (send_whole(&t, 1, frame, data, 44))
			return 2;
		/* until the other host has closed it */
		while (recv(t.fd[1], &c, 1, 0) > 0)
			;
		ddp__tcp_close(&t);
		return 0;
	}
	ddp__schedule_broadcast(&op, tcp_path(&t), &call, data, 40, 1);
	rc = ddp__schedule_run(&op, &e);
	ddp__schedule_release(&op);
	ddp__tcp_close(&t);
	return rc == ERR_PROTOCOL && strstr(e.text, "rank 10 on h1 sent 44 "
						    "bytes, but 40 were "
						    "expected")
		       ? 0
		       : 3;
}

START_TEST(socket_errors_have_a_text)
{
	char text[DDP__BROKE_TEXT];

	ck_assert_str_eq(ddp__tcp_broke(0, text), "closed its connection");
	ck_assert_str_eq(ddp__tcp_broke(EPIPE, text), "closed its connection");
	ck_assert_str_eq(ddp__tcp_broke(ECONNRESET, text),
			 "closed its connection");
	ck_assert_str_eq(ddp__tcp_broke(ETIMEDOUT, text),
			 "lost its connection (Connection timed out)");
}
END_TEST

START_TEST(a_frame_of_another_size_is_an_error)
{
	run_group(2, other_size);
}
END_TEST

/* All rounds of a split have one number. Host 2 has finished the first round
 * and is in the second; host 0 still waits for host 1, which is late only for
 * it. */
struct rounds {
	struct group g;
	int go[2]; /* a pipe: host 1 may continue */
};

static const struct ddp__call first_round = {DDP__SPLIT, DDP_U8, DDP_SUM, 0, 16,
					     4};
static const struct ddp__call second_round = {DDP__SPLIT, DDP_U8, DDP_SUM, 0,
					      40, 4};

static int socket_to(const struct ddp__tcp *t, int host)
{
	return t->fd[host * t->links + 1];
}

static int send_first_round(const struct ddp__tcp *t, int host)
{
	unsigned char frame[DDP__FRAME];
	static char data[16];

	ddp__frame_put(frame, &first_round, sizeof(data), NULL);
	return send_whole(t, host * t->links + 1, frame, data, sizeof(data));
}

static int wait_for_end_of(const struct ddp__tcp *t, int host)
{
	char c;

	while (recv(socket_to(t, host), &c, 1, 0) > 0)
		;
	return 0;
}

/* Waits until the next frame from host 2 is one of the second round. */
static int await_second_round(struct ddp__tcp *t, struct ddp__schedule *op,
			      struct err *e)
{
	unsigned char next[DDP__FRAME], want[DDP__FRAME];
	struct pollfd p = {socket_to(t, 2), POLLIN, 0};
	struct ddp__tcp other = {0}; /* host 2's state, as far as frames need
				      * it */

	ddp__tcp_begin(&other, &first_round);
	ddp__tcp_begin(&other, &second_round);
	ddp__frame_put(want, &second_round, 40, &other);
	do {
		if (ddp__schedule_advance(op, e))
			return 1;
		poll(&p, 1, 100);
	} while (ddp__secure_peek(t->secure[2 * t->links + 1], p.fd, next,
				  sizeof(next)) != sizeof(next) ||
		 memcmp(next, want, sizeof(want)));
	return 0;
}

static int goes_through_rounds(int me, void *arg)
{
	static const size_t bytes[] = {0, 16, 32, 48};
	static const size_t more[] = {0, 40, 80, 120};
	struct rounds *r = arg;
	struct err e = ERR_INIT;
	char all[48], rest[120], c;
	struct ddp__schedule op;
	struct ddp__tcp t;

	if (join(&t, &r->g, me))
		return 1;
	if (me == 1)
		return send_first_round(&t, 2) || read(r->go[0], &c, 1) != 1 ||
		       send_first_round(&t, 0) || wait_for_end_of(&t, 0);
	ddp__schedule_all_gather(&op, tcp_path(&t), &first_round, all, bytes);
	if (me == 2) {
		if (ddp__schedule_run(&op, &e))
			return 2;
		ddp__schedule_release(&op);
		ddp__schedule_all_gather(&op, tcp_path(&t), &second_round, rest,
					 more);
		/* host 0 may be finished and gone before this returns: then
		 * this is an error */
		(void)ddp__schedule_advance(&op, &e);
		return wait_for_end_of(&t, 0);
	}
	if (await_second_round(&t, &op, &e) || ddp__tcp_step_check(&t, 0, &e))
		return 3;
	if (write(r->go[1], "", 1) != 1 || ddp__schedule_run(&op, &e))
		return 4;
	ddp__schedule_release(&op);
	ddp__tcp_close(&t);
	return 0;
}

START_TEST(a_host_may_be_a_round_ahead_in_a_split)
{
	struct rounds r = {.g = make(3)};

	ck_assert_int_eq(pipe(r.go), 0);
	run_forked(3, goes_through_rounds, &r);
	close(r.go[0]);
	close(r.go[1]);
	done_with(&r.g);
}
END_TEST

/* The notice received about a blocked rank. */
struct notice {
	char bytes[DDP__TCP_NOTICE_MAX];
	size_t size;
	int n;
};

static void hear(void *owner, const void *bytes, size_t size)
{
	struct notice *heard = owner;

	memcpy(heard->bytes, bytes, size);
	heard->size = size;
	heard->n++;
}

static int says_all(struct ddp__tcp *t, const struct notice *sent)
{
	const struct ddp__call calls[] = {{.kind = DDP__BARRIER, .number = 8},
					  {.kind = DDP__BARRIER, .number = 9}};
	struct err why = ERR_INIT;

	err_set(&why, ERR_DATA, "the disk is full");
	ddp__tcp_send_waits(t, &calls[0], 0);
	ddp__tcp_send_notice(t, 0, DDP__FRAME_BLOCKED, sent->bytes,
			     sizeof(sent->bytes));
	ddp__tcp_send_waits(t, &calls[1], 0);
	ddp__tcp_abort(t, &why);
	return wait_for_end_of(t, 0);
}

/* Host 1 reports that it waits, and that a rank of its own is blocked, and then
 * aborts; host 0 receives all three. */
static int hears_notices(int me, void *arg)
{
	static const struct ddp__call barrier = {.kind = DDP__BARRIER,
						 .number = 7};
	struct notice sent, heard = {.n = 0};
	const struct ddp__peers mine = {
		.owner = &heard, .name = name_of, .heard = hear};
	struct err e = ERR_INIT;
	struct ddp__schedule op;
	struct ddp__tcp t;
	int rc;

	memset(sent.bytes, 'b', sizeof(sent.bytes));
	if (join(&t, arg, me))
		return 1;
	if (me == 1)
		return says_all(&t, &sent);
	t.peers = &mine;
	ddp__schedule_barrier(&op, tcp_path(&t), &barrier);
	rc = ddp__schedule_run(&op, &e);
	if (rc != ERR_DATA || strcmp(e.text, "the disk is full") != 0)
		return 2;
	if (t.waits[1].call.number != 9 || heard.n != 1 ||
	    heard.size != sizeof(sent.bytes) ||
	    memcmp(heard.bytes, sent.bytes, sizeof(sent.bytes)) != 0)
		return 3;
	ddp__tcp_close(&t);
	return 0;
}

START_TEST(notices_arrive_and_so_does_an_abort_after_them)
{
	run_group(2, hears_notices);
}
END_TEST

static void encrypt(void)
{
	setenv("DDP_ENCRYPT_DATA", "1", 1);
}

static void dont_encrypt(void)
{
	unsetenv("DDP_ENCRYPT_DATA");
}

static TCase *case_new(const char *name, void (*set_up)(void))
{
	TCase *tc = tcase_create(name);

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, set_up, NULL);
	tcase_add_loop_test(tc, a_host_fails_in_each_collective, 0, 4 * KINDS);
	tcase_add_loop_test(tc, calls_that_differ_are_found, 0, 8);
	tcase_add_test(tc, socket_errors_have_a_text);
	tcase_add_test(tc, a_frame_of_another_size_is_an_error);
	tcase_add_test(tc, a_host_may_be_a_round_ahead_in_a_split);
	tcase_add_test(tc, notices_arrive_and_so_does_an_abort_after_them);
	return tc;
}

int main(void)
{
	Suite *s = suite_create("unit");

	suite_add_tcase(s, case_new("plain", dont_encrypt));
	suite_add_tcase(s, case_new("encrypted", encrypt));
	return run_suite(s);
}
