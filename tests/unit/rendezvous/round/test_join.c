/* test_join.c: joining a job without processes: the ranks, the refusals and
 * their texts, and what a node leaves behind that goes early. */
#include "tests/unit/rendezvous/round/rounds.h"
#include "tests/unit/run_case.h"

/* ---- ranks ---- */

START_TEST(one_node_starts_at_once)
{
	struct wire_start m;

	ck_assert_int_eq(join(0, 1, (struct how){.nproc = 4}), 0);
	ck_assert_int_eq(starts, 1);
	ck_assert_int_eq(states, 0);
	ck_assert_int_eq(job_state(j), JOB_RUNNING);
	m = start_of(0);
	ck_assert_uint_eq(m.round, 0);
	ck_assert_uint_eq(m.attempt, 0);
	ck_assert_uint_eq(m.nnodes, 1);
	ck_assert_uint_eq(m.world_size, 4);
	ck_assert_uint_eq(m.master_port, 40000);
	ck_assert(!memcmp(m.master_addr.data, "10.0.0.0", 8));
}
END_TEST

START_TEST(base_ranks_are_prefix_sums_of_different_nproc)
{
	struct wire_start m;

	join(0, 3, (struct how){.nproc = 3});
	ck_assert_int_eq(states, 1);
	join(1, 3, (struct how){.nproc = 1});
	ck_assert_int_eq(states, 1);
	join(2, 3, (struct how){.nproc = 4});
	ck_assert_int_eq(starts, 1);
	has_rank(0, 0, 0);
	has_rank(1, 1, 3);
	has_rank(2, 2, 4);
	m = start_of(2);
	ck_assert_uint_eq(m.nnodes, 3);
	ck_assert_uint_eq(m.world_size, 8);
}
END_TEST

static size_t size_of_start(int nnodes)
{
	struct buf b = BUF_INIT(4096);
	struct wire_start m;
	size_t size;

	for (int i = 0; i < nnodes; i++)
		join_plain(i, (uint32_t)nnodes);
	m = start_of(0);
	wire_put_start(&b, WIRE_START, WIRE_NOTICE, 0, &m);
	size = b.len;
	buf_release(&b);
	return size;
}

START_TEST(a_start_is_as_short_in_a_large_job)
{
	size_t small = size_of_start(2);

	end();
	begin();
	ck_assert_uint_eq(size_of_start(NODES), small);
}
END_TEST

START_TEST(explicit_ranks_come_first_then_the_servers_host)
{
	join(1, 4, (struct how){.nproc = 2});
	join(2, 4, (struct how){.rank = 1 + 0});
	join(3, 4, (struct how){.hosts_server = 1});
	join(0, 4, (struct how){.rank = 1 + 3});
	has_rank(2, 0, 0);
	has_rank(3, 1, 1);
	has_rank(1, 2, 2);
	has_rank(0, 3, 4);
}
END_TEST

START_TEST(others_are_ordered_by_numeric_address)
{
	join(0, 4, (struct how){.addr = "fd77::1"});
	join(1, 4, (struct how){.addr = "10.0.0.10"});
	join(2, 4, (struct how){.addr = "10.0.0.9"});
	join(3, 4, (struct how){.addr = "9.255.0.1"});
	has_rank(3, 0, 0);
	has_rank(2, 1, 1);
	has_rank(1, 2, 2);
	has_rank(0, 3, 3);
}
END_TEST

START_TEST(nodes_of_one_address_are_ordered_by_joining)
{
	for (int i = 0; i < 4; i++)
		join((i * 3 + 2) % 4, 4, (struct how){.addr = "127.0.0.1"});
	has_rank(2, 0, 0);
	has_rank(1, 1, 1);
	has_rank(0, 2, 2);
	has_rank(3, 3, 3);
}
END_TEST

/* ---- refusals ---- */

START_TEST(a_node_rank_is_given_once)
{
	join(1, 2, (struct how){.rank = 1 + 1});
	ck_assert_int_eq(join(2, 2, (struct how){.rank = 1 + 1}), ERR_REFUSED);
	ck_assert_str_eq(e.text,
			 "--node-rank 1 of job 'none' at h0:29400 is taken by "
			 "h1: give h2 another, or leave --node-rank out");
	ck_assert_int_eq(job_state(j), JOB_GATHERING);
	ck_assert_int_eq(join(2, 2, (struct how){.rank = 1 + 2}),
			 ERR_ARGUMENT);
	ck_assert_str_eq(e.text, "--node-rank 2 of h2 does not exist in a job "
				 "of 2 nodes: use 0 to 1");
	ck_assert_int_eq(join(2, 2, (struct how){.rank = 1 + 0}), 0);
	ck_assert_int_eq(starts, 1);
}
END_TEST

START_TEST(another_size_or_restarts_than_the_others_is_refused)
{
	join_plain(1, 3);
	ck_assert_int_eq(join_plain(2, 2), ERR_REFUSED);
	ck_assert_str_eq(
		e.text,
		"h2 has --nnodes 2, but h1 has 3 in job 'none' at h0:29400: "
		"give both the same value, or one of them its own --rdzv-id");
	ck_assert_int_eq(join(2, 3, (struct how){.min = 2}), ERR_REFUSED);
	ck_assert_ptr_nonnull(
		strstr(e.text, "h2 has --nnodes 2:3, but h1 has 3"));
	ck_assert_int_eq(join(2, 3, (struct how){.restarts = 1}), ERR_REFUSED);
	ck_assert_ptr_nonnull(
		strstr(e.text, "h2 has --max-restarts 1, but h1 has 0"));
	/* when the first node is gone, its options no longer bind */
	lost(1, "its connection closed");
	ck_assert_int_eq(join(2, 1, (struct how){.restarts = 1}), 0);
	ck_assert_int_eq(starts, 1);
}
END_TEST

START_TEST(senseless_joins_are_refused)
{
	ck_assert_int_eq(join_plain(1, 0), ERR_ARGUMENT);
	ck_assert_int_eq(join_plain(1, WIRE_NODES_MAX + 1), ERR_ARGUMENT);
	ck_assert_int_eq(join(1, 2, (struct how){.min = 3}), ERR_ARGUMENT);
	ck_assert_str_eq(e.text, "--nnodes 3:2 of h1: the minimum must be from "
				 "1 to the maximum");
	ck_assert_int_eq(join(1, 2, (struct how){.lease = 99}), ERR_ARGUMENT);
	ck_assert_str_eq(e.text, "a heartbeat timeout of 0.099 s on h1: it "
				 "must be from 0.1 s to a day");
	ck_assert_int_eq(join(1, 2, (struct how){.lease = 86400001}),
			 ERR_ARGUMENT);
	ck_assert_int_eq(join(1, 2, (struct how){.role = "a\nb"}),
			 ERR_ARGUMENT);
	ck_assert_int_eq(join(1, 2, (struct how){.nproc = 65537}),
			 ERR_ARGUMENT);
	ck_assert_int_eq(join(1, 2, (struct how){.rank = -4}), ERR_ARGUMENT);
	ck_assert_int_eq(join(1, 2, (struct how){.addr = "a\033[2Jb"}),
			 ERR_ARGUMENT);
	ck_assert_int_eq(join(1, 3, (struct how){.nproc = 65536}), 0);
	ck_assert_int_eq(join(2, 3, (struct how){.nproc = 65536}), 0);
	ck_assert_int_eq(join(3, 3, (struct how){.nproc = 1}), ERR_REFUSED);
	ck_assert_ptr_nonnull(strstr(e.text, "131073 workers"));
}
END_TEST

START_TEST(a_node_joins_once)
{
	join_plain(1, 3);
	ck_assert_int_eq(join_plain(1, 3), ERR_REFUSED);
	ck_assert_int_eq(join(2, 3, (struct how){.id = "h1"}), ERR_REFUSED);
	ck_assert_ptr_nonnull(strstr(e.text, "is in job 'none' already"));
}
END_TEST

/* ---- gathering ---- */

START_TEST(a_node_that_leaves_a_gathering_frees_its_place)
{
	join(1, 3, (struct how){.rank = 1 + 2});
	ck_assert_str_eq(state_text(), "1 of 3: node 0, node 1");
	join(2, 3, (struct how){.rank = 1 + 0});
	ck_assert_str_eq(state_text(), "2 of 3: node 1");
	lost(1, "its connection closed");
	ck_assert_int_eq(states, 1);
	ck_assert_int_eq(ends, 0);
	ck_assert_str_eq(state_text(), "1 of 3: node 1, node 2");
	ck_assert_int_eq(join(3, 3, (struct how){.rank = 1 + 2}), 0);
	leave(3, 2);
	ck_assert_int_eq(ends, 0);
	ck_assert_str_eq(state_text(), "1 of 3: node 1, node 2");
	lost(3, "its connection closed");
	ck_assert_int_eq(join_plain(4, 3), 0);
	ck_assert_str_eq(state_text(), "2 of 3: ");
	ck_assert_int_eq(join(5, 3, (struct how){.rank = 1 + 2}), 0);
	ck_assert_int_eq(starts, 1);
	has_rank(4, 1, 1);
	ck_assert(!job_is_empty(j));
}
END_TEST

/* Its connection may close much later, when others have joined. */
START_TEST(a_new_gathering_forgets_a_node_that_left)
{
	join(0, 8, (struct how){.rank = 1 + 7});
	leave(0, 2);
	ck_assert_str_eq(state_text(), "0 of 8: ");
	join(1, 1, (struct how){.rank = 1 + 0});
	ck_assert_int_eq(starts, 1);
	lost(0, "its connection closed");
	ck_assert_int_eq(ends, 0);
	ck_assert_int_eq(job_state(j), JOB_RUNNING);
	has_rank(1, 0, 0);
}
END_TEST

static void add_all(TCase *c)
{
	tcase_add_test(c, one_node_starts_at_once);
	tcase_add_test(c, base_ranks_are_prefix_sums_of_different_nproc);
	tcase_add_test(c, a_start_is_as_short_in_a_large_job);
	tcase_add_test(c, explicit_ranks_come_first_then_the_servers_host);
	tcase_add_test(c, others_are_ordered_by_numeric_address);
	tcase_add_test(c, nodes_of_one_address_are_ordered_by_joining);
	tcase_add_test(c, a_node_rank_is_given_once);
	tcase_add_test(c, another_size_or_restarts_than_the_others_is_refused);
	tcase_add_test(c, senseless_joins_are_refused);
	tcase_add_test(c, a_node_joins_once);
	tcase_add_test(c, a_node_that_leaves_a_gathering_frees_its_place);
	tcase_add_test(c,
		       a_new_gathering_forgets_a_node_that_left);
}

int main(void)
{
	TCase *c = tcase_create("join");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, begin, end);
	add_all(c);
	return run_case(c);
}
