/* test_membership.c: the edges of the membership table, and the invariants of
 * every state that can be reached. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/membership/membership.h"
#include "tests/unit/run_case.h"

/* A change here changes what ddprun does when a server is lost. */
static const char states[] =
	"IDLE         join        -> CONNECTING   connect\n"
	"IDLE         close       -> CLOSED       nothing\n"
	"CONNECTING   greeted     -> WAITING      finish-join\n"
	"CONNECTING   turned-away -> CONNECTING   retry\n"
	"CONNECTING   away        -> RECONNECTING reconnect\n"
	"CONNECTING   fail        -> CLOSED       fail\n"
	"CONNECTING   close       -> CLOSED       nothing\n"
	"WAITING      turned-away -> CONNECTING   retry\n"
	"WAITING      spare       -> SPARE        be-spare\n"
	"WAITING      start       -> RUNNING      start\n"
	"WAITING      round-end   -> WAITING      end\n"
	"WAITING      job-end     -> CLOSED       end\n"
	"WAITING      stalled     -> RENEWING     renew\n"
	"WAITING      away        -> RECONNECTING reconnect\n"
	"WAITING      fail        -> CLOSED       fail\n"
	"WAITING      close       -> CLOSED       nothing\n"
	"SPARE        turned-away -> CONNECTING   retry\n"
	"SPARE        counted     -> WAITING      nothing\n"
	"SPARE        start       -> RUNNING      start\n"
	"SPARE        round-end   -> SPARE        end\n"
	"SPARE        job-end     -> CLOSED       end\n"
	"SPARE        stalled     -> RENEWING     renew\n"
	"SPARE        away        -> RECONNECTING reconnect\n"
	"SPARE        fail        -> CLOSED       fail\n"
	"SPARE        close       -> CLOSED       nothing\n"
	"RUNNING      round-end   -> ENDED        end\n"
	"RUNNING      job-end     -> CLOSED       end\n"
	"RUNNING      stalled     -> RENEWING     renew\n"
	"RUNNING      away        -> RECONNECTING reconnect\n"
	"RUNNING      fail        -> CLOSED       fail\n"
	"RUNNING      close       -> CLOSED       nothing\n"
	"ENDED        join        -> WAITING      join\n"
	"ENDED        round-end   -> ENDED        end\n"
	"ENDED        job-end     -> CLOSED       end\n"
	"ENDED        stalled     -> RENEWING     renew\n"
	"ENDED        away        -> RECONNECTING reconnect\n"
	"ENDED        fail        -> CLOSED       fail\n"
	"ENDED        close       -> CLOSED       nothing\n"
	"EXPELLED     join        -> WAITING      join\n"
	"EXPELLED     round-end   -> EXPELLED     end\n"
	"EXPELLED     job-end     -> CLOSED       end\n"
	"EXPELLED     stalled     -> RENEWING     renew\n"
	"EXPELLED     away        -> RECONNECTING reconnect\n"
	"EXPELLED     fail        -> CLOSED       fail\n"
	"EXPELLED     close       -> CLOSED       nothing\n"
	"RENEWING     join        -> RENEWING     nothing\n"
	"RENEWING     greeted     -> RENEWING     resume\n"
	"RENEWING     turned-away -> RENEWING     retry\n"
	"RENEWING     stalled     -> RENEWING     renew\n"
	"RENEWING     away        -> RECONNECTING reconnect\n"
	"RENEWING     resumed     -> (its place)  replay\n"
	"RENEWING     unjoined    -> WAITING      rejoin\n"
	"RENEWING     expelled    -> EXPELLED     be-expelled\n"
	"RENEWING     forgotten   -> DETACHED     detach\n"
	"RENEWING     fail        -> CLOSED       fail\n"
	"RENEWING     close       -> CLOSED       nothing\n"
	"RECONNECTING join        -> RECONNECTING nothing\n"
	"RECONNECTING greeted     -> RECONNECTING resume\n"
	"RECONNECTING turned-away -> RECONNECTING retry\n"
	"RECONNECTING stalled     -> RECONNECTING renew\n"
	"RECONNECTING away        -> RECONNECTING nothing\n"
	"RECONNECTING resumed     -> (its place)  replay\n"
	"RECONNECTING unjoined    -> WAITING      rejoin\n"
	"RECONNECTING expelled    -> EXPELLED     be-expelled\n"
	"RECONNECTING forgotten   -> DETACHED     detach\n"
	"RECONNECTING detach      -> DETACHED     detach\n"
	"RECONNECTING fail        -> CLOSED       fail\n"
	"RECONNECTING close       -> CLOSED       nothing\n"
	"DETACHED     join        -> CLOSED       lose\n"
	"DETACHED     greeted     -> DETACHED     resume\n"
	"DETACHED     turned-away -> DETACHED     retry\n"
	"DETACHED     stalled     -> DETACHED     renew\n"
	"DETACHED     away        -> DETACHED     nothing\n"
	"DETACHED     resumed     -> (its place)  replay\n"
	"DETACHED     expelled    -> EXPELLED     be-expelled\n"
	"DETACHED     forgotten   -> DETACHED     detach\n"
	"DETACHED     needed      -> CLOSED       lose\n"
	"DETACHED     fail        -> CLOSED       fail\n"
	"DETACHED     close       -> CLOSED       nothing\n"
	"CLOSED       close       -> CLOSED       nothing\n";

START_TEST(the_table_as_printed)
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	membership_print(f);
	fclose(f);
	ck_assert_str_eq(text, states);
	free(text);
}
END_TEST

/* ---- every state and event that can be reached ---- */

enum { EACH = MEMBER_STATES * MEMBER_STATES };

static int number_of(const struct membership *ms)
{
	return (int)ms->state * MEMBER_STATES + (int)ms->place;
}

struct reached {
	struct membership list[EACH];
	int n, is_in[EACH];
};

static void reach(struct reached *r, const struct membership *ms)
{
	int i = number_of(ms);

	if (!r->is_in[i])
		r->list[r->n++] = *ms;
	r->is_in[i] = 1;
}

/* Visits all states that events can lead to from this one. */
static void reach_all(struct reached *r, struct membership from)
{
	memset(r, 0, sizeof(*r));
	reach(r, &from);
	for (int i = 0; i < r->n; i++) {
		for (int ev = 0; ev < MEMBER_EVENTS; ev++) {
			struct membership ms = r->list[i];

			membership_step(&ms, ev);
			reach(r, &ms);
		}
	}
}

static struct reached all;

static void setup(void)
{
	reach_all(&all, (struct membership){.state = MEMBER_IDLE});
}

START_TEST(every_state_is_reached)
{
	int seen[MEMBER_STATES] = {0};

	for (int i = 0; i < all.n; i++)
		seen[all.list[i].state] = 1;
	for (int s = 0; s < MEMBER_STATES; s++)
		ck_assert_msg(seen[s], "%s is not reached",
			      membership_state_names[s]);
}
END_TEST

START_TEST(an_unknown_event_changes_nothing)
{
	for (int i = 0; i < all.n; i++) {
		for (int ev = 0; ev < MEMBER_EVENTS; ev++) {
			struct membership ms = all.list[i];
			int was = number_of(&ms);

			if (!membership_step(&ms, ev)->is_known)
				ck_assert_int_eq(number_of(&ms), was);
		}
	}
}
END_TEST

/* The owner can leave in every state, and an error ends every state but IDLE.
 */
START_TEST(every_state_can_be_left)
{
	for (int i = 0; i < all.n; i++) {
		struct membership ms = all.list[i];
		int is_idle = ms.state == MEMBER_IDLE;

		ck_assert(membership_step(&ms, MEMBER_ON_CLOSE)->is_known);
		ck_assert_int_eq(ms.state, MEMBER_CLOSED);
		ms = all.list[i];
		membership_step(&ms, MEMBER_ON_FAIL);
		ck_assert(ms.state == MEMBER_CLOSED || is_idle);
	}
}
END_TEST

START_TEST(the_owner_is_notified_of_the_end_once)
{
	for (int i = 0; i < all.n; i++) {
		for (int ev = 0; ev < MEMBER_EVENTS; ev++) {
			struct membership ms = all.list[i];
			enum membership_state was = ms.state;
			const struct membership_edge *edge =
				membership_step(&ms, ev);
			int is_told = edge->act == MEMBER_DO_END ||
				      edge->act == MEMBER_DO_LOSE ||
				      edge->act == MEMBER_DO_FAIL;

			if (!edge->is_known)
				continue;
			if (was == MEMBER_CLOSED)
				ck_assert_int_eq(edge->act, MEMBER_DO_NOTHING);
			else if (ms.state == MEMBER_CLOSED)
				ck_assert(is_told != (ev == MEMBER_ON_CLOSE));
		}
	}
}
END_TEST

/* In a state that is a place, the place is that state; otherwise a server can
 * restore it. */
START_TEST(the_place_is_known_while_the_server_is_away)
{
	for (int i = 0; i < all.n; i++) {
		const struct membership *ms = &all.list[i];
		struct membership back = *ms;

		if (membership_is_heard(ms) || ms->state == MEMBER_EXPELLED)
			ck_assert_int_eq(ms->place, ms->state);
		if (!membership_is_away(ms))
			continue;
		ck_assert(!membership_is_heard(ms));
		ck_assert_int_ne(ms->place, MEMBER_IDLE);
		membership_step(&back, MEMBER_ON_RESUMED);
		ck_assert_int_eq(back.state, ms->place);
	}
}
END_TEST

/* Losing the server keeps the place, whatever happens to the connection. */
START_TEST(a_connection_moves_no_node)
{
	static const enum membership_event events[] = {
		MEMBER_ON_GREETED, MEMBER_ON_STALLED, MEMBER_ON_AWAY,
		MEMBER_ON_FORGOTTEN, MEMBER_ON_DETACH,
	};

	for (int i = 0; i < all.n; i++) {
		for (size_t k = 0; k < sizeof(events) / sizeof(*events); k++) {
			struct membership ms = all.list[i];

			if (ms.state == MEMBER_CLOSED)
				continue;
			membership_step(&ms, events[k]);
			ck_assert(ms.place == all.list[i].place ||
				  ms.state == MEMBER_WAITING);
		}
	}
}
END_TEST

START_TEST(a_node_that_needs_the_server_does_not_stay_detached)
{
	for (int i = 0; i < all.n; i++) {
		struct membership joins = all.list[i], tells = joins;

		if (joins.state != MEMBER_DETACHED)
			continue;
		membership_step(&joins, MEMBER_ON_JOIN);
		ck_assert_int_eq(joins.state, MEMBER_CLOSED);
		membership_step(&tells, MEMBER_ON_NEEDED);
		ck_assert_int_eq(tells.state, MEMBER_CLOSED);
	}
}
END_TEST

/* A node must not run two rounds without a JOIN in between. */
START_TEST(a_round_starts_only_where_a_node_waits)
{
	for (int i = 0; i < all.n; i++) {
		struct membership ms = all.list[i];
		int waits = membership_waits(&ms);

		if (membership_step(&ms, MEMBER_ON_START)->is_known)
			ck_assert(waits && ms.state == MEMBER_RUNNING);
	}
}
END_TEST

START_TEST(a_join_without_a_server_is_sent_to_the_next)
{
	struct membership ms = {.state = MEMBER_RECONNECTING,
				.place = MEMBER_ENDED};

	membership_step(&ms, MEMBER_ON_JOIN);
	ck_assert_int_eq(ms.state, MEMBER_RECONNECTING);
	ck_assert(membership_waits(&ms));
	ck_assert_int_eq(membership_step(&ms, MEMBER_ON_UNJOINED)->act,
			 MEMBER_DO_REJOIN);
	ck_assert_int_eq(ms.state, MEMBER_WAITING);
}
END_TEST

START_TEST(every_wait_except_a_spares_has_a_deadline)
{
	struct membership ms = {.state = MEMBER_RECONNECTING,
				.place = MEMBER_SPARE};

	for (int i = 0; i < all.n; i++)
		ck_assert_int_eq(membership_has_deadline(&all.list[i]),
				 membership_waits(&all.list[i]) &&
					 all.list[i].place != MEMBER_SPARE);
	/* a server that lost the spare may have no round for it to wait for */
	membership_step(&ms, MEMBER_ON_UNJOINED);
	ck_assert(membership_has_deadline(&ms));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("membership");

	tcase_add_checked_fixture(c, setup, NULL);
	tcase_add_test(c, the_table_as_printed);
	tcase_add_test(c, every_state_is_reached);
	tcase_add_test(c, an_unknown_event_changes_nothing);
	tcase_add_test(c, every_state_can_be_left);
	tcase_add_test(c, the_owner_is_notified_of_the_end_once);
	tcase_add_test(c, the_place_is_known_while_the_server_is_away);
	tcase_add_test(c, a_connection_moves_no_node);
	tcase_add_test(c, a_node_that_needs_the_server_does_not_stay_detached);
	tcase_add_test(c, a_round_starts_only_where_a_node_waits);
	tcase_add_test(c, a_join_without_a_server_is_sent_to_the_next);
	tcase_add_test(c, every_wait_except_a_spares_has_a_deadline);
	return run_case(c);
}
