/* test_mpirun.c: what a ddprun reads from MPI launchers' variables. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "pmi/mpirun.h"
#include "tests/unit/run_case.h"

static const char *const *variables; /* name, value, ..., NULL */
static struct mpirun m;
static struct err e;

static const char *get(const char *name)
{
	for (const char *const *v = variables; *v; v += 2)
		if (strcmp(*v, name) == 0)
			return v[1];
	return NULL;
}

static int read_these(const char *const *v)
{
	variables = v;
	e = (struct err)ERR_INIT;
	return mpirun_read(&m, get, &e);
}

#define READ(...) read_these((const char *const[]){__VA_ARGS__, NULL, NULL})

static void refused(int rc, const char *part)
{
	ck_assert_int_eq(rc, ERR_USAGE);
	ck_assert_msg(strstr(e.text, part) != NULL, "no '%s' in: %s", part,
		      e.text);
}

START_TEST(no_launcher_is_recognized)
{
	ck_assert_int_eq(READ("PMI_RANK", "", "PMI_SIZE", "2"), 0);
	ck_assert_int_eq(m.kind, MPIRUN_NONE);
	ck_assert_int_eq(mpirun_check(&m, &e), 0);
}
END_TEST

START_TEST(openmpi)
{
	/* OpenMPI also sets PMIx's variables */
	ck_assert_int_eq(READ("OMPI_COMM_WORLD_RANK", "3",
			      "OMPI_COMM_WORLD_SIZE", "4",
			      "OMPI_COMM_WORLD_LOCAL_SIZE", "1",
			      "PMIX_RANK", "3", "PMIX_NAMESPACE", "7",
			      "OMPI_MCA_orte_bound_at_launch", "1"), 0);
	ck_assert_int_eq(m.kind, MPIRUN_OPENMPI);
	ck_assert_uint_eq(m.rank, 3);
	ck_assert_uint_eq(m.size, 4);
	ck_assert_int_eq(m.bound, 1);
	ck_assert_int_eq(mpirun_check(&m, &e), 0);
	/* --bind-to */
	ck_assert_int_eq(READ("OMPI_COMM_WORLD_RANK", "0",
			      "OMPI_COMM_WORLD_SIZE", "1",
			      "OMPI_MCA_hwloc_base_binding_policy", "core",
			      "OMPI_MCA_orte_bound_at_launch", "1"), 0);
	ck_assert_int_eq(m.bound, 0);
}
END_TEST

START_TEST(hydra)
{
	ck_assert_int_eq(READ("PMI_RANK", "1", "PMI_SIZE", "2", "PMI_FD", "9",
			      "MPI_LOCALNRANKS", "2"), 0);
	ck_assert_int_eq(m.kind, MPIRUN_PMI);
	ck_assert_int_eq(m.fd, 9);
	refused(mpirun_check(&m, &e), "mpiexec starts 2 ddpruns on this node");
	ck_assert_ptr_nonnull(strstr(e.text, "mpiexec -ppn 1 ddprun "
					     "--nproc-per-node 2, or"));
	/* Cray's PALS has no PMI_FD */
	ck_assert_int_eq(READ("PMI_RANK", "1", "PMI_SIZE", "2"), 0);
	ck_assert_int_eq(m.fd, -1);
}
END_TEST

START_TEST(pmix_variables_only_give_the_rank)
{
	ck_assert_int_eq(READ("PMIX_RANK", "2", "PMIX_NAMESPACE", "p@1"), 0);
	ck_assert_int_eq(m.kind, MPIRUN_PMIX);
	ck_assert_uint_eq(m.rank, 2);
	ck_assert_uint_eq(m.size, 0);
	ck_assert_int_eq(READ("PMIX_RANK", "2"), 0);
	ck_assert_int_eq(m.kind, MPIRUN_NONE);
}
END_TEST

START_TEST(incomplete_and_invalid_variables_are_errors)
{
	refused(READ("OMPI_COMM_WORLD_RANK", "0"),
		"OMPI_COMM_WORLD_RANK is set but OMPI_COMM_WORLD_SIZE is not");
	refused(READ("PMI_RANK", "2", "PMI_SIZE", "2"),
		"PMI_RANK is 2 but PMI_SIZE is 2");
	refused(READ("PMI_RANK", "x", "PMI_SIZE", "2"), "PMI_RANK");
	refused(READ("PMI_RANK", "-1", "PMI_SIZE", "2"), "PMI_RANK");
	refused(READ("PMI_RANK", "0", "PMI_SIZE", "0"), "PMI_SIZE");
	refused(READ("PMI_RANK", "0", "PMI_SIZE", "2", "PMI_FD", "x"),
		"PMI_FD");
	refused(READ("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "1",
		     "OMPI_COMM_WORLD_LOCAL_SIZE", "0"),
		"OMPI_COMM_WORLD_LOCAL_SIZE");
}
END_TEST

START_TEST(variables_of_a_rank_and_of_the_user_differ)
{
	static const char *const ranks[] = {
		"PMI_RANK=1", "PMIX_RANK=0", "PMIX_SERVER_URI2=x", "PMI_FD=6",
		"OMPI_COMM_WORLD_LOCAL_SIZE=1", "OMPI_MCA_ess=^singleton",
		"OMPI_MCA_pmix=^s1", "OMPI_MCA_orte_ess_num_procs=1",
		"OMPI_UNIVERSE_SIZE", "HOROVOD_RANK=0", "MPI_LOCALRANKID=0",
	}, *const users[] = {
		"OMPI_MCA_btl=^openib", "OMPI_MCA_pmixer=1", "OMPI_CC=gcc",
		"PMIX_MCA_ptl=tcp", "PMI", "PMIX", "RANK=1", "PATH=/bin",
		"HOROVOD_TIMELINE=t", "HOROVOD_RANKS=1", "HYDRA_IFACE=eth0",
		"OMPI_ALLOW_RUN_AS_ROOT=1", "",
	};

	for (size_t i = 0; i < sizeof(ranks) / sizeof(*ranks); i++)
		ck_assert_msg(mpirun_is_rank_variable(ranks[i]), "%s",
			      ranks[i]);
	for (size_t i = 0; i < sizeof(users) / sizeof(*users); i++)
		ck_assert_msg(!mpirun_is_rank_variable(users[i]), "%s",
			      users[i]);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("mpirun");

	tcase_add_test(c, no_launcher_is_recognized);
	tcase_add_test(c, openmpi);
	tcase_add_test(c, hydra);
	tcase_add_test(c, pmix_variables_only_give_the_rank);
	tcase_add_test(c, incomplete_and_invalid_variables_are_errors);
	tcase_add_test(c, variables_of_a_rank_and_of_the_user_differ);
	return run_case(c);
}
