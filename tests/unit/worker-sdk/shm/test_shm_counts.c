/* test_shm_counts.c: collectives with a count for each rank in shared memory:
 * blocks that take one step or many, advanced in every way; and counts that do
 * not match. */
#include <sched.h>

#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/shm/shm_ranks.h"

enum { RANKS = 6, KINDS = 3, PATTERNS = 5 };

static const enum ddp__kind called[KINDS] = {
	DDP__ALL_GATHER_V, DDP__REDUCE_SCATTER_V, DDP__ALL_TO_ALL_V};

/* Elements from one rank to another. */
static size_t count_of(int pattern, int from, int to)
{
	size_t f = (size_t)from, t = (size_t)to;

	switch (pattern) {
	case 0: return 0;
	case 1: return f + 2 * t;
	case 2: return from == 0 ? 100003 : 0;
	case 3: return to == 0 ? 70001 : 1;
	default: return (f * 7 + t * 5) % 4 * 20011;
	}
}

static int32_t value_of(int from, int to, size_t i)
{
	return (int32_t)(i * 2654435761u + (unsigned)(from * 7919 + to * 31));
}

struct counted {
	struct ddp__call call;
	struct ddp__counts v;
	size_t sends[RANKS + 1], recvs[RANKS + 1]; /* begins */
	int32_t *send, *recv;
};

static void counted_init(struct counted *t, int kind, int pattern, int me,
			 int n, uint64_t number)
{
	int same = called[kind] != DDP__ALL_TO_ALL_V;
	size_t sends[RANKS], recvs[RANKS];

	for (int r = 0; r < n; r++) {
		sends[r] = count_of(pattern, same ? r : me, same ? 0 : r);
		recvs[r] = same ? sends[r] : count_of(pattern, r, me);
	}
	ddp__counts_begin(t->sends, sends, n);
	ddp__counts_begin(t->recvs, recvs, n);
	t->call = (struct ddp__call){.kind = called[kind], .type = DDP_I32,
				     .number = number};
	t->v = (struct ddp__counts){.n = n, .send = t->sends,
				    .recv = t->recvs,
				    .digest = ddp__counts_digest(t->recvs, n)};
	t->send = calloc(t->sends[n] + 1, sizeof(*t->send));
	t->recv = calloc(t->recvs[n] + 1, sizeof(*t->recv));
}

static void counted_release(struct counted *t)
{
	free(t->send);
	free(t->recv);
}

static void counted_start(struct counted *t, int me, struct ddp__shm *s,
			  struct ddp__shm_op *op)
{
	int gathers = t->call.kind == DDP__ALL_GATHER_V;

	for (int r = 0; r < s->n; r++)
		for (size_t i = t->sends[r]; i < t->sends[r + 1]; i++)
			t->send[i] = value_of(me, gathers ? 0 : r,
					      i - t->sends[r]);
	if (gathers)
		for (size_t i = 0; i < ddp__count_of(t->sends, me); i++)
			t->send[i] = value_of(me, 0, i);
	if (gathers)
		ddp__shm_all_gather_v(op, s, &t->call, &t->v, 4, t->send,
				      t->recv, NULL);
	else if (t->call.kind == DDP__REDUCE_SCATTER_V)
		ddp__shm_reduce_scatter_v(op, s, &t->call, &t->v, t->send,
					  t->recv, 1);
	else
		ddp__shm_all_to_all_v(op, s, &t->call, 4, t->send, t->sends,
				      t->recv, t->recvs);
}

static int counted_is_right(const struct counted *t, int me, int n)
{
	int gathers = t->call.kind == DDP__ALL_GATHER_V;

	if (t->call.kind == DDP__REDUCE_SCATTER_V) {
		for (size_t i = 0; i < ddp__count_of(t->recvs, me); i++) {
			uint32_t sum = 0;

			for (int r = 0; r < n; r++)
				sum += (uint32_t)value_of(r, me, i);
			if (t->recv[i] != (int32_t)sum)
				return 0;
		}
		return 1;
	}
	for (int r = 0; r < n; r++)
		for (size_t i = t->recvs[r]; i < t->recvs[r + 1]; i++)
			if (t->recv[i] != value_of(r, gathers ? 0 : me,
						   i - t->recvs[r]))
				return 0;
	return 1;
}

/* Advanced at random moments, or run. */
static int finish(struct ddp__shm_op *op, unsigned *seed, struct err *e)
{
	int rc = 0;

	if (next_random(seed) % 3 == 0)
		return ddp__shm_run(op, e);
	while (!rc) {
		rc = ddp__shm_advance(op, e);
		if (!rc && next_random(seed) % 4 == 0)
			sched_yield();
	}
	return rc < 0 ? rc : 0;
}

static int all_patterns(int me, void *arg)
{
	unsigned seed = 77u + (unsigned)me;
	uint64_t number = 0;
	struct ddp__shm s;

	if (join(&s, arg, me))
		return 1;
	for (int k = 0; k < KINDS * PATTERNS * 2; k++) {
		struct err e = ERR_INIT;
		struct ddp__shm_op op;
		struct counted t;

		s.chunk = k % 2 ? DDP__SHM_IN : 32 << 10;
		counted_init(&t, k / 2 % KINDS, k / 2 / KINDS, me, s.n,
			     ++number);
		counted_start(&t, me, &s, &op);
		if (finish(&op, &seed, &e) || !counted_is_right(&t, me, s.n))
			return 10 + k;
		counted_release(&t);
	}
	ddp__shm_detach(&s);
	return 0;
}

START_TEST(moves_blocks_of_different_sizes_however_it_is_advanced)
{
	run_group(_i, all_patterns);
}
END_TEST

/* Rank 1 expects an element more from rank 0, or passes one more for it. */
static int mistaken(int me, void *arg)
{
	struct counted t;
	struct err e = ERR_INIT;
	struct ddp__shm_op op;
	struct ddp__shm s;
	const struct group *g = arg;
	unsigned seed = 5;
	int kind = g->n - 3, rc;

	if (join(&s, arg, me))
		return 1;
	counted_init(&t, kind, 1, me, s.n, 1);
	if (me == 1) {
		for (int r = 1; r <= s.n; r++)
			t.recvs[r]++;
		t.v.digest = ddp__counts_digest(t.recvs, s.n);
	}
	t.recv = realloc(t.recv, (t.recvs[s.n] + 1) * sizeof(*t.recv));
	counted_start(&t, me, &s, &op);
	rc = finish(&op, &seed, &e);
	if (!rc) { /* these two ranks are not this one's concern: they fail */
		ddp__shm_barrier(&op, &s, &t.call);
		rc = finish(&op, &seed, &e);
	}
	if (rc != ERR_ARGUMENT || !strstr(e.text, "rank 10 on h1"))
		return 2;
	if (kind == 2 && !strstr(e.text, "rank 0 on h1 sends 2 elements to "
					 "rank 10 on h1, but that rank "
					 "expects 3"))
		return 3;
	if (kind < 2 && (!strstr(e.text, "rank 10 on h1 passed 1") ||
			 !strstr(e.text, "for counts[0]")))
		return 4;
	ddp__shm_detach(&s);
	return 0;
}

/* The number of ranks says which kind it is: 3, 4 or 5. */
START_TEST(names_two_ranks_whose_counts_do_not_match)
{
	run_group(_i, mistaken);
}
END_TEST

START_TEST(sums_of_counts_do_not_wrap_around)
{
	const size_t fits[] = {DDP__COUNT_MAX - 1, 1, 0},
		     more[] = {DDP__COUNT_MAX, 1, 0},
		     wraps[] = {(size_t)-1, (size_t)-1, 3};
	size_t begin[4];

	ddp__counts_begin(begin, fits, 3);
	ck_assert_uint_eq(begin[3], DDP__COUNT_MAX);
	ddp__counts_begin(begin, more, 3);
	ck_assert_uint_gt(begin[3], DDP__COUNT_MAX);
	ddp__counts_begin(begin, wraps, 3);
	ck_assert_uint_gt(begin[3], DDP__COUNT_MAX);
}
END_TEST

START_TEST(a_copy_of_counts_does_not_need_the_original)
{
	size_t begin[] = {0, 3, 3, 10};
	struct ddp__counts v = {.n = 3, .digest = 7, .send = begin,
				.recv = begin}, *copy;

	copy = ddp__counts_copy(malloc(ddp__counts_size(&v)), &v);
	memset(begin, 0xff, sizeof(begin));
	ck_assert_uint_eq(copy->digest, 7);
	ck_assert_uint_eq(ddp__count_of(copy->send, 2), 7);
	ck_assert_uint_eq(ddp__count_of(copy->recv, 0), 3);
	free(copy);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("shm_counts");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(
		tc, moves_blocks_of_different_sizes_however_it_is_advanced, 1,
		RANKS + 1);
	tcase_add_loop_test(tc, names_two_ranks_whose_counts_do_not_match, 3,
			    6);
	tcase_add_test(tc, sums_of_counts_do_not_wrap_around);
	tcase_add_test(tc, a_copy_of_counts_does_not_need_the_original);
	return run_case(tc);
}
