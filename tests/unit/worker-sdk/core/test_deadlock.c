/* test_deadlock.c: which blocked ranks wait for each other for ever, and the
 * error's text. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/core/call.h"
#include "worker-sdk/core/deadlock.h"

enum { WORLD = 7, RANKS = 24 };

static struct ddp__blocked all[RANKS];
static int cycle[DDP__CYCLE_MAX];

/* The rank waits in call `number` of comm, for all ranks. */
static struct ddp__blocked *waits(int rank, uint64_t comm, uint64_t number)
{
	static const struct ddp__call barrier = {.kind = DDP__BARRIER};
	struct ddp__blocked *b = &all[rank];

	*b = (struct ddp__blocked){.turn = 1,
				   .comm = comm,
				   .word = ddp__call_pack(&barrier),
				   .number = number,
				   .rank = rank,
				   .needs = DDP__NEEDS_ALL};
	if (comm != WORLD)
		snprintf(b->group, sizeof(b->group), "%d.0", (int)comm);
	return b;
}

/* The rank is also in comm, and has begun that many calls there. */
static void begun(struct ddp__blocked *b, uint64_t comm, uint64_t calls)
{
	b->begun[b->comms++] = (struct ddp__begun){comm, calls};
}

/* Rank 0 waits in the world, rank 1 in group 1, and each calls the other
 * late. */
static void two(void)
{
	struct ddp__blocked *a = waits(0, WORLD, 3), *b = waits(1, 1, 5);

	begun(a, WORLD, 3);
	begun(a, 1, 4);
	begun(b, WORLD, 2);
	begun(b, 1, 5);
}

START_TEST(both_of_two_ranks_that_wait_for_each_other_find_it)
{
	two();
	for (int me = 0; me < 2; me++) {
		ck_assert_int_eq(ddp__deadlock_find(all, 2, me, cycle), 2);
		ck_assert_int_eq(cycle[0], 0);
		ck_assert_int_eq(cycle[1], 1);
	}
}
END_TEST

START_TEST(a_begun_call_is_not_waited_for)
{
	two();
	all[0].begun[1].calls = 5; /* asynchronously */
	ck_assert(ddp__blocked_awaits(&all[0], &all[1]));
	ck_assert(!ddp__blocked_awaits(&all[1], &all[0]));
	ck_assert_int_eq(ddp__deadlock_find(all, 2, 0, cycle), 0);
	ck_assert_int_eq(ddp__deadlock_find(all, 2, 1, cycle), 0);
}
END_TEST

START_TEST(ranks_outside_the_communicator_are_not_waited_for)
{
	two();
	all[0].comms = 1;
	ck_assert_int_eq(ddp__deadlock_find(all, 2, 1, cycle), 0);
}
END_TEST

START_TEST(a_rank_that_is_not_blocked_may_arrive)
{
	two();
	all[1].turn = 0;
	ck_assert_int_eq(ddp__deadlock_find(all, 2, 0, cycle), 0);
}
END_TEST

START_TEST(a_call_with_a_root_only_waits_for_the_root)
{
	two();
	all[0].needs = 2;
	ck_assert_int_eq(ddp__deadlock_find(all, 2, 1, cycle), 0);
	all[0].needs = 1;
	ck_assert_int_eq(ddp__deadlock_find(all, 2, 1, cycle), 2);
	all[0].needs = DDP__NEEDS_NONE;
	ck_assert_int_eq(ddp__deadlock_find(all, 2, 1, cycle), 0);
}
END_TEST

START_TEST(a_step_needs_the_ranks_of_its_host)
{
	two();
	all[0].needs = DDP__NEEDS_HOST;
	ck_assert_int_eq(ddp__deadlock_find(all, 2, 1, cycle), 2);
	all[0].host = 1;
	ck_assert_int_eq(ddp__deadlock_find(all, 2, 1, cycle), 0);
}
END_TEST

/* Ranks 0 to n-1 form a cycle: each is in a group with the next one. */
static void go_round(int n)
{
	for (int i = 0; i < n; i++) {
		struct ddp__blocked *b =
			waits((i + 5) % n, (uint64_t)i + 100, 1);

		begun(b, (uint64_t)i + 100, 1);
		begun(b, (uint64_t)(i + n - 1) % (uint64_t)n + 100, 0);
	}
}

START_TEST(a_long_cycle_is_found_up_to_a_length)
{
	go_round(DDP__CYCLE_MAX);
	for (int me = 0; me < DDP__CYCLE_MAX; me++) {
		ck_assert_int_eq(ddp__deadlock_find(all, DDP__CYCLE_MAX, me,
						    cycle),
				 DDP__CYCLE_MAX);
		for (int i = 0; i < DDP__CYCLE_MAX; i++)
			ck_assert_int_eq(cycle[i], i);
	}
	go_round(DDP__CYCLE_MAX + 1);
	ck_assert_int_eq(ddp__deadlock_find(all, DDP__CYCLE_MAX + 1, 0,
					    cycle), 0);
}
END_TEST

START_TEST(the_shortest_cycle_is_reported)
{
	struct ddp__blocked *last;

	go_round(5);
	last = &all[4];
	/* rank 4 is also in the group in which rank 2 waits */
	begun(last, all[2].comm, 0);
	begun(&all[2], last->comm, 0);
	ck_assert_int_eq(ddp__deadlock_find(all, 5, 4, cycle), 2);
	ck_assert_int_eq(cycle[0], 2);
	ck_assert_int_eq(cycle[1], 4);
	/* a rank that only waits for ranks of a cycle is not part of it */
	last = waits(5, all[4].comm, 1);
	begun(last, all[4].comm, 1);
	ck_assert_int_eq(ddp__deadlock_find(all, 6, 5, cycle), 0);
}
END_TEST

START_TEST(indirect_waits_are_followed)
{
	int found[RANKS] = {2};

	go_round(5);
	ck_assert_int_eq(ddp__blocked_reach(all, 5, found, 1, RANKS), 5);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(found[i], (2 + i) % 5);
	ck_assert_int_eq(ddp__blocked_reach(all, 5, found, 1, 3), 3);
	all[3].turn = 0;
	ck_assert_int_eq(ddp__blocked_reach(all, 5, found, 1, RANKS), 1);
}
END_TEST

static char *name(void *owner, int rank, char *out)
{
	(void)owner;
	snprintf(out, DDP__NAME_MAX, "rank %d on h%d", rank, rank / 2);
	return out;
}

static const char *text(int n)
{
	static const struct ddp__peers peers = {.name = name};
	static struct err e;

	n = ddp__deadlock_find(all, n, 0, cycle);
	ck_assert_int_eq(ddp__deadlock_error(all, cycle, n, &peers, &e),
			 ERR_ARGUMENT);
	return e.text;
}

START_TEST(a_cycle_in_words)
{
	two();
	ck_assert_str_eq(text(2),
			 "rank 0 on h0 waits in barrier #3 for rank 1 on h0, "
			 "which waits in barrier #5 of group 1.0 for rank 0 on "
			 "h0: all ranks must make the calls of their "
			 "communicators in the same order");
	strcpy(all[1].group, "1.0/r2");
	ck_assert_str_eq(text(2),
			 "rank 0 on h0 waits in barrier #3 for rank 1 on h0, "
			 "which waits in barrier #5 of reducer 2 of group 1.0 "
			 "for rank 0 on h0: all ranks must make the same steps "
			 "of a reducer, with the same sync, and the same other "
			 "calls within them");
}
END_TEST

START_TEST(a_long_cycle_in_words)
{
	go_round(4);
	ck_assert_ptr_nonnull(strstr(text(4), "which waits in barrier #1 of "
				     "group 102.0 for rank 0 on h0: all"));
	go_round(7);
	ck_assert_ptr_nonnull(strstr(text(7), " for rank 3 on h1, which waits "
				     "in barrier #1 of group 105.0 for one of "
				     "3 more ranks, which wait for rank 0 on "
				     "h0: all"));
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("deadlock");

	tcase_set_timeout(tc, 10);
	tcase_add_test(tc, both_of_two_ranks_that_wait_for_each_other_find_it);
	tcase_add_test(tc, a_begun_call_is_not_waited_for);
	tcase_add_test(tc, ranks_outside_the_communicator_are_not_waited_for);
	tcase_add_test(tc, a_rank_that_is_not_blocked_may_arrive);
	tcase_add_test(tc, a_call_with_a_root_only_waits_for_the_root);
	tcase_add_test(tc, a_step_needs_the_ranks_of_its_host);
	tcase_add_test(tc, a_long_cycle_is_found_up_to_a_length);
	tcase_add_test(tc, the_shortest_cycle_is_reported);
	tcase_add_test(tc, indirect_waits_are_followed);
	tcase_add_test(tc, a_cycle_in_words);
	tcase_add_test(tc, a_long_cycle_in_words);
	return run_case(tc);
}
