/* test_shm.c: ranks of one host, as forked processes over one segment: results,
 * waits, and what happens when one rank does not arrive. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/shm/shm_ranks.h"

#define RUN(kind, ...)                                                        \
	(ddp__shm_##kind(&op, __VA_ARGS__), ddp__shm_run(&op, &e))

/* Small integers as floats add up exactly, in any order. */
static float term(int rank, size_t i)
{
	return (float)((i * 7 + (size_t)rank * 13) % 1001);
}

static int reduce_right(struct ddp__shm *s, size_t count, int shift, int to,
			size_t chunk)
{
	static uint64_t number;
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_F32, DDP_AVG, 0, count,
				 ++number};
	char *raw = malloc(count * 4 + 16);
	struct ddp__shm_op op;
	struct err e = ERR_INIT;
	float *v = malloc(count * 4 + 4);
	int bad = 0;

	s->chunk = chunk;
	for (size_t i = 0; i < count; i++)
		v[i] = term(s->me, i);
	memcpy(raw + shift, v, count * 4);
	if (RUN(reduce, s, &call, raw + shift, raw + shift, count, to,
			    s->n))
		return 1;
	memcpy(v, raw + shift, count * 4);
	for (size_t i = 0; i < count && !bad; i++) {
		float sum = 0;

		for (int r = 0; r < s->n; r++)
			sum += term(r, i);
		if (to == DDP__ALL || to == s->me)
			bad = v[i] != sum / (float)s->n;
		else
			bad = v[i] != term(s->me, i);
	}
	free(raw);
	free(v);
	return bad;
}

static int reduce_all_sizes(int me, void *arg)
{
	static const size_t counts[] = {0,    1,    3,	   4,	  5,   1000,
					4096, 4097, 10007, 40000, 300001};
	struct ddp__shm s;

	if (join(&s, arg, me))
		return 1;
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		size_t chunk = i % 2 ? s.chunk : 32 << 10;

		if (reduce_right(&s, counts[i], 0, DDP__ALL, chunk) ||
		    reduce_right(&s, counts[i], 1, DDP__ALL, chunk) ||
		    reduce_right(&s, counts[i], 3, s.n - 1, chunk))
			return 10 + (int)i;
	}
	ddp__shm_detach(&s);
	return 0;
}

START_TEST(reduces)
{
	static const int sizes[] = {2, 3, 5, 8};
	run_group(sizes[_i], reduce_all_sizes);
}
END_TEST

static int move_data(int me, void *arg)
{
	enum { COUNT = 700001 };
	struct ddp__call call = {DDP__BROADCAST, DDP_I32, DDP_SUM, 1, COUNT, 1};
	struct ddp__shm s;
	struct ddp__shm_op op;
	struct err e = ERR_INIT;
	int32_t *a = malloc(COUNT * 4), *all;
	int place[8] = {2, 0, 1};
	int n = ((struct group *)arg)->n;

	all = malloc((size_t)n * COUNT * 4);
	if (join(&s, arg, me))
		return 1;
	for (int i = 0; i < COUNT; i++)
		a[i] = me * COUNT + i;
	/* all ranks get the data of rank 1, each its own window */
	if (RUN(broadcast, &s, &call, 1, a, COUNT * 4, all, 4000,
			       COUNT * 4 - 8000))
		return 2;
	for (int i = 0; i < COUNT - 2000; i++)
		if (all[i] != COUNT + 1000 + i)
			return 3;
	call.kind = DDP__ALL_GATHER;
	call.number++;
	if (RUN(gather, &s, &call, a, COUNT * 4, all, place, DDP__ALL))
		return 4;
	for (int r = 0; r < n; r++)
		for (int i = 0; i < COUNT; i++)
			if (all[place[r] * COUNT + i] != r * COUNT + i)
				return 5;
	call.kind = DDP__REDUCE_SCATTER;
	call.op = DDP_MAX;
	call.number++;
	if (RUN(reduce_scatter, &s, &call, all, all + me * COUNT, COUNT, 1))
		return 6;
	for (int i = 0; i < COUNT; i++)
		if (all[me * COUNT + i] != ((me + 1) % 3) * COUNT + i)
			return 7;
	for (call.number++; call.number < 1000; call.number++)
		if (RUN(barrier, &s, &call))
			return 8;
	ddp__shm_detach(&s);
	return 0;
}

START_TEST(moves_data)
{
	run_group(3, move_data);
}
END_TEST

/* The step counter wraps after 2^32 steps. Jumps there, less than half of that
 * range at a time, so that a rank that is still in the step before sees the new
 * step as later. */
static int wrap(int me, void *arg)
{
	struct ddp__shm s;

	if (join(&s, arg, me))
		return 1;
	for (int jump = 0; jump < 2; jump++) {
		s.step += 0x7ffffff0;
		atomic_store(&ddp__shm_control(&s, me)->step, s.step);
		if (reduce_right(&s, 5, 0, DDP__ALL, s.chunk))
			return 3;
	}
	for (int i = 0; i < 20; i++)
		if (reduce_right(&s, 5000, 0, DDP__ALL, s.chunk))
			return 2;
	ddp__shm_detach(&s);
	return 0;
}

START_TEST(step_counter_wraps)
{
	run_group(3, wrap);
}
END_TEST

/* Sleeps at the doorbell, like a rank that also waits for sockets. */
static int advance_by_bell(struct ddp__shm_op *op, struct err *e)
{
	struct pollfd p = {ddp__shm_doorbell(op->s, e), POLLIN, 0};
	uint64_t start = clock_ns();
	int rc = ddp__shm_advance(op, e);

	while (!rc) {
		if (!ddp__shm_arm(op->s))
			poll(&p, 1, 1000);
		ddp__shm_disarm(op->s);
		rc = ddp__shm_advance(op, e);
		if (!rc)
			rc = ddp__shm_check(op->s, clock_ns() - start, e);
	}
	return rc < 0 ? rc : 0;
}

static int by_bell(int me, void *arg)
{
	struct ddp__call call = {.kind = DDP__BARRIER, .number = 1};
	struct ddp__shm_op op;
	struct err e = ERR_INIT;
	struct ddp__shm s;

	if (join(&s, arg, me))
		return 1;
	for (int i = 0; i < 300; i++) {
		/* some ranks sleep in the segment, others at their bells */
		int rc = (i + me) % 3 ? (ddp__shm_barrier(&op, &s, &call),
					 advance_by_bell(&op, &e))
				      : RUN(barrier, &s, &call);

		if (rc)
			return 2;
	}
	if (me == s.n - 1)
		raise(SIGKILL);
	ddp__shm_barrier(&op, &s, &call);
	if (advance_by_bell(&op, &e) != ERR_REMOTE)
		return 3;
	return strstr(e.text, " is gone: fate of ") == NULL;
}

START_TEST(rings_a_rank_that_sleeps_elsewhere)
{
	run_group_with_victim(3, 2, by_bell);
}
END_TEST

static int late(int me, void *arg)
{
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_F32, DDP_SUM, 0, 39760,
				 12};
	static float v[39760];
	struct ddp__shm_op op;
	struct err e = ERR_INIT;
	struct ddp__shm s;
	int rc;

	if (join(&s, arg, me))
		return 1;
	/* long enough for all but the culprit to come on a loaded machine */
	s.timeout_ms = 2000;
	if (me == 2) {
		/* comes when the others have given up, and gets their error */
		while (!ddp__shm_aborted(&s))
			usleep(1000);
	}
	rc = RUN(reduce, &s, &call, v, v, 39760, DDP__ALL, 1);
	if (rc != ERR_TIMEOUT)
		return 2;
	if (!strstr(e.text, "all_reduce #12 (f32 x 39760, sum): rank 20 on h1 "
			    "has not arrived for "))
		return 3;
	return 0;
}

START_TEST(names_a_late_rank)
{
	run_group(4, late);
}
END_TEST

/* Rank 1 is gone before the others' barrier, or while it writes the reason why
 * it aborts: they learn it from the abort, not by the deadline. */
static const struct loss {
	int is_aborting, signal; /* or 0: it leaves */
	enum ddp__kind kind;	 /* as which the barrier is reported */
	const char *text;
} losses[] = {
	{0, SIGKILL, DDP__BARRIER,
	 "barrier #3: rank 10 on h1 is gone: fate of 10"},
	{1, SIGKILL, DDP__BARRIER,
	 "barrier #3: rank 10 on h1 stopped before it gave a reason: fate of "
	 "10"},
	{1, SIGSTOP, DDP__BARRIER,
	 "barrier #3: rank 10 on h1 stopped before it gave a reason: fate of "
	 "10"},
	{0, 0, DDP__BARRIER, "rank 10 on h1 left with ddp_finalize"},
	{0, 0, DDP__INIT, "rank 10 on h1 gave up"},
};

struct lossy_group {
	struct group group;
	const struct loss *loss;
};

static int lose_rank_1(int me, void *arg)
{
	const struct loss *l = ((struct lossy_group *)arg)->loss;
	struct ddp__call call = {.kind = l->kind, .number = 3};
	uint64_t start = clock_ms();
	struct ddp__shm_op op;
	struct err e = ERR_INIT;
	struct ddp__shm s;
	int rc;

	if (join(&s, &((struct lossy_group *)arg)->group, me))
		return 1;
	if (me == 1) {
		if (l->is_aborting)
			atomic_store(&s.header->aborted,
				     DDP__SHM_ABORTING + 1);
		if (l->signal)
			raise(l->signal);
		ddp__shm_detach(&s);
		pause();
	}
	rc = RUN(barrier, &s, &call);
	if (rc != ERR_REMOTE || clock_ms() - start > (uint64_t)s.timeout_ms)
		return 2;
	return l->signal ? strcmp(e.text, l->text) != 0
			 : !strstr(e.text, l->text);
}

START_TEST(names_a_rank_that_is_gone)
{
	struct lossy_group g = {make(3), &losses[_i]};

	run_with_victim(3, 1, lose_rank_1, &g);
	close(g.group.fd);
}
END_TEST

static int differs(int me, void *arg)
{
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_F32, DDP_SUM, 0, 40000,
				 4};
	static float v[50000];
	struct ddp__shm_op op;
	struct err e = ERR_INIT;
	struct ddp__shm s;
	int rc;

	if (join(&s, arg, me))
		return 1;
	if (me == 1) {
		call.kind = DDP__BROADCAST;
		call.type = DDP_I64;
		call.count = 7;
		rc = RUN(broadcast, &s, &call, 0, v, 56, v, 0, 56);
	} else {
		rc = RUN(reduce, &s, &call, v, v, 40000, DDP__ALL, 1);
	}
	if (rc != ERR_ARGUMENT)
		return 2;
	return !strstr(e.text, "called all_reduce #4 (f32 x 40000, sum)") ||
	       !strstr(e.text,
		       "rank 10 on h1 called broadcast #4 (i64 x 7, root 0)");
}

START_TEST(names_a_rank_with_another_call)
{
	run_group(3, differs);
}
END_TEST

/* The root of a broadcast does not wait for the other ranks: in its next call
 * it gets the error that one of them called something else. */
static int root_is_ahead(int me, void *arg, size_t size, const char *root)
{
	struct ddp__call call = {DDP__BROADCAST, DDP_U8, DDP_SUM, 0, size, 4};
	struct ddp__call barrier = {.kind = DDP__BARRIER, .number = 4};
	char v[99] = "";
	struct ddp__shm_op op;
	struct err e = ERR_INIT;
	struct ddp__shm s;

	if (join(&s, arg, me))
		return 1;
	if (me == 0) {
		/* twice: an operation that is done stays done */
		ddp__shm_broadcast(&op, &s, &call, 0, v, size, v, 0, size);
		if (ddp__shm_advance(&op, &e) != 1 ||
		    ddp__shm_advance(&op, &e) != 1)
			return 2;
		barrier.number = 5;
	}
	if (RUN(barrier, &s, &barrier) != ERR_ARGUMENT)
		return 3;
	return !strstr(e.text, root) ||
	       !strstr(e.text, "rank 10 on h1 called barrier #4");
}

static int by_steps(int me, void *arg)
{
	return root_is_ahead(me, arg, 99,
			     "rank 0 on h1 called broadcast #4 (u8 x 99, "
			     "root 0)");
}

static int by_cells(int me, void *arg)
{
	return root_is_ahead(me, arg, 9,
			     "rank 0 on h1 called broadcast #4 (u8 x 9, "
			     "root 0)");
}

START_TEST(a_root_ahead_of_others_learns_what_they_called)
{
	run_group(2, by_steps);
	run_group(2, by_cells);
}
END_TEST

/* One rank waits for a cell, the others for a step: nobody comes, and they find
 * out why before the timeout. */
static int cell_and_step(int me, void *arg)
{
	struct ddp__call call = {DDP__BROADCAST, DDP_U8, DDP_SUM, 0, 9, 4};
	struct ddp__call barrier = {.kind = DDP__BARRIER, .number = 4};
	char v[9] = "";
	struct ddp__shm_op op;
	struct err e = ERR_INIT;
	struct ddp__shm s;
	int rc;

	if (join(&s, arg, me))
		return 1;
	rc = me == 1 ? RUN(broadcast, &s, &call, 0, v, 9, v, 0, 9)
		     : RUN(barrier, &s, &barrier);
	if (rc != ERR_ARGUMENT)
		return 2;
	return !strstr(e.text, "called broadcast #4 (u8 x 9, root 0)") ||
	       !strstr(e.text, "called barrier #4");
}

START_TEST(names_a_rank_that_waits_for_a_cell)
{
	run_group(3, cell_and_step);
}
END_TEST

/* Many broadcasts in a row from every root, more than there are cells, with
 * other calls between them. Roots run ahead; every other rank gets the bytes of
 * each broadcast. */
static int many_small(int me, void *arg)
{
	struct ddp__call call = {DDP__BROADCAST, DDP_I64, DDP_SUM, 0, 2, 0};
	struct ddp__shm_op op;
	struct err e = ERR_INIT;
	struct ddp__shm s;

	if (join(&s, arg, me))
		return 1;
	for (int64_t i = 0; i < 5 * DDP__SHM_CELLS; i++) {
		int64_t v[2] = {-1, -1};

		call.number++;
		call.root = (int)(i / 100 % s.n);
		if (s.me == call.root) {
			v[0] = i;
			v[1] = i * i;
		}
		if (RUN(broadcast, &s, &call, call.root, v, sizeof(v), v, 0,
			sizeof(v)) ||
		    v[0] != i || v[1] != i * i)
			return 2;
		if (i % 350 == 349) {
			struct ddp__call sum = {DDP__ALL_REDUCE, DDP_I64,
						DDP_SUM, 0, 1, ++call.number};

			if (RUN(reduce, &s, &sum, v, v, 1, DDP__ALL, 1) ||
			    v[0] != i * s.n)
				return 3;
		}
	}
	return 0;
}

START_TEST(small_broadcasts_of_every_root)
{
	run_group(_i, many_small);
}
END_TEST

START_TEST(refuses_what_is_not_its_segment)
{
	static const unsigned char other[DDP__COOKIE] = {9};
	struct group g = make(2);
	struct err e = ERR_INIT;
	struct ddp__shm s;

	ck_assert_int_eq(ddp__shm_attach(&s, g.fd, 0, 2, other, &e),
			 ERR_PROTOCOL);
	ck_assert_int_eq(ddp__shm_attach(&s, g.fd, 0, 3, cookie, &e),
			 ERR_PROTOCOL);
	ck_assert_int_lt(ddp__shm_attach(&s, -1, 0, 2, cookie, &e), 0);
	ddp__shm_detach(&s);
	close(g.fd);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("shm");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, reduces, 0, 4);
	tcase_add_test(tc, moves_data);
	tcase_add_test(tc, step_counter_wraps);
	tcase_add_test(tc, rings_a_rank_that_sleeps_elsewhere);
	tcase_add_test(tc, names_a_late_rank);
	tcase_add_loop_test(tc, names_a_rank_that_is_gone, 0,
			    sizeof(losses) / sizeof(*losses));
	tcase_add_test(tc, names_a_rank_with_another_call);
	tcase_add_test(tc, a_root_ahead_of_others_learns_what_they_called);
	tcase_add_test(tc, names_a_rank_that_waits_for_a_cell);
	tcase_add_loop_test(tc, small_broadcasts_of_every_root, 2, 5);
	tcase_add_test(tc, refuses_what_is_not_its_segment);
	return run_case(tc);
}
