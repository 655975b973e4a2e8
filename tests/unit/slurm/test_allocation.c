/* test_allocation.c: what follows from Slurm's variables. */
#include <signal.h>

#include "slurm/groups.h"
#include "tests/unit/launcher/config/slurm_vars.h"
#include "tests/unit/run_case.h"

START_TEST(where_a_process_is)
{
	static const struct {
		const char *job, *step;
		enum allocation_place place;
	} rows[] = {
		{NULL, NULL, ALLOCATION_NONE},
		{"12", NULL, ALLOCATION_NO_STEP},
		{"12", "", ALLOCATION_NO_STEP},
		{"12", "0", ALLOCATION_STEP},
		/* the batch script's, and salloc's interactive step */
		{"12", "4294967291", ALLOCATION_NO_STEP},
		{"12", "4294967290", ALLOCATION_NO_STEP},
		/* the batch script's of 26.05 */
		{"12", "-5", ALLOCATION_NO_STEP},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		set("SLURM_JOB_ID", rows[i].job);
		set("SLURM_STEP_ID", rows[i].step);
		ck_assert_int_eq(allocation_place(get), rows[i].place);
	}
}
END_TEST

START_TEST(outside_a_job_there_is_nothing_to_read)
{
	taken();
	ck_assert_int_eq(a.place, ALLOCATION_NONE);
}
END_TEST

START_TEST(a_step_is_read_from_its_own_variables)
{
	step();
	taken();
	ck_assert_int_eq(a.place, ALLOCATION_STEP);
	ck_assert_str_eq(a.id, "slurm-12.3");
	ck_assert_uint_eq(a.nodes, 2);
	ck_assert_uint_eq(a.node_rank, 1);
	ck_assert_str_eq(a.first, "n10");
	ck_assert_str_eq(a.second, "n11");
	ck_assert_uint_eq(a.gpus, 0);
	ck_assert_uint_eq(a.tasks, 0);
	ck_assert_int_eq(a.bound, 0);
}
END_TEST

/* The variables of Slurm 26.05 with topology/tree: it chose n11's switch first,
 * so task 0 is there, and the list is sorted. */
START_TEST(ranks_follow_the_order_of_tasks)
{
	char name[HOSTLIST_NAME_MAX + 1];

	step();
	set("SLURM_PROCID", "0");
	set("SLURM_GPUS_ON_NODE", "4");
	set(ALLOCATION_TASKS, "1,2,3,4");
	taken();
	ck_assert_uint_eq(a.node_rank, 0);
	ck_assert_uint_eq(a.node_index, 1);
	ck_assert_str_eq(a.first, "n10");
	ck_assert_uint_eq(a.tasks, 4);
	parses("./a");
	ck_assert_int_eq((int)config.node_rank, 0);
	ck_assert_int_eq(config.is_host, 0);
	ck_assert_str_eq(config.endpoint.host, "n10");
	/* no other node's rank is known here */
	allocation_name(&a, get, 1, name);
	ck_assert_str_eq(name, "");
	set("SLURMD_NODENAME", "n10");
	set("SLURM_NODEID", "0");
	set("SLURM_PROCID", "1");
	parses("./a");
	ck_assert_int_eq((int)config.node_rank, 1);
	ck_assert_int_eq(config.is_host, 1);
}
END_TEST

START_TEST(a_node_is_named_by_its_rank_where_the_list_has_their_order)
{
	static const char *const otherwise[][2] = {
		{"SLURM_TOPOLOGY_ADDR_PATTERN", "switch.node"},
		{"SLURM_DISTRIBUTION", "arbitrary"},
	};
	char name[HOSTLIST_NAME_MAX + 1];

	step();
	set("SLURM_PROCID", "1");
	set("SLURM_TOPOLOGY_ADDR_PATTERN", "node");
	set("SLURM_DISTRIBUTION", "cyclic");
	taken();
	allocation_name(&a, get, 0, name);
	ck_assert_str_eq(name, "n10");
	for (size_t i = 0; i < 2; i++) {
		const char *before = get(otherwise[i][0]);

		set(otherwise[i][0], otherwise[i][1]);
		taken();
		allocation_name(&a, get, 0, name);
		ck_assert_str_eq(name, "");
		set(otherwise[i][0], before);
	}
}
END_TEST

START_TEST(cpus_are_the_steps_else_the_jobs_on_this_node)
{
	static const char *const nodes[] = {"n08", "n09", "n10", "n11"};
	static const uint32_t want[] = {4, 4, 2, 72};

	step();
	for (int i = 0; i < 4; i++) {
		set("SLURMD_NODENAME", nodes[i]);
		taken();
		ck_assert_uint_eq(a.cpus, want[i]);
	}
	set("SLURM_CPUS_ON_NODE", "6");
	taken();
	ck_assert_uint_eq(a.cpus, 6);
	set("SLURM_CPU_BIND_TYPE", "none");
	taken();
	ck_assert_int_eq(a.bound, 0);
	set("SLURM_CPU_BIND_TYPE", "mask_cpu:");
	taken();
	ck_assert_int_eq(a.bound, 1);
}
END_TEST

START_TEST(gpus_and_tasks_of_this_node)
{
	step();
	set("SLURM_GPUS_ON_NODE", "4");
	set("SLURM_GPUS_PER_TASK", "h100:1");
	set(ALLOCATION_TASKS, "4(x3),2");
	taken();
	ck_assert_uint_eq(a.gpus, 4);
	ck_assert_uint_eq(a.gpus_per_task, 1);
	ck_assert_uint_eq(a.tasks, 2);
}
END_TEST

START_TEST(an_incomplete_or_wrong_step_is_an_error)
{
	static const struct {
		const char *name, *value, *part;
	} rows[] = {
#define UNSET(name) {name, NULL, "SLURM_STEP_ID is set but " name " is not"}
		UNSET("SLURM_STEP_NUM_NODES"),
		UNSET("SLURM_STEP_NUM_TASKS"),
		UNSET("SLURM_STEP_NODELIST"),
		UNSET("SLURM_NODEID"),
#undef UNSET
		{"SLURM_NODEID", "2",
		 "SLURM_NODEID is 2 but SLURM_STEP_NUM_NODES is 2"},
		{"SLURM_NODEID", "-1", "SLURM_NODEID is '-1'"},
		{"SLURM_STEP_NODELIST", "n[10-12]",
		 "SLURM_STEP_NODELIST names 3 nodes but"},
		{"SLURM_STEP_NODELIST", "n[10-",
		 "SLURM_STEP_NODELIST: host list \"n[10-\""},
		{"SLURM_GPUS_ON_NODE", "many", "SLURM_GPUS_ON_NODE is 'many'"},
		{"SLURMD_NODENAME", "n12",
		 "SLURM_JOB_NODELIST does not name this node, which is n12"},
		{"SLURM_JOB_CPUS_PER_NODE", "4(x3)",
		 "SLURM_JOB_CPUS_PER_NODE is '4(x3)': it has fewer nodes"},
		{"SLURM_PROCID", "2",
		 "SLURM_PROCID is 2 but SLURM_STEP_NUM_TASKS is 2"},
	};

	step();
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *before = get(rows[i].name);

		set(rows[i].name, rows[i].value);
		refused(rows[i].part);
		set(rows[i].name, before);
	}
	taken();
}
END_TEST

START_TEST(groups_of_a_heterogeneous_job_are_added_up)
{
	groups();
	taken();
	ck_assert_int_eq(a.place, ALLOCATION_NO_STEP);
	ck_assert_uint_eq(a.groups, 2);
	ck_assert_uint_eq(a.nodes, 3);
	/* salloc's shell has no variables of the whole job */
	set("SLURM_JOB_ID", NULL);
	set("SLURM_JOB_NUM_NODES", NULL);
	taken();
	ck_assert_str_eq(a.id, "slurm-12");
	ck_assert_uint_eq(a.nodes, 3);
	set("SLURM_GPUS_PER_TASK_HET_GROUP_1", "1");
	refused("group 1 of this heterogeneous job requested its GPUs "
		"per task");
	set("SLURM_GPUS_PER_TASK_HET_GROUP_1", NULL);
	set("SLURM_TRES_PER_TASK_HET_GROUP_1", "cpu=2");
	taken();
	set("SLURM_TRES_PER_TASK_HET_GROUP_1", "cpu=2,gres/gpu=1");
	refused("(SLURM_TRES_PER_TASK_HET_GROUP_1)");
	set("SLURM_TRES_PER_TASK_HET_GROUP_1", NULL);
	set("SLURM_JOB_NUM_NODES_HET_GROUP_1", NULL);
	refused("SLURM_JOB_NUM_NODES_HET_GROUP_1 is '', where a number");
	set("SLURM_HET_SIZE", "many");
	refused("SLURM_HET_SIZE is 'many'");
	set("SLURM_HET_SIZE", "129");
	refused("SLURM_HET_SIZE is '129'");
}
END_TEST

START_TEST(a_step_of_several_groups_is_a_step)
{
	groups();
	step();
	taken();
	ck_assert_int_eq(a.place, ALLOCATION_STEP);
	ck_assert_uint_eq(a.nodes, 2);
	ck_assert_uint_eq(a.job_nodes, 3);
	ck_assert_str_eq(a.first, "n10");
}
END_TEST

START_TEST(task_0_is_in_the_first_group_that_the_step_has)
{
	struct hostlist l;

	hostlist_init(&l);
	ck_assert_int_eq(hostlist_parse(&l, SLICE_STR("n[09-11]"), &error), 0);
	groups();
	ck_assert_ptr_null(groups_first(get, 2, &l));
	set("SLURM_JOB_NODELIST_HET_GROUP_0", "n08");
	set("SLURM_JOB_NODELIST_HET_GROUP_1", "n[11,09,10]");
	ck_assert_str_eq(groups_first(get, 2, &l), "n11");
	set("SLURM_JOB_NODELIST_HET_GROUP_0", "n[08,10]");
	ck_assert_str_eq(groups_first(get, 2, &l), "n10");
	ck_assert_ptr_null(groups_first(get, 0, &l));
	set("SLURM_JOB_NODELIST_HET_GROUP_0", "n[");
	ck_assert_str_eq(groups_first(get, 2, &l), "n11");
	hostlist_release(&l);
}
END_TEST

/* The list of such a step is sorted, its SLURM_NODEIDs are not. */
START_TEST(ranks_follow_the_groups)
{
	static const char *const nodes[] = {"n11", "n09", "n10"};

	step();
	groups();
	set("SLURM_STEP_NUM_NODES", "3");
	set("SLURM_STEP_NUM_TASKS", "3");
	set("SLURM_STEP_NODELIST", "n[09-11]");
	set("SLURM_STEP_TASKS_PER_NODE", "1(x3)");
	set("SLURM_JOB_NODELIST", "n[09-11]");
	set("SLURM_JOB_NODELIST_HET_GROUP_0", "n11");
	set("SLURM_JOB_NODELIST_HET_GROUP_1", "n[09-10]");
	set("SLURM_JOB_CPUS_PER_NODE", NULL);
	set(ALLOCATION_TASKS, "2,1(x2)");
	for (unsigned i = 0; i < 3; i++) {
		set("SLURMD_NODENAME", nodes[i]);
		taken();
		ck_assert_uint_eq(a.node_rank, i);
		ck_assert_str_eq(a.first, "n11");
		ck_assert_str_eq(a.second, "n09");
		ck_assert_uint_eq(a.tasks, i ? 1 : 2);
	}
	/* without the groups' nodes, all tasks use the one list */
	set("SLURM_JOB_NODELIST_HET_GROUP_1", NULL);
	set("SLURMD_NODENAME", "n11");
	taken();
	ck_assert_uint_eq(a.node_rank, 2);
	ck_assert_str_eq(a.first, "n09");
	set("SLURM_JOB_NODELIST_HET_GROUP_1", "n[08-10]");
	refused("name 4 nodes, but the step has 3");
}
END_TEST

START_TEST(gpus_by_task_among_other_things)
{
	static const struct {
		const char *text;
		unsigned each;
	} rows[] = {
		{"cpu=2", 0}, {"cpu:2", 0}, {"gres/gpu=1", 4},
		{"cpu=2,gres/gpu:h100=2", 8}, {"gres/gpu:1,license/x=3", 4},
		{"gres:gpu:2", 8},
	};

	batch();
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		set("SLURM_TRES_PER_TASK", rows[i].text);
		taken();
		ck_assert_uint_eq(a.gpus_each, rows[i].each);
	}
	set("SLURM_TRES_PER_TASK", "gres/gpu");
	refused("SLURM_TRES_PER_TASK is");
}
END_TEST

START_TEST(several_tasks_on_a_node_get_a_remedy)
{
	step();
	set("SLURM_STEP_NUM_TASKS", "8");
	set("SLURM_STEP_TASKS_PER_NODE", "4(x2)");
	refused("srun starts 8 ddpruns on 2 nodes (4(x2))");
	refused("write srun --nodes=2 --ntasks=2 --ntasks-per-node=1 ddprun "
		"--nproc-per-node 4");
	ck_assert_ptr_null(strstr(error.text, "--gpus-per-task"));
	set("SLURM_GPUS_PER_TASK", "1");
	refused("--gpus-per-node instead of --gpus-per-task");
}
END_TEST

START_TEST(lists_of_64_k_nodes)
{
	step();
	set("SLURM_STEP_NODELIST", "rack[0-255]n[000-255]");
	set("SLURM_STEP_NUM_NODES", "65536");
	set("SLURM_STEP_NUM_TASKS", "65536");
	set("SLURM_JOB_NODELIST", "rack[0-255]n[000-255]");
	set("SLURM_JOB_CPUS_PER_NODE", "8(x65535),4");
	set("SLURM_NODEID", "65535");
	set("SLURMD_NODENAME", "rack255n255");
	taken();
	ck_assert_str_eq(a.first, "rack0n000");
	ck_assert_uint_eq(a.node_rank, 65535);
	ck_assert_uint_eq(a.cpus, 4);
}
END_TEST

START_TEST(an_allocation_without_a_step)
{
	batch();
	taken();
	ck_assert_int_eq(a.place, ALLOCATION_NO_STEP);
	ck_assert_str_eq(a.id, "slurm-12");
	ck_assert_uint_eq(a.nodes, 4);
	ck_assert_uint_eq(a.gpus_each, 0);
	/* asked for per task or in total: the step must ask per node */
	set("SLURM_GPUS_PER_TASK", "2");
	taken();
	ck_assert_uint_eq(a.gpus_each, 8);
	set("SLURM_TASKS_PER_NODE", "4(x3),3");
	refused("per task (--gpus-per-task), and its 4 nodes");
	set("SLURM_GPUS_PER_TASK", NULL);
	set("SLURM_GPUS", "a100:8");
	taken();
	ck_assert_uint_eq(a.gpus_each, 2);
	set("SLURM_GPUS", "7");
	refused("in total (--gpus)");
	set("SLURM_GPUS", NULL);
	set("SLURM_JOB_NUM_NODES", NULL);
	refused("SLURM_JOB_ID is set but SLURM_JOB_NUM_NODES is not");
}
END_TEST

/* ---- config ---- */

START_TEST(no_option_is_needed)
{
	char at[SOCK_TEXT_MAX], want[SOCK_TEXT_MAX];

	step();
	set("SLURM_GPUS_ON_NODE", "4");
	set("MASTER_ADDR", "localhost"); /* from a start-up file */
	parses("./a");
	ck_assert_uint_eq(config.min_nodes, 2);
	ck_assert_uint_eq(config.max_nodes, 2);
	ck_assert_int_eq((int)config.node_rank, 1);
	ck_assert_uint_eq(config.nproc, 4);
	ck_assert_str_eq(config.job, "slurm-12.3");
	snprintf(want, sizeof(want), "n10:%u", step_port(12, 3, 0));
	ck_assert_str_eq(endpoint_text(&config.endpoint, at), want);
	ck_assert_int_eq(config.nports, STEP_PORTS);
	ck_assert_int_eq(config.is_host, 0);
	set("SLURM_NODEID", "0");
	set("SLURMD_NODENAME", "n10");
	parses("./a");
	ck_assert_int_eq(config.is_host, 1);
}
END_TEST

START_TEST(given_options_stay)
{
	char at[SOCK_TEXT_MAX];

	step();
	parses("--nproc-per-node 3 --rdzv-id mine --node-rank 0 "
	       "--rdzv-endpoint n11:5 ./a");
	ck_assert_uint_eq(config.nproc, 3);
	ck_assert_str_eq(config.job, "mine");
	ck_assert_int_eq((int)config.node_rank, 0);
	ck_assert_str_eq(endpoint_text(&config.endpoint, at), "n11:5");
	ck_assert_int_eq(config.nports, 0);
	ck_assert_int_eq(config.is_host, -1);
	ck_assert_uint_eq(config.max_nodes, 2);
	parses("--master-port 7777 ./a");
	ck_assert_str_eq(endpoint_text(&config.endpoint, at), "n10:7777");
	ck_assert_int_eq(config.nports, 0);
	/* port 0: a port of the step's that is free */
	parses("--master-port 0 ./a");
	ck_assert_int_eq(config.nports, STEP_PORTS);
	ck_assert_uint_eq(config.endpoint.port, step_port(12, 3, 0));
	parses("--rdzv-endpoint n11:0 ./a");
	ck_assert_int_eq(config.nports, STEP_PORTS);
	ck_assert_str_eq(config.endpoint.host, "n11");
	ck_assert_uint_eq(config.endpoint.port, step_port(12, 3, 0));
	ck_assert_int_eq(config.is_host, -1);
	parses("--standalone ./a");
	ck_assert_uint_eq(config.max_nodes, 1);
	ck_assert_uint_eq(config.nproc, 1);
	ck_assert_int_eq(config.env.role, LAUNCH_BY_HAND);
}
END_TEST

START_TEST(workers_by_gpus_then_tasks_then_cpus)
{
	step();
	parses("./a");
	ck_assert_uint_eq(config.nproc, 72);
	ck_assert_str_eq(config.nproc_why, "by its CPUs");
	set(ALLOCATION_TASKS, "4(x4)");
	parses("./a");
	ck_assert_uint_eq(config.nproc, 4);
	ck_assert_str_eq(config.nproc_why, "by the job's tasks");
	set("SLURM_GPUS_ON_NODE", "8");
	parses("./a");
	ck_assert_uint_eq(config.nproc, 8);
	set("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7");
	parses("--gpus-per-proc 4 ./a");
	ck_assert_uint_eq(config.nproc, 2);
	parse_refused("--gpus-per-proc 16 ./a", "this node has 8 GPUs");
	set("CUDA_VISIBLE_DEVICES", "0");
	parses("./a");
	ck_assert_uint_eq(config.nproc, 1);
}
END_TEST

START_TEST(a_step_serves_a_job_of_other_nodes)
{
	step();
	parses("--nnodes 1:1 ./a");
	ck_assert_int_eq((int)config.node_rank, -1);
	parses("--nnodes 1:4 ./a");
	ck_assert_int_eq((int)config.node_rank, -1);
	ck_assert_int_eq(config.nports, STEP_PORTS);
	/* a loop of background sruns, one per node, that meet elsewhere */
	parses("--nnodes 4 --node-rank 3 --rdzv-endpoint n08:29400 ./a");
	ck_assert_uint_eq(config.max_nodes, 4);
	ck_assert_int_eq((int)config.node_rank, 3);
	ck_assert_str_eq(config.job, "none");
}
END_TEST

START_TEST(options_that_a_step_cannot_serve_are_errors)
{
	static const char *const rows[][2] = {
		{"--nnodes 3 ./a", "this Slurm step has 2 nodes"},
		{"--nnodes 3:4 ./a", "srun --nodes=N"},
		{"--nnodes 1 ./a", "--nnodes 1:1 to keep the others"},
		{"--requeue-on sunday ./a", "'sunday': give preempt"},
		{"--requeue-on preempt, ./a", "give preempt"},
		{"--requeue-on ,preempt ./a", "give preempt"},
		{"--requeue-on preempt,time ./a", "give preempt"},
		{"--requeue-on timeout --standalone ./a",
		 "with --standalone, ddprun does not use Slurm"},
	};

	step();
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		parse_refused(rows[i][0], rows[i][1]);
}
END_TEST

START_TEST(a_step_of_one_node_uses_a_private_server)
{
	step();
	set("SLURM_STEP_NUM_NODES", "1");
	set("SLURM_STEP_NUM_TASKS", "1");
	set("SLURM_STEP_NODELIST", "n11");
	set("SLURM_NODEID", "0");
	parses("./a");
	ck_assert_int_eq(config.private_endpoint, 1);
	ck_assert_int_eq(config.nports, 0);
	ck_assert_str_eq(config.job, "slurm-12.3");
}
END_TEST

START_TEST(a_process_outside_srun_is_left_alone)
{
	step();
	set("OMPI_COMM_WORLD_RANK", "0");
	set("OMPI_COMM_WORLD_SIZE", "1");
	parses("./a");
	ck_assert_uint_eq(config.max_nodes, 1);
	ck_assert_int_eq(config.private_endpoint, 1);
	set("OMPI_COMM_WORLD_SIZE", NULL);
	set("OMPI_COMM_WORLD_RANK", NULL);
	set("DDP_AGENT_ID", "f00"); /* a worker of ours */
	parses("./a");
	ck_assert_uint_eq(config.max_nodes, 1);
	set("DDP_AGENT_ID", NULL);
	set("PMI_RANK", "1");
	set("PMI_SIZE", "4");
	set("SLURM_PROCID", "0");
	set("PMI_FD", "100");
	parses("./a");
	ck_assert_uint_eq(config.max_nodes, 4);
	set("SLURM_PROCID", "1"); /* srun --mpi=pmi2 */
	parses("./a");
	ck_assert_uint_eq(config.max_nodes, 2);
}
END_TEST

START_TEST(end_time_and_restart_count_are_read)
{
	char text[ALLOCATION_RESTART_MAX];

	step();
	parses("./a");
	ck_assert_uint_eq(config.env.end_time, 0);
	ck_assert_str_eq(allocation_restart(&config.env.slurm, text), "");
	set("SLURM_JOB_END_TIME", "1795308790");
	set("SLURM_RESTART_COUNT", "2");
	parses("./a");
	ck_assert_uint_eq(config.env.end_time, 1795308790);
	ck_assert_str_eq(allocation_restart(&config.env.slurm, text),
			 " (restart 2)");
	set("SLURM_JOB_END_TIME", "soon");
	parse_refused("./a", "SLURM_JOB_END_TIME is 'soon', which is not a "
			     "time");
}
END_TEST

START_TEST(the_end_of_a_steps_time_is_found)
{
	step();
	parses("--shutdown-timeout 7 --requeue-on timeout,preempt ./a");
	ck_assert_int_eq(config.on_preempt, 1);
	ck_assert_int_eq(config.on_timeout, 1);
	ck_assert(config.stop_before_s == 7);
	ck_assert(signal_set_has(&config.warning, SIGUSR1));
	ck_assert(signal_set_has(&config.warning, SIGUSR2));
	/* the user's meaning of a signal wins */
	parses("--forward-signals USR1 --stop-before 0 ./a");
	ck_assert(!signal_set_has(&config.warning, SIGUSR1));
	ck_assert(config.stop_before_s == 0);
	ck_assert_int_eq(config.on_preempt + config.on_timeout, 0);
	clean();
	parse_refused("--requeue-on timeout ./a", "this is not a Slurm job");
	parses("./a");
	ck_assert(!signal_set_has(&config.warning, SIGUSR1));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("allocation");

	tcase_set_timeout(c, 20);
	tcase_add_checked_fixture(c, clean, NULL);
	tcase_add_test(c, where_a_process_is);
	tcase_add_test(c, outside_a_job_there_is_nothing_to_read);
	tcase_add_test(c, a_step_is_read_from_its_own_variables);
	tcase_add_test(c, ranks_follow_the_order_of_tasks);
	tcase_add_test(c,
		a_node_is_named_by_its_rank_where_the_list_has_their_order);
	tcase_add_test(c, cpus_are_the_steps_else_the_jobs_on_this_node);
	tcase_add_test(c, gpus_and_tasks_of_this_node);
	tcase_add_test(c, an_incomplete_or_wrong_step_is_an_error);
	tcase_add_test(c, groups_of_a_heterogeneous_job_are_added_up);
	tcase_add_test(c, a_step_of_several_groups_is_a_step);
	tcase_add_test(c, task_0_is_in_the_first_group_that_the_step_has);
	tcase_add_test(c, ranks_follow_the_groups);
	tcase_add_test(c, gpus_by_task_among_other_things);
	tcase_add_test(c, several_tasks_on_a_node_get_a_remedy);
	tcase_add_test(c, lists_of_64_k_nodes);
	tcase_add_test(c, an_allocation_without_a_step);
	tcase_add_test(c, no_option_is_needed);
	tcase_add_test(c, given_options_stay);
	tcase_add_test(c, workers_by_gpus_then_tasks_then_cpus);
	tcase_add_test(c, a_step_serves_a_job_of_other_nodes);
	tcase_add_test(c, options_that_a_step_cannot_serve_are_errors);
	tcase_add_test(c, end_time_and_restart_count_are_read);
	tcase_add_test(c, the_end_of_a_steps_time_is_found);
	tcase_add_test(c, a_step_of_one_node_uses_a_private_server);
	tcase_add_test(c, a_process_outside_srun_is_left_alone);
	return run_case(c);
}
