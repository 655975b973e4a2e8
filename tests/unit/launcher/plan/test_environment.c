/* test_environment.c: a worker's variables, and the program it runs. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/crash/crash_record.h"
#include "launcher/plan/environment.h"
#include "launcher/plan/program.h"
#include "tests/unit/run_case.h"

static const struct environment_job job = {
	.job = "j", .agent_id = "0011", .master_addr = "h1", .rdzv = "h1:29400",
	.node_addr = "10.0.0.2", .round = 4, .attempt = 2, .max_restarts = 3,
	.node_rank = 1, .nnodes = 2, .nproc = 2, .world_size = 6,
	.role_base_rank = 2, .role_world_size = 4, .role = "trainer",
	.signals = "SIGTERM", .master_port = 4242,
	.coordinator_port = 4243,
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

static void make(char **base, const struct environment_job *j)
{
	ck_assert_int_eq(environment_init(&env, base, j, NULL), 0);
	environment_set_rank(&env, 5, 1);
}

START_TEST(each_worker_has_its_part_of_the_recorder)
{
	struct environment_job j = job;
	char *base[] = {(char *)"DDP_RECORDER=/proc/1/fd/3:0", NULL};
	char *off[] = {(char *)"DDP_RECORDER=off", NULL};

	j.recorder = "/proc/4711/fd/9";
	make(base, &j);
	ck_assert_str_eq(value("DDP_RECORDER"), "/proc/4711/fd/9:1");
	environment_set_rank(&env, 1000, 65535);
	ck_assert_str_eq(value("DDP_RECORDER"), "/proc/4711/fd/9:65535");
	environment_release(&env);
	make(off, &j); /* set by the user */
	ck_assert_str_eq(value("DDP_RECORDER"), "off");
	environment_release(&env);
	make(base, &job); /* set by another launcher */
	ck_assert_ptr_null(value("DDP_RECORDER"));
	environment_release(&env);
}
END_TEST

START_TEST(python_programs_leave_more_behind)
{
	struct environment_job j = job;
	char *none[] = {NULL};
	char *users[] = {(char *)"PYTHONFAULTHANDLER=",
			 (char *)"TORCH_NCCL_TRACE_BUFFER_SIZE=9",
			 (char *)"TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/f", NULL};

	make(none, &j);
	ck_assert_ptr_null(value("PYTHONFAULTHANDLER"));
	environment_release(&env);
	j.is_python = 1;
	make(none, &j);
	ck_assert_str_eq(value("PYTHONFAULTHANDLER"), "1");
	ck_assert_str_eq(value("TORCH_FR_BUFFER_SIZE"), "2000");
	ck_assert_ptr_null(value("TORCH_FR_DUMP_TEMP_FILE"));
	environment_release(&env);
	j.crash_library = "/proc/4711/fd/8"; /* reports more */
	j.crash_records = "/proc/4711/fd/9";
	make(none, &j);
	ck_assert_ptr_null(value("PYTHONFAULTHANDLER"));
	environment_release(&env);
	j.log_dir = "/logs/attempt_2";
	make(none, &j);
	ck_assert_str_eq(value("TORCH_FR_DUMP_TEMP_FILE"),
			 "/logs/attempt_2/fr_trace_");
	ck_assert_ptr_null(value("TORCH_NCCL_DEBUG_INFO_PIPE_FILE"));
	environment_release(&env);
	j.has_pipes = 1; /* in the folder */
	make(none, &j);
	ck_assert_str_eq(value("TORCH_NCCL_DEBUG_INFO_PIPE_FILE"),
			 "/logs/attempt_2/torch_");
	environment_release(&env);
	make(users, &j);
	ck_assert_str_eq(value("PYTHONFAULTHANDLER"), "");
	ck_assert_ptr_null(value("TORCH_FR_BUFFER_SIZE"));
	ck_assert_ptr_null(value("TORCH_FR_DUMP_TEMP_FILE"));
	environment_release(&env);
}
END_TEST

START_TEST(the_crash_library_is_preloaded_after_the_users_libraries)
{
	struct environment_job j = job;
	char *none[] = {NULL};
	char *users[] = {
		(char *)"LD_PRELOAD=libasan.so:/proc/7/fd/9 /opt/x.so:"
			"/proc/8/fd/9",
		(char *)"ASAN_OPTIONS=exitcode=3",
		(char *)CRASH_VARIABLE "=/proc/7/fd/3:0", NULL};
	char *outer[] = {(char *)"LD_PRELOAD=/proc/7/fd/9", NULL};

	j.crash_library = "/proc/4711/fd/8";
	j.crash_records = "/proc/4711/fd/9";
	make(none, &j);
	ck_assert_str_eq(value("LD_PRELOAD"), "/proc/4711/fd/8");
	ck_assert_str_eq(value("ASAN_OPTIONS"), "verify_asan_link_order=0");
	ck_assert_str_eq(value(CRASH_VARIABLE), "/proc/4711/fd/9:1");
	environment_release(&env);
	make(users, &j);
	ck_assert_str_eq(value("LD_PRELOAD"),
			 "libasan.so:/opt/x.so:/proc/4711/fd/8");
	ck_assert_str_eq(value("ASAN_OPTIONS"),
			 "verify_asan_link_order=0:exitcode=3");
	ck_assert_str_eq(value(CRASH_VARIABLE), "/proc/4711/fd/9:1");
	environment_release(&env);
	make(outer, &j); /* set by a ddprun around this one */
	ck_assert_str_eq(value("LD_PRELOAD"), "/proc/4711/fd/8");
	environment_release(&env);
	make(users, &job); /* turned off */
	ck_assert_str_eq(value("LD_PRELOAD"), users[0] + strlen("LD_PRELOAD="));
	ck_assert_str_eq(value("ASAN_OPTIONS"), "exitcode=3");
	ck_assert_ptr_null(value(CRASH_VARIABLE));
	environment_release(&env);
}
END_TEST

START_TEST(all_of_torchruns_and_ours)
{
	static const char *const want[] = {
		"RANK=5", "LOCAL_RANK=1", "WORLD_SIZE=6", "LOCAL_WORLD_SIZE=2",
		"GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "ROLE_RANK=3",
		"ROLE_WORLD_SIZE=4", "ROLE_NAME=trainer", "MASTER_ADDR=h1",
		"MASTER_PORT=4242", "TORCHELASTIC_RESTART_COUNT=2",
		"JAX_COORDINATOR_PORT=4243",
		"TORCHELASTIC_MAX_RESTARTS=3", "TORCHELASTIC_RUN_ID=j",
		"TORCHELASTIC_USE_AGENT_STORE=False",
		"TORCHELASTIC_ERROR_FILE=",
		"TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM",
		"TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "OMP_NUM_THREADS=1",
		"DDP_RDZV_ENDPOINT=h1:29400", "DDP_JOB_ID=j", "DDP_ROUND=4",
		"DDP_NODE_ADDR=10.0.0.2", "DDP_AGENT_ID=0011",
	};
	char *base[] = {(char *)"HOME=/h", NULL};
	char name[64];
	int n = 0;

	make(base, &job);
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		size_t len = strcspn(want[i], "=");

		snprintf(name, sizeof(name), "%.*s", (int)len, want[i]);
		ck_assert_msg(value(name) != NULL, "no %s", name);
		ck_assert_str_eq(value(name), want[i] + len + 1);
	}
	ck_assert_str_eq(value("HOME"), "/h");
	while (env.vars[n])
		n++;
	ck_assert_int_eq(n, sizeof(want) / sizeof(*want) + 1);
	environment_release(&env);
}
END_TEST

START_TEST(the_world_of_a_surrounding_job_is_not_inherited)
{
	char *base[] = {(char *)"TF_CONFIG={}", (char *)"PADDLE_TRAINER_ID=0",
			(char *)"HOROVOD_GLOO_RENDEZVOUS_ADDR=h",
			(char *)"HOROVOD_FUSION_THRESHOLD=1",
			(char *)"SLURM_STEP_ID=0", (char *)"SLURM_JOB_ID=7",
			(char *)"FLUX_JOB_ID=1", NULL};
	struct environment_job one = job, mpi = job;

	make(base, &job);
	ck_assert_ptr_null(value("TF_CONFIG"));
	ck_assert_ptr_null(value("PADDLE_TRAINER_ID"));
	ck_assert_ptr_null(value("HOROVOD_GLOO_RENDEZVOUS_ADDR"));
	ck_assert_str_eq(value("HOROVOD_FUSION_THRESHOLD"), "1");
	ck_assert_str_eq(value("SLURM_STEP_ID"), "0");
	ck_assert_str_eq(value("FLUX_JOB_ID"), "1");
	environment_release(&env);
	one.nproc = 1; /* it may have a place of its own */
	make(base, &one);
	ck_assert_str_eq(value("TF_CONFIG"), "{}");
	environment_release(&env);
	mpi.uses_mpi = 1;
	make(base, &mpi);
	ck_assert_ptr_null(value("SLURM_STEP_ID"));
	ck_assert_ptr_null(value("FLUX_JOB_ID"));
	ck_assert_str_eq(value("SLURM_JOB_ID"), "7");
	environment_release(&env);
}
END_TEST

START_TEST(a_users_port_of_the_coordinator_is_kept)
{
	char *base[] = {(char *)"JAX_COORDINATOR_PORT=9", NULL, NULL};

	make(base, &job);
	ck_assert_str_eq(value("JAX_COORDINATOR_PORT"), "9");
	environment_release(&env);
	/* not that of a ddprun around this one */
	base[1] = (char *)"DDP_AGENT_ID=ff";
	make(base, &job);
	ck_assert_str_eq(value("JAX_COORDINATOR_PORT"), "4243");
	environment_release(&env);
}
END_TEST

static int a_socket(void *arg, uint32_t local_rank)
{
	(void)arg;
	return 40 + (int)local_rank;
}

START_TEST(workers_that_are_served_PMI_have_its_variables)
{
	char *base[] = {(char *)"PMI_RANK=9", (char *)"PMI_PORT=h:1",
			(char *)"PMI_FD=5", NULL};
	struct environment_job pmi = job;

	make(base, &job);
	ck_assert_ptr_null(value("PMI_RANK"));
	ck_assert_ptr_null(value("PMI_FD"));
	environment_release(&env);
	pmi.serves_pmi = 1;
	pmi.pmi_fd = a_socket;
	pmi.virtual_local_rank = 1;
	make(base, &pmi);
	environment_set_rank(&env, 7, 1);
	ck_assert_str_eq(value("PMI_RANK"), "7");
	ck_assert_str_eq(value("PMI_FD"), "41");
	ck_assert_str_eq(value("MPI_LOCALRANKID"), "1");
	ck_assert_str_eq(value("PMI_SIZE"), value("WORLD_SIZE"));
	ck_assert_str_eq(value("MPI_LOCALNRANKS"), value("LOCAL_WORLD_SIZE"));
	ck_assert_ptr_null(value("PMI_PORT"));
	environment_release(&env);
}
END_TEST

static char *const *the_vars_of(void *arg, uint32_t local_rank, uint32_t *n)
{
	static char *const vars[2][2] = {
		{(char *)"PMIX_RANK=6", (char *)"PMIX_NAMESPACE=new"},
		{(char *)"PMIX_RANK=7", (char *)"PMIX_NAMESPACE=new"},
	};

	(void)arg;
	*n = 2;
	return vars[local_rank];
}

START_TEST(workers_served_PMIx_have_its_variables_and_not_PMIs)
{
	char *base[] = {(char *)"PMIX_RANK=0", (char *)"PMI_RANK=0",
			(char *)"PMI_FD=5", (char *)"PMIX_SERVER_URI4=old",
			NULL};
	struct environment_job pmix = job;

	pmix.serves_pmix = 1;
	pmix.pmix_vars = the_vars_of;
	make(base, &pmix);
	for (uint32_t i = 0; i < 2; i++) {
		environment_set_rank(&env, 6 + i, i);
		ck_assert_str_eq(value("PMIX_RANK"), i ? "7" : "6");
		ck_assert_str_eq(value("PMIX_NAMESPACE"), "new");
		ck_assert_ptr_null(value("PMIX_SERVER_URI4"));
		ck_assert_ptr_null(value("PMI_RANK"));
		ck_assert_ptr_null(value("PMI_FD"));
		ck_assert_ptr_null(value("PMI_SIZE"));
		ck_assert_str_eq(value("RANK"), i ? "7" : "6");
	}
	environment_release(&env);
}
END_TEST

START_TEST(inherited_variables_are_kept)
{
	char *base[] = {(char *)"RANK=9", (char *)"MASTER_ADDR=old",
			(char *)"OMP_NUM_THREADS=7", (char *)"RANKS=mine",
			(char *)"TORCH_NCCL_ASYNC_ERROR_HANDLING=0",
			(char *)"TORCHELASTIC_TIMER_FILE=/t",
			(char *)"TORCHELASTIC_SIGNALS_TO_HANDLE=SIGUSR1",
			(char *)"CUDA_VISIBLE_DEVICES=3",
			(char *)"DDP_TERMINAL=1x1", (char *)"DDP_BACKEND=cpu",
			(char *)"DDP_TOKEN=secret", (char *)"ETCDCTL_USER=u",
			(char *)"ETCDCTL_PASSWORD=secret",
			(char *)"NAMEONLY", NULL};

	make(base, &job);
	ck_assert_ptr_null(value("DDP_TOKEN"));
	ck_assert_ptr_null(value("ETCDCTL_USER"));
	ck_assert_ptr_null(value("ETCDCTL_PASSWORD"));
	ck_assert_str_eq(value("RANK"), "5");
	ck_assert_str_eq(value("MASTER_ADDR"), "h1");
	ck_assert_str_eq(value("OMP_NUM_THREADS"), "7");
	ck_assert_str_eq(value("RANKS"), "mine");
	ck_assert_str_eq(value("TORCHELASTIC_TIMER_FILE"), "/t");
	ck_assert_str_eq(value("TORCHELASTIC_SIGNALS_TO_HANDLE"), "SIGTERM");
	ck_assert_str_eq(value("CUDA_VISIBLE_DEVICES"), "3");
	ck_assert_str_eq(value("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "0");
	ck_assert_str_eq(value("DDP_BACKEND"), "cpu");
	ck_assert_ptr_null(value("DDP_TERMINAL"));
	environment_release(&env);
}
END_TEST

START_TEST(one_worker_keeps_its_threads_and_learns_the_terminal)
{
	struct environment_job one = job;
	char *base[] = {NULL};

	one.nproc = 1;
	one.columns = 120;
	one.rows = 40;
	make(base, &one);
	ck_assert_ptr_null(value("OMP_NUM_THREADS"));
	ck_assert_str_eq(value("DDP_TERMINAL"), "120x40");
	environment_release(&env);
}
END_TEST

START_TEST(gpus_of_their_own)
{
	struct environment_job j = job;
	char *base[] = {(char *)"CUDA_VISIBLE_DEVICES=7,GPU-a,5,4", NULL};
	char *none[] = {NULL};
	char *order[] = {(char *)"CUDA_DEVICE_ORDER=FASTEST_FIRST", NULL};

	j.worker_gpus = 2;
	make(base, &j);
	ck_assert_str_eq(value("CUDA_VISIBLE_DEVICES"), "5,4");
	ck_assert_ptr_null(value("CUDA_DEVICE_ORDER"));
	environment_set_rank(&env, 4, 0);
	ck_assert_str_eq(value("CUDA_VISIBLE_DEVICES"), "7,GPU-a");
	ck_assert_str_eq(value("LOCAL_RANK"), "0");
	environment_release(&env);
	j.worker_gpus = 1;
	j.virtual_local_rank = 1;
	make(base, &j);
	ck_assert_str_eq(value("CUDA_VISIBLE_DEVICES"), "GPU-a");
	ck_assert_str_eq(value("LOCAL_RANK"), "0");
	ck_assert_str_eq(value("LOCAL_WORLD_SIZE"), "2");
	environment_release(&env);
	make(none, &j);
	ck_assert_str_eq(value("CUDA_VISIBLE_DEVICES"), "1");
	environment_set_rank(&env, 4, 0);
	ck_assert_str_eq(value("CUDA_VISIBLE_DEVICES"), "0");
	/* the numbers are the bus's order, unless the user wants another */
	ck_assert_str_eq(value("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
	environment_release(&env);
	make(order, &j);
	ck_assert_str_eq(value("CUDA_DEVICE_ORDER"), "FASTEST_FIRST");
	environment_release(&env);
}
END_TEST

static const char *error_file(void *arg, uint32_t local_rank, char *out)
{
	snprintf(out, 100, "/logs/%s/%u/error.json", (const char *)arg,
		 local_rank);
	return out;
}

static const char *no_error_file(void *arg, uint32_t local_rank, char *out)
{
	return "";
}

START_TEST(error_files_of_their_own)
{
	struct environment_job j = job;
	char *base[] = {(char *)"TORCHELASTIC_ERROR_FILE=/outer", NULL};

	j.error_file = error_file;
	j.error_file_arg = (void *)(uintptr_t)"attempt_0";
	make(base, &j);
	ck_assert_str_eq(value("TORCHELASTIC_ERROR_FILE"),
			 "/logs/attempt_0/1/error.json");
	environment_set_rank(&env, 4, 0);
	ck_assert_str_eq(value("TORCHELASTIC_ERROR_FILE"),
			 "/logs/attempt_0/0/error.json");
	environment_release(&env);
	j.error_file = no_error_file;
	make(base, &j);
	ck_assert_str_eq(value("TORCHELASTIC_ERROR_FILE"), "");
	environment_release(&env);
}
END_TEST

/* ---- the program ---- */

static char folder[] = "/tmp/test_program_XXXXXX";

static void make_file(const char *name, int mode)
{
	int fd = open(name, O_CREAT | O_WRONLY, 0600);

	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_int_eq(chmod(name, (mode_t)mode), 0);
}

static void make_folder(void)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(chdir(folder), 0);
	ck_assert_int_eq(mkdir("bin", 0700), 0);
	make_file("bin/tool", 0700);
	make_file("tool2", 0700);
	make_file("bin/plain", 0600);
	make_file("train.py", 0600);
	setenv("PATH", "bin", 1);
	setenv("PYTHON_EXEC", "tool", 1);
}

static void remove_folder(void)
{
	static const char *const names[] = {"bin/tool", "tool2", "bin/plain",
					    "train.py"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unlink(names[i]);
	rmdir("bin");
	ck_assert_int_eq(chdir("/"), 0);
	rmdir(folder);
}

static struct program program;

static int find(const char *name, int no_python, struct err *e)
{
	static char *words[] = {NULL, (char *)"-x", NULL};
	const struct program_how how = {.no_python = no_python};

	words[0] = (char *)name;
	return program_find(&program, words, &how, e);
}

START_TEST(programs_are_found_as_a_shell_finds_them)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(find("tool", 0, &e), 0);
	ck_assert_str_eq(program.path, "bin/tool");
	ck_assert_str_eq(program.argv[0], "tool");
	ck_assert_str_eq(program.argv[1], "-x");
	ck_assert_ptr_null(program.argv[2]);
	program_release(&program);
	ck_assert_int_eq(find("./tool2", 0, &e), 0);
	ck_assert_str_eq(program.path, "./tool2");
	program_release(&program);
	setenv("PATH", ":bin", 1); /* an empty entry is the working folder */
	ck_assert_int_eq(find("tool2", 0, &e), 0);
	ck_assert_str_eq(program.path, "./tool2");
	program_release(&program);
}
END_TEST

START_TEST(python_scripts_get_an_interpreter)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(find("train.py", 0, &e), 0);
	ck_assert_str_eq(program.path, "bin/tool");
	ck_assert_str_eq(program.argv[1], "-u");
	ck_assert_str_eq(program.argv[2], "train.py");
	ck_assert_str_eq(program.argv[3], "-x");
	ck_assert_ptr_null(program.argv[4]);
	program_release(&program);
	ck_assert_int_eq(find("./train.py", 1, &e), -EACCES);
	ck_assert_int_eq(find("none.py", 0, &e), -ENOENT);
	setenv("PYTHON_EXEC", "python-that-is-not-there", 1);
	ck_assert_int_eq(find("train.py", 0, &e), -ENOENT);
	ck_assert_ptr_nonnull(strstr(e.text, "python-that-is-not-there"));
}
END_TEST

/* The arguments, with a blank after each. */
static const char *arguments(const char *name, struct program_how how)
{
	static char text[256];
	char *list[] = {(char *)name, (char *)"a", (char *)"$local_rank", NULL};
	struct err e = ERR_INIT;
	size_t n = 0;

	ck_assert_msg(program_find(&program, list, &how, &e) == 0, "%s",
		      e.text);
	text[0] = '\0';
	for (char **word = program.argv; *word; word++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ",
				      *word);
	ck_assert_int_eq(program.macros, 1);
	program_release(&program);
	return text;
}

START_TEST(modules_scripts_and_the_legacy_argument)
{
	struct program_how how = {.module = 1};
	struct err e = ERR_INIT;

	ck_assert_str_eq(arguments("pkg.mod", how),
			 "bin/tool -u -m pkg.mod a $local_rank ");
	how.local_rank = 1;
	ck_assert_str_eq(arguments("pkg.mod", how),
			 "bin/tool -u -m pkg.mod --local-rank=${local_rank} a "
			 "$local_rank ");
	how.module = 0;
	ck_assert_str_eq(arguments("train.py", how),
			 "bin/tool -u train.py --local-rank=${local_rank} a "
			 "$local_rank ");
	ck_assert_str_eq(arguments("tool", how),
			 "tool --local-rank=${local_rank} a $local_rank ");
	how = (struct program_how){.run_path = 1, .no_python = 1};
	ck_assert_str_eq(arguments("tool2", how),
			 "bin/tool -u tool2 a $local_rank ");
	/* only Python knows which files these will be */
	how.run_path = 0;
	how.no_python = 0;
	ck_assert_str_eq(arguments("r${local_rank}.py", how),
			 "bin/tool -u r${local_rank}.py a $local_rank ");
	ck_assert_int_eq(find("tool", 0, &e), 0);
	ck_assert_int_eq(program.macros, 0);
	program_release(&program);
}
END_TEST

START_TEST(a_program_that_cannot_run_is_named)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(find("nothing", 0, &e), -ENOENT);
	ck_assert_ptr_nonnull(strstr(e.text, "'nothing'"));
	ck_assert_int_eq(find("./nothing", 0, &e), -ENOENT);
	ck_assert_int_eq(find("./bin/plain", 0, &e), -EACCES);
	ck_assert_ptr_nonnull(strstr(e.text, "chmod +x"));
	ck_assert_int_eq(find("plain", 0, &e), -EACCES);
	ck_assert_int_eq(find("./bin", 0, &e), -EACCES);
	ck_assert_int_eq(find("", 0, &e), -ENOENT);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("environment");
	TCase *c = tcase_create("environment");
	TCase *p = tcase_create("program");

	tcase_set_timeout(c, 20);
	tcase_add_test(
		c, the_crash_library_is_preloaded_after_the_users_libraries);
	tcase_add_test(c, all_of_torchruns_and_ours);
	tcase_add_test(c, each_worker_has_its_part_of_the_recorder);
	tcase_add_test(c, the_world_of_a_surrounding_job_is_not_inherited);
	tcase_add_test(c, a_users_port_of_the_coordinator_is_kept);
	tcase_add_test(c, workers_that_are_served_PMI_have_its_variables);
	tcase_add_test(c, workers_served_PMIx_have_its_variables_and_not_PMIs);
	tcase_add_test(c, inherited_variables_are_kept);
	tcase_add_test(c, one_worker_keeps_its_threads_and_learns_the_terminal);
	tcase_add_test(c, gpus_of_their_own);
	tcase_add_test(c, error_files_of_their_own);
	suite_add_tcase(s, c);
	tcase_set_timeout(p, 20);
	tcase_add_checked_fixture(p, make_folder, remove_folder);
	tcase_add_test(p, programs_are_found_as_a_shell_finds_them);
	tcase_add_test(p, python_scripts_get_an_interpreter);
	tcase_add_test(p, modules_scripts_and_the_legacy_argument);
	tcase_add_test(c, python_programs_leave_more_behind);
	tcase_add_test(p, a_program_that_cannot_run_is_named);
	suite_add_tcase(s, p);
	return run_suite(s);
}
