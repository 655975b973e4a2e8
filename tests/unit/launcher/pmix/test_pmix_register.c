/* test_pmix_register.c: what libpmix's server learns about a job, and which of
 * its calls failed. The library is the test's. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/pmix/pmix_frame.h"
#include "launcher/pmix/pmix_host.h"
#include "tests/unit/run_case.h"

static const char *fails; /* this call */
static int calls, is_late;
static uint32_t app_size, app_first, napps;

static int status_of(const char *call)
{
	calls++;
	return fails && strcmp(fails, call) == 0 ? PMIX_ABI_ERROR
						 : PMIX_ABI_SUCCESS;
}

static int server_init(const struct pmix_abi_module *module,
		       struct pmix_abi_info *info, size_t n)
{
	return status_of("PMIx_server_init");
}

static int generate(const char *in, char **out)
{
	*out = strdup(in);
	return status_of("PMIx_generate_regex");
}

/* Fails at once, or when it calls back. */
static int end_later(const char *call, pmix_abi_done *done, void *arg)
{
	int status = status_of(call);

	if (!is_late)
		return status ? status : PMIX_ABI_OPERATION_SUCCEEDED;
	done(status, arg);
	return PMIX_ABI_SUCCESS;
}

static int register_nspace(const char *name, int nlocal,
			   struct pmix_abi_info *info, size_t n,
			   pmix_abi_done *done, void *arg)
{
	ck_assert_str_eq(name, "world");
	ck_assert_int_eq(nlocal, 2);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(info[i].key, "pmix.app.size") == 0)
			app_size = info[i].value.data.u32;
		if (strcmp(info[i].key, "pmix.aldr") == 0)
			app_first = info[i].value.data.rank;
		if (strcmp(info[i].key, "pmix.job.napps") == 0)
			napps = info[i].value.data.u32;
	}
	return end_later("PMIx_server_register_nspace", done, arg);
}

static int register_client(const struct pmix_abi_proc *proc, uid_t uid,
			   gid_t gid, void *object, pmix_abi_done *done,
			   void *arg)
{
	ck_assert_str_eq(proc->nspace, "world");
	return end_later("PMIx_server_register_client", done, arg);
}

static int setup_fork(const struct pmix_abi_proc *proc, char ***env)
{
	*env = calloc(2, sizeof(**env));
	(*env)[0] = strdup(proc->rank == 2 ? "PMIX_RANK=2" : "PMIX_RANK=3");
	return status_of("PMIx_server_setup_fork");
}

static const char *error_string(int status)
{
	return status == PMIX_ABI_ERROR ? "ERROR" : "?";
}

/* Ranks 2 and 3 of 5 are on this node, the second of three. */
static int begin(uint32_t *apps, struct buf *vars, struct err *e)
{
	static uint32_t ranks[] = {2, 2, 1};
	static char nodes[] = "a,b,c";
	static struct pmix_job job;
	struct pmix_host h = {
		.library = {.server_init = server_init,
			    .generate_regex = generate,
			    .generate_ppn = generate,
			    .register_nspace = register_nspace,
			    .register_client = register_client,
			    .setup_fork = setup_fork,
			    .error_string = error_string},
		.job = &job,
	};

	job = (struct pmix_job){
		.name = "world", .folder = "/f", .base_rank = 2, .nproc = 2,
		.world_size = 5, .node_rank = 1, .nnodes = 3, .ranks = ranks,
		.nodes = nodes, .apps = apps};
	calls = 0;
	return pmix_host_register(&h, NULL, vars, e);
}

/* _i: whether the library calls back. */
START_TEST(each_rank_of_this_node_is_registered)
{
	struct buf vars = BUF_INIT(1 << 20);
	struct pmix_vars all = {0};
	struct err e = ERR_INIT;

	is_late = _i;
	ck_assert_msg(begin(NULL, &vars, &e) == 0, "%s", e.text);
	/* init, two texts, the world, and two calls for each rank */
	ck_assert_int_eq(calls, 8);
	ck_assert_uint_eq(app_size, 5);
	ck_assert_uint_eq(app_first, 0);
	ck_assert_uint_eq(napps, 1);
	ck_assert_int_eq(pmix_vars_get(&all, SLICE(vars.data, vars.len), 2,
				       &e), 0);
	pmix_vars_release(&all);
	buf_release(&vars);
}
END_TEST

START_TEST(a_world_of_several_programs_has_the_size_of_each)
{
	uint32_t apps[] = {0, 1, 1, 1, 2};
	struct buf vars = BUF_INIT(1 << 20);
	struct err e = ERR_INIT;

	ck_assert_int_eq(begin(apps, &vars, &e), 0);
	ck_assert_uint_eq(app_size, 3);
	ck_assert_uint_eq(app_first, 1);
	ck_assert_uint_eq(napps, 3);
	buf_release(&vars);
}
END_TEST

static const struct {
	const char *call;
	int after; /* calls, with it */
} failures[] = {
	{"PMIx_server_init", 1},
	{"PMIx_generate_regex", 2},
	{"PMIx_server_register_nspace", 4},
	{"PMIx_server_register_client", 5},
};
enum { FAILURES = sizeof(failures) / sizeof(*failures) };

/* _i: which, at once; then, which later. */
START_TEST(a_call_that_fails_is_named_and_is_the_last)
{
	struct buf vars = BUF_INIT(1 << 20);
	struct err e = ERR_INIT;
	char text[200];

	fails = failures[_i % FAILURES].call;
	is_late = _i >= FAILURES;
	ck_assert_int_eq(begin(NULL, &vars, &e), ERR_SYSTEM);
	snprintf(text, sizeof(text), "cannot serve PMIx: %s of "
		 PMIX_ABI_LIBRARY " returned -1 (ERROR)", fails);
	ck_assert_str_eq(e.text, text);
	ck_assert_int_eq(calls, failures[_i % FAILURES].after);
	buf_release(&vars);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pmix_register");

	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, each_rank_of_this_node_is_registered, 0, 2);
	tcase_add_test(c, a_world_of_several_programs_has_the_size_of_each);
	tcase_add_loop_test(c, a_call_that_fails_is_named_and_is_the_last, 0,
			    2 * FAILURES);
	return run_case(c);
}
