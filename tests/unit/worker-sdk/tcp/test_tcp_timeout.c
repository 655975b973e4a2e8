/* test_tcp_timeout.c: what a host that waits sends to the others, and what it
 * counts before an operation. */
/* replaces: clock_gettime ddp__figures_read ddp__link_ends */
#include "tests/unit/worker-sdk/tcp/tcp_waiting.h"

/* ---- before the timeout ---- */

struct notice_case {
	const char *streams, *around;
	int to_first, to_last;
};

static const struct notice_case notice_cases[] = {
	{"<1 <2 >8", "<7", 1, 0}, /* one for both of its links */
	{">8 <1", "<7", 1, 0},
	{"<1", "<7", 1, 0},
	{"<7 <1", "<7", 1, 1},
	{"<7 <8 >1", "<1", 0, 1},
	{">1 >7", "<7", 0, 0},
};

START_TEST(awaited_hosts_get_one_notice_in_each_step)
{
	const struct notice_case *c = &notice_cases[_i];

	set_streams(c->streams, c->around);
	ck_assert_int_eq(check_at(399), 0);
	expect_waits(0, 0);
	ck_assert_int_eq(check_at(400), 0);
	expect_waits(c->to_first, c->to_last);
	ck_assert_int_eq(check_at(500), 0);
	expect_waits(0, 0);
	w.s.turn++;
	ck_assert_int_eq(check_at(500), 0);
	expect_waits(c->to_first, c->to_last);
}

/* Before half the timeout, or when this wait has had its probe. */
START_TEST(no_probe_is_sent_twice_or_early)
{
	set_streams("<1 >8", "<7");
	w.t.noticed = w.s.turn;
	w.t.probed_ns = 0;
	ck_assert_int_eq(check_at(TIMEOUT_MS / 2 - 1), 0);
	w.t.probed_ns = now() - TIMEOUT_MS / 2 * NS + 1;
	ck_assert_int_eq(check_at(TIMEOUT_MS / 2), 0);
	expect_waits(0, 0);
	ck_assert_uint_lt(w.t.probed_ns, now());
}

START_TEST(a_probe_goes_to_every_host_of_the_step)
{
	set_streams("<1 >8", "<7");
	w.t.noticed = w.s.turn;
	w.t.probed_ns = now() - TIMEOUT_MS / 2 * NS;
	for (int h = -1; h <= HOSTS; h++)
		w.t.waits[h].came = 1;
	ck_assert_int_eq(check_at(TIMEOUT_MS / 2), 0);
	expect_waits(1, 1);
	ck_assert_uint_eq(w.t.probed_ns, now());
	for (int h = -1; h <= HOSTS; h++)
		ck_assert_uint_eq(w.t.waits[h].came,
				  h == 0 || h == 2 ? sum_came(h) : 1);
}

START_TEST(without_a_timeout_nothing_is_probed)
{
	set_streams("<1 >8", "<7");
	w.t.timeout_ms = -1;
	w.t.probed_ns = 0;
	ck_assert_int_eq(check_at(3600 * 1000), 0);
	expect_waits(1, 0);
	ck_assert_uint_eq(w.t.probed_ns, 0);
}

START_TEST(without_a_step_nothing_is_looked_at)
{
	set_streams("<1 >8", "<7");
	w.t.schedule = NULL;
	ck_assert_int_eq(check_at(TIMEOUT_MS), 0);
	w.t.schedule = &w.s;
	w.t.busy = 0;
	ck_assert_int_eq(check_at(TIMEOUT_MS), 0);
	expect_waits(0, 0);
}

/* The socket of link 1 has a frame of another call. */
struct frame_case {
	const char *streams, *around;
	int rc;
};

static const struct frame_case frame_cases[] = {
	{"<1 >8", ">1", 0},
	{">8 <1", ">1", 0},
	{">1 <8", "<1", ERR_ARGUMENT},
	{">8 <7", "<1", ERR_ARGUMENT},
};

START_TEST(a_frame_of_another_call_is_an_error_where_none_is_awaited)
{
	const struct frame_case *c = &frame_cases[_i];
	struct ddp__call other = call;
	unsigned char frame[DDP__FRAME];

	other.count = 7;
	ddp__frame_put(frame, &other, 28, &w.t);
	ck_assert_int_eq(send(w.far[LINKS + 1], frame, sizeof(frame), 0),
			 sizeof(frame));
	set_streams(c->streams, c->around);
	ck_assert_int_eq(check_at(0), c->rc);
	if (c->rc)
		ck_assert_ptr_nonnull(strstr(w.e.text, "rank 0 on h0 called "));
}

/* ---- before an operation ---- */

static void forget_counts(void)
{
	for (int h = -1; h <= HOSTS; h++)
		w.t.waits[h].before = (struct ddp__loss){1, 2};
}

static void expect_counts(int counted)
{
	for (int h = -1; h <= HOSTS; h++) {
		struct ddp__loss before = w.t.waits[h].before;
		int is_other = counted && (h == 0 || h == 2);

		ck_assert_uint_eq(before.sent, is_other ? sum_sent(h) : 1);
		ck_assert_uint_eq(before.lost, is_other ? sum_resent(h) : 2);
	}
	ck_assert_int_eq(w.t.counted_ns == now(), counted);
}

START_TEST(sent_segments_are_counted_before_an_operation)
{
	forget_counts();
	ddp__tcp_count_before(&w.t);
	expect_counts(1);
	forget_counts();
	now_ms += 12; /* not for each of a row of fast ones */
	ddp__tcp_count_before(&w.t);
	expect_counts(0);
	now_ms += 1;
	w.t.timeout_ms = 0;
	ddp__tcp_count_before(&w.t);
	expect_counts(1);
}

START_TEST(without_a_timeout_nothing_is_counted)
{
	forget_counts();
	w.t.timeout_ms = -1;
	ddp__tcp_count_before(&w.t);
	expect_counts(0);
}

START_TEST(a_connection_that_is_gone_is_not_counted)
{
	w.fails[1] = 1;
	ddp__tcp_count_before(&w.t);
	ck_assert_uint_eq(w.t.waits[0].before.sent, 100 + 400);
	ck_assert_uint_eq(w.t.waits[0].before.lost, 1 + 4);
}

int main(void)
{
	TCase *c = tcase_create("timeout");

	tcase_add_checked_fixture(c, set_up, NULL);
	tcase_add_loop_test(c, awaited_hosts_get_one_notice_in_each_step, 0,
			    COUNT(notice_cases));
	tcase_add_test(c, no_probe_is_sent_twice_or_early);
	tcase_add_test(c, a_probe_goes_to_every_host_of_the_step);
	tcase_add_test(c, without_a_timeout_nothing_is_probed);
	tcase_add_test(c, without_a_step_nothing_is_looked_at);
	tcase_add_loop_test(
		c, a_frame_of_another_call_is_an_error_where_none_is_awaited, 0,
		COUNT(frame_cases));
	tcase_add_test(c, sent_segments_are_counted_before_an_operation);
	tcase_add_test(c, without_a_timeout_nothing_is_counted);
	tcase_add_test(c, a_connection_that_is_gone_is_not_counted);
	return run_case(c);
}
