/* test_srun_exec.c: the srun command and its environment. */
#include "launcher/env/srun_exec.h"
#include "tests/unit/launcher/config/slurm_vars.h"
#include "tests/unit/run_case.h"

static void clean_step(void)
{
	const struct srun_exec_options o = config_srun_exec_options(&config);

	srun_exec_clean(&o);
}

static int add_secret(void)
{
	const struct srun_exec_options o = config_srun_exec_options(&config);

	return srun_exec_add_secret(&o, &error);
}

static int build(struct srun_exec *s, char *self)
{
	const struct srun_exec_options o = config_srun_exec_options(&config);

	return srun_exec_init(s, &o, self, words + 1, &error);
}

static const char *command(const char *text)
{
	static char out[1024];
	static char self[] = "/opt/my bin/ddprun";
	struct srun_exec s;
	struct buf b;

	ck_assert_msg(parse(text) == CONFIG_WANT_STEP, "'%s': %s", text,
		      error.text);
	ck_assert_int_eq(build(&s, self), 0);
	buf_init(&b, sizeof(out));
	srun_exec_put(&b, &s);
	ck_assert_str_eq(s.argv[0], "srun");
	snprintf(out, sizeof(out), "%.*s", (int)b.len, b.data);
	buf_release(&b);
	srun_exec_release(&s);
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

/* With an endpoint the user starts the nodes; with etcd the step does. */
START_TEST(etcd_is_asked_by_each_node_of_the_step)
{
	batch();
	has(command("--rdzv-backend etcd --rdzv-endpoint e1,e2 --rdzv-conf "
		    "ttl=5 ./a"),
	    "srun --nodes=4 --ntasks=4 ");
	has(command("--rdzv-backend etcd --rdzv-endpoint e1,e2 --rdzv-conf "
		    "ttl=5 ./a"),
	    "ddprun' --rdzv-backend etcd --rdzv-endpoint e1,e2 --rdzv-conf "
	    "'ttl=5' ./a");
	ck_assert_int_eq(parse("--rdzv-endpoint e1 ./a"), 0);
	ck_assert_int_eq(parse("--rdzv-backend etcd --rdzv-endpoint e1 "
			       "--journal f ./a"), ERR_USAGE);
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
		/* rank 0 may be on any of them */
		has(text, " --input=all ");
	}
}
END_TEST

START_TEST(errors_are_reported_before_srun_runs)
{
	batch();
	parse_refused("--nnodes 5 ./a", "this Slurm allocation has 4");
	parse_refused("--nnodes 5:6 ./a", "sbatch or salloc --nodes=N");
	parse_refused("--stdin x ./a", "--stdin 'x'");
	parse_refused("--signals-to-handle SIGFOO ./a", "SIGFOO");
	parse_refused("--rdzv-backend etcd ./a", "etcd");
	parse_refused("", "no program to run");
	/* the user starts each node by hand, or a job without Slurm */
	parses("--nnodes 2 --node-rank 0 --rdzv-endpoint n08:29400 ./a");
	parses("--standalone ./a");
	ck_assert_uint_eq(config.nproc, 1);
}
END_TEST

START_TEST(the_jobs_task_variables_do_not_reach_its_step)
{
	batch();
	set("SLURM_CPUS_PER_TASK", "2");
	set("SLURM_NTASKS", "16");
	set("SLURM_SUBMIT_DIR", "/home");
	ck_assert_int_eq(parse("./a"), CONFIG_WANT_STEP);
	clean_step();
	ck_assert_ptr_null(getenv("SLURM_NTASKS"));
	ck_assert_ptr_null(getenv("SLURM_CPUS_PER_TASK"));
	ck_assert_str_eq(getenv("SLURM_SUBMIT_DIR"), "/home");
	ck_assert_str_eq(getenv(ALLOCATION_TASKS), "4(x4)");
	/* the workers get the job's variables back, and none of ours */
	clean();
	step();
	set(ALLOCATION_TASKS, "4(x4)");
	set(ALLOCATION_CPUS_PER_TASK, "2");
	parses("./a");
	launch_env_restore(&config.env);
	ck_assert_str_eq(getenv("SLURM_CPUS_PER_TASK"), "2");
	ck_assert_ptr_null(getenv(ALLOCATION_TASKS));
	ck_assert_ptr_null(getenv(ALLOCATION_CPUS_PER_TASK));
}
END_TEST

START_TEST(awaited_nodes_have_the_names_that_slurm_gives_them)
{
	struct buf b;

	clean();
	step();
	parses("./a");
	buf_init(&b, 256);
	launch_env_name_nodes(&config.env, "node 0 (not connected), node 1 (h, "
					   "not connected), node 1, node 2",
			      &b);
	buf_put(&b, "", 1);
	ck_assert_str_eq(b.data, "node 0 (n10, not connected), node 1 (h, not "
				 "connected), node 1 (n11), node 2");
	buf_release(&b);
}
END_TEST

START_TEST(a_step_of_all_groups)
{
	groups();
	has(command("./a"), "srun --het-group=0-1 --ntasks-per-node=1 "
			    "--overlap ");
	has(command("--nnodes 2:2 ./a"), " --wait=0 --no-kill ");
	parse_refused("--nnodes 2 ./a", "has 3 nodes in 2 groups");
	parse_refused("--nnodes 4 ./a", "this Slurm allocation has 3");
	set("SLURM_NTASKS_HET_GROUP_1", "2");
	ck_assert_int_eq(parse("./a"), CONFIG_WANT_STEP);
	clean_step();
	ck_assert_ptr_null(getenv("SLURM_NTASKS_HET_GROUP_1"));
	ck_assert_str_eq(getenv("SLURM_JOB_NUM_NODES_HET_GROUP_1"), "2");
	ck_assert_str_eq(getenv(ALLOCATION_TASKS), "2,1(x2)");
}
END_TEST

START_TEST(a_word_that_srun_would_take)
{
	static char self[] = "/opt/ddprun";
	struct srun_exec s;

	batch();
	ck_assert_int_eq(parse("./a : b"), CONFIG_WANT_STEP);
	ck_assert_int_eq(build(&s, self), ERR_USAGE);
	has(error.text, "srun takes the word ':'");
}
END_TEST

START_TEST(a_secret_reaches_the_ddpruns_of_the_step_and_no_worker)
{
	struct auth handed = {0};
	char hex[PROOF_HEX_SIZE], *first;

	/* no munge, whatever this machine has */
	setenv("DDP_MUNGE_SOCKET", "/nowhere", 1);
	batch();
	ck_assert_int_eq(parse("./a"), CONFIG_WANT_STEP);
	ck_assert_int_eq(add_secret(), 0);
	first = getenv("DDP_SLURM_SECRET");
	ck_assert_ptr_nonnull(first);
	snprintf(hex, sizeof(hex), "%s", first);
	ck_assert_uint_eq(strlen(hex), PROOF_HEX_SIZE - 1);
	ck_assert_int_eq(launch_env_take_auth(&handed, &error), 0);
	ck_assert_uint_eq(handed.methods, WIRE_BY_SECRET);
	ck_assert_int_eq(handed.handed, 1);
	ck_assert_ptr_null(getenv("DDP_SLURM_SECRET"));
	/* also wiped in /proc/PID/environ */
	ck_assert_int_eq(*first, '\0');
	/* another step has another secret, and its ddpruns use it */
	ck_assert_int_eq(add_secret(), 0);
	ck_assert_str_ne(getenv("DDP_SLURM_SECRET"), hex);
	clean();
	setenv("DDP_SLURM_SECRET", hex, 1);
	step();
	parses("./a");
	ck_assert_mem_eq(&config.handed.secret, &handed.secret, PROOF_SIZE);
	setenv("DDP_SLURM_SECRET", "x", 1);
	parse_refused("./a", "DDP_SLURM_SECRET is not 64 hex digits");
	ck_assert_ptr_null(getenv("DDP_SLURM_SECRET"));
}
END_TEST

START_TEST(no_secret_is_added_if_the_user_has_chosen_the_proof)
{
	static const char *const lines[] = {
		"--auth secret ./a", "--auth none ./a", "--token-file f ./a",
		"--rdzv-backend etcd --rdzv-endpoint e1 ./a",
	};

	setenv("DDP_MUNGE_SOCKET", "/nowhere", 1);
	batch();
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		ck_assert_int_eq(parse(lines[i]), CONFIG_WANT_STEP);
		ck_assert_int_eq(add_secret(), 0);
		ck_assert_msg(!getenv("DDP_SLURM_SECRET"), "%s", lines[i]);
	}
	setenv("DDP_TOKEN", "0123456789abcdef", 1);
	ck_assert_int_eq(parse("./a"), CONFIG_WANT_STEP);
	ck_assert_int_eq(add_secret(), 0);
	ck_assert_ptr_null(getenv("DDP_SLURM_SECRET"));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("srun_exec");

	tcase_set_timeout(c, 20);
	tcase_add_checked_fixture(c, clean, NULL);
	tcase_add_test(c, a_task_a_node_with_all_of_it);
	tcase_add_test(c, some_of_the_nodes_are_its_own);
	tcase_add_test(c, etcd_is_asked_by_each_node_of_the_step);
	tcase_add_test(c, spares_and_elastic_outlive_a_node);
	tcase_add_test(c, errors_are_reported_before_srun_runs);
	tcase_add_test(c, the_jobs_task_variables_do_not_reach_its_step);
	tcase_add_test(c,
		awaited_nodes_have_the_names_that_slurm_gives_them);
	tcase_add_test(c, a_step_of_all_groups);
	tcase_add_test(c, a_word_that_srun_would_take);
	tcase_add_test(c,
		a_secret_reaches_the_ddpruns_of_the_step_and_no_worker);
	tcase_add_test(c, no_secret_is_added_if_the_user_has_chosen_the_proof);
	return run_case(c);
}
