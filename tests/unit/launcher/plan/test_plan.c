/* test_plan.c: the program, arguments and environment of each worker of a node.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "launcher/plan/gpu.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/program.h"
#include "tests/unit/run_case.h"

START_TEST(shares_of_a_gpu_list)
{
	static const struct {
		const char *list;
		uint32_t first, n;
		const char *want;
	} rows[] = {
		{"0,1,2,3", 0, 2, "0,1"}, {"0,1,2,3", 2, 2, "2,3"},
		{"GPU-aa,MIG-b/1", 1, 1, "MIG-b/1"}, {"5", 0, 1, "5"},
		{"0,1,2", 2, 2, "2"}, {"0,1", 5, 1, ""}, {"", 0, 1, ""},
		{NULL, 0, 1, "0"}, {NULL, 6, 3, "6,7,8"},
	};
	char out[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		gpu_list_share(rows[i].list, rows[i].first, rows[i].n, out);
		ck_assert_str_eq(out, rows[i].want);
		ck_assert_uint_lt(strlen(out),
				  gpu_list_room(rows[i].list, rows[i].n));
	}
	ck_assert_uint_eq(gpu_list_count(""), 0);
	ck_assert_uint_eq(gpu_list_count("3"), 1);
	ck_assert_uint_eq(gpu_list_count("3,GPU-1,0"), 3);
}
END_TEST

static const struct environment_job job = {
	.job = "j", .agent_id = "0011", .master_addr = "h1", .rdzv = "h1:1",
	.node_addr = "h2", .role = "default", .signals = "SIGTERM",
	.node_rank = 1, .nnodes = 2, .nproc = 3, .world_size = 8,
	.role_world_size = 8, .role_base_rank = 5,
};

static int has(char *const *vars, const char *want)
{
	for (; *vars; vars++) {
		if (strcmp(*vars, want) == 0)
			return 1;
	}
	return 0;
}

static struct plan plan;
static struct plan_parts parts;
static struct plan_worker worker;

static void make(struct program *program)
{
	char *base[] = {NULL};
	struct err e = ERR_INIT;

	while (program->argv[program->nargs])
		program->nargs++;
	parts.program = *program;
	ck_assert_int_eq(plan_init(&plan, &parts, base, &job, 5, &e), 0);
}

START_TEST(workers_share_what_has_no_macros)
{
	char *argv[] = {(char *)"p", (char *)"x", NULL};
	struct program program = {.path = (char *)"/bin/p", .argv = argv};

	make(&program);
	plan_worker(&plan, 2, &worker);
	ck_assert_uint_eq(worker.rank, 7);
	ck_assert_uint_eq(worker.local_rank, 2);
	ck_assert_str_eq(worker.path, "/bin/p");
	ck_assert_ptr_eq(worker.argv, argv);
	ck_assert_int_eq(has(worker.envp, "RANK=7"), 1);
	ck_assert_int_eq(has(worker.envp, "ROLE_RANK=7"), 1);
	ck_assert_int_eq(has(worker.envp, "LOCAL_RANK=2"), 1);
	plan_worker(&plan, 0, &worker);
	ck_assert_int_eq(has(worker.envp, "RANK=5"), 1);
	ck_assert_int_eq(has(worker.envp, "RANK=7"), 0);
	plan_release(&plan);
}
END_TEST

START_TEST(each_worker_has_its_own_arguments)
{
	char *argv[] = {(char *)"$local_rank",
			(char *)"--local-rank=$local_rank",
			(char *)"", (char *)"$$", (char *)"$$local_rank", NULL};
	struct program program = {.path = (char *)"/bin/p", .argv = argv,
				  .macros = 1};

	make(&program);
	for (uint32_t i = 0; i < 3; i++) {
		char want[32];

		snprintf(want, sizeof(want), "--local-rank=%u", i);
		plan_worker(&plan, i, &worker);
		/* the program's own name is not expanded: it was found */
		ck_assert_str_eq(worker.argv[0], "$local_rank");
		ck_assert_str_eq(worker.argv[1], want);
		ck_assert_str_eq(worker.argv[2], "");
		ck_assert_str_eq(worker.argv[3], "$$");
		ck_assert_str_eq(worker.argv[4], "$local_rank");
		ck_assert_ptr_null(worker.argv[5]);
	}
	ck_assert_str_eq(argv[1], "--local-rank=$local_rank");
	plan_release(&plan);
}
END_TEST

START_TEST(each_worker_has_its_port)
{
	static const uint16_t ports[] = {7, 8, 9};
	char *argv[] = {(char *)"p", (char *)"${port}", NULL};
	char *base[] = {(char *)"DDP_WORKER_PORT=1", NULL};
	struct environment_job with = job;
	struct err e = ERR_INIT;

	with.ports = ports;
	parts.program = (struct program){.path = (char *)"/bin/p",
					 .argv = argv, .nargs = 2, .macros = 1};
	ck_assert_int_eq(plan_init(&plan, &parts, base, &with, 5, &e), 0);
	plan_worker(&plan, 2, &worker);
	ck_assert_str_eq(worker.argv[1], "9");
	ck_assert_int_eq(has(worker.envp, "DDP_WORKER_PORT=9"), 1);
	ck_assert_int_eq(has(worker.envp, "DDP_WORKER_PORT=1"), 0);
	plan_worker(&plan, 0, &worker);
	ck_assert_str_eq(worker.argv[1], "7");
	plan_release(&plan);
}
END_TEST

START_TEST(arguments_with_the_ranks_of_the_worker)
{
	char *argv[] = {(char *)"p", (char *)"${rank}/${world_size}",
			(char *)"${master_addr}:${master_port}", NULL};
	static const char *const unknown[] = {"WORLD_SIZE", NULL};
	struct program program = {.path = (char *)"/bin/p", .argv = argv,
				  .macros = 1};

	make(&program);
	plan_worker(&plan, 2, &worker);
	ck_assert_str_eq(worker.argv[1], "7/8");
	ck_assert_str_eq(worker.argv[2], "h1:0");
	plan_worker(&plan, 0, &worker);
	ck_assert_str_eq(worker.argv[1], "5/8");
	plan.unknown = unknown;
	plan_worker(&plan, 1, &worker);
	ck_assert_str_eq(worker.argv[1], "6/${world_size}");
	plan_release(&plan);
}
END_TEST

/* Rank 6 is wrapped. The wrapper's own words are not expanded. */
START_TEST(some_ranks_behind_a_wrapper)
{
	char *argv[] = {(char *)"p", (char *)"$local_rank", NULL};
	char *before[] = {(char *)"gdb", (char *)"$$", NULL};
	struct program program = {.path = (char *)"/bin/p", .argv = argv,
				  .macros = 1};
	struct rank_range ranks[] = {{6, 6}};

	parts.wrap = (struct wrap){
		.words = {.list = before, .n = 2}, .ranks = {ranks, 1},
		.program = {.path = (char *)"/bin/gdb", .argv = before,
			    .nargs = 2},
	};
	make(&program);
	for (uint32_t i = 0; i < 3; i += 2) {
		plan_worker(&plan, i, &worker);
		ck_assert_str_eq(worker.path, "/bin/p");
		ck_assert_str_eq(worker.argv[0], "p");
		ck_assert_str_eq(worker.argv[1], i ? "2" : "0");
		ck_assert_ptr_null(worker.argv[2]);
	}
	plan_worker(&plan, 1, &worker);
	ck_assert_str_eq(worker.path, "/bin/gdb");
	ck_assert_str_eq(worker.argv[0], "gdb");
	ck_assert_str_eq(worker.argv[1], "$$");
	ck_assert_str_eq(worker.argv[2], "/bin/p");
	ck_assert_str_eq(worker.argv[3], "1");
	ck_assert_ptr_null(worker.argv[4]);
	plan_release(&plan);
}
END_TEST

START_TEST(the_cpus_of_each)
{
	char *argv[] = {(char *)"p", NULL};
	struct program program = {.path = (char *)"/bin/p", .argv = argv};
	struct cpus cpus[3];

	make(&program);
	plan_worker(&plan, 1, &worker);
	ck_assert_ptr_null(worker.cpus);
	plan_release(&plan);
	parts.placement = (struct placement){.nproc = 3, .cpus = cpus};
	make(&program);
	plan_worker(&plan, 1, &worker);
	ck_assert_ptr_eq(worker.cpus, &cpus[1]);
	plan_release(&plan);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("plan");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, shares_of_a_gpu_list);
	tcase_add_test(c, workers_share_what_has_no_macros);
	tcase_add_test(c, each_worker_has_its_own_arguments);
	tcase_add_test(c, each_worker_has_its_port);
	tcase_add_test(c, arguments_with_the_ranks_of_the_worker);
	tcase_add_test(c, some_ranks_behind_a_wrapper);
	tcase_add_test(c, the_cpus_of_each);
	return run_case(c);
}
