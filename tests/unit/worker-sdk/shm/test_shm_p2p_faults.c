/* test_shm_p2p_faults.c: one of two ranks of a host that exchange a message is
 * killed or stopped: before it called, during a message that is too large for
 * the ring, or when its side has ended. A third rank waits in a barrier. */
#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/shm/shm_faults.h"

enum { NOT_CALLED, AMID, ENDED };
enum { LARGE = 3 << 20, PEER = 0, ROUNDS = 3 };

/* How a large message is transferred: put by the sender and read by the
 * receiver, only read, only put. */
enum { BOTH, READ, PUT, WAYS };

struct fault {
	size_t size;
	int sends; /* the victim */
	int when, way;
	int go[2]; /* the ring is full */
};

/* A message, then barriers. */
struct part {
	struct ddp__shm s;
	struct ddp__call call[ROUNDS];
	struct ddp__shm_msg m;
	struct ddp__shm_op op[ROUNDS];
	int at, receives;
	char *buf;
};

static char byte_of(size_t i)
{
	return (char)(i * 31 + i / 251);
}

static void fill(struct part *p, size_t size)
{
	p->buf = malloc(size);
	for (size_t i = 0; i < size; i++)
		p->buf[i] = p->receives ? 0 : byte_of(i);
}

static int is_whole(const struct part *p, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (p->buf[i] != byte_of(i))
			return 0;
	return 1;
}

static int begin(struct part *p, const struct stage *st, const struct fault *f,
		 int me)
{
	int peer = me == VICTIM ? PEER : VICTIM;

	if (join(&p->s, &st->g, me))
		return 0;
	p->s.spins = f->way != READ;
	if (f->way == PUT)
		atomic_store(&p->s.header->no_reading, 1);
	p->at = me > VICTIM;
	p->receives = (me == VICTIM) != f->sends;
	p->call[0] = (struct ddp__call){p->receives ? DDP__RECV : DDP__SEND,
					DDP_U8, DDP_SUM, peer, f->size, 1};
	fill(p, f->size);
	if (p->receives)
		ddp__shm_recv(&p->m, &p->s, &p->call[0], p->buf, f->size, peer);
	else
		ddp__shm_send(&p->m, &p->s, &p->call[0], p->buf, f->size, peer);
	for (int i = 1; i < ROUNDS; i++) {
		p->call[i] = (struct ddp__call){.kind = DDP__BARRIER,
						.number = (unsigned)i};
		ddp__shm_barrier(&p->op[i], &p->s, &p->call[i]);
	}
	return 1;
}

static void run_all(struct part *p, struct err *e)
{
	while (p->at < ROUNDS &&
	       !(p->at ? ddp__shm_run(&p->op[p->at], e)
		       : ddp__shm_msg_run(&p->m, e)))
		p->at++;
}

static int lies_in_ring(const struct fault *f)
{
	return f->size < LARGE;
}

/* Whether the peer's side ends without the victim. */
static int peer_ends(const struct stage *st, const struct fault *f)
{
	if (f->when == ENDED)
		return 1;
	if (f->when == NOT_CALLED)
		return !f->sends && lies_in_ring(f);
	/* a stopped process's memory can be read */
	return f->sends && f->way != PUT && st->sig == SIGSTOP &&
	       reads_memory();
}

static int hears(const struct part *p, const struct stage *st,
		 const struct fault *f, const struct err *e)
{
	static const struct ddp__call init = {.kind = DDP__INIT};
	struct ddp__call mine = p->call[0], its;
	const struct ddp__call *last = f->when == NOT_CALLED ? &init : &its;
	const char *verb = f->sends ? "sent it for " : "received it for ";

	mine.kind = f->sends ? DDP__RECV : DDP__SEND;
	mine.root = VICTIM;
	its = mine;
	its.kind = f->sends ? DDP__SEND : DDP__RECV;
	its.root = PEER;
	/* the error does not name a message that need not wait */
	if (f->when == ENDED)
		last = NULL;
	/* the third rank may be the first to see that the victim is gone */
	if (!peer_ends(st, f) &&
	    (st->g.n == 2 || st->sig == SIGSTOP || strncmp(e->text, "barr", 4)))
		return names_victim(st, e, &mine, verb, last);
	return names_victim(st, e, &p->call[1], "arrived for ", last);
}

static int survive(struct stage *st, int me, void *arg)
{
	const struct fault *f = arg;
	struct err e = ERR_INIT;
	struct part p;
	char *was;

	if (!begin(&p, st, f, me))
		return 1;
	if (f->when == AMID && me == PEER && !f->sends &&
	    (ddp__shm_msg_advance(&p.m, &e) || write(f->go[1], "", 1) != 1))
		return 2;
	if (f->when == AMID)
		await_fall(st);
	if (f->when == ENDED && me == PEER && ddp__shm_msg_run(&p.m, &e))
		return 3;
	p.at += f->when == ENDED && me == PEER;
	/* the third rank only gets the error; otherwise it would miss the peer
	 * too */
	if (st->sig == SIGSTOP && me == PEER) {
		if (!p.at && peer_ends(st, f) && ddp__shm_msg_run(&p.m, &e))
			return 4;
		p.at = peer_ends(st, f);
		if (p.at && ddp__shm_advance(&p.op[1], &e))
			return 5;
	}
	if (st->sig == SIGSTOP && me != PEER && ddp__shm_advance(&p.op[1], &e))
		return 6;
	if (st->sig == SIGSTOP) {
		meet_survivors(st);
		p.s.timeout_ms = me == PEER ? 1 : -1;
	}
	run_all(&p, &e);
	if (me == PEER && p.at != peer_ends(st, f))
		return 7;
	if (!hears(&p, st, f, &e))
		return 8;
	if (p.receives && p.at == 1 && me == PEER && !is_whole(&p, f->size))
		return 9;
	/* the caller owns the send buffer again */
	if (!p.receives)
		memset(p.buf, 0x55, f->size);
	was = malloc(f->size);
	memcpy(was, p.buf, f->size);
	outlive_victim(st);
	return memcmp(was, p.buf, f->size) ? 10 : 0;
}

static int fall(struct stage *st, void *arg)
{
	const struct fault *f = arg;
	struct err e = ERR_INIT;
	struct part p;
	char c;

	if (!begin(&p, st, f, VICTIM))
		return 1;
	if (f->when == ENDED && ddp__shm_msg_run(&p.m, &e))
		return 2;
	if (f->when == AMID && !f->sends && read(f->go[0], &c, 1) != 1)
		return 3;
	if (f->when == AMID && (ddp__shm_msg_advance(&p.m, &e) || !p.m.state))
		return 4;
	p.at = f->when == ENDED;
	fall_here(st);
	run_all(&p, &e);
	/* the victim was stopped, and the others have failed since */
	if ((p.at > 0) != (peer_ends(st, f) || (f->sends && lies_in_ring(f))))
		return 5;
	if (p.receives && p.at && !is_whole(&p, f->size))
		return 6;
	return hears(&p, st, f, &e) ? 0 : 7;
}

static void each_phase(size_t size, int sends, int way, int sig)
{
	struct stage st = {.sig = sig, .survive = survive, .fall = fall};
	struct fault f = {.size = size, .sends = sends, .way = way};
	char what[128];

	for (int i = 0; i < 6; i++) {
		int n = 2 + i % 2;

		f.when = i / 2;
		/* a receiver that can read takes all of it at once */
		if (f.when == AMID && (lies_in_ring(&f) ||
				       (!sends && way != PUT)))
			continue;
		snprintf(what, sizeof(what),
			 "%zu bytes, way %d, %d ranks, who %s is %s in phase "
			 "%d", size, way, n, sends ? "sends" : "receives",
			 sig == SIGKILL ? "killed" : "stopped", f.when);
		ck_assert_int_eq(pipe(f.go), 0);
		play(&st, n, &f, what);
		close(f.go[0]);
		close(f.go[1]);
	}
}

static const size_t sizes[] = {12, 16000, LARGE};
enum { CASES = 2 * WAYS * sizeof(sizes) / sizeof(*sizes) };

START_TEST(names_a_killed_rank)
{
	each_phase(sizes[_i / 2 / WAYS], _i % 2, _i / 2 % WAYS, SIGKILL);
}
END_TEST

START_TEST(names_a_stopped_rank_which_then_continues)
{
	each_phase(sizes[_i / 2 / WAYS], _i % 2, _i / 2 % WAYS, SIGSTOP);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("shm_p2p_faults");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, names_a_killed_rank, 0, CASES);
	tcase_add_loop_test(
		tc, names_a_stopped_rank_which_then_continues, 0,
		CASES);
	return run_case(tc);
}
