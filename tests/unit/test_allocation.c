/* test_allocation.c: what is concluded from Slurm's variables, and what is
 * asked of srun. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/inferred.h"
#include "launcher/step_command.h"
#include "slurm/allocation.h"
#include "tests/unit/run_case.h"

enum { VARS_MAX = 40 };

static struct {
	const char *name, *value;
} vars[VARS_MAX];
static int nvars;
static struct allocation a;
static struct err error;

static void set(const char *name, const char *value)
{
	int i = 0;

	while (i < nvars && strcmp(vars[i].name, name))
		i++;
	ck_assert_int_lt(i, VARS_MAX);
	vars[i].name = name;
	vars[i].value = value;
	nvars = i < nvars ? nvars : i + 1;
}

static const char *get(const char *name)
{
	for (int i = 0; i < nvars; i++)
		if (!strcmp(vars[i].name, name))
			return vars[i].value;
	return NULL;
}

static void start(void)
{
	nvars = 0;
	error = (struct err)ERR_INIT;
}

/* As srun 22.05 sets them: step 3 of job 12, on two nodes of the job's four. */
static void step(void)
{
	set("SLURM_JOB_ID", "12");
	set("SLURM_JOB_NUM_NODES", "4");
	set("SLURM_JOB_NODELIST", "n[08-11]");
	set("SLURM_JOB_CPUS_PER_NODE", "4(x2),2,72");
	set("SLURM_STEP_ID", "3");
	set("SLURM_STEP_NUM_NODES", "2");
	set("SLURM_STEP_NUM_TASKS", "2");
	set("SLURM_STEP_NODELIST", "n[10-11]");
	set("SLURM_STEP_TASKS_PER_NODE", "1(x2)");
	set("SLURM_NODEID", "1");
	set("SLURMD_NODENAME", "n11");
}

static void batch(void)
{
	set("SLURM_JOB_ID", "12");
	set("SLURM_JOB_NUM_NODES", "4");
	set("SLURM_JOB_NODELIST", "n[08-11]");
	set("SLURM_TASKS_PER_NODE", "4(x4)");
	/* a batch script has these too */
	set("SLURM_PROCID", "0");
	set("SLURM_NODEID", "0");
}

static void taken(void)
{
	ck_assert_msg(allocation_read(&a, get, &error) == 0, "%s", error.text);
}

static void refused(const char *part)
{
	ck_assert_int_eq(allocation_read(&a, get, &error), ERR_USAGE);
	ck_assert_msg(strstr(error.text, part) != NULL, "%s", error.text);
	ck_assert_ptr_null(strchr(error.text, '\n'));
}

START_TEST(where_a_process_is)
{
	ck_assert_int_eq(allocation_place(get), ALLOCATION_NONE);
	taken();
	ck_assert_int_eq(a.place, ALLOCATION_NONE);
	set("SLURM_JOB_ID", "12");
	ck_assert_int_eq(allocation_place(get), ALLOCATION_NO_STEP);
	set("SLURM_STEP_ID", "");
	ck_assert_int_eq(allocation_place(get), ALLOCATION_NO_STEP);
	set("SLURM_STEP_ID", "0");
	ck_assert_int_eq(allocation_place(get), ALLOCATION_STEP);
	/* the batch script's, and salloc's interactive step */
	set("SLURM_STEP_ID", "4294967291");
	ck_assert_int_eq(allocation_place(get), ALLOCATION_NO_STEP);
	set("SLURM_STEP_ID", "4294967290");
	ck_assert_int_eq(allocation_place(get), ALLOCATION_NO_STEP);
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
	set("SLURM_CPUS_ON_NODE", NULL);
	set("SLURMD_NODENAME", "n12");
	refused("SLURM_JOB_NODELIST does not name this node, which is n12");
	set("SLURMD_NODENAME", "n11");
	set("SLURM_JOB_CPUS_PER_NODE", "4(x3)");
	refused("SLURM_JOB_CPUS_PER_NODE is '4(x3)': it has fewer nodes");
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
	set("SLURM_GPUS_ON_NODE", "many");
	refused("SLURM_GPUS_ON_NODE is 'many'");
}
END_TEST

START_TEST(half_of_a_step_is_an_error)
{
	static const char *const names[] = {
		"SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS",
		"SLURM_STEP_NODELIST", "SLURM_NODEID",
	};
	const char *before;
	char text[80];

	step();
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		before = get(names[i]);
		set(names[i], NULL);
		snprintf(text, sizeof(text), "SLURM_STEP_ID is set but %s is "
			 "not", names[i]);
		refused(text);
		set(names[i], before);
	}
	set("SLURM_NODEID", "2");
	refused("SLURM_NODEID is 2 but SLURM_STEP_NUM_NODES is 2");
	set("SLURM_NODEID", "-1");
	refused("SLURM_NODEID is '-1'");
	set("SLURM_NODEID", "1");
	set("SLURM_STEP_NODELIST", "n[10-12]");
	refused("SLURM_STEP_NODELIST names 3 nodes but");
	set("SLURM_STEP_NODELIST", "n[10-");
	refused("SLURM_STEP_NODELIST: host list \"n[10-\"");
	set("SLURM_STEP_NODELIST", "n[10-11]");
	set("SLURM_HET_SIZE", "2");
	refused("heterogeneous, of 2 groups");
}
END_TEST

START_TEST(several_tasks_on_a_node_are_told_what_to_write)
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
	/* asked for by task or in all: the step must ask by node */
	set("SLURM_GPUS_PER_TASK", "2");
	taken();
	ck_assert_uint_eq(a.gpus_each, 8);
	set("SLURM_TASKS_PER_NODE", "4(x3),3");
	refused("by task (--gpus-per-task), and its 4 nodes");
	set("SLURM_GPUS_PER_TASK", NULL);
	set("SLURM_GPUS", "a100:8");
	taken();
	ck_assert_uint_eq(a.gpus_each, 2);
	set("SLURM_GPUS", "7");
	refused("by their number (--gpus)");
	set("SLURM_GPUS", NULL);
	set("SLURM_JOB_NUM_NODES", NULL);
	refused("SLURM_JOB_ID is set but SLURM_JOB_NUM_NODES is not");
}
END_TEST

/* ---- what config makes of it ---- */

static struct config config;
static char line[256];
static char *words[16];

static int parse(const char *text)
{
	int n = 0;

	snprintf(line, sizeof(line), "ddprun %s", text);
	for (char *w = strtok(line, " "); w; w = strtok(NULL, " "))
		words[n++] = w;
	words[n] = NULL;
	for (int i = 0; i < nvars; i++) {
		if (vars[i].value)
			setenv(vars[i].name, vars[i].value, 1);
		else
			unsetenv(vars[i].name);
	}
	return config_parse(&config, n, words, &error);
}

static void parses(const char *text)
{
	ck_assert_msg(parse(text) == 0, "'%s': %s", text, error.text);
}

static void parse_refused(const char *text, const char *part)
{
	ck_assert_msg(parse(text) == ERR_USAGE, "'%s' was taken", text);
	ck_assert_msg(strstr(error.text, part), "'%s': %s", text, error.text);
}

static void clean(void)
{
	extern char **environ;
	char name[64];

	start();
	for (int i = 0; environ[i];) {
		snprintf(name, sizeof(name), "%.*s",
			 (int)strcspn(environ[i], "="), environ[i]);
		if (strncmp(name, "SLURM", 5) && strncmp(name, "PET_", 4) &&
		    strncmp(name, "MASTER_", 7) && strncmp(name, "DDP_", 4) &&
		    strncmp(name, "CUDA_", 5) && strncmp(name, "OMPI_", 5) &&
		    strncmp(name, "PMI_", 4))
			i++;
		else
			unsetenv(name);
	}
}

START_TEST(nothing_has_to_be_said)
{
	char at[SOCK_TEXT_MAX], want[SOCK_TEXT_MAX];

	step();
	set("SLURM_GPUS_ON_NODE", "4");
	set("MASTER_ADDR", "localhost"); /* of a start-up file */
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
	parses("./a");
	ck_assert_int_eq(config.is_host, 1);
}
END_TEST

START_TEST(what_is_given_stays)
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
	parses("--standalone ./a");
	ck_assert_uint_eq(config.max_nodes, 1);
	ck_assert_uint_eq(config.nproc, 1);
	ck_assert_int_eq(config.slurm.place, ALLOCATION_NONE);
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

START_TEST(nodes_that_the_step_cannot_give)
{
	step();
	parse_refused("--nnodes 3 ./a", "this step of Slurm's has 2 nodes");
	parse_refused("--nnodes 3:4 ./a", "srun --nodes=N");
	parse_refused("--nnodes 1 ./a", "--nnodes 1:1 to keep the others");
	parses("--nnodes 1:1 ./a");
	ck_assert_int_eq((int)config.node_rank, -1);
	parses("--nnodes 1:4 ./a");
	ck_assert_int_eq((int)config.node_rank, -1);
	ck_assert_int_eq(config.nports, STEP_PORTS);
	/* a loop of background sruns, a node each, that meet elsewhere */
	parses("--nnodes 4 --node-rank 3 --rdzv-endpoint n08:29400 ./a");
	ck_assert_uint_eq(config.max_nodes, 4);
	ck_assert_int_eq((int)config.node_rank, 3);
	ck_assert_str_eq(config.job, "none");
}
END_TEST

START_TEST(one_node_meets_nobody)
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

START_TEST(who_is_no_task_of_sruns_is_left_alone)
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

/* ---- the step that ddprun starts ---- */

static const char *command(const char *text)
{
	static char out[1024];
	static char self[] = "/opt/my bin/ddprun";
	struct step_command s;
	struct buf b;

	ck_assert_msg(parse(text) == CONFIG_WANT_STEP, "'%s': %s", text,
		      error.text);
	ck_assert_int_eq(step_command_init(&s, &config, self, words + 1,
					   &error), 0);
	buf_init(&b, sizeof(out));
	step_command_put(&b, &s);
	ck_assert_str_eq(s.argv[0], "srun");
	snprintf(out, sizeof(out), "%.*s", (int)b.len, b.data);
	buf_release(&b);
	step_command_release(&s);
	return out;
}

static void has(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part) != NULL, "no '%s' in: %s", part, text);
}

static void has_not(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part) == NULL, "'%s' in: %s", part, text);
}

START_TEST(a_task_a_node_with_all_of_it)
{
	const char *text;

	batch();
	text = command("--role x'y ./a --nnodes 9");
	has(text, "srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --overlap "
		  "--cpu-bind=none --mem=0 ");
	has(text, " --kill-on-bad-exit=1 '/opt/my bin/ddprun' --role "
		  "'x'\\''y' ./a --nnodes 9");
	has(text, " --input=0 ");
	has_not(text, "--no-kill");
	has_not(text, "--gpus-per-node");
	set("SLURM_GPUS_PER_TASK", "1");
	has(command("./a"), " --gpus-per-node=4 ");
}
END_TEST

START_TEST(some_of_the_nodes_are_its_own)
{
	const char *text;

	batch();
	text = command("--nnodes 2 --stdin none ./a");
	has(text, "srun --nodes=2 --ntasks=2 ");
	has_not(text, "--overlap");
	has(text, " --input=none ");
	has(command("--stdin all ./a"), " --input=all ");
	has(command("--stdin 1 ./a"), " --input=all ");
}
END_TEST

START_TEST(spares_and_elastic_outlive_a_node)
{
	static const char *const rows[] = {"--nnodes 2:4 ./a", "--nnodes 3:3 a",
					   "--nnodes 1:9 ./a"};

	batch();
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *text = command(rows[i]);

		has(text, "srun --nodes=4 ");
		has(text, " --no-kill --kill-on-bad-exit=0 ");
	}
}
END_TEST

START_TEST(what_is_wrong_is_said_before_srun_is_run)
{
	batch();
	parse_refused("--nnodes 5 ./a", "this allocation of Slurm's has 4");
	parse_refused("--nnodes 5:6 ./a", "sbatch or salloc --nodes=N");
	parse_refused("--stdin x ./a", "--stdin 'x'");
	parse_refused("--signals-to-handle SIGFOO ./a", "SIGFOO");
	parse_refused("--rdzv-backend etcd ./a", "etcd");
	parse_refused("", "no program to run");
	/* one command a node, by hand; and nothing of Slurm's */
	parses("--nnodes 2 --node-rank 0 --rdzv-endpoint n08:29400 ./a");
	parses("--standalone ./a");
	ck_assert_uint_eq(config.nproc, 1);
}
END_TEST

START_TEST(the_jobs_words_about_tasks_are_not_the_steps)
{
	batch();
	set("SLURM_CPUS_PER_TASK", "2");
	set("SLURM_NTASKS", "16");
	set("SLURM_SUBMIT_DIR", "/home");
	ck_assert_int_eq(parse("./a"), CONFIG_WANT_STEP);
	step_command_clean();
	ck_assert_ptr_null(getenv("SLURM_NTASKS"));
	ck_assert_ptr_null(getenv("SLURM_CPUS_PER_TASK"));
	ck_assert_str_eq(getenv("SLURM_SUBMIT_DIR"), "/home");
	ck_assert_str_eq(getenv(ALLOCATION_TASKS), "4(x4)");
	/* the workers get theirs back, and see nothing of ours */
	clean();
	step();
	set(ALLOCATION_TASKS, "4(x4)");
	set(ALLOCATION_CPUS_PER_TASK, "2");
	parses("./a");
	inferred_restore(&config);
	ck_assert_str_eq(getenv("SLURM_CPUS_PER_TASK"), "2");
	ck_assert_ptr_null(getenv(ALLOCATION_TASKS));
	ck_assert_ptr_null(getenv(ALLOCATION_CPUS_PER_TASK));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("allocation");

	tcase_set_timeout(c, 20);
	tcase_add_checked_fixture(c, clean, NULL);
	tcase_add_test(c, where_a_process_is);
	tcase_add_test(c, a_step_is_read_from_its_own_variables);
	tcase_add_test(c, cpus_are_the_steps_else_the_jobs_on_this_node);
	tcase_add_test(c, gpus_and_tasks_of_this_node);
	tcase_add_test(c, half_of_a_step_is_an_error);
	tcase_add_test(c, several_tasks_on_a_node_are_told_what_to_write);
	tcase_add_test(c, lists_of_64_k_nodes);
	tcase_add_test(c, an_allocation_without_a_step);
	tcase_add_test(c, nothing_has_to_be_said);
	tcase_add_test(c, what_is_given_stays);
	tcase_add_test(c, workers_by_gpus_then_tasks_then_cpus);
	tcase_add_test(c, nodes_that_the_step_cannot_give);
	tcase_add_test(c, one_node_meets_nobody);
	tcase_add_test(c, who_is_no_task_of_sruns_is_left_alone);
	tcase_add_test(c, a_task_a_node_with_all_of_it);
	tcase_add_test(c, some_of_the_nodes_are_its_own);
	tcase_add_test(c, spares_and_elastic_outlive_a_node);
	tcase_add_test(c, what_is_wrong_is_said_before_srun_is_run);
	tcase_add_test(c, the_jobs_words_about_tasks_are_not_the_steps);
	return run_case(c);
}
