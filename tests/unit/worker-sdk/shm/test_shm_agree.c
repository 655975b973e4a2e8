/* test_shm_agree.c: if the ranks of a host do not make the same small
 * broadcasts, the next collective's error names the first calls that differ. */
#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/shm/shm_ranks.h"

static struct ddp__call cast(int root, uint64_t number)
{
	return (struct ddp__call){DDP__BROADCAST, DDP_I32, DDP_SUM, root, 1,
				  number, NULL, 0};
}

static int broadcast(struct ddp__shm *s, int root, uint64_t number,
		     struct err *e)
{
	struct ddp__call call = cast(root, number);
	struct ddp__shm_op op;
	int v = 7;

	ddp__shm_broadcast(&op, s, &call, root, &v, sizeof(v), &v, 0,
			   s->me == root ? 0 : sizeof(v));
	return ddp__shm_run(&op, e);
}

static int barrier(struct ddp__shm *s, uint64_t number, struct err *e)
{
	struct ddp__call call = {.kind = DDP__BARRIER, .number = number};
	struct ddp__shm_op op;

	ddp__shm_barrier(&op, s, &call);
	return ddp__shm_run(&op, e);
}

static int says(const struct err *e, const char *a, const char *b)
{
	char text[300];

	snprintf(text, sizeof(text), "%s, but %s: all ranks must make", a, b);
	return strstr(e->text, text) != NULL;
}

static int right; /* number of small broadcasts that all ranks make first */
static int extra; /* number of further ones that only rank 0 makes */

static int begin(struct ddp__shm *s, int me, void *arg, uint64_t *number)
{
	struct err e = ERR_INIT;

	*number = 1;
	if (join(s, arg, me))
		return 0;
	for (int i = 0; i < right; i++, ++*number)
		if (broadcast(s, i % s->n, *number, &e))
			return 0;
	return 1;
}

/* A beginner's mistake: only the root calls the broadcast. */
static int root_alone(int me, void *arg)
{
	char a[99], b[99];
	struct err e = ERR_INIT;
	struct ddp__shm s;
	uint64_t number, first;
	int rc = 0;

	if (!begin(&s, me, arg, &number))
		return 1;
	first = number;
	for (int i = 0; i < extra && me == 0 && !rc; i++)
		rc = broadcast(&s, 0, number++, &e);
	if (!rc)
		rc = barrier(&s, number, &e);
	if (rc != ERR_ARGUMENT)
		return 2;
	snprintf(a, sizeof(a), "rank 0 on h1 called broadcast #%d (i32 x 1, "
		 "root 0)", (int)first);
	snprintf(b, sizeof(b), "called barrier #%d", (int)first);
	return !strstr(e.text, a) || !strstr(e.text, b);
}

/* From a review: all ranks make one broadcast, but the root made some before
 * it. */
static int root_before(int me, void *arg)
{
	struct err e = ERR_INIT;
	struct ddp__shm s;
	uint64_t number;
	int rc = 0;

	if (!begin(&s, me, arg, &number))
		return 1;
	for (int i = 0; i <= extra && !rc; i++)
		if (me == 0 || i == 0)
			rc = broadcast(&s, 0, number++, &e);
	if (!rc)
		rc = barrier(&s, number, &e);
	return rc != ERR_ARGUMENT ||
	       !strstr(e.text, "rank 0 on h1 called broadcast #") ||
	       !strstr(e.text, "0 on h1 called barrier #");
}

static const struct {
	int right, extra;
} counts[] = {{0, 1},  {0, 4},	  {0, 8},   {3, 4},	{0, 510},
	      {0, 511}, {0, 512}, {7, 1024}, {600, 4}, {1100, 3000}};

START_TEST(broadcasts_of_the_root_alone_are_found)
{
	right = counts[_i].right;
	extra = counts[_i].extra;
	run_group(2, root_alone);
	run_group(3, root_alone);
	run_group(3, root_before);
}
END_TEST

/* Both ranks in one process: rank 0 has given some cells, and is about to give
 * more. */
START_TEST(the_first_missed_cell_is_named_while_more_are_given)
{
	static const struct ddp__call first = {.kind = DDP__BARRIER,
					       .number = 1};
	static const int ranks[] = {0, 10};
	struct group g = make(2);
	struct err e = ERR_INIT;
	struct ddp__shm s[2];

	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ddp__shm_attach(&s[i], g.fd, i, 2, cookie,
						 &e), 0);
		s[i].ranks = ranks;
		s[i].peers = &peers;
		s[i].timeout_ms = 20000;
		s[i].chunk = DDP__SHM_IN;
	}
	for (uint64_t number = 1; number <= 300; number++)
		ck_assert_int_eq(broadcast(&s[0], 0, number, &e), 0);
	ddp__shm_begin(&s[1], &first);
	ddp__shm_post(&s[1]);
	ck_assert_int_eq(ddp__shm_check(&s[1], 0, &e), ERR_ARGUMENT);
	ck_assert_msg(says(&e, "rank 0 on h1 called broadcast #1 (i32 x 1, "
			   "root 0)", "rank 10 on h1 called barrier #1"),
		      "%s", e.text);
	for (int i = 0; i < 2; i++)
		ddp__shm_detach(&s[i]);
	close(g.fd);
}
END_TEST

static int then; /* 0: a barrier; 1: a small broadcast that all ranks make */

static int each_its_own(int me, void *arg)
{
	char a[99], b[99];
	struct err e = ERR_INIT;
	struct ddp__shm s;
	uint64_t number, first;
	int rc = 0;

	if (!begin(&s, me, arg, &number))
		return 1;
	first = number;
	for (int i = 0; i < extra && !rc; i++)
		rc = broadcast(&s, me, number++, &e);
	if (!rc && then)
		rc = broadcast(&s, 0, number++, &e);
	/* a root alone gets the error when it waits */
	if (!rc)
		rc = barrier(&s, number, &e);
	if (rc != ERR_ARGUMENT)
		return 2;
	snprintf(a, sizeof(a), "rank 0 on h1 called broadcast #%d (i32 x 1, "
		 "root 0)", (int)first);
	for (int i = 1; i < s.n; i++) {
		snprintf(b, sizeof(b), "rank %d on h1 called broadcast #%d "
			 "(i32 x 1, root %d)", 10 * i, (int)first, i);
		if (says(&e, a, b))
			return 0;
	}
	fprintf(stderr, "%s\n", e.text);
	return 3;
}

START_TEST(ranks_that_each_name_themselves_as_root_are_found)
{
	static const int extras[] = {1, 3, 400};

	right = _i % 3 == 2 ? 520 : _i % 3;
	extra = extras[_i / 3];
	for (then = 0; then < 2; then++) {
		run_group(2, each_its_own);
		run_group(5, each_its_own);
	}
}
END_TEST

/* Correct calls are never reported: roots in any order, steps between them. */
static int all_right(int me, void *arg)
{
	unsigned state = 77;
	struct err e = ERR_INIT;
	struct ddp__shm s;
	int rc = join(&s, arg, me);

	for (uint64_t number = 1; number < 6000 && !rc; number++) {
		unsigned draw = next_random(&state);

		rc = draw % 50 ? broadcast(&s, (int)(draw / 64) % s.n, number,
					   &e)
			       : barrier(&s, number, &e);
	}
	return rc;
}

START_TEST(the_same_calls_are_never_refused)
{
	run_group(_i, all_right);
}
END_TEST

/* Mixing the word of one call with the number of another would be a false
 * alarm. */
static int note_and_look(int me, void *arg)
{
	struct err e = ERR_INIT;
	struct ddp__shm s;
	uint64_t word, number;

	if (join(&s, arg, me))
		return 1;
	for (uint64_t i = 1; me == 0 && i < 300000; i++)
		ddp__shm_entered(&s, i << 20, i);
	for (int i = 0; me == 1 && i < 300000; i++) {
		number = ddp__shm_seen(&s, 0, &word);
		if (number < 300000 && number && word != number << 20)
			return 2;
	}
	return barrier(&s, 400000, &e);
}

START_TEST(an_entry_is_visible_completely_or_not_at_all)
{
	run_group(2, note_and_look);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("shm_agree");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, broadcasts_of_the_root_alone_are_found, 0,
			    (int)(sizeof(counts) / sizeof(*counts)));
	tcase_add_test(
		tc, the_first_missed_cell_is_named_while_more_are_given);
	tcase_add_loop_test(tc,
			    ranks_that_each_name_themselves_as_root_are_found,
			    0, 9);
	tcase_add_loop_test(tc, the_same_calls_are_never_refused, 2, 5);
	tcase_add_test(tc, an_entry_is_visible_completely_or_not_at_all);
	return run_case(tc);
}
