/* test_lone_script.c: which scripts would run as worlds of one, and the line
 * about them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "launcher/plan/framework.h"
#include "launcher/plan/lone_script.h"
#include "tests/unit/run_case.h"

static char *no_vars[] = {NULL};

START_TEST(each_library_is_known_by_its_call)
{
	static const struct {
		const char *text;
		unsigned uses;
	} rows[] = {
		{"jax.distributed.initialize()\n", FRAMEWORK_JAX},
		{"s = tf.distribute.MultiWorkerMirroredStrategy()",
		 FRAMEWORK_TF},
		{"import paddle.distributed as dist\n"
		 "if True:\n\tdist.init_parallel_env()\n", FRAMEWORK_PADDLE},
		{"from paddle.distributed import fleet\r\n"
		 "fleet.init(is_collective=True)\r\n", FRAMEWORK_PADDLE},
		{"from mpi4py import MPI\n", LONE_SCRIPT_MPI4PY},
		{"  import mpi4py.MPI\n", LONE_SCRIPT_MPI4PY},
		{"import mpi4py\n\nworld = mpi4py.MPI.COMM_WORLD\n",
		 LONE_SCRIPT_MPI4PY},
		{"from mpi4py import MPI\n\njax.distributed.initialize()",
		 LONE_SCRIPT_MPI4PY | FRAMEWORK_JAX},
		/* they need nothing */
		{"", 0},
		{"\n\n#\n \t", 0},
		{"# jax.distributed.initialize()\n", 0},
		{"jax.distributed.initialize(coordinator_address=a)\n", 0},
		{"x = 1  # MultiWorkerMirroredStrategy()\n", 0},
		{"import tensorflow as tf\n", 0},
		{"dist.init_parallel_env()\n", 0}, /* another module's */
		{"import mpi4pyx\nMPI\n", 0},
		{"import mpi4py\n", 0},
		/* they set the variables */
		{"os.environ['TF_CONFIG'] = config\n"
		 "MultiWorkerMirroredStrategy()\n", 0},
		{"import paddle\nos.environ['PADDLE_TRAINER_ID'] = rank\n"
		 "paddle.distributed.init_parallel_env()\n", 0},
		{"import mpi4py\nmpi4py.rc.initialize = False\n"
		 "from mpi4py import MPI\n", 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_msg(lone_script_uses(SLICE_STR(rows[i].text)) ==
			      rows[i].uses, "row %zu", i);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_uses_nothing)
{
	char path[] = "/tmp/test_lone_script.XXXXXX";
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");
	int starts_mpi;

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(lone_script_read(path, &starts_mpi), 0);
	fputs("jax.distributed.initialize()\n", f);
	fflush(f);
	ck_assert_uint_eq(lone_script_read(path, &starts_mpi), FRAMEWORK_JAX);
	ck_assert_int_eq(ftruncate(fd, 10 << 20), 0);
	ck_assert_uint_eq(lone_script_read(path, &starts_mpi), 0);
	fclose(f);
	unlink(path);
	ck_assert_uint_eq(lone_script_read(path, &starts_mpi), 0);
	ck_assert_uint_eq(lone_script_read("/dev/null", &starts_mpi), 0);
	ck_assert_uint_eq(lone_script_read("/", &starts_mpi), 0);
	ck_assert_int_eq(starts_mpi, 0);
}
END_TEST

START_TEST(an_unindented_import_calls_mpi_init_on_each_rank)
{
	static const struct {
		const char *text;
		int starts;
	} rows[] = {
		{"from mpi4py import MPI\n", 1},
		{"import os\nfrom mpi4py import rc, MPI as m\n", 1},
		{"from mpi4py import (\n\tMPI,\n)\n", 1},
		{"import mpi4py.MPI as M\n", 1},
		{"from mpi4py.MPI import COMM_WORLD\n", 1},
		{"", 0},
		{"if rank == 0:\n    from mpi4py import MPI\n", 0},
		{"if rank == 0: from mpi4py import MPI\n", 0},
		{"# from mpi4py import MPI\n", 0},
		{"import mpi4py\n\tx = mpi4py.MPI.COMM_WORLD\n", 0},
		{"from mpi4py import rc\ndef f():\n"
		 "\tfrom mpi4py import MPI\n", 0},
		{"import mpi4py\nmpi4py.rc.initialize = False\n"
		 "from mpi4py import MPI\n", 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_msg(lone_script_starts_mpi(SLICE_STR(rows[i].text)) ==
			      rows[i].starts, "row %zu", i);
}
END_TEST

static const char *text_of(unsigned uses, unsigned served, uint32_t nproc,
			   uint32_t world_size, char **vars)
{
	static char out[LONE_SCRIPT_TEXT_MAX];
	const struct lone_script s = {
		.path = "train.py", .uses = uses, .served = served,
		.nproc = nproc, .world_size = world_size,
	};

	return lone_script_text(&s, vars, out);
}

START_TEST(a_warning_says_what_to_give)
{
	static const struct {
		unsigned uses;
		const char *text;
	} rows[] = {
		{FRAMEWORK_TF, "train.py creates a MultiWorkerMirroredStrategy "
		 "without TF_CONFIG: its 4 processes are 4 worlds of one; give "
		 "--env tf (docs/frameworks.md)"},
		{FRAMEWORK_PADDLE, "train.py starts paddle.distributed without "
		 "its launcher's variables: its 4 processes are 4 worlds of "
		 "one; give --env paddle (docs/frameworks.md)"},
		{LONE_SCRIPT_MPI4PY, "train.py imports mpi4py, which ddprun "
		 "does not serve unless asked: its 4 processes are 4 worlds of "
		 "one; give --mpi pmix (mpi4py on Open MPI), --mpi pmi (on "
		 "MPICH or Intel MPI), or --mpi none (docs/mpi.md)"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		ck_assert_str_eq(text_of(rows[i].uses, 0, 2, 4, no_vars),
				 rows[i].text);
		ck_assert_ptr_null(text_of(rows[i].uses, rows[i].uses, 2, 4,
					   no_vars));
		ck_assert_ptr_null(text_of(rows[i].uses, 0, 1, 1, no_vars));
	}
	/* what is served leaves the other one */
	ck_assert_str_eq(text_of(LONE_SCRIPT_MPI4PY | FRAMEWORK_TF,
				 FRAMEWORK_TF, 2, 4, no_vars), rows[2].text);
}
END_TEST

START_TEST(jax_is_alone_only_if_slurm_misleads_it)
{
	static char *slurm[] = {"SLURM_JOB_ID=1", "SLURM_PROCID=0", NULL};

	ck_assert_str_eq(text_of(FRAMEWORK_JAX, 0, 2, 4, slurm),
			 "train.py calls jax.distributed.initialize(), which "
			 "reads this Slurm step's rank: its 4 processes are 4 "
			 "worlds of one; give --env jax (docs/frameworks.md)");
	/* the rank of ddprun is that of its only worker */
	ck_assert_ptr_null(text_of(FRAMEWORK_JAX, 0, 1, 4, slurm));
	ck_assert_ptr_null(text_of(FRAMEWORK_JAX, 0, 2, 4, no_vars));
}
END_TEST

START_TEST(an_inherited_place_may_be_that_of_the_only_worker)
{
	static char *placed[] = {"TF_CONFIG={}", "PADDLE_TRAINER_ID=0", NULL};

	ck_assert_ptr_null(text_of(FRAMEWORK_TF, 0, 1, 4, placed));
	ck_assert_ptr_null(text_of(FRAMEWORK_PADDLE, 0, 1, 4, placed));
	ck_assert_ptr_nonnull(text_of(FRAMEWORK_TF, 0, 2, 4, placed));
	ck_assert_ptr_nonnull(text_of(FRAMEWORK_PADDLE, 0, 2, 4, placed));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("lone_script");

	tcase_add_test(c, each_library_is_known_by_its_call);
	tcase_add_test(c, a_file_that_cannot_be_read_uses_nothing);
	tcase_add_test(c, an_unindented_import_calls_mpi_init_on_each_rank);
	tcase_add_test(c, a_warning_says_what_to_give);
	tcase_add_test(c, jax_is_alone_only_if_slurm_misleads_it);
	tcase_add_test(c, an_inherited_place_may_be_that_of_the_only_worker);
	return run_case(c);
}
