/* test_torchrun_lines.c: command lines as people write them for torchrun. */
#include "tests/unit/launcher/config/command_line.h"
#include "tests/unit/run_case.h"

START_TEST(flags_and_numbers_from_the_environment)
{
	setenv("PET_STANDALONE", "2", 1); /* bool(int(x)), as torchrun */
	setenv("PET_MODULE", "1", 1);
	setenv("PET_REDIRECTS", "3", 1);
	setenv("PET_TEE", "0:1", 1);
	setenv("PET_MONITOR_INTERVAL", "5", 1);
	setenv("PET_NUMA_BINDING", "node", 1); /* torchrun has none */
	setenv("PET_LOGS_SPECS", "mine", 1);
	ck_assert_int_eq(parse("a"), 0);
	ck_assert_int_eq(config.standalone, 1);
	ck_assert_int_eq(config.module, 1);
	ck_assert_str_eq(config.output.redirects, "3");
	ck_assert_str_eq(config.output.tee, "0:1");
	ck_assert_double_eq(config.monitor_interval_s, 5);
	ck_assert_ptr_null(config.cpu_bind);
	setenv("PET_MAX_RESTARTS", "", 1);
	refused("a", "PET_MAX_RESTARTS in the environment: ''");
	unsetenv("PET_MAX_RESTARTS");
	setenv("PET_MODULE", "", 1);
	refused("a", "PET_MODULE in the environment: ''");
}
END_TEST

START_TEST(torchruns_abbreviations_are_accepted)
{
	ck_assert_int_eq(parse("--redirect=3 --max-restart 2 --rdzv-end h:7 "
			       "--nproc 3 --nproc_per 2 --log-d d --v -t 1 a"),
			 0);
	ck_assert_str_eq(config.output.redirects, "3");
	ck_assert_str_eq(config.output.tee, "1");
	ck_assert_int_eq((int)config.max_restarts, 2);
	ck_assert_str_eq(config.endpoint_text, "h:7");
	ck_assert_uint_eq(config.nproc, 2);
	/* our own variables yield, and so do torchrun's newer ones */
	ck_assert_str_eq(config.output.log_dir, "d");
	ck_assert_int_eq(config.virtual_local_rank, 1);
	ck_assert_int_eq(parse("--log- d a"), 0);
	ck_assert_str_eq(config.output.log_dir, "d");
	ck_assert_int_eq(parse("--h"), OPTION_WANT_HELP);
	refused("--rdzv 1 a", "ambiguous");
	refused("--wra x a", "ambiguous: --wrap or --wrap-ranks");
}
END_TEST

START_TEST(arguments_after_the_program_belong_to_it)
{
	ck_assert_int_eq(parse("-m pkg.mod --nnodes x -m --help -- y"), 0);
	ck_assert_int_eq(config.module, 1);
	ck_assert_str_eq(config.words[0], "pkg.mod");
	ck_assert_str_eq(config.words[1], "--nnodes");
	ck_assert_str_eq(config.words[4], "--help");
	ck_assert_str_eq(config.words[5], "--");
	ck_assert_int_eq(parse("-r3 -- a -- b"), 0);
	ck_assert_str_eq(config.output.redirects, "3");
	ck_assert_str_eq(config.words[0], "a");
	ck_assert_str_eq(config.words[1], "--");
}
END_TEST

/* As argparse does for torchrun. */
START_TEST(dashes_behind_the_program_are_dropped_once)
{
	ck_assert_int_eq(parse("-m pkg.mod -- --depth=2 -- x"), 0);
	ck_assert_str_eq(config.words[0], "pkg.mod");
	ck_assert_str_eq(config.words[1], "--depth=2");
	ck_assert_str_eq(config.words[2], "--");
	ck_assert_str_eq(config.words[3], "x");
	ck_assert_ptr_null(config.words[4]);
	ck_assert_int_eq(config.noptions, 1);
	ck_assert_int_eq(parse("a.py -- -- x"), 0);
	ck_assert_str_eq(config.words[1], "--");
	ck_assert_str_eq(config.words[2], "x");
	ck_assert_int_eq(parse("a.py --"), 0);
	ck_assert_ptr_null(config.words[1]);
	ck_assert_int_eq(parse("a.py x -- y"), 0);
	ck_assert_str_eq(config.words[2], "--");
	/* srun starts the same line again, which must mean the same there */
	setenv("SLURM_JOB_ID", "7", 1);
	setenv("SLURM_JOB_NODELIST", "n[1-2]", 1);
	setenv("SLURM_JOB_NUM_NODES", "2", 1);
	setenv("SLURM_TASKS_PER_NODE", "1(x2)", 1);
	ck_assert_int_eq(parse("a.py -- x"), CONFIG_WANT_STEP);
	ck_assert_str_eq(words[2], "--");
}
END_TEST

START_TEST(empty_values_count_as_not_given_on_one_node)
{
	setenv("PET_RDZV_ENDPOINT", "", 1);
	ck_assert_int_eq(parse("--rdzv-id= --role= --rdzv-endpoint= --log-dir= "
			       "--master-addr= --local-addr= a"), 0);
	ck_assert_str_eq(config.job, "none");
	ck_assert_str_eq(config.role, "default");
	ck_assert_ptr_null(config.output.log_dir);
	ck_assert_int_eq(config.endpoint_given, 0);
	ck_assert_int_eq(config.local_addr_given, 0);
	ck_assert_int_eq(config.private_endpoint, 1);
	/* the endpoint has a default on several nodes as well */
	ck_assert_str_eq(endpoint("--nnodes 2 --rdzv-endpoint= "
				  "--master-addr h a"), "h:29500");
	refused("--rdzv-backend etcd --rdzv-id x --rdzv-endpoint= a",
		"needs --rdzv-endpoint");
}
END_TEST

START_TEST(blanks_around_numbers_are_ignored)
{
	setenv("PET_NPROC_PER_NODE", "  2 ", 1); /* as wc -l prints it */
	setenv("PET_MAX_RESTARTS", " 3", 1);
	setenv("PET_NNODES", " 2", 1);
	ck_assert_int_eq(parse("a"), 0);
	ck_assert_uint_eq(config.nproc, 2);
	ck_assert_uint_eq(config.max_nodes, 2);
	ck_assert_int_eq((int)config.max_restarts, 3);
	setenv("PET_NPROC_PER_NODE", "2 3", 1);
	refused("a", "--nproc-per-node '2 3'");
	setenv("PET_NPROC_PER_NODE", " ", 1);
	refused("a", "--nproc-per-node ' '");
}
END_TEST

START_TEST(rdzv_conf_may_be_in_quotes)
{
	ck_assert_int_eq(parse("--rdzv-conf='join_timeout=5,timeout=7' a"), 0);
	ck_assert_double_eq(config.rdzv_timeout_s, 5);
	ck_assert_int_eq(parse("--rdzv-conf=\"last_call_timeout=2\" a"), 0);
	ck_assert_double_eq(config.last_call_s, 2);
	ck_assert_int_eq(parse("--rdzv-conf='' a"), 0);
	refused("--rdzv-conf='timeout a", "'timeout': give KEY=VALUE");
}
END_TEST

START_TEST(c10d_ignores_the_timeout_of_static)
{
	ck_assert_int_eq(parse("--rdzv-backend c10d --rdzv-conf timeout=3 a"),
			 0);
	ck_assert_double_eq(config.rdzv_timeout_s, 600);
	ck_assert_int_eq(parse("--rdzv-backend c10d --rdzv-conf "
			       "timeout=3,join_timeout=4 a"), 0);
	ck_assert_double_eq(config.rdzv_timeout_s, 4);
	ck_assert_int_eq(parse("--rdzv-conf timeout=3 a"), 0);
	ck_assert_double_eq(config.rdzv_timeout_s, 3);
	refused("--rdzv-backend c10d --rdzv-conf timeout=x a",
		"timeout=x: give a number of seconds");
}
END_TEST

START_TEST(rdzv_conf_sets_what_no_option_says)
{
	ck_assert_int_eq(parse("--rdzv-conf join_timeout=7,timeout=900,"
			       "last_call_timeout=2,heartbeat_timeout=3,"
			       "close_timeout=1,read_timeout=60,"
			       "store_type=tcp,is_host=0,rank=1 --nnodes 2 a"),
			 0);
	ck_assert_double_eq(config.rdzv_timeout_s, 7);
	ck_assert_double_eq(config.last_call_s, 2);
	ck_assert_double_eq(config.heartbeat_s, 3);
	ck_assert_int_eq(config.is_host, 0);
	ck_assert_int_eq((int)config.node_rank, 1);
	ck_assert_int_eq(parse("--rdzv-conf timeout=8,join_timeout=9 a"), 0);
	ck_assert_double_eq(config.rdzv_timeout_s, 9);
	ck_assert_int_eq(parse("--rdzv-conf timeout=8,is_host=True a"), 0);
	ck_assert_double_eq(config.rdzv_timeout_s, 8);
	ck_assert_int_eq(config.is_host, 1);
	ck_assert_int_eq(parse("--rdzv-conf timeout=8,rank=0 --rdzv-timeout 4 "
			       "--nnodes 2 --node-rank 1 a"), 0);
	ck_assert_double_eq(config.rdzv_timeout_s, 4);
	ck_assert_int_eq((int)config.node_rank, 1);
	ck_assert_int_eq(parse("--rdzv-conf my_plugin=1 a"), 0);
	ck_assert_int_eq(parse("--rdzv-conf= a"), 0);
	ck_assert_int_eq(config.is_host, -1);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("torchrun's lines");

	tcase_set_timeout(c, 20);
	tcase_add_checked_fixture(c, clean_environment, NULL);
	tcase_add_test(c, flags_and_numbers_from_the_environment);
	tcase_add_test(c, torchruns_abbreviations_are_accepted);
	tcase_add_test(c, arguments_after_the_program_belong_to_it);
	tcase_add_test(c, dashes_behind_the_program_are_dropped_once);
	tcase_add_test(c, empty_values_count_as_not_given_on_one_node);
	tcase_add_test(c, blanks_around_numbers_are_ignored);
	tcase_add_test(c, rdzv_conf_may_be_in_quotes);
	tcase_add_test(c, c10d_ignores_the_timeout_of_static);
	tcase_add_test(c, rdzv_conf_sets_what_no_option_says);
	return run_case(c);
}
