/* openmpi_finalize.c: an MPI_Finalize that leaves Open MPI's plug-in for PMIx
 * in memory. That of Open MPI 4 unloads it while another thread of the rank may
 * be about to call it (docs/mpi.md), and then a rank dies of SIGSEGV after all
 * its work. The tests' programs are linked with this file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int find_plugin(struct dl_phdr_info *info, size_t size, void *path)
{
	(void)size;
	if (strstr(info->dlpi_name, "/mca_pmix_"))
		snprintf(path, FILENAME_MAX, "%s", info->dlpi_name);
	return 0;
}

int MPI_Finalize(void)
{
	char path[FILENAME_MAX] = "";

	dl_iterate_phdr(find_plugin, path);
	if (*path)
		dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	return PMPI_Finalize();
}
