/* test_local_workers.c: finds the ranks that are missing from a call. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/inspect/local_workers.h"
#include "tests/unit/run_case.h"

enum { RANKS = 4 };

static struct flight parts[RANKS];
static struct flight_view views[RANKS];
static struct local_worker workers[RANKS];
static struct flight_file job = {.job = "j", .world_size = 6, .nodes = 2};
static struct local_workers local = {.workers = workers, .n = RANKS};

/* Four of six ranks are here; rank 3 has not called ddp_init. */
static void start(void)
{
	memset(parts, 0, sizeof(parts));
	for (uint32_t i = 0; i < RANKS; i++) {
		workers[i] = (struct local_worker){
			.job = &job, .rank = i, .recorder = RECORDER_SILENT};
		if (i < 3)
			flight_start(&parts[i], i, 6);
	}
}

static void call(int rank, const char *group, unsigned kind, uint64_t number,
		 int done)
{
	struct flight_call c = {.kind = kind};
	uint64_t t = flight_begin(&parts[rank], flight_comm_id(group), number,
				  flight_pack(&c));

	if (done)
		flight_end(&parts[rank], t, 0);
}

static size_t missing(size_t of, uint32_t *ranks, uint32_t *elsewhere)
{
	for (int i = 0; i < RANKS; i++) {
		if (flight_read(&views[i], &parts[i]))
			continue;
		workers[i].view = &views[i];
		workers[i].recorder = RECORDER_KNOWN;
	}
	return local_workers_missing(&local, of, ranks, RANKS, elsewhere);
}

START_TEST(tells_missing_ranks_from_unknown_ones)
{
	uint32_t ranks[RANKS], elsewhere;

	start();
	for (int i = 0; i < 3; i++)
		call(i, "", FLIGHT_BARRIER, 7, 1);
	call(0, "", FLIGHT_ALL_REDUCE, 8, 0);
	call(2, "", FLIGHT_ALL_REDUCE, 8, 1);
	ck_assert_uint_eq(missing(0, ranks, &elsewhere), 1);
	ck_assert_uint_eq(ranks[0], 1);
	/* rank 3 is silent, two ranks are on the other node */
	ck_assert_uint_eq(elsewhere, 3);
	/* a rank in no call waits for no rank */
	ck_assert_uint_eq(missing(1, ranks, &elsewhere), 0);
	ck_assert_uint_eq(elsewhere, 0);
}
END_TEST

START_TEST(a_communicator_has_its_own_numbers_and_ranks)
{
	uint32_t ranks[RANKS], elsewhere;

	start();
	flight_comm_add(&parts[0], "1.0", 2, 0, NULL);
	flight_comm_add(&parts[2], "1.0", 2, 1, NULL);
	flight_comm_add(&parts[1], "1.1", 1, 0, NULL);
	call(2, "", FLIGHT_BARRIER, 90, 1);
	call(1, "", FLIGHT_BARRIER, 90, 1);
	call(0, "1.0", FLIGHT_BARRIER, 3, 0);
	ck_assert_uint_eq(missing(0, ranks, &elsewhere), 1);
	ck_assert_uint_eq(ranks[0], 2);
	ck_assert_uint_eq(elsewhere, 0);
	call(2, "1.0", FLIGHT_BARRIER, 3, 0);
	ck_assert_uint_eq(missing(0, ranks, &elsewhere), 0);
	/* messages are numbered for each pair of ranks */
	call(1, "", FLIGHT_RECV, 1, 0);
	ck_assert_uint_eq(missing(1, ranks, &elsewhere), 0);
}
END_TEST

/* Its last collective is enqueued, so that it seems to be over. */
START_TEST(a_wait_for_an_event_is_one_for_late_ranks)
{
	uint32_t ranks[RANKS], elsewhere;

	start();
	for (int i = 0; i < 3; i++)
		call(i, "", FLIGHT_ALL_REDUCE, 8, 1);
	call(0, "", FLIGHT_ALL_REDUCE, 9, 1);
	call(0, "", FLIGHT_WAIT_EVENT, 9, 0);
	call(2, "", FLIGHT_ALL_REDUCE, 9, 1);
	call(1, "", FLIGHT_WAIT_EVENT, 8, 0);
	ck_assert_uint_eq(missing(0, ranks, &elsewhere), 1);
	ck_assert_uint_eq(ranks[0], 1);
	ck_assert_uint_eq(missing(1, ranks, &elsewhere), 0);
	ck_assert_uint_eq(local_worker_last_collective(&workers[0], 0)
				  ->call.kind,
			  FLIGHT_ALL_REDUCE);
}
END_TEST

START_TEST(a_rank_without_ddp_init_is_missing_there)
{
	uint32_t ranks[RANKS], elsewhere;

	start();
	for (int i = 0; i < 3; i++)
		call(i, "", FLIGHT_INIT, 0, 0);
	ck_assert_uint_eq(missing(0, ranks, &elsewhere), 1);
	ck_assert_uint_eq(ranks[0], 3);
	ck_assert_uint_eq(elsewhere, 2);
	workers[3].recorder = RECORDER_DAMAGED;
	ck_assert_uint_eq(missing(0, ranks, &elsewhere), 0);
	ck_assert_uint_eq(elsewhere, 3);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("local_workers");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, tells_missing_ranks_from_unknown_ones);
	tcase_add_test(c, a_communicator_has_its_own_numbers_and_ranks);
	tcase_add_test(c,
		a_wait_for_an_event_is_one_for_late_ranks);
	tcase_add_test(c, a_rank_without_ddp_init_is_missing_there);
	return run_case(c);
}
