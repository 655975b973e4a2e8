/* test_shm_cell.c: small broadcasts in a host go through cells, of which each
 * rank has a limited number: a root does not overwrite the cells of a late
 * rank. */
#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/shm/shm_ranks.h"

enum { ROOT, LATE, RANKS, BROADCASTS = 3 * DDP__SHM_CELLS };

struct stage {
	struct group g;
	int full[2]; /* a pipe: the root is as far as it gets alone */
};

/* Advances broadcast k once: 1 if it is over, 0, or an error. */
static int broadcast(struct ddp__shm *s, struct ddp__call *call,
		     struct ddp__shm_op *op, uint64_t *value)
{
	struct err e = ERR_INIT;

	if (!op->call)
		ddp__shm_broadcast(op, s, call, ROOT, value, sizeof(*value),
				   value, 0,
				   s->me == ROOT ? 0 : sizeof(*value));
	return ddp__shm_advance(op, &e);
}

static struct ddp__call call_of(uint64_t k)
{
	return (struct ddp__call){DDP__BROADCAST, DDP_U8, DDP_SUM, ROOT,
				  sizeof(uint64_t), k + 1};
}

static int give(struct stage *st, struct ddp__shm *s)
{
	int released = 0;

	for (uint64_t k = 0; k < BROADCASTS; k++) {
		struct ddp__call call = call_of(k);
		struct ddp__shm_op op = {.call = NULL};
		uint64_t value = k * 7 + 3;
		int rc = broadcast(s, &call, &op, &value);

		if (!rc && !released && k < DDP__SHM_CELLS) {
			released = 1;
			if (write(st->full[1], "", 1) != 1)
				return 2;
		}
		/* this would overwrite a cell that the late rank has not read
		 * yet */
		if (!released && k >= DDP__SHM_CELLS)
			return 3;
		while (!rc)
			rc = broadcast(s, &call, &op, &value);
		if (rc < 0)
			return 4;
	}
	return 0;
}

static int take(struct stage *st, struct ddp__shm *s)
{
	char c;

	if (read(st->full[0], &c, 1) != 1)
		return 5;
	for (uint64_t k = 0; k < BROADCASTS; k++) {
		struct ddp__call call = call_of(k);
		struct ddp__shm_op op = {.call = NULL};
		uint64_t value = 0;
		int rc;

		while (!(rc = broadcast(s, &call, &op, &value)))
			;
		if (rc < 0)
			return 6;
		if (value != k * 7 + 3)
			return 7;
	}
	return 0;
}

static int take_part(int me, void *arg)
{
	struct stage *st = arg;
	struct ddp__shm s;

	if (join(&s, &st->g, me))
		return 1;
	close(st->full[me == ROOT ? 0 : 1]);
	return me == ROOT ? give(st, &s) : take(st, &s);
}

START_TEST(a_root_does_not_lap_a_rank_that_is_late)
{
	struct stage st = {.g = make(RANKS)};

	ck_assert_int_eq(pipe(st.full), 0);
	run_forked(RANKS, take_part, &st);
	close(st.full[0]);
	close(st.full[1]);
	close(st.g.fd);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("shm_cell");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_root_does_not_lap_a_rank_that_is_late);
	return run_case(tc);
}
