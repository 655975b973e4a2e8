/* test_env.c: a worker's environment: the error names the variable that is
 * missing or wrong. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/core/env.h"
#include "worker-sdk/ddp.h"

static struct ddp__env env;
static struct err e;

static const char *const good[][2] = {
	{"RANK", "5"},		    {"WORLD_SIZE", "8"},
	{"LOCAL_RANK", "1"},	    {"LOCAL_WORLD_SIZE", "4"},
	{"GROUP_RANK", "1"},	    {"GROUP_WORLD_SIZE", "2"},
	{"DDP_RDZV_ENDPOINT", "h1:29400"}, {"DDP_JOB_ID", "mine"},
	{"DDP_ROUND", "3"},
};
enum { GOOD = sizeof(good) / sizeof(*good) };

static void set_up(void)
{
	clearenv();
	for (int i = 0; i < GOOD; i++)
		setenv(good[i][0], good[i][1], 1);
	e = (struct err)ERR_INIT;
}

static void reads(void)
{
	ck_assert_msg(ddp__env_read(&env, &e) == 0, "%s", e.text);
}

static void expect(int code, const char *text)
{
	ck_assert_int_eq(ddp__env_read(&env, &e), code);
	ck_assert_msg(strstr(e.text, text) != NULL, "no '%s' in '%s'", text,
		      e.text);
}

START_TEST(ddpruns_variables_are_read)
{
	setenv("TORCHELASTIC_RESTART_COUNT", "2", 1);
	setenv("DDP_NODE_ADDR", "10.0.0.2", 1);
	reads();
	ck_assert_int_eq(env.alone, 0);
	ck_assert_int_eq(env.rank, 5);
	ck_assert_int_eq(env.world_size, 8);
	ck_assert_int_eq(env.local_rank, 1);
	ck_assert_int_eq(env.local_world_size, 4);
	ck_assert_int_eq(env.node_rank, 1);
	ck_assert_int_eq(env.nodes, 2);
	ck_assert_int_eq(env.attempt, 2);
	ck_assert_uint_eq(env.round, 3);
	ck_assert_str_eq(env.server.host, "h1");
	ck_assert_uint_eq(env.server.port, 29400);
	ck_assert_str_eq(env.job, "mine");
	ck_assert_str_eq(env.node_addr, "10.0.0.2");
}
END_TEST

START_TEST(no_variables_are_a_world_of_one)
{
	clearenv();
	setenv("RANK", "", 1); /* empty counts as unset */
	reads();
	ck_assert_int_eq(env.alone, 1);
	ck_assert_int_eq(env.rank, 0);
	ck_assert_int_eq(env.world_size, 1);
	ck_assert_int_eq(env.local_world_size, 1);
	ck_assert_int_eq(env.nodes, 1);
}
END_TEST

START_TEST(a_missing_variable_is_named)
{
	char text[128];

	unsetenv(good[_i][0]);
	strcpy(text, good[_i][0]);
	strcat(text, " is not: start this program with ddprun");
	expect(ERR_USAGE, text);
}
END_TEST

START_TEST(the_rank_alone_is_an_incomplete_environment)
{
	clearenv();
	setenv("RANK", "0", 1);
	expect(ERR_USAGE, "RANK is set but WORLD_SIZE is not: start this "
			  "program with ddprun or torchrun, or unset RANK to "
			  "run alone");
}
END_TEST

/* Otherwise each process would silently be a world of one. */
START_TEST(a_single_variable_is_an_incomplete_environment)
{
	char text[128];

	clearenv();
	setenv(good[_i][0], good[_i][1], 1);
	snprintf(text, sizeof(text), "%s is set but %s is not", good[_i][0],
		 _i ? "RANK" : "WORLD_SIZE");
	expect(ERR_USAGE, text);
}
END_TEST

START_TEST(a_wrong_variable_is_named)
{
	static const char *const bad[][3] = {
		{"RANK", "x", "RANK: 'x'"},
		{"RANK", "-1", "RANK: -1"},
		{"RANK", "8", "RANK is 8 but WORLD_SIZE is 8"},
		{"WORLD_SIZE", "0", "WORLD_SIZE: 0"},
		{"WORLD_SIZE", "99999999999999999999", "WORLD_SIZE"},
		{"WORLD_SIZE", "3", "RANK is 5 but WORLD_SIZE is 3"},
		{"LOCAL_RANK", "4", "LOCAL_RANK is 4 but LOCAL_WORLD_SIZE"},
		{"LOCAL_WORLD_SIZE", "9", "LOCAL_WORLD_SIZE is 9"},
		{"GROUP_RANK", "2", "GROUP_RANK is 2 but GROUP_WORLD_SIZE"},
		{"GROUP_WORLD_SIZE", "2.5", "GROUP_WORLD_SIZE: '2.5'"},
		{"DDP_ROUND", "first", "DDP_ROUND: 'first'"},
		{"DDP_RDZV_ENDPOINT", "h1:x", "DDP_RDZV_ENDPOINT: "},
		{"DDP_RDZV_ENDPOINT", "h1:70000", "DDP_RDZV_ENDPOINT: "},
		{"TORCHELASTIC_RESTART_COUNT", "-2", "TORCHELASTIC_RESTART_C"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		set_up();
		setenv(bad[i][0], bad[i][1], 1);
		expect(ERR_USAGE, bad[i][2]);
	}
}
END_TEST

/* ---- started by others ---- */

struct variable {
	const char *name, *value;
};

static const struct variable torchrun[] = {
	{"RANK", "3"},		   {"WORLD_SIZE", "4"},
	{"MASTER_ADDR", "h1"},	   {"MASTER_PORT", "29500"},
	{"LOCAL_RANK", "1"},	   {"LOCAL_WORLD_SIZE", "2"},
	{"GROUP_RANK", "1"},	   {"GROUP_WORLD_SIZE", "2"},
	{"TORCHELASTIC_RUN_ID", "mine"},
	{"TORCHELASTIC_RESTART_COUNT", "1"},
	{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {NULL, NULL}};
static const struct variable openmpi[] = {
	{"OMPI_COMM_WORLD_RANK", "3"},	     {"OMPI_COMM_WORLD_SIZE", "4"},
	{"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
	{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
	{"PMIX_RANK", "3"},
	{"PMIX_NAMESPACE", "n"},
	{NULL, NULL}};
static const struct variable hydra[] = {
	{"PMI_RANK", "3"},	  {"PMI_SIZE", "4"},
	{"PMI_FD", "7"},	  {"MPI_LOCALRANKID", "1"},
	{"MPI_LOCALNRANKS", "2"}, {NULL, NULL}};
static const struct variable slurm[] = {
	{"SLURM_PROCID", "3"},
	{"SLURM_STEP_NUM_TASKS", "4"},
	{"SLURM_LOCALID", "0"},
	{"SLURM_NODEID", "1"},
	{"SLURM_STEP_NUM_NODES", "2"},
	{"SLURM_STEP_NODELIST", "n[1-2]"},
	{"SLURM_STEP_TASKS_PER_NODE", "3,1"},
	{"SLURM_JOB_ID", "12"},
	{"SLURM_STEP_ID", "0"},
	{NULL, NULL}};
static const struct {
	const struct variable *all;
	enum ddp__starter starter;
	int needed; /* number of variables needed */
	int local_rank, local_world_size, node_rank, nodes;
} starters[] = {{torchrun, DDP__TORCHRUN, 4, 1, 2, 1, 2},
		{openmpi, DDP__OPENMPI, 4, 1, 2, -1, -1},
		{hydra, DDP__PMI, 3, 1, 2, -1, -1},
		{slurm, DDP__SLURM, 9, 0, 1, 1, 2}};
enum { STARTERS = sizeof(starters) / sizeof(*starters) };

static void set(const struct variable *v)
{
	for (; v->name; v++)
		setenv(v->name, v->value, 1);
}

static void only(const struct variable *v)
{
	clearenv();
	set(v);
}

START_TEST(environments_of_other_launchers_are_read)
{
	clearenv();
	set(starters[_i].all);
	reads();
	ck_assert_int_eq(env.starter, starters[_i].starter);
	ck_assert_int_eq(env.alone, 0);
	ck_assert_int_eq(env.rank, 3);
	ck_assert_int_eq(env.world_size, 4);
	ck_assert_int_eq(env.local_rank, starters[_i].local_rank);
	ck_assert_int_eq(env.local_world_size, starters[_i].local_world_size);
	ck_assert_int_eq(env.node_rank, starters[_i].node_rank);
	ck_assert_int_eq(env.nodes, starters[_i].nodes);
	ck_assert_ptr_null(env.node_addr);
}
END_TEST

START_TEST(torchrun_sets_the_endpoint_and_the_attempt)
{
	only(torchrun);
	reads();
	ck_assert_str_eq(env.server.host, "h1");
	ck_assert_uint_eq(env.server.port, 29500);
	ck_assert_int_eq(env.agent_store, 1);
	ck_assert_int_eq(env.attempt, 1);
	ck_assert_str_eq(env.job, "mine");
	setenv("TORCHELASTIC_USE_AGENT_STORE", "False", 1);
	reads();
	ck_assert_int_eq(env.agent_store, 0);
	/* set by hand, as for init_process_group("env://") */
	for (int i = 4; torchrun[i].name; i++)
		unsetenv(torchrun[i].name);
	reads();
	ck_assert_int_eq(env.starter, DDP__TORCHRUN);
	ck_assert_int_eq(env.local_rank, -1);
	ck_assert_int_eq(env.nodes, -1);
	setenv("MASTER_PORT", "0", 1);
	expect(ERR_USAGE, "MASTER_PORT");
	/* MASTER_ADDR may not contain a port */
	setenv("MASTER_PORT", "1234", 1);
	setenv("MASTER_ADDR", "fd77::1", 1);
	reads();
	ck_assert_str_eq(env.server.host, "fd77::1");
	ck_assert_uint_eq(env.server.port, 1234);
}
END_TEST

START_TEST(incomplete_environments_of_other_launchers_are_errors)
{
	/* without the first variable the environment is not that launcher's */
	for (int i = 1; i < starters[_i].needed; i++) {
		char text[80];

		clearenv();
		set(starters[_i].all);
		unsetenv(starters[_i].all[i].name);
		if (starters[_i].starter == DDP__SLURM &&
		    (i == 1 || i == 8)) { /* a batch script has no step */
			reads();
			ck_assert_int_eq(env.alone, 1);
			continue;
		}
		snprintf(text, sizeof(text), "is set but %s is not: start",
			 starters[_i].all[i].name);
		expect(ERR_USAGE, text);
	}
}
END_TEST

/* mpirun in srun's step, ddprun in mpirun's: which one started this process? */
START_TEST(the_innermost_launcher_counts)
{
	clearenv();
	for (int i = STARTERS - 1; i >= 0; i--) {
		set(starters[i].all);
		reads();
		ck_assert_int_eq(env.starter, starters[i].starter);
	}
	set_up();
	set(openmpi);
	set(slurm);
	reads();
	ck_assert_int_eq(env.starter, DDP__DDPRUN);
	ck_assert_int_eq(env.rank, 5);
}
END_TEST

START_TEST(slurm_with_pmi2)
{
	only(slurm);
	setenv("PMI_RANK", "3", 1);
	setenv("PMI_SIZE", "4", 1);
	setenv("PMI_FD", "7", 1);
	reads();
	ck_assert_int_eq(env.starter, DDP__PMI);
	ck_assert_int_eq(env.local_rank, 0);
	ck_assert_int_eq(env.local_world_size, 1);
	ck_assert_int_eq(env.nodes, 2);
	/* an mpiexec inside the step: its ranks are not the step's */
	setenv("PMI_SIZE", "5", 1);
	reads();
	ck_assert_int_eq(env.local_rank, -1);
	ck_assert_int_eq(env.nodes, -1);
}
END_TEST

/* A single rank needs no store. */
START_TEST(world_of_one)
{
	only(hydra);
	setenv("PMI_RANK", "0", 1);
	setenv("PMI_SIZE", "1", 1);
	setenv("MPI_LOCALRANKID", "0", 1);
	setenv("MPI_LOCALNRANKS", "1", 1);
	reads();
	ck_assert_int_eq(env.alone, 1);
	ck_assert_int_eq(env.nodes, 1);
	only(slurm);
	setenv("SLURM_STEP_NUM_TASKS", "1", 1);
	reads();
	ck_assert_int_eq(env.starter, DDP__NOBODY);
	ck_assert_int_eq(env.alone, 1);
}
END_TEST

/* In such a step the counts are in the order of names, but the node number is
 * not. */
START_TEST(tasks_of_a_heterogeneous_job)
{
	only(slurm);
	setenv("SLURM_STEP_TASKS_PER_NODE", "1,3", 1);
	setenv("SLURM_HET_SIZE", "2", 1);
	setenv("SLURM_GTIDS", "3", 1);
	reads();
	ck_assert_int_eq(env.local_world_size, 1);
	setenv("SLURM_PROCID", "2", 1);
	setenv("SLURM_LOCALID", "2", 1);
	setenv("SLURM_GTIDS", "0,1,2", 1);
	reads();
	ck_assert_int_eq(env.local_world_size, 3);
	setenv("SLURM_GTIDS", "0,2", 1);
	expect(ERR_USAGE, "SLURM_LOCALID is 2 but");
}
END_TEST

START_TEST(wrong_values_of_other_launchers_are_named)
{
	only(openmpi);
	setenv("OMPI_COMM_WORLD_RANK", "4", 1);
	expect(ERR_USAGE, "OMPI_COMM_WORLD_RANK is 4 but OMPI_COMM_WORLD_SIZE "
			  "is 4: it must be less; start this program with "
			  "mpirun");
	only(slurm);
	setenv("SLURM_STEP_TASKS_PER_NODE", "2(x", 1);
	expect(ERR_USAGE, "SLURM_STEP_TASKS_PER_NODE is '2(x'");
	clearenv();
	setenv("WORLD_SIZE", "2", 1);
	expect(ERR_USAGE, "WORLD_SIZE is set but RANK is not");
}
END_TEST

START_TEST(horovod_without_mpi)
{
	clearenv();
	setenv("HOROVOD_RANK", "1", 1);
	setenv("HOROVOD_SIZE", "2", 1);
	expect(ERR_USAGE, "HOROVOD_SIZE is 2, but no MPI launcher's variables "
			  "are set: start this program with horovodrun --mpi");
	setenv("HOROVOD_SIZE", "1", 1);
	reads();
	ck_assert_int_eq(env.alone, 1);
	/* under mpirun the rank is OpenMPI's */
	setenv("HOROVOD_SIZE", "2", 1);
	setenv("OMPI_COMM_WORLD_RANK", "0", 1);
	setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
	setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
	setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
	reads();
	ck_assert_int_eq(env.starter, DDP__OPENMPI);
}
END_TEST

START_TEST(timeouts)
{
	static const struct {
		const char *variable; /* NULL: unset */
		int asked, rc, ms;    /* ms < 0: without end */
	} rows[] = {
		{NULL, 0, 0, 1800000},	{"7", 0, 0, 7000}, {"7", 250, 0, 250},
		{"7", -5, 0, -1},	{"-1", 0, 0, -1},  {"0", 0, ERR_USAGE},
		{"soon", 0, ERR_USAGE},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int ms = 0;

		if (rows[i].variable)
			setenv("DDP_TIMEOUT", rows[i].variable, 1);
		ck_assert_int_eq(ddp__env_timeout(rows[i].asked, &ms, &e),
				 rows[i].rc);
		if (rows[i].rc == 0)
			ck_assert_int_eq(ms < 0 ? -1 : ms, rows[i].ms);
	}
	ck_assert_ptr_nonnull(strstr(e.text, "DDP_TIMEOUT: 'soon'"));
}
END_TEST

/* The errors that ddp_init finds before it connects. */
START_TEST(init_refuses)
{
	struct ddp_options o = {"gloo", 0};
	ddp_comm *c = (ddp_comm *)&o;

	ck_assert_int_eq(ddp_init(NULL, NULL), DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_init(&c, &o), DDP_ERR_USAGE);
	ck_assert_ptr_null(c);
	ck_assert_str_eq(ddp_last_error(),
			 "backend 'gloo' is unknown: use cpu, nccl or auto");
	o.backend = NULL;
	setenv("DDP_BACKEND", "mpi", 1);
	ck_assert_int_eq(ddp_init(&c, &o), DDP_ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(ddp_last_error(), "'mpi'"));
}
END_TEST

START_TEST(alone)
{
	float v[3] = {1, 2, 3}, w[3];
	ddp_comm *c;

	clearenv();
	ck_assert_int_eq(ddp_init(&c, NULL), 0);
	ck_assert_int_eq(ddp_world_size(c), 1);
	ck_assert_int_eq(ddp_host_leader(c), 0);
	ck_assert_str_eq(ddp_backend(c), "cpu");
	ck_assert_int_eq(ddp_all_reduce(c, v, w, 3, DDP_F32, DDP_AVG), 0);
	ck_assert_mem_eq(v, w, sizeof(v));
	ck_assert_int_eq(ddp_barrier(c), 0);
	ck_assert_int_eq(ddp_store_get(c, "k", NULL, 0, -1), DDP_ERR_TIMEOUT);
	ddp_finalize(c);
	ddp_finalize(NULL);
}
END_TEST

static void refused(int rc, const char *text)
{
	ck_assert_int_eq(rc, DDP_ERR_ARGUMENT);
	ck_assert_msg(strstr(ddp_last_error(), text) != NULL, "%s",
		      ddp_last_error());
}

START_TEST(collectives_check_arguments)
{
	char v[64];
	ddp_comm *c;

	clearenv();
	ck_assert_int_eq(ddp_init(&c, NULL), 0);
	refused(ddp_all_reduce(NULL, v, v, 1, DDP_F32, DDP_SUM), "NULL");
	refused(ddp_all_reduce(c, NULL, v, 1, DDP_F32, DDP_SUM), "NULL");
	refused(ddp_all_reduce(c, v, v, 1, (enum ddp_type)DDP_TYPES,
			       DDP_SUM),
		"unknown type 8");
	refused(ddp_all_reduce(c, v, v, 1, DDP_F32, (enum ddp_op)-1),
		"unknown operation");
	refused(ddp_all_reduce(c, v, v + 4, 2, DDP_F32, DDP_SUM), "overlap");
	refused(ddp_all_reduce(c, v, v, (size_t)1 << 60, DDP_F32, DDP_SUM),
		"too many");
	refused(ddp_broadcast(c, v, 1, DDP_F32, 1), "no such root");
	refused(ddp_broadcast(c, v, 1, DDP_F32, -1), "no such root");
	refused(ddp_all_gather(c, v, v + 4, 2, DDP_F32), "overlap");
	refused(ddp_reduce_scatter(c, v, v + 4, 2, DDP_F32, DDP_MIN),
		"overlap");
	/* none of these broke anything */
	ck_assert_int_eq(ddp_all_reduce(c, NULL, NULL, 0, DDP_F32, DDP_SUM),
			 0);
	ck_assert_int_eq(ddp_all_reduce(c, v, v + 8, 2, DDP_F32, DDP_SUM), 0);
	ddp_finalize(c);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("env");

	tcase_set_timeout(tc, 10);
	tcase_add_checked_fixture(tc, set_up, NULL);
	tcase_add_test(tc, ddpruns_variables_are_read);
	tcase_add_test(tc, no_variables_are_a_world_of_one);
	tcase_add_loop_test(tc, a_missing_variable_is_named, 0, GOOD);
	tcase_add_test(tc, the_rank_alone_is_an_incomplete_environment);
	tcase_add_loop_test(tc,
			a_single_variable_is_an_incomplete_environment, 0,
			GOOD);
	tcase_add_test(tc, a_wrong_variable_is_named);
	tcase_add_loop_test(tc,
			environments_of_other_launchers_are_read, 0, STARTERS);
	tcase_add_test(tc, torchrun_sets_the_endpoint_and_the_attempt);
	tcase_add_loop_test(tc,
			incomplete_environments_of_other_launchers_are_errors,
			0, STARTERS);
	tcase_add_test(tc, the_innermost_launcher_counts);
	tcase_add_test(tc, slurm_with_pmi2);
	tcase_add_test(tc, world_of_one);
	tcase_add_test(tc, tasks_of_a_heterogeneous_job);
	tcase_add_test(tc, wrong_values_of_other_launchers_are_named);
	tcase_add_test(tc, horovod_without_mpi);
	tcase_add_test(tc, timeouts);
	tcase_add_test(tc, init_refuses);
	tcase_add_test(tc, alone);
	tcase_add_test(tc, collectives_check_arguments);
	return run_case(tc);
}
