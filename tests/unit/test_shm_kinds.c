/* test_shm_kinds.c: every kind of collective in shared memory, with every way
 * to place its buffers and to move it on. */
#include <sched.h>

#include "tests/unit/shm_ranks.h"

/* All kinds, one after the other, on buffers that lie `shift` off, in place or
 * not; advanced at random moments, or run. */
enum { AROUND = 1, KINDS = 7 };

struct kind_case {
	uint64_t number; /* of calls so far */
	struct ddp__shm *s;
	size_t count;
	int shift, in_place, kind, to;
	char *raw_a, *raw_b;
	int32_t *a, *b; /* send and recv, aligned */
};

static int32_t value_of(int rank, int kind, size_t i)
{
	return (int32_t)(i * 2654435761u + (unsigned)(rank * 7919 + kind));
}

/* What recv[i] must be on rank me; *same: recv keeps what it had. */
static int32_t expected(const struct kind_case *t, size_t i, int *same)
{
	int n = t->s->n, me = t->s->me;
	size_t count = t->count ? t->count : 1;
	int block = (int)(i / count);
	uint32_t sum = 0;

	*same = 0;
	switch (t->kind) {
	case 0: /* reduce to all */
	case 1: /* to one */
		*same = t->kind == 1 && me != t->to;
		for (int r = 0; r < n; r++)
			sum += (uint32_t)value_of(r, t->kind, i);
		return (int32_t)sum;
	case 2: /* reduce_scatter */
		for (int r = 0; r < n; r++)
			sum += (uint32_t)value_of(
				r, 2, (size_t)me * t->count + i);
		return (int32_t)sum;
	case 3: /* broadcast */
		return value_of(t->to, 3, i);
	case 4: /* gather to all */
		return value_of(block, 4, i % count);
	case 5: /* scatter */
		return value_of(t->to, 5, (size_t)me * t->count + i);
	default: /* all_to_all */
		return value_of(block, 6, (size_t)me * t->count + i % count);
	}
}

static size_t send_count(const struct kind_case *t)
{
	int blocks = t->kind == 2 || t->kind == 5 || t->kind == 6;

	return t->count * (size_t)(blocks ? t->s->n : 1);
}

static size_t recv_count(const struct kind_case *t)
{
	int blocks = t->kind == 4 || t->kind == 6;

	return t->count * (size_t)(blocks ? t->s->n : 1);
}

static void prepare_kind(struct kind_case *t, struct ddp__shm_op *op,
			 const struct ddp__call *call, char *send, char *recv)
{
	struct ddp__shm *s = t->s;
	size_t size = t->count * 4;

	switch (t->kind) {
	case 0:
		ddp__shm_reduce(op, s, call, send, recv, t->count, DDP__ALL, 1);
		break;
	case 1:
		ddp__shm_reduce(op, s, call, send, recv, t->count, t->to, 1);
		break;
	case 2:
		ddp__shm_reduce_scatter(op, s, call, send, recv, t->count, 1);
		break;
	case 3:
		ddp__shm_broadcast(op, s, call, t->to, send, size, recv, 0,
				   size);
		break;
	case 4:
		ddp__shm_gather(op, s, call, send, size, recv, NULL, DDP__ALL);
		break;
	case 5:
		ddp__shm_scatter(op, s, call, t->to, send, size, recv, NULL);
		break;
	default:
		ddp__shm_all_to_all(op, s, call, send, size, recv, NULL);
	}
}

/* Where in recv (or recv in send) the in-place form has the other buffer. */
static void place_buffers(const struct kind_case *t, char **send, char **recv)
{
	size_t own = (size_t)t->s->me * t->count * 4;

	*send = t->raw_a + AROUND + t->shift;
	*recv = t->raw_b + AROUND + t->shift;
	if (!t->in_place)
		return;
	if (t->kind == 2 || (t->kind == 5 && t->s->me == t->to))
		*recv = *send + own;
	else if (t->kind == 4)
		*send = *recv + own;
	else if (t->kind != 5)
		*recv = *send;
}

static int finish(struct ddp__shm_op *op, unsigned *seed)
{
	struct err e = ERR_INIT;
	int rc = 0;

	if (next_random(seed) % 3 == 0)
		return ddp__shm_run(op, &e);
	while (!rc) {
		rc = ddp__shm_advance(op, &e);
		if (!rc && next_random(seed) % 4 == 0)
			sched_yield();
	}
	return rc < 0;
}

static int one_kind(struct kind_case *t, unsigned *seed)
{
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_I32, DDP_SUM, t->to,
				 t->count, ++t->number};
	size_t sends = send_count(t), recvs = recv_count(t);
	struct ddp__shm_op op;
	char *send, *recv;
	int32_t *before = malloc(recvs * 4 + 4);
	int same, bad = 0;

	place_buffers(t, &send, &recv);
	for (size_t i = 0; i < sends; i++)
		t->a[i] = value_of(t->s->me, t->kind, i);
	memcpy(send, t->a, sends * 4);
	memcpy(before, recv, recvs * 4);
	prepare_kind(t, &op, &call, send, recv);
	if (finish(&op, seed)) {
		free(before);
		return 1;
	}
	memcpy(t->b, recv, recvs * 4);
	for (size_t i = 0; i < recvs && !bad; i++) {
		int32_t want = expected(t, i, &same);

		bad = t->b[i] != (same ? before[i] : want);
	}
	free(before);
	return bad;
}

static int all_kinds(int me, void *arg)
{
	static const size_t counts[] = {0, 1, 3, 4097, 150001};
	unsigned seed = 77u + (unsigned)me;
	struct ddp__shm s;
	struct kind_case t = {.s = &s};
	size_t most = 150001 * 4 * 5 + 16;

	t.raw_a = calloc(1, most);
	t.raw_b = calloc(1, most);
	t.a = malloc(most);
	t.b = malloc(most);
	if (join(&s, arg, me))
		return 1;
	for (int k = 0; k < 5 * 2 * 2; k++) {
		t.count = counts[k % 5];
		t.shift = k / 5 % 2 * 3;
		t.in_place = k / 10;
		t.to = k % s.n;
		s.chunk = k % 2 ? DDP__SHM_IN : 32 << 10;
		for (t.kind = 0; t.kind < KINDS; t.kind++)
			if (one_kind(&t, &seed))
				return 10 * (t.kind + 1) + k % 10;
	}
	free(t.raw_a);
	free(t.raw_b);
	free(t.a);
	free(t.b);
	ddp__shm_detach(&s);
	return 0;
}

START_TEST(does_every_kind_however_it_is_advanced)
{
	struct group g = make(_i);

	run_forked(_i, all_kinds, &g);
	close(g.fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("shm_kinds");
	TCase *tc = tcase_create("shm_kinds");
	SRunner *runner = srunner_create(suite);
	int failed;

	suite_add_tcase(suite, tc);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, does_every_kind_however_it_is_advanced, 1, 6);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed;
}
