/* test_tcp_explained.c: the reason that a host gives at its timeout, by what
 * the kernel knows of its connections (tcp_timeout.c). */
/* replaces: clock_gettime ddp__figures_read ddp__link_ends */
#include "tests/unit/worker-sdk/tcp/tcp_waiting.h"

/* ---- at the timeout ---- */

/* What is wrong with a connection. */
static void link_loses(int l) /* what is sent in this call */
{
	w.figures[l].sent += 100;
	w.figures[l].resent += 31;
}

static void link_is_unread(int l, uint64_t bytes)
{
	w.figures[l].unsent = bytes;
	w.figures[l].window = 0;
}

static void link_is_stuck(int l, uint64_t bytes)
{
	w.figures[l].unacked = bytes;
	w.figures[l].retries = 6;
	w.figures[l].stuck = 45;
	w.figures[l].sent += 45;
	w.figures[l].resent += 6;
}

static void expect_timeout(const char *whom, const char *why)
{
	char text[DDP__CALL_TEXT], want[ERR_TEXT_MAX];

	ck_assert_int_eq(check_at(TIMEOUT_MS), ERR_TIMEOUT);
	snprintf(want, sizeof(want), "%s: no data %s for 8.0 s: %s",
		 ddp__call_text(&call, text), whom, why);
	ck_assert_str_eq(w.e.text, want);
}

#define ABSENT "it, or a rank that it waits for, has not arrived"
#define WORKS(link, trip)                                                      \
	ABSENT "; link " link ": the network works: everything sent is "       \
	       "acknowledged (round trip " trip " ms)"
#define UNREAD(link, trip, bytes)                                              \
	ABSENT "; link " link ": the network works (round trip " trip " ms), " \
	       "but the process there does not read: " bytes " bytes wait here"
#define MTU_OF(trip)                                                           \
	": 65160 bytes are not acknowledged after 6 retransmissions, while "   \
	"short packets pass: something between the hosts drops packets of "    \
	"1500 bytes; give both hosts the MTU of the network between them "     \
	"(round trip " trip " ms before, MTU 1500)"
#define MTU_LAST                                                               \
	"rank 10 on h1 -> rank 20 on h2 (link 8)" MTU_OF("9.0")
#define MTU_FIRST                                                              \
	"rank 10 on h1 -> rank 0 on h0 (link 2)" MTU_OF("3.0")
#define SILENT(ends, trip)                                                     \
	ends ": 48 bytes are not acknowledged after 6 retransmissions, and "   \
	     "no packet comes back: the host or the network is down, or a "    \
	     "firewall drops the packets (round trip " trip " ms before, MTU " \
	     "1500)"

START_TEST(a_host_that_sends_nothing_is_named_first)
{
	static const struct {
		const char *streams, *around, *whom, *why;
	} cases[] = {
		{">7 <1", ">1", "from rank 0 on h0", WORKS("1", "1.0")},
		{"<7 >1", "<1", "from rank 20 on h2", WORKS("7", "7.0")},
		{"<1 <7", "<7", "from rank 0 on h0", WORKS("1", "1.0")},
		{">1 >7", "<1", "read by rank 20 on h2", WORKS("7", "7.0")},
		{">1 <7 >2", "<1", "from rank 20 on h2", WORKS("7", "7.0")},
	};

	set_streams(cases[_i].streams, cases[_i].around);
	ck_assert_int_eq(check_at(TIMEOUT_MS - 1), 0);
	expect_timeout(cases[_i].whom, cases[_i].why);
}

START_TEST(a_timeout_of_nothing_is_over_at_once)
{
	set_streams("<1", "<7");
	w.t.timeout_ms = 0;
	ck_assert_int_eq(check_at(0), ERR_TIMEOUT);
}

START_TEST(a_probe_has_a_moment_to_be_answered)
{
	set_streams("<1", "<7");
	w.t.probed_ns = now() - 199 * NS;
	expect_timeout("from rank 0 on h0", ABSENT);
	w.t.probed_ns = now() - 200 * NS;
	expect_timeout("from rank 0 on h0", WORKS("1", "1.0"));
	w.fails[0] = 1; /* the connection of notices is gone */
	expect_timeout("from rank 0 on h0", ABSENT);
}

START_TEST(connections_that_are_gone_say_nothing)
{
	set_streams("<1", "<7");
	w.fails[1] = w.fails[2] = 1;
	expect_timeout("from rank 0 on h0", ABSENT);
}

/* The connection that explains most, and of equal ones the first. */
START_TEST(the_worst_connection_is_named)
{
	set_streams("<7", "<1");
	link_is_unread(8, 400);
	expect_timeout("from rank 20 on h2", UNREAD("8", "9.0", "400"));
	link_is_unread(7, 300);
	expect_timeout("from rank 20 on h2", UNREAD("7", "8.0", "300"));
	link_is_stuck(8, 65160);
	expect_timeout("from rank 20 on h2", MTU_LAST);
	/* the notices' own connection, and so no other */
	link_is_stuck(6, 48);
	expect_timeout("from rank 20 on h2",
		       SILENT("rank 10 on h1 -> rank 20 on h2 (link 6)",
			      "7.0"));
	w.t.waits[2].came--;
	expect_timeout("from rank 20 on h2",
		       "rank 10 on h1 -> rank 20 on h2 (link 6): 48 bytes are "
		       "not acknowledged after 6 retransmissions, while "
		       "packets from there still arrive: the network loses "
		       "those in this direction (round trip 7.0 ms before, MTU "
		       "1500)");
}

/* Segments of all connections with the host: those lost in this call, */
START_TEST(losses_of_this_call_are_counted)
{
	set_streams("<7", "<1");
	link_loses(7);
	link_loses(8);
	expect_timeout("from rank 20 on h2",
		       "rank 10 on h1 -> rank 20 on h2 (link 6): the network "
		       "loses packets: 62 of 200 segments were sent again, and "
		       "0 bytes are not acknowledged (round trip 7.0 ms, MTU "
		       "1500)");
}

/* those lost before it, if data is under way, */
START_TEST(earlier_losses_explain_data_under_way)
{
	set_streams("<7", "<1");
	w.t.waits[2].before = (struct ddp__loss){100, 31};
	for (int l = 6; l < 9; l++) {
		w.figures[l].sent = 50;
		w.figures[l].resent = l == 6 ? 31 : 0;
	}
	w.figures[8].unacked = 14480;
	expect_timeout("from rank 20 on h2",
		       "rank 10 on h1 -> rank 20 on h2 (link 8): the network "
		       "loses packets: 31 of 150 segments were sent again, and "
		       "14480 bytes are not acknowledged (round trip 9.0 ms, "
		       "MTU 1500)");
}

/* but not those that are stuck on any of them. */
START_TEST(stuck_data_is_not_lost)
{
	set_streams("<7", "<1");
	link_is_stuck(7, 48);
	link_is_stuck(8, 65160);
	w.figures[8].resent += 200;
	w.figures[7].resent += 200;
	expect_timeout("from rank 20 on h2", MTU_LAST);
	w.figures[7].sent += 910; /* with those that are stuck: 1000 */
	w.figures[7].resent += 290;
	expect_timeout("from rank 20 on h2",
		       "rank 10 on h1 -> rank 20 on h2 (link 6): the network "
		       "loses packets: 60 of 1000 segments were sent again, "
		       "and 0 bytes are not acknowledged (round trip 7.0 ms, "
		       "MTU 1500)");
}

/* The late host waits for another to which the network fails. */
START_TEST(another_host_can_be_the_reason)
{
	set_streams("<7", "<1");
	link_is_stuck(2, 65160);
	expect_timeout("from rank 20 on h2", MTU_FIRST);
	link_is_stuck(8, 65160);
	expect_timeout("from rank 20 on h2", MTU_LAST);
	set_streams("<1", "<7");
	expect_timeout("from rank 0 on h0", MTU_FIRST);
	link_is_unread(2, 300);
	w.figures[2].unacked = 0;
	expect_timeout("from rank 0 on h0", MTU_LAST);
}

START_TEST(the_reason_of_another_host_is_repeated)
{
	set_streams("<1", "<7");
	strcpy(w.t.heard, "h0 -> h2: a cable is cut");
	w.t.heard_ns = now() - TIMEOUT_MS * NS;
	expect_timeout("from rank 0 on h0", w.t.heard);
	w.t.heard_ns--; /* before this wait */
	expect_timeout("from rank 0 on h0", WORKS("1", "1.0"));
	w.t.heard_ns = now();
	link_is_stuck(2, 65160);
	expect_timeout("from rank 0 on h0", MTU_FIRST);
}

/* ---- shortly before the timeout ---- */

static void expect_reports(long waited_ms, const char *text)
{
	ck_assert_int_eq(check_at(waited_ms), 0);
	for (int h = -1; h <= HOSTS; h++) {
		struct sent sent = {0};

		if (h == ME)
			continue;
		sent = take_sent(h);
		ck_assert_int_eq(sent.network, text && (h == 0 || h == 2));
		if (sent.network)
			ck_assert_str_eq(sent.text, text);
	}
}

START_TEST(a_network_that_fails_is_reported_to_every_host)
{
	const long at = TIMEOUT_MS / 4 * 3;

	set_streams("<1", "<7");
	w.t.noticed = w.s.turn;
	link_is_stuck(8, 65160);
	w.t.judged_ns = 0;
	expect_reports(at - 1, NULL); /* too early */
	w.t.judged_ns = now() - (uint64_t)at * NS + 1;
	expect_reports(at, NULL); /* done already */
	w.t.judged_ns--;
	expect_reports(at, MTU_LAST);
	ck_assert_uint_eq(w.t.judged_ns, now());
	expect_reports(at, NULL);
}

/* The next host is judged first: so each network has a host that does. */
START_TEST(the_next_host_is_judged_first)
{
	set_streams("<1", "<7");
	link_is_stuck(2, 65160);
	link_is_stuck(8, 65160);
	w.t.judged_ns = 0;
	expect_reports(TIMEOUT_MS / 4 * 3, MTU_LAST);
}

START_TEST(a_network_that_works_is_not_reported)
{
	set_streams("<1", "<7");
	link_is_unread(8, 300);
	w.t.judged_ns = 0;
	expect_reports(TIMEOUT_MS / 4 * 3, NULL);
	ck_assert_uint_eq(w.t.judged_ns, now());
}

int main(void)
{
	TCase *c = tcase_create("explained");

	tcase_add_checked_fixture(c, set_up, NULL);
	tcase_add_loop_test(c, a_host_that_sends_nothing_is_named_first, 0, 5);
	tcase_add_test(c, a_timeout_of_nothing_is_over_at_once);
	tcase_add_test(c, a_probe_has_a_moment_to_be_answered);
	tcase_add_test(c, connections_that_are_gone_say_nothing);
	tcase_add_test(c, the_worst_connection_is_named);
	tcase_add_test(c, losses_of_this_call_are_counted);
	tcase_add_test(c, earlier_losses_explain_data_under_way);
	tcase_add_test(c, stuck_data_is_not_lost);
	tcase_add_test(c, another_host_can_be_the_reason);
	tcase_add_test(c, the_reason_of_another_host_is_repeated);
	tcase_add_test(c, a_network_that_fails_is_reported_to_every_host);
	tcase_add_test(c, the_next_host_is_judged_first);
	tcase_add_test(c, a_network_that_works_is_not_reported);
	return run_case(c);
}
