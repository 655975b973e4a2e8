/* test_assign.c: ranks in jobs that change, without processes: ranks stay with
 * their nodes and hosts, and roles have their own. */
#include "tests/unit/rendezvous/round/rounds.h"
#include "tests/unit/run_case.h"

/* Node i joins a job of 2 to 4 nodes. */
static int come(int i)
{
	return join(i, 4, (struct how){.min = 2});
}

static void run_with(int n)
{
	for (int i = 0; i < n; i++)
		come(i);
	last_call();
	ck_assert_int_eq(job_state(j), JOB_RUNNING);
}

START_TEST(a_host_that_comes_back_gets_its_rank)
{
	run_with(4);
	lost(1, "its connection closed");
	come(0);
	come(2);
	come(3);
	has_rank(3, 1, 1);
	has_rank(2, 2, 2);
	join(5, 4, (struct how){.min = 2, .host = "h1"});
	come(0);
	come(2);
	come(3);
	ck_assert_int_eq(starts, 1);
	has_rank(0, 0, 0);
	has_rank(5, 1, 1);
	has_rank(2, 2, 2);
	has_rank(3, 3, 3);
}
END_TEST

START_TEST(two_nodes_of_a_host_that_come_back_get_both_ranks)
{
	struct how h = {.min = 1, .host = "big"};

	for (int i = 0; i < 4; i++)
		join(i, 4, i % 2 ? h : (struct how){.min = 1});
	lost(1, "its connection closed");
	lost(3, "its connection closed");
	join(5, 4, h);
	join(6, 4, h);
	join(0, 4, (struct how){.min = 1});
	join(2, 4, (struct how){.min = 1});
	ck_assert_int_eq(starts, 1);
	has_rank(0, 0, 0);
	has_rank(5, 1, 1);
	has_rank(2, 2, 2);
	has_rank(6, 3, 3);
}
END_TEST

START_TEST(an_explicit_rank_comes_back_when_the_job_grows)
{
	struct how h = {.min = 1};

	for (int i = 0; i < 3; i++) {
		h.rank = 1 + 2 - i; /* h0 is 2, h1 1, h2 0 */
		join(i, 3, h);
	}
	has_rank(0, 2, 2);
	lost(1, "its connection closed");
	join(0, 3, (struct how){.min = 1, .rank = 1 + 2});
	join(2, 3, (struct how){.min = 1, .rank = 1 + 0});
	has_rank(0, 1, 1);
	has_rank(2, 0, 0);
	ck_assert_int_eq(join(4, 3, (struct how){.min = 1, .rank = 1 + 2}),
			 ERR_REFUSED);
	ck_assert_int_eq(join(5, 3, (struct how){.min = 1, .rank = 1 + 1}), 0);
	join(0, 3, (struct how){.min = 1, .rank = 1 + 2});
	join(2, 3, (struct how){.min = 1, .rank = 1 + 0});
	has_rank(2, 0, 0);
	has_rank(5, 1, 1);
	has_rank(0, 2, 2);
}
END_TEST

START_TEST(roles_have_ranks_of_their_own)
{
	struct how a = {.nproc = 2, .role = "actor"};
	struct how b = {.nproc = 3, .role = "learner"};
	static const uint32_t base[] = {0, 0, 2, 3}, world[] = {4, 6, 4, 6};

	join(0, 4, a);
	join(1, 4, b);
	join(2, 4, a);
	join(3, 4, b);
	ck_assert_int_eq(starts, 1);
	for (int i = 0; i < 4; i++) {
		ck_assert_uint_eq(start_of(i).role_base_rank, base[i]);
		ck_assert_uint_eq(start_of(i).role_world_size, world[i]);
	}
	has_rank(3, 3, 7);
	ck_assert_uint_eq(start_of(0).world_size, 10);
}
END_TEST

START_TEST(a_spare_gets_the_rank_that_is_free)
{
	for (int i = 0; i < 4; i++)
		join_plain(i, 3);
	lost(1, "its connection closed");
	join_plain(2, 3);
	join_plain(0, 3);
	ck_assert_int_eq(starts, 1);
	has_rank(0, 0, 0);
	has_rank(3, 1, 1);
	has_rank(2, 2, 2);
}
END_TEST

/* 300 hosts come and go, more than the job remembers. */
START_TEST(the_memory_of_hosts_forgets_the_oldest)
{
	struct how h = {.min = 1}, guest = {.min = 1};
	char host[300][8];

	join(0, 3, h);
	last_call();
	for (int i = 0; i < 300; i++) {
		snprintf(host[i], sizeof(host[i]), "g%d", i);
		guest.host = host[i];
		join(1, 3, guest);
		join(0, 3, h);
		has_rank(1, 1, 1);
		lost(1, "its connection closed");
		join(0, 3, h);
		ck_assert_int_eq(starts, 1);
	}
	/* only the last ones of the hosts that had rank 1 are remembered */
	guest.host = host[0];
	guest.addr = "10.0.0.1";
	join(1, 3, guest);
	guest.host = host[299];
	guest.addr = "10.0.0.2";
	join(2, 3, guest);
	join(0, 3, h);
	has_rank(2, 1, 1);
	has_rank(1, 2, 2);
}
END_TEST

static void add_all(TCase *c)
{
	tcase_add_test(c, a_host_that_comes_back_gets_its_rank);
	tcase_add_test(c, two_nodes_of_a_host_that_come_back_get_both_ranks);
	tcase_add_test(c, an_explicit_rank_comes_back_when_the_job_grows);
	tcase_add_test(c, a_spare_gets_the_rank_that_is_free);
	tcase_add_test(c, the_memory_of_hosts_forgets_the_oldest);
	tcase_add_test(c, roles_have_ranks_of_their_own);
}

int main(void)
{
	TCase *c = tcase_create("assign");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, begin, end);
	add_all(c);
	return run_case(c);
}
