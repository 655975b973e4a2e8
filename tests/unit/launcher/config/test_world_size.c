/* test_world_size.c: how -n is shared by nodes and hosts. */
#include "tests/unit/launcher/config/command_line.h"
#include "tests/unit/run_case.h"

START_TEST(nodes_have_equal_shares)
{
	static const struct {
		const char *line;
		unsigned nproc, nodes;
	} rows[] = {
		{"-n 4 a", 4, 1},
		{"-n4 a", 4, 1},
		{"--world-size=4 --standalone a", 4, 1},
		{"-n 4 --nnodes 2 a", 2, 2},
		{"-n 4 --nnodes 2 --nproc-per-node 2 a", 2, 2},
		{"-n 3 --nproc-per-node 4 a", 3, 1},
		{"-n 3 --hosts localhost a", 3, 1},
		{"-n 3 --hosts localhost:4 a", 3, 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		ck_assert_msg(parse(rows[i].line) == 0, "'%s': %s",
			      rows[i].line, error.text);
		ck_assert_msg(config.nproc == rows[i].nproc, "'%s': %u",
			      rows[i].line, config.nproc);
		ck_assert_uint_eq(config.max_nodes, rows[i].nodes);
		config_release(&config);
	}
}
END_TEST

START_TEST(hosts_are_filled_in_order)
{
	static const struct {
		const char *line;
		unsigned slots[4]; /* each host's, then 0 */
	} rows[] = {
		{"-n 4 -H a,b ./t", {2, 2}},
		{"-n 5 -H a,b,c ./t", {2, 2, 1}},
		{"-n 2 -H a,b,c ./t", {1, 1}},
		{"-n 3 -H a:2,b:2 ./t", {2, 1}},
		{"-n 4 -H a:2,b:2 ./t", {2, 2}},
		{"-n 2 -H a:2,b:2 ./t", {2}},
		{"-n 3 -H a,b --nproc-per-node 2 ./t", {2, 1}},
		{"-n 4 -H a:4,b --nproc-per-node 3 ./t", {3, 1}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint32_t n = 0;

		ck_assert_msg(parse(rows[i].line) == CONFIG_WANT_HOSTS,
			      "'%s': %s", rows[i].line, error.text);
		for (; n < config.hosts.count && n < 3; n++)
			ck_assert_msg(config.hosts.hosts[n].slots ==
				      rows[i].slots[n], "'%s': host %u has %u",
				      rows[i].line, n,
				      config.hosts.hosts[n].slots);
		ck_assert_msg(!rows[i].slots[n], "'%s': %u hosts",
			      rows[i].line, n);
		ck_assert_uint_eq(config.max_nodes, n);
		config_release(&config);
	}
}
END_TEST

/* The line that srun starts again on each node means the same there. */
START_TEST(slurms_nodes_have_equal_shares)
{
	setenv("SLURM_JOB_ID", "7", 1);
	setenv("SLURM_JOB_NODELIST", "n[1-2]", 1);
	setenv("SLURM_JOB_NUM_NODES", "2", 1);
	setenv("SLURM_TASKS_PER_NODE", "1(x2)", 1);
	ck_assert_msg(parse("-n 6 a") == CONFIG_WANT_STEP, "%s", error.text);
	refused("-n 5 a", "2 nodes cannot share them");
	setenv("SLURM_STEP_ID", "0", 1);
	setenv("SLURM_STEP_NODELIST", "n[1-2]", 1);
	setenv("SLURM_STEP_NUM_NODES", "2", 1);
	setenv("SLURM_STEP_NUM_TASKS", "2", 1);
	setenv("SLURM_STEP_TASKS_PER_NODE", "1(x2)", 1);
	setenv("SLURM_PROCID", "1", 1);
	setenv("SLURM_NODEID", "1", 1);
	setenv("SLURM_LOCALID", "0", 1);
	ck_assert_msg(parse("-n 6 a") == 0, "%s", error.text);
	ck_assert_uint_eq(config.nproc, 3);
	ck_assert_uint_eq(config.max_nodes, 2);
}
END_TEST

START_TEST(shares_that_cannot_be_are_errors)
{
	static const struct {
		const char *line, *part;
	} rows[] = {
		{"-n 0 a", "--world-size: 0 is not in the range 1 to"},
		{"-n x a", "--world-size: 'x' is not a whole number"},
		{"-n 3 --nnodes 2 a", "2 nodes cannot share them"},
		{"-n 4 --nnodes 1:2 a", "the nodes come and go"},
		{"-n 4 --nproc-per-node 2 a", "1 node would have 2 workers"},
		{"-n 4 --nnodes 2 --nproc-per-node 4 a",
		 "2 nodes would have 8 workers"},
		{"-n 4 --nproc-per-node cpu a", "leave one of them out"},
		{"-n 5 -H a:2,b:2 a", "-H has room for 4 workers"},
		{"-n 5 -H a,b --nproc-per-node 2 a", "room for 4 workers"},
		{"-n 4 -H a:2,b a", "the workers of some hosts only"},
		{"-n 4 -H a,b --nnodes 2 a", "leave one of them out"},
		{"-n 4 -H a,b --nproc-per-node auto a",
		 "leave one of them out"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		refused(rows[i].line, rows[i].part);
		config_release(&config);
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("the number of all workers");

	tcase_set_timeout(c, 20);
	tcase_add_checked_fixture(c, clean_environment, NULL);
	tcase_add_test(c, nodes_have_equal_shares);
	tcase_add_test(c, hosts_are_filled_in_order);
	tcase_add_test(c, slurms_nodes_have_equal_shares);
	tcase_add_test(c, shares_that_cannot_be_are_errors);
	return run_case(c);
}
