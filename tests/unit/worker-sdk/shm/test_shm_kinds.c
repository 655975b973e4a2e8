/* test_shm_kinds.c: every kind of collective in shared memory, with every
 * placement of its buffers and every way to advance it. */
#include <sched.h>

#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/shm/shm_kinds.h"

/* Advanced at random moments, or run. */
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

static int all_kinds(int me, void *arg)
{
	static const size_t counts[] = {0, 1, 3, 4097, 150001};
	unsigned seed = 77u + (unsigned)me;
	struct ddp__shm_op op;
	struct kind_case t;
	struct ddp__shm s;
	uint64_t number = 0;

	if (join(&s, arg, me))
		return 1;
	kind_init(&t, &s, 150001);
	for (int k = 0; k < 5 * 2 * 2; k++) {
		t.count = counts[k % 5];
		t.shift = k / 5 % 2 * 3;
		t.in_place = k / 10;
		t.to = k % s.n;
		s.chunk = k % 2 ? DDP__SHM_IN : 32 << 10;
		for (int kind = 0; kind < KINDS; kind++) {
			t.kind = (enum kind)kind;
			kind_start(&t, &op, ++number);
			if (finish(&op, &seed) || !kind_right(&t))
				return 10 * (kind + 1) + k % 10;
		}
	}
	kind_release(&t);
	ddp__shm_detach(&s);
	return 0;
}

START_TEST(runs_every_kind_however_it_is_advanced)
{
	run_group(_i, all_kinds);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("shm_kinds");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, runs_every_kind_however_it_is_advanced, 1, 6);
	return run_case(tc);
}
