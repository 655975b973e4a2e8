/* test_attendance.c: when a node takes part in an exchange, and which ranks
 * wait for ever. */
#include <check.h>
#include <string.h>

#include "launcher/pmi/attendance.h"
#include "tests/unit/run_case.h"

/* Ranks 4 and 5. */
static struct attendance a_node(enum attendance_state first,
				enum attendance_state second)
{
	struct attendance a;

	ck_assert_int_eq(attendance_init(&a, 4, 2, NULL), 0);
	a.ranks[0].state = (uint8_t)first;
	a.ranks[1].state = (uint8_t)second;
	return a;
}

static const struct {
	enum attendance_state first, second;
	int first_ended, second_ended, is_ready, is_broken;
} nodes[] = {
	{ATTENDANCE_NEW, ATTENDANCE_NEW, 0, 0, 0, 0},
	{ATTENDANCE_IN, ATTENDANCE_WAITS, 0, 0, 0, 0},
	{ATTENDANCE_WAITS, ATTENDANCE_WAITS, 0, 0, 1, 0},
	{ATTENDANCE_WAITS, ATTENDANCE_LEFT, 0, 0, 0, 0},
	{ATTENDANCE_WAITS, ATTENDANCE_LEFT, 0, 1, 1, 0},
	{ATTENDANCE_WAITS, ATTENDANCE_NEW, 0, 1, 1, 1},
	{ATTENDANCE_NEW, ATTENDANCE_NEW, 0, 1, 0, 1},
	{ATTENDANCE_IN, ATTENDANCE_IN, 0, 1, 0, 1},
	{ATTENDANCE_LEFT, ATTENDANCE_IN, 1, 1, 1, 1},
	/* it has met all others: nothing is needed */
	{ATTENDANCE_LEFT, ATTENDANCE_LEFT, 1, 1, 0, 0},
};

START_TEST(a_node_takes_part_when_each_rank_waits_or_has_ended)
{
	struct attendance a = a_node(nodes[_i].first, nodes[_i].second);

	a.ranks[0].has_ended = (uint8_t)nodes[_i].first_ended;
	a.ranks[1].has_ended = (uint8_t)nodes[_i].second_ended;
	ck_assert_int_eq(attendance_is_ready(&a), nodes[_i].is_ready);
	ck_assert_int_eq(attendance_is_broken(&a), nodes[_i].is_broken);
	attendance_release(&a);
}
END_TEST

START_TEST(initialized_ranks_wait_and_resume_together)
{
	struct attendance a = a_node(ATTENDANCE_IN, ATTENDANCE_LEFT);

	attendance_all_wait(&a);
	ck_assert_int_eq(a.ranks[0].state, ATTENDANCE_WAITS);
	ck_assert_int_eq(a.ranks[1].state, ATTENDANCE_LEFT);
	attendance_resume(&a);
	ck_assert_int_eq(a.ranks[0].state, ATTENDANCE_IN);
	attendance_release(&a);
}
END_TEST

/* What two nodes have put; the first one's rank 5 has ended in this state. */
static struct attendance_ended ended_in(enum attendance_state state)
{
	struct attendance a = a_node(ATTENDANCE_WAITS, state);
	struct attendance b = a_node(ATTENDANCE_WAITS, ATTENDANCE_WAITS);
	struct attendance_ended ended = {0};
	struct buf part = BUF_INIT(100);
	struct reader r;

	a.ranks[1].has_ended = 1;
	attendance_put(&a, &part);
	attendance_put(&b, &part);
	buf_printf(&part, "rest");
	reader_init(&r, SLICE(part.data, part.len));
	attendance_read(&r, &ended);
	attendance_read(&r, &ended);
	ck_assert_int_eq(r.bad, 0);
	ck_assert_uint_eq(reader_left(&r), 4);
	attendance_read(&r, &ended); /* "rest" is no part */
	ck_assert_int_eq(r.bad, 1);
	buf_release(&part);
	attendance_release(&a);
	attendance_release(&b);
	return ended;
}

START_TEST(a_rank_that_would_wait_for_ever_learns_why)
{
	static const struct {
		enum attendance_state state;
		const char *how;
	} rows[] = {
		{ATTENDANCE_NEW, "rank 5 ended without MPI_Init, but rank 4 "
				 "waits for all ranks"},
		{ATTENDANCE_IN, "rank 5 ended without MPI_Finalize, but"},
		{ATTENDANCE_LEFT, "rank 5 ended after MPI_Finalize, but"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct attendance_ended ended = ended_in(rows[i].state);
		struct attendance a = a_node(ATTENDANCE_WAITS, ATTENDANCE_IN);
		struct err e = ERR_INIT;

		ck_assert_uint_eq(ended.n, 1);
		ck_assert_int_eq(attendance_check(&a, &ended, &e), ERR_REMOTE);
		ck_assert_ptr_nonnull(strstr(e.text, rows[i].how));
		a.ranks[0].state = ATTENDANCE_LEFT;
		ck_assert_int_eq(attendance_check(&a, &ended, &e), 0);
		attendance_release(&a);
	}
}
END_TEST

START_TEST(ranks_that_wait_while_none_has_ended_are_answered)
{
	struct attendance a = a_node(ATTENDANCE_WAITS, ATTENDANCE_WAITS);
	const struct attendance_ended none = {0};

	ck_assert_int_eq(attendance_check(&a, &none, NULL), 1);
	attendance_release(&a);
}
END_TEST

START_TEST(the_exit_code_of_an_abort_has_8_bits_and_is_not_0)
{
	static const int codes[][2] = {{7, 7}, {0, 1}, {256, 1}, {-1, 255},
				       {511, 255}};
	struct attendance_rank r = {0};
	char text[64];
	int code;

	ck_assert_int_eq(attendance_aborted(&r, &code, text, sizeof(text)), 0);
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		attendance_abort(&r, codes[i][0], SLICE_STR("why"));
		ck_assert_int_eq(attendance_aborted(&r, &code, text,
						    sizeof(text)), 1);
		ck_assert_int_eq(code, codes[i][1]);
	}
	ck_assert_str_eq(text, "it called MPI_Abort with 511: why");
	attendance_abort(&r, 3, SLICE("", 0));
	attendance_aborted(&r, &code, text, sizeof(text));
	ck_assert_str_eq(text, "it called MPI_Abort with 3");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("attendance");

	tcase_add_loop_test(c,
			    a_node_takes_part_when_each_rank_waits_or_has_ended,
			    0, sizeof(nodes) / sizeof(*nodes));
	tcase_add_test(c, initialized_ranks_wait_and_resume_together);
	tcase_add_test(c,
		       a_rank_that_would_wait_for_ever_learns_why);
	tcase_add_test(c,
		       ranks_that_wait_while_none_has_ended_are_answered);
	tcase_add_test(c, the_exit_code_of_an_abort_has_8_bits_and_is_not_0);
	return run_case(c);
}
