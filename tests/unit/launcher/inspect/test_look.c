/* test_look.c: who of a group has not come to a call. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/inspect/look.h"
#include "tests/unit/run_case.h"

enum { RANKS = 4 };

static struct flight parts[RANKS];
static struct flight_view views[RANKS];
static struct look_worker workers[RANKS];
static struct flight_file job = {.job = "j", .world_size = 6, .nodes = 2};
static struct look look = {.workers = workers, .n = RANKS};

/* Four of six ranks are here; rank 3 has not called ddp_init. */
static void start(void)
{
	memset(parts, 0, sizeof(parts));
	for (uint32_t i = 0; i < RANKS; i++) {
		workers[i] = (struct look_worker){
			.job = &job, .rank = i, .recorder = LOOK_SILENT};
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
		if (flight_read(&views[i], &parts[i], sizeof(parts[i])))
			continue;
		workers[i].view = &views[i];
		workers[i].recorder = LOOK_KNOWN;
	}
	return look_missing(&look, of, ranks, RANKS, elsewhere);
}

START_TEST(who_is_behind_is_missing_and_others_are_not_known)
{
	uint32_t ranks[RANKS], elsewhere;

	start();
	for (int i = 0; i < 3; i++)
		call(i, "", FLIGHT_BARRIER, 7, 1);
	call(0, "", FLIGHT_ALL_REDUCE, 8, 0);
	call(2, "", FLIGHT_ALL_REDUCE, 8, 1);
	ck_assert_uint_eq(missing(0, ranks, &elsewhere), 1);
	ck_assert_uint_eq(ranks[0], 1);
	/* rank 3 says nothing, two ranks are on the other node */
	ck_assert_uint_eq(elsewhere, 3);
	/* who is in no call waits for nobody */
	ck_assert_uint_eq(missing(1, ranks, &elsewhere), 0);
	ck_assert_uint_eq(elsewhere, 0);
}
END_TEST

START_TEST(a_group_has_numbers_and_members_of_its_own)
{
	uint32_t ranks[RANKS], elsewhere;

	start();
	flight_comm_made(&parts[0], "1.0", 2, 0);
	flight_comm_made(&parts[2], "1.0", 2, 1);
	flight_comm_made(&parts[1], "1.1", 1, 0);
	call(2, "", FLIGHT_BARRIER, 90, 1);
	call(1, "", FLIGHT_BARRIER, 90, 1);
	call(0, "1.0", FLIGHT_BARRIER, 3, 0);
	ck_assert_uint_eq(missing(0, ranks, &elsewhere), 1);
	ck_assert_uint_eq(ranks[0], 2);
	ck_assert_uint_eq(elsewhere, 0);
	call(2, "1.0", FLIGHT_BARRIER, 3, 0);
	ck_assert_uint_eq(missing(0, ranks, &elsewhere), 0);
	/* a message is between two, and numbered so */
	call(1, "", FLIGHT_RECV, 1, 0);
	ck_assert_uint_eq(missing(1, ranks, &elsewhere), 0);
}
END_TEST

START_TEST(who_has_not_come_to_ddp_init_is_missing_there)
{
	uint32_t ranks[RANKS], elsewhere;

	start();
	for (int i = 0; i < 3; i++)
		call(i, "", FLIGHT_INIT, 0, 0);
	ck_assert_uint_eq(missing(0, ranks, &elsewhere), 1);
	ck_assert_uint_eq(ranks[0], 3);
	ck_assert_uint_eq(elsewhere, 2);
	workers[3].recorder = LOOK_GARBAGE;
	ck_assert_uint_eq(missing(0, ranks, &elsewhere), 0);
	ck_assert_uint_eq(elsewhere, 3);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("look");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, who_is_behind_is_missing_and_others_are_not_known);
	tcase_add_test(c, a_group_has_numbers_and_members_of_its_own);
	tcase_add_test(c, who_has_not_come_to_ddp_init_is_missing_there);
	return run_case(c);
}
