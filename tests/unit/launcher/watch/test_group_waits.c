/* test_group_waits.c: counters in, shares of a minute out. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/watch/wait_share.h"
#include "tests/unit/run_case.h"

enum { TICK = 1000000000, WORLD = 64 };

static struct group_waits waits;
static struct flight_view *view;

static void begin(void)
{
	waits = (struct group_waits){0};
	view = calloc(1, sizeof(*view));
	ck_assert_ptr_nonnull(view);
	view->world_size = WORLD;
}

static void end(void)
{
	free(view);
}

static void add_comm(uint32_t id, uint32_t size, int counts)
{
	int n = view->ncomms++;

	view->comms[n].id = id;
	view->comms[n].size = size;
	view->comms[n].counts = counts;
	strcpy(view->comms[n].name, "1.0");
}

/* A minute of ticks; the first comm waits that long in each. */
static void run_minute(uint64_t waited_ns)
{
	for (int i = 0; i < WAIT_SHARE_SLICES; i++) {
		for (int k = 0; k < WAIT_SHARE_TICKS; k++) {
			view->comms[0].waited_ns += waited_ns;
			group_waits_add(&waits, view,
					(uint64_t)WAIT_SHARE_LONGEST * TICK);
		}
		group_waits_end_slice(&waits);
	}
}

/* How many there are; *first: the first. */
static uint32_t put(struct wire_group *first)
{
	struct buf items = BUF_INIT(4096);
	uint32_t n = group_waits_put(&waits, 60ull * TICK, &items);
	struct reader r;

	reader_init(&r, SLICE(items.data, items.len));
	if (n)
		*first = wire_get_group_item(&r);
	buf_release(&items);
	return n;
}

START_TEST(the_share_of_a_minute_is_known_after_it)
{
	struct wire_group g;

	add_comm(5, 2, 1);
	view->comms[0].waited_ns = 7ull * TICK; /* before it was watched */
	group_waits_add(&waits, view, 0);
	ck_assert_uint_eq(put(&g), 1);
	ck_assert_int_eq(g.waited, -1);
	run_minute(TICK / 4);
	ck_assert_uint_eq(put(&g), 1);
	ck_assert_int_eq(g.waited, 250);
	ck_assert_uint_eq(g.comm, 5);
	ck_assert_uint_eq(g.size, 2);
	run_minute(0);
	put(&g);
	ck_assert_int_eq(g.waited, 0);
}
END_TEST

START_TEST(a_long_wait_counts_in_part)
{
	struct wire_group g;

	add_comm(5, 2, 1);
	run_minute(0);
	view->comms[0].waited_ns += 50ull * TICK;
	run_minute(0);
	put(&g);
	ck_assert_int_eq(g.waited, 50);
}
END_TEST

START_TEST(only_groups_that_count_are_put)
{
	struct wire_group g;

	add_comm(0, WORLD, 0);
	add_comm(1, 1, 1);
	add_comm(2, WORLD, 1);
	add_comm(3, 2, 0);
	group_waits_add(&waits, view, TICK);
	ck_assert_uint_eq(put(&g), 0);
	for (uint32_t i = 0; i < 2 * WIRE_GROUPS_MAX; i++)
		add_comm(10 + i, 2, 1);
	group_waits_add(&waits, view, TICK);
	ck_assert_uint_eq(put(&g), WIRE_GROUPS_MAX);
}
END_TEST

START_TEST(a_group_that_is_freed_makes_room)
{
	struct wire_group g;

	for (uint32_t i = 0; i < WIRE_GROUPS_MAX + 1; i++)
		add_comm(10 + i, 2, 1);
	group_waits_add(&waits, view, TICK);
	put(&g);
	ck_assert_uint_eq(g.comm, 10);
	view->comms[0].id = 99;
	group_waits_add(&waits, view, TICK);
	ck_assert_uint_eq(put(&g), WIRE_GROUPS_MAX);
	ck_assert_uint_eq(g.comm, 11);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("group_waits");

	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, the_share_of_a_minute_is_known_after_it);
	tcase_add_test(c, a_long_wait_counts_in_part);
	tcase_add_test(c, only_groups_that_count_are_put);
	tcase_add_test(c, a_group_that_is_freed_makes_room);
	return run_case(c);
}
