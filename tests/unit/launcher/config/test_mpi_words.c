/* test_mpi_words.c: command lines as people write them for mpirun and hydra. */
#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/config/mpi_words.h"
#include "tests/unit/run_case.h"

enum { WORDS_MAX = 32 };

static struct mpi_words words;
static struct err error;

/* Words separated by blanks, the first of which is the program's name. */
static int read_line(const char *text)
{
	static char line[1024];
	static char *argv[WORDS_MAX];
	int n = 0;

	snprintf(line, sizeof(line), "%s", text);
	for (char *w = strtok(line, " "); w && n < WORDS_MAX - 1;
	     w = strtok(NULL, " "))
		argv[n++] = w;
	argv[n] = NULL;
	error = (struct err)ERR_INIT;
	return mpi_words_init(&words, n, argv, &error);
}

/* Our words, and the variables, with blanks between them. */
static const char *joined(char **list)
{
	static char out[2048];
	size_t len = 0;

	out[0] = '\0';
	for (; *list; list++)
		len += (size_t)snprintf(out + len, sizeof(out) - len, "%s%s",
					len ? " " : "", *list);
	return out;
}

struct row {
	const char *line, *ours;
};

static void compare(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		ck_assert_msg(read_line(rows[i].line) == 0, "'%s': %s",
			      rows[i].line, error.text);
		ck_assert_msg(strcmp(joined(words.argv), rows[i].ours) == 0,
			      "'%s': %s", rows[i].line, joined(words.argv));
		ck_assert_ptr_null(words.argv[words.argc]);
		mpi_words_release(&words);
	}
}

#define COMPARE(rows) compare(rows, sizeof(rows) / sizeof(*(rows)))

START_TEST(words_of_mpirun_become_ours)
{
	static const struct row rows[] = {
		{"d", "d"},
		{"d -n 4 a", "d -n 4 a"},
		{"d -np 4 a -np 5", "d --world-size=4 a -np 5"},
		{"d --n=4 a", "d --world-size=4 a"},
		{"d -ppn 2 -perhost 3 a",
		 "d --nproc-per-node=2 --nproc-per-node=3 a"},
		{"d -hosts h1,h2 --host h3 a", "d --hosts=h1,h2 --hosts=h3 a"},
		{"d -f /hosts -hostfile - a", "d --hostfile=/hosts "
					      "--hostfile=- a"},
		{"d -l a", "d --log-line-prefix-template=[${rank}]  a"},
		{"d --tag-output a",
		 "d --log-line-prefix-template=[1,${rank}]<${stream}>: a"},
		{"d -tag_output a",
		 "d --log-line-prefix-template=[1,${rank}]<${stream}>: a"},
		{"d --output-filename /o a", "d --log-dir=/o a"},
		{"d --output-filename=/o:NoCopy a",
		 "d --redirects=3 --log-dir=/o a"},
		{"d --bind-to none -bind-to socket --bind-to=NUMA a",
		 "d --cpu-bind=none --cpu-bind=socket --cpu-bind=node a"},
		{"d --bind-to l3cache a", "d --cpu-bind=core-complex a"},
		{"d --map-by ppr:3:node --map-by slot a",
		 "d --nproc-per-node=3 a"},
		{"d --allow-run-as-root -genvall --oversubscribe a", "d a"},
		{"d -gpus-per-proc 2 -stdin all -launcher-exec rsh a",
		 "d --gpus-per-proc=2 --stdin=all --ssh=rsh a"},
		{"d -V", "d --version"},
	};

	COMPARE(rows);
}
END_TEST

START_TEST(several_programs_become_one_option)
{
	static const struct row rows[] = {
		{"d -n 4 ./a x : -n 8 ./b",
		 "d --multi-prog=0-3  './a'  'x'\n4-11  './b'\n"},
		{"d -np 1 -H h -x A=1 --wrap=w a : -np 2 a",
		 "d -H h --multi-prog=0-0 --wrap 'w' -x 'A=1'  'a'\n"
		 "1-2  'a'\n"},
		{"d -n 1 --role r -m a : -n1 --role-optional --gpus-per-proc 2 "
		 "b -n : -n 1 c : x",
		 "d --multi-prog=0-0 --role 'r' --module  'a'\n1-1 "
		 "--gpus-per-proc '2' --role-optional  'b'  '-n'\n2-2  'c'  "
		 "':'  'x'\n"},
		/* no option behind it, or a -- before the program: arguments */
		{"d -n 4 ./a : ./b", "d -n 4 ./a : ./b"},
		{"d -n 4 ./a :", "d -n 4 ./a :"},
		{"d -n 4 ./a : -", "d -n 4 ./a : -"},
		{"d -n 4 -- ./a : -n 2", "d -n 4 -- ./a : -n 2"},
	};

	COMPARE(rows);
}
END_TEST

START_TEST(words_of_torchrun_stay)
{
	static const struct row rows[] = {
		{"d --np 4 --nproc 3 a", "d --np 4 --nproc 3 a"},
		{"d -m pkg -np 4", "d -m pkg -np 4"},
		{"d -r -np a", "d -r -np a"}, /* the value of -r */
		{"d --hosts a --hostfile f --gpus-per-proc 2 x",
		 "d --hosts a --hostfile f --gpus-per-proc 2 x"},
		{"d --preflight -np 2 a", "d --preflight --world-size=2 a"},
		{"d --v -t3 a", "d --v -t3 a"},
		{"d -- -np 4", "d -- -np 4"},
		{"d - -np 4", "d - -np 4"},
		{"d --rdzv-id -- -np 4 a", "d --rdzv-id -- --world-size=4 a"},
		{"d -rmk a", "d -rmk a"},
		{"d --env jax -np 2 a", "d --env jax --world-size=2 a"},
	};

	COMPARE(rows);
}
END_TEST

START_TEST(mpiexec_has_no_prefix_and_keeps_dashes)
{
#define QUIET "--log-line-prefix-template="
#define END "--mpi=auto --"
	static const struct row rows[] = {
		{"mpiexec -n 4 a -- b", "mpiexec " QUIET " -n 4 " END
		 " a -- b"},
		{"/x/mpirun -n 4 -- a b", "/x/mpirun " QUIET " -n 4 " END
		 " a b"},
		{"mpirun --np 4 a", "mpirun " QUIET " --world-size=4 " END
		 " a"},
		{"mpirun -N 4 a", "mpirun " QUIET " --nproc-per-node=4 " END
		 " a"},
		{"mpirun -n 2 -l a", "mpirun " QUIET
		 " -n 2 --log-line-prefix-template=[${rank}]  " END " a"},
		{"mpirun -r3 -n 2 a", "mpirun " QUIET " -r3 -n 2 " END " a"},
		{"mpirun -n 2 --mpi pmi python3 x",
		 "mpirun " QUIET " -n 2 --mpi pmi -- python3 x"},
		{"mpirun --help", "mpirun " QUIET " --help --mpi=auto"},
		{"mpiexec", "mpiexec " QUIET " --mpi=auto"},
	};

	ck_assert(!mpi_words_is_mpiexec("torchrun"));
	ck_assert(!mpi_words_is_mpiexec("mpirun/ddprun"));
	COMPARE(rows);
	setenv("PET_MPI", "pmix", 1);
	ck_assert_int_eq(read_line("mpirun -n 2 a.py"), 0);
	ck_assert_str_eq(joined(words.argv), "mpirun " QUIET " -n 2 -- a.py");
	mpi_words_release(&words);
}
END_TEST

START_TEST(variables_are_collected)
{
	static const struct row rows[] = {
		{"d -x A=1 -x B -x C= a", "A=1 C="},
		{"d -genv A 1 -env B=2 -env C -x a", "A=1 B=2 C=-x"},
		{"mpiexec -n 2 --env A 1 a", "A=1"},
		{"d --env jax a", ""},
		{"d --mca btl self,tcp -mca pml ob1 a",
		 "OMPI_MCA_btl=self,tcp OMPI_MCA_pml=ob1"},
		{"d a -x A=1", ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		ck_assert_msg(read_line(rows[i].line) == 0, "'%s': %s",
			      rows[i].line, error.text);
		ck_assert_str_eq(joined(words.vars), rows[i].ours);
		mpi_words_release(&words);
	}
	ck_assert_int_eq(read_line("d -x WORDS_A=1=2 -env WORDS_B x a"), 0);
	ck_assert_int_eq(mpi_words_apply(&words, &error), 0);
	ck_assert_str_eq(getenv("WORDS_A"), "1=2");
	ck_assert_str_eq(getenv("WORDS_B"), "x");
	mpi_words_release(&words);
}
END_TEST

START_TEST(paths_are_those_before_wdir)
{
	char here[PATH_MAX], want[2 * PATH_MAX];

	ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
	ck_assert_int_eq(read_line("d -wdir / -f hosts -np 2 a"), 0);
	snprintf(want, sizeof(want), "d --hostfile=%s/hosts --world-size=2 a",
		 here);
	ck_assert_str_eq(joined(words.argv), want);
	ck_assert_int_eq(mpi_words_apply(&words, &error), 0);
	ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
	ck_assert_str_eq(here, "/");
	ck_assert_str_eq(getenv("PWD"), "/");
	mpi_words_release(&words);
	ck_assert_int_eq(read_line("d -wd /none/such a"), 0);
	ck_assert_int_eq(mpi_words_apply(&words, &error), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(error.text, "cannot change to '/none/"));
	mpi_words_release(&words);
}
END_TEST

START_TEST(an_option_without_a_counterpart_is_an_error)
{
	static const struct {
		const char *line, *part;
	} rows[] = {
		{"d -np", "-np needs a value"},
		{"d -genv A", "-genv needs two words: -genv NAME VALUE"},
		{"d -mca btl", "-mca needs two words"},
		{"d -x =1 a", "-x '=1'"},
		{"d -N 2 a", "srun's means --nnodes"},
		{"d -genvlist A,B a", "env -i"},
		{"d --bind-to core a", "--bind-to core: "},
		{"d --bind-to core a", "--cpu-bind cores"},
		{"d --map-by node a", "--nproc-per-node N"},
		{"d --map-by ppr:2:socket a", "ppr:N:node"},
		{"d --map-by ppr:2:node:PE=2 a", "--map-by ppr:2:node:PE=2"},
		{"d -outfile-pattern o a", "--redirects 1"},
		{"d --report-bindings a", "--dry-run"},
		{"d -iface eth0 a", "--interface"},
		{"d --timeout 3 a", "timeout SECONDS before ddprun"},
		{"d -v a", "DDP_LOG=debug"},
		{"mpiexec a", "give -n N"},
		{"mpiexec -hosts h1,h2 a", "give -n N"},
		{"mpiexec -n 2 a : b", "b: give each program of a command line "
				       "with ':' its number of workers"},
		{"mpiexec -n 2 a :", "no program before or after"},
		{"mpiexec -n 2 : -n 2 b", "no program before or after"},
		{"d a : -n 3 b", "a: give each program"},
		{"d -n 2 a : -n 0 b", "b: -n 0: a program needs a worker"},
		{"d -n 2 a : -n 70000000 b", "b: -n '70000000': give a number"},
		{"d -n 2 a : -n 2 -H h b", "-H after a ':' applies to the "
					   "whole job"},
		{"d -n 2 a : -n 2 -wdir x b", "-wdir after a ':' applies"},
		{"d -n 2 a : -n 2 -genv A 1 b", "-genv or --mca after a ':'"},
		{"mpiexec -n 1 a : -n 1 x.py", "which MPI x.py loads"},
		{"mpiexec -n 2 /bin/python3.11 a", "--mpi pmix for mpi4py"},
		{"mpiexec -n 2 a.py", "--mpi pmix for mpi4py"},
		{"mpiexec -n 2 -m a", "which MPI a loads"},
		{"mpiexec -n 2 -rmk slurm a", "-rmk: ddprun does not have"},
	};

	unsetenv("PET_MPI");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		ck_assert_msg(read_line(rows[i].line) == ERR_USAGE,
			      "'%s' was taken", rows[i].line);
		ck_assert_msg(strstr(error.text, rows[i].part) != NULL,
			      "'%s': %s", rows[i].line, error.text);
		mpi_words_release(&words);
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("mpirun's words");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, words_of_mpirun_become_ours);
	tcase_add_test(c, several_programs_become_one_option);
	tcase_add_test(c, words_of_torchrun_stay);
	tcase_add_test(c, mpiexec_has_no_prefix_and_keeps_dashes);
	tcase_add_test(c, variables_are_collected);
	tcase_add_test(c, paths_are_those_before_wdir);
	tcase_add_test(c, an_option_without_a_counterpart_is_an_error);
	return run_case(c);
}
