/* test_pmix_fabric.c: which hosts and users keep Open MPI's transports for
 * fabrics. A folder stands for the root of the file system. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/pmix/pmix_fabric.h"
#include "tests/unit/run_case.h"

static char root[] = "/tmp/test_pmix_fabric.XXXXXX";

static void setup(void)
{
	ck_assert_ptr_nonnull(mkdtemp(root));
	unsetenv("OMPI_MCA_mtl");
	unsetenv("OMPI_MCA_pml");
	unsetenv("OPAL_PREFIX");
	setenv("HOME", "/home/me", 1);
}

static void teardown(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", root);
	ck_assert_int_eq(system(command), 0);
}

/* A file, with its folders. */
static void put(const char *path, const char *text)
{
	char name[256];
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", root, path);
	for (char *at = name + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(name, 0700);
		*at = '/';
	}
	f = fopen(name, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static int leaves_out(void)
{
	const char *mtl = pmix_fabric_mtl(root);

	ck_assert(!mtl || !strcmp(mtl, "^ofi,psm,psm2"));
	return mtl != NULL;
}

START_TEST(a_host_without_a_fabric_leaves_them_out)
{
	ck_assert(leaves_out());
	/* folders without devices, Debian's parameters, and comments */
	put("/sys/class/infiniband/.keep", "");
	put("/etc/openmpi/openmpi-mca-params.conf",
	    "# mtl = psm2\nmtl = ^ofi\nbtl = self,tcp\npml = ^ucx\n"
	    "mtl_ofi_priority = 3\n mtl =\n");
	put("/home/me/.openmpi/mca-params.conf", "pml=\"^cm\"\nbtl = tcp");
	ck_assert(leaves_out());
}
END_TEST

static const char *const devices[] = {
	"/sys/class/infiniband/mlx5_0", "/sys/class/cxi/cxi0", "/dev/hfi1_0",
	"/dev/ipath",
};

START_TEST(a_host_with_a_fabric_keeps_them)
{
	put(devices[_i], "");
	ck_assert(!leaves_out());
}
END_TEST

START_TEST(a_variable_is_the_users_choice)
{
	setenv(_i ? "OMPI_MCA_pml" : "OMPI_MCA_mtl", "ob1", 1);
	ck_assert(!leaves_out());
}
END_TEST

static const char *const files[] = {
	"/etc/openmpi/openmpi-mca-params.conf",
	"/etc/openmpi-x86_64/openmpi-mca-params.conf",
	"/etc/openmpi-mca-params.conf",
	"/usr/local/etc/openmpi-mca-params.conf",
	"/home/me/.openmpi/mca-params.conf",
	"/opt/ompi/etc/openmpi-mca-params.conf",
};

START_TEST(a_parameter_file_is_the_users_choice)
{
	setenv("OPAL_PREFIX", "/opt/ompi", 1);
	put(files[_i], _i % 2 ? "btl = tcp\n\tmtl=ofi\n" : "pml = cm");
	ck_assert(!leaves_out());
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pmix_fabric");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, a_host_without_a_fabric_leaves_them_out);
	tcase_add_loop_test(c, a_host_with_a_fabric_keeps_them, 0, 4);
	tcase_add_loop_test(c, a_variable_is_the_users_choice, 0, 2);
	tcase_add_loop_test(c, a_parameter_file_is_the_users_choice, 0, 6);
	return run_case(c);
}
