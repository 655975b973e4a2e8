/* test_framework.c: the variables of --env, and those of other frameworks'
 * jobs. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/plan/environment.h"
#include "launcher/plan/framework.h"
#include "tests/unit/run_case.h"

#define PEERS "10.0.0.1:7,10.0.0.1:8,[fd77::2]:9"

static const struct environment_job job = {
	.job = "j",
	.agent_id = "0011",
	.master_addr = "h1",
	.rdzv = "h1:29400",
	.node_addr = "10.0.0.2",
	.role = "trainer",
	.signals = "SIGTERM",
	.round = 4,
	.node_rank = 1,
	.nnodes = 2,
	.nproc = 2,
	.world_size = 3,
	.master_port = 4242,
	.coordinator_port = 4243,
	.agent_store = 1,
	.peers = PEERS,
};

static struct environment env;

/* The value of a variable, NULL if it is not there; it is there only once. */
static const char *value(const char *name)
{
	const char *found = NULL;
	size_t len = strlen(name);

	for (char **v = env.vars; *v; v++) {
		if (strncmp(*v, name, len) == 0 && (*v)[len] == '=') {
			ck_assert_msg(!found, "%s twice", name);
			found = *v + len + 1;
		}
	}
	return found;
}

static void make(unsigned set, char **base)
{
	struct environment_job j = job;

	j.frameworks = set;
	ck_assert_int_eq(environment_init(&env, base, &j, NULL), 0);
	environment_set_rank(&env, 2, 1);
}

static char *nothing[] = {NULL};

START_TEST(names_are_parsed_and_others_refused)
{
	static const struct {
		const char *text;
		int rc;
		unsigned set;
	} rows[] = {
		{NULL, 0, 0},
		{"jax", 0, FRAMEWORK_JAX},
		{"paddle,tf", 0, FRAMEWORK_TF | FRAMEWORK_PADDLE},
		{"jax,tf,paddle,jax", 0, 7},
		{"", ERR_USAGE, 0},
		{"jax,", ERR_USAGE, FRAMEWORK_JAX},
		{"jaxx", ERR_USAGE, 0},
		{"ja", ERR_USAGE, 0},
		{"JAX", ERR_USAGE, 0},
	};
	struct err e = ERR_INIT;
	unsigned set;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		ck_assert_int_eq(framework_parse(rows[i].text, &set, &e),
				 rows[i].rc);
		ck_assert_uint_eq(set, rows[i].set);
	}
	framework_parse("jax,torch", &set, &e);
	ck_assert_str_eq(e.text, "--env 'torch': give jax, tf or paddle, or "
				 "several with commas");
}
END_TEST

START_TEST(without_the_option_nothing_is_set)
{
	char *base[] = {(char *)"SLURM_PROCID=7", NULL};

	make(0, base);
	ck_assert_str_eq(value("SLURM_PROCID"), "7");
	ck_assert_ptr_null(value("SLURM_NTASKS"));
	ck_assert_ptr_null(value("TF_CONFIG"));
	ck_assert_ptr_null(value("PADDLE_TRAINER_ID"));
	ck_assert_str_eq(value("MASTER_PORT"), "4242");
	ck_assert_str_eq(value("TORCHELASTIC_USE_AGENT_STORE"), "True");
	environment_release(&env);
}
END_TEST

START_TEST(jax_reads_its_place_as_that_of_a_slurm_task)
{
	char *base[] = {(char *)"SLURM_PROCID=7",
			(char *)"SLURM_NTASKS=1",
			(char *)"SLURM_LOCALID=5",
			(char *)"SLURM_JOB_ID=99",
			(char *)"SLURM_STEP_NODELIST=n[1-2]",
			NULL};

	make(FRAMEWORK_JAX, nothing);
	ck_assert_str_eq(value("SLURM_JOB_ID"), "4"); /* the round */
	ck_assert_ptr_null(value("JAX_LOCAL_DEVICE_IDS"));
	ck_assert_ptr_null(value("JAX_ENABLE_PREEMPTION_SERVICE"));
	environment_release(&env);
	make(FRAMEWORK_JAX, base);
	ck_assert_str_eq(value("SLURM_JOB_ID"), "99");
	ck_assert_str_eq(value("SLURM_STEP_NODELIST"), "h1");
	ck_assert_str_eq(value("SLURM_NTASKS"), "3");
	ck_assert_str_eq(value("SLURM_PROCID"), "2");
	ck_assert_str_eq(value("SLURM_LOCALID"), "1");
	ck_assert_str_eq(value("JAX_COORDINATOR_PORT"), "4243");
	ck_assert_str_eq(value("MASTER_PORT"), "4242");
	environment_release(&env);
}
END_TEST

START_TEST(jax_takes_all_GPUs_that_a_worker_sees)
{
	struct environment_job j = job;
	char *base[] = {(char *)"JAX_LOCAL_DEVICE_IDS=1",
			(char *)"JAX_ENABLE_PREEMPTION_SERVICE=true", NULL};

	j.frameworks = FRAMEWORK_JAX;
	j.worker_gpus = 3;
	j.max_restarts = 1;
	j.virtual_local_rank = 1;
	ck_assert_int_eq(environment_init(&env, nothing, &j, NULL), 0);
	environment_set_rank(&env, 2, 1);
	ck_assert_str_eq(value("JAX_LOCAL_DEVICE_IDS"), "0,1,2");
	ck_assert_str_eq(value("JAX_ENABLE_PREEMPTION_SERVICE"), "false");
	ck_assert_str_eq(value("SLURM_LOCALID"), "0"); /* as LOCAL_RANK */
	environment_release(&env);
	ck_assert_int_eq(environment_init(&env, base, &j, NULL), 0);
	ck_assert_str_eq(value("JAX_LOCAL_DEVICE_IDS"), "1");
	ck_assert_str_eq(value("JAX_ENABLE_PREEMPTION_SERVICE"), "true");
	environment_release(&env);
}
END_TEST

START_TEST(tensorflow_gets_a_cluster_and_an_index)
{
	char *base[] = {(char *)"TF_CONFIG=old", NULL};

	make(FRAMEWORK_TF, base);
	ck_assert_str_eq(value("TF_CONFIG"),
			 "{\"cluster\":{\"worker\":[\"10.0.0.1:7\","
			 "\"10.0.0.1:8\",\"[fd77::2]:9\"]},"
			 "\"task\":{\"type\":\"worker\",\"index\":2}}");
	environment_set_rank(&env, 65535, 1);
	ck_assert_ptr_nonnull(strstr(value("TF_CONFIG"), "\"index\":65535}}"));
	environment_set_rank(&env, 0, 1);
	ck_assert_ptr_nonnull(strstr(value("TF_CONFIG"), "\"index\":0}}"));
	environment_release(&env);
}
END_TEST

START_TEST(paddle_gets_its_variables_and_its_own_port)
{
	char *base[] = {(char *)"PADDLE_TRAINER_ID=9",
			(char *)"PADDLE_TRAINER_ENDPOINTS=old", NULL};
	char *backend[] = {(char *)"PADDLE_DISTRI_BACKEND=auto", NULL};
	struct environment_job j = job;

	make(FRAMEWORK_PADDLE, base);
	ck_assert_str_eq(value("PADDLE_TRAINER_ID"), "2");
	ck_assert_str_eq(value("PADDLE_TRAINERS_NUM"), "3");
	ck_assert_str_eq(value("PADDLE_TRAINER_ENDPOINTS"), PEERS);
	ck_assert_str_eq(value("PADDLE_CURRENT_ENDPOINT"), "[fd77::2]:9");
	ck_assert_str_eq(value("PADDLE_RANK_IN_NODE"), "1");
	ck_assert_str_eq(value("PADDLE_LOCAL_SIZE"), "2");
	ck_assert_str_eq(value("PADDLE_DISTRI_BACKEND"), "gloo");
	ck_assert_str_eq(value("MASTER_PORT"), "4243");
	ck_assert_str_eq(value("TORCHELASTIC_USE_AGENT_STORE"), "False");
	environment_set_rank(&env, 1, 0);
	ck_assert_str_eq(value("PADDLE_CURRENT_ENDPOINT"), "10.0.0.1:8");
	environment_release(&env);
	make(FRAMEWORK_PADDLE, backend);
	ck_assert_str_eq(value("PADDLE_DISTRI_BACKEND"), "auto");
	environment_release(&env);
	j.frameworks = FRAMEWORK_PADDLE;
	j.has_gpus = 1;
	ck_assert_int_eq(environment_init(&env, nothing, &j, NULL), 0);
	ck_assert_ptr_null(value("PADDLE_DISTRI_BACKEND"));
	environment_release(&env);
}
END_TEST

/* n addresses of 21 bytes, the longest that IPv4 has, with commas. */
static char *many_peers(uint32_t n)
{
	char *text = malloc((size_t)n * 22 + 1), *to = text;

	ck_assert_ptr_nonnull(text);
	for (uint32_t i = 0; i < n; i++)
		to += sprintf(to, "%s100.100.100.100:40000", i ? "," : "");
	return text;
}

START_TEST(a_variable_longer_than_Linux_takes_is_refused)
{
	static const struct {
		unsigned set;
		uint32_t n;
		int rc;
	} rows[] = {
		{FRAMEWORK_TF, 4000, 0},
		{FRAMEWORK_TF, 6000, ERR_USAGE},
		{FRAMEWORK_PADDLE, 5900, 0},
		{FRAMEWORK_PADDLE, 6000, ERR_USAGE},
		{FRAMEWORK_JAX, 60000, 0},
	};
	struct environment_job j = job;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char *peers = many_peers(rows[i].n);
		int rc;

		j.peers = peers;
		j.frameworks = rows[i].set;
		j.world_size = rows[i].n;
		rc = environment_init(&env, nothing, &j, &e);
		ck_assert_int_eq(rc, rows[i].rc);
		if (rc == 0) {
			environment_set_rank(&env, rows[i].n - 1, 0);
			for (char **v = env.vars; *v; v++)
				ck_assert_uint_lt(strlen(*v), 128 << 10);
			environment_release(&env);
		}
		free(peers);
	}
	ck_assert_ptr_nonnull(strstr(e.text, "6000 workers has "));
	ck_assert_ptr_nonnull(strstr(e.text, "use fewer workers"));
}
END_TEST

START_TEST(a_dry_run_names_what_it_does_not_know)
{
	const char *names[FRAMEWORK_LATER_MAX];

	ck_assert_int_eq(framework_later(0, 0, 0, names), 0);
	ck_assert_int_eq(framework_later(FRAMEWORK_JAX, 1, 1, names), 1);
	ck_assert_str_eq(names[0], "SLURM_STEP_NODELIST");
	ck_assert_int_eq(framework_later(FRAMEWORK_JAX, 0, 0, names), 4);
	ck_assert_int_eq(framework_later(FRAMEWORK_TF, 1, 0, names), 1);
	ck_assert_str_eq(names[0], "TF_CONFIG");
	ck_assert_int_le(framework_later(7, 0, 0, names), FRAMEWORK_LATER_MAX);
}
END_TEST

/* ---- other_world ---- */

static char room[OTHER_WORLD_TEXT_MAX];

START_TEST(only_a_node_with_one_worker_passes_a_place_on)
{
	static const struct {
		const char *var;
		uint32_t nproc;
		int want;
	} rows[] = {
		{"TF_CONFIG={}", 2, 1},
		{"TF_CONFIG={}", 1, 0},
		{"TF_CONFIGS={}", 2, 0},
		{"PADDLE_TRAINER_ID=0", 8, 1},
		{"PADDLE_OTHER=0", 8, 0},
		{"HOROVOD_GLOO_RENDEZVOUS_ADDR=h", 2, 1},
		{"HOROVOD_FUSION_THRESHOLD=1", 2, 0},
		{"", 2, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_int_eq(other_world_is_hidden(rows[i].var,
						       rows[i].nproc),
				 rows[i].want);
}
END_TEST

START_TEST(variables_of_another_world_are_reported)
{
	char *two[] = {(char *)"A=1", (char *)"TF_CONFIG={}",
		       (char *)"PADDLE_TRAINER_ID=0", NULL};
	char *none[] = {(char *)"A=1", NULL};

	ck_assert_str_eq(other_world_text(two, 0, 4, 8, room),
			 "TF_CONFIG, PADDLE_TRAINER_ID are not passed on to "
			 "the workers: all 4 of this node would take the same "
			 "place in another job; let each worker set its own "
			 "(docs/environment.txt)");
	ck_assert_str_eq(other_world_text(&two[2], 0, 1, 8, room),
			 "PADDLE_TRAINER_ID is passed on to the workers, "
			 "because this node has only one: unset it if it is of "
			 "another job (docs/environment.txt)");
	ck_assert_ptr_null(other_world_text(none, 0, 4, 8, room));
	ck_assert_ptr_null(other_world_text(two, 0, 1, 1, room));
	ck_assert_ptr_null(other_world_text(
		two, FRAMEWORK_TF | FRAMEWORK_PADDLE, 4, 8, room));
}
END_TEST

/* A list that is too long is cut off; the sentence after it is not. */
START_TEST(many_names_leave_room_for_the_sentence)
{
	static char vars[40][64];
	char *list[41] = {NULL};

	for (int i = 0; i < 40; i++) {
		snprintf(vars[i], sizeof(vars[i]), "HOROVOD_GLOO_%040d=x", i);
		list[i] = vars[i];
	}
	ck_assert_ptr_nonnull(other_world_text(list, 0, 100, 200, room));
	ck_assert_uint_lt(strlen(room), sizeof(room));
	ck_assert_ptr_nonnull(strstr(room, "(docs/environment.txt)"));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("framework");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, names_are_parsed_and_others_refused);
	tcase_add_test(c, without_the_option_nothing_is_set);
	tcase_add_test(c, jax_reads_its_place_as_that_of_a_slurm_task);
	tcase_add_test(c, jax_takes_all_GPUs_that_a_worker_sees);
	tcase_add_test(c, tensorflow_gets_a_cluster_and_an_index);
	tcase_add_test(c, paddle_gets_its_variables_and_its_own_port);
	tcase_add_test(c, a_variable_longer_than_Linux_takes_is_refused);
	tcase_add_test(c, a_dry_run_names_what_it_does_not_know);
	tcase_add_test(c, only_a_node_with_one_worker_passes_a_place_on);
	tcase_add_test(c, variables_of_another_world_are_reported);
	tcase_add_test(c, many_names_leave_room_for_the_sentence);
	return run_case(c);
}
